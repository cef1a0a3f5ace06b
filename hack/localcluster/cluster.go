package localcluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spatialcells/spatialcells/hack/assets/programs"
	"github.com/spatialcells/spatialcells/hack/localcluster/child"
)

const (
	readyPatience = 2 * time.Minute
	pollPeriod    = 100 * time.Millisecond
)

// Cluster is a running local cluster. Its methods may be called from any goroutine.
type Cluster struct {
	opts   Options
	plan   *plan
	state  State
	lock   *os.File
	keeper *child.Keeper
	images *images
	admin  kubernetes.Interface
	config *rest.Config
	runtime

	etcd, apiserver, controllers, scheduler *child.Supervisor

	down sync.Once
	err  error
}

// Up starts a cluster and returns when it takes pods. When it fails, or ctx ends before, nothing is left running; the
// logs stay in Dir/logs. End the cluster with Down.
func Up(ctx context.Context, opts Options) (*Cluster, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	if opts.Binaries == "" {
		dir, err := programs.Dir(ctx, programs.Options{Progress: opts.Progress})
		if err != nil {
			return nil, fmt.Errorf("getting the Kubernetes binaries: %w", err)
		}
		opts.Binaries = dir
	}
	l, err := lock(opts.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, lock: l, images: &images{dir: filepath.Join(opts.Dir, "images")}}
	if err := c.up(ctx); err != nil {
		return nil, errors.Join(err, c.Down(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Cluster) up(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	if err := c.startRuntime(ctx); err != nil {
		return err
	}
	c.opts.Progress("waiting until the cluster takes pods")
	err := poll(ctx, func(ctx context.Context) error { return takesPods(ctx, c.admin, c.opts.Machines) })
	if err != nil {
		return fmt.Errorf("the cluster takes no pods (logs: %s): %w", filepath.Join(c.opts.Dir, "logs"), err)
	}
	c.state.Ready = true
	return c.state.save(c.opts.Dir)
}

// prepare sweeps what an earlier life left, and makes addresses, ports, keys and images.
func (c *Cluster) prepare(ctx context.Context) error {
	dir := c.opts.Dir
	if n, err := child.Sweep(ctx, dir); err != nil {
		return fmt.Errorf("ending what an earlier cluster left: %w", err)
	} else if n > 0 {
		c.opts.Progress(fmt.Sprintf("ended %d processes that an earlier cluster had left", n))
	}
	if c.opts.Fresh {
		if err := forget(dir); err != nil {
			return err
		}
	}
	lane, err := takeLane(earlierLane(dir))
	if err != nil {
		return err
	}
	c.plan = &plan{dir: dir, binaries: c.opts.Binaries, lane: lane, audit: c.opts.Audit}
	if err := c.plan.ports(c.opts.APIPort); err != nil {
		return err
	}
	for _, name := range []string{"logs", "volumes", "pods"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return fmt.Errorf("making the cluster's folders: %w", err)
		}
	}
	if err := c.plan.issue(c.opts.Machines); err != nil {
		return err
	}
	if err := c.plan.writeAuditPolicy(); err != nil {
		return err
	}
	for ref, binary := range c.opts.Images {
		if err := c.images.load(ref, binary); err != nil {
			return err
		}
	}
	c.state = State{
		Owner: child.Self(filepath.Base(os.Args[0])), Started: time.Now(), Lane: lane.number, Machines: c.opts.Machines,
		APIServer: c.plan.server(), Kubeconfig: c.Kubeconfig(), Kubectl: filepath.Join(c.opts.Binaries, "kubectl"),
	}
	return c.state.save(dir)
}

// earlierLane keeps a continued cluster on its addresses: its Services have them. -1 means that any will do.
func earlierLane(dir string) int {
	if _, err := os.Stat(filepath.Join(dir, "etcd")); err != nil {
		return -1
	}
	s, err := Inspect(dir)
	if err != nil {
		return -1
	}
	return s.Lane
}

func (p *plan) ports(api int) error {
	taken := map[int]bool{}
	var err error
	if p.apiPort, err = freePort(api, taken); err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	if p.etcdPort, err = freePort(0, taken); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	if p.peers, err = freePort(0, taken); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return nil
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	var err error
	if c.keeper, err = child.NewKeeper(c.opts.Dir); err != nil {
		return err
	}
	c.etcd = c.keeper.NewSupervisor(c.plan.etcdSpec(), c.opts.Progress)
	c.apiserver = c.keeper.NewSupervisor(c.plan.apiserverSpec(), c.opts.Progress)
	c.controllers = c.keeper.NewSupervisor(c.plan.controllerManagerSpec(), c.opts.Progress)
	c.scheduler = c.keeper.NewSupervisor(c.plan.schedulerSpec(), c.opts.Progress)
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return fmt.Errorf("reading the kubeconfig just written: %w", err)
	}
	c.config.QPS = -1
	if c.admin, err = kubernetes.NewForConfig(c.config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	c.opts.Progress("starting etcd and the API server on " + c.plan.server())
	c.etcd.Start()
	c.apiserver.Start()
	if err := poll(ctx, c.apiReady); err != nil {
		return err
	}
	if err := poll(ctx, func(ctx context.Context) error { return bootstrap(ctx, c.admin) }); err != nil {
		return err
	}
	c.controllers.Start()
	c.scheduler.Start()
	return nil
}

// tooManyCrashes is how often etcd or the API server may die before Up gives up.
const tooManyCrashes = 3

var errHopeless = errors.New("giving up")

func (c *Cluster) apiReady(ctx context.Context) error {
	for _, s := range []*child.Supervisor{c.etcd, c.apiserver} {
		if s.Restarts() >= tooManyCrashes {
			log := filepath.Join(c.opts.Dir, "logs", s.Name()+".log")
			return fmt.Errorf("%w: %s does not start; the end of %s:\n%s", errHopeless, s.Name(), log, lastLines(log))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := c.admin.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("the API server is not ready: %w", err)
	}
	return nil
}

// poll tries until f succeeds, is hopeless, or patience or ctx end.
func poll(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil || errors.Is(err, errHopeless) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.opts.Dir, "kubeconfig") }

// Config returns a client configuration for the administrator, without a rate limit.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubectl returns the path of a kubectl of the cluster's version.
func (c *Cluster) Kubectl() string { return c.state.Kubectl }

// LogDir returns the folder of the components' logs; the pods' are below pods/.
func (c *Cluster) LogDir() string { return filepath.Join(c.opts.Dir, "logs") }

// AuditLog returns the file that the API server records writes of Leases in, one JSON object a line, if Options.Audit is set.
func (c *Cluster) AuditLog() string { return auditLog(c.opts.Dir) }

// APIPort returns the loopback port of the API server.
func (c *Cluster) APIPort() int { return c.plan.apiPort }

// PodNetwork returns the first two bytes of all pods' addresses.
func (c *Cluster) PodNetwork() (a, b byte) { return c.plan.lane.podPrefix() }

// LoadImage makes binary what containers of the image run from their next start on.
func (c *Cluster) LoadImage(ref, binary string) error { return c.images.load(ref, binary) }

// LoadImage loads an image into the cluster in dir, which another process may run.
func LoadImage(dir, ref, binary string) error {
	if _, err := Inspect(dir); err != nil {
		return err
	}
	return (&images{dir: filepath.Join(dir, "images")}).load(ref, binary)
}

// PodPID returns the process id of the pod's container, for kill -9 and SIGSTOP.
func (c *Cluster) PodPID(namespace, name string) (int, error) {
	return c.runtime.pods.PID(namespace, name)
}

// ComponentPID returns the process id of etcd, kube-apiserver, kube-controller-manager or kube-scheduler; 0 while it is
// down.
func (c *Cluster) ComponentPID(name string) int {
	for _, s := range []*child.Supervisor{c.etcd, c.apiserver, c.controllers, c.scheduler} {
		if s.Name() == name {
			return s.PID()
		}
	}
	return 0
}

// StopAPIServer takes the API server away until StartAPIServer. Everything else goes on.
func (c *Cluster) StopAPIServer() { c.apiserver.Stop() }

// StartAPIServer brings the API server back and returns when it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	c.apiserver.Start()
	return poll(ctx, c.apiReady)
}

// Down ends the cluster: containers first (SIGTERM, SIGKILL after Options.Grace), then the control plane. It returns
// when nothing is left running. Dir stays, and a later Up continues the cluster.
func (c *Cluster) Down(ctx context.Context) error {
	c.down.Do(func() { c.err = c.stop(ctx) })
	return c.err
}

func (c *Cluster) stop(ctx context.Context) error {
	c.runtime.stop(c.opts.Grace)
	if c.keeper != nil {
		stopAll(c.scheduler, c.controllers)
		stopAll(c.apiserver)
		stopAll(c.etcd)
		c.keeper.Close()
	}
	_, err := child.Sweep(ctx, c.opts.Dir)
	if c.plan != nil {
		err = errors.Join(err, c.plan.lane.hold.Close())
	}
	if c.state.Owner.PID != 0 {
		c.state.Ready, c.state.Owner = false, child.Identity{}
		err = errors.Join(err, c.state.save(c.opts.Dir))
	}
	return errors.Join(err, c.lock.Close())
}

func stopAll(list ...*child.Supervisor) {
	var wg sync.WaitGroup
	for _, s := range list {
		if s != nil {
			wg.Add(1)
			go func() { defer wg.Done(); s.Stop() }()
		}
	}
	wg.Wait()
}

// kubeletListener listens on a machine's own address.
func (c *Cluster) kubeletListener(ctx context.Context, address string, port int) (net.Listener, *tls.Config, error) {
	pair := c.plan.ca.Pair("kubelet")
	cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubelet's certificate: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, nil, fmt.Errorf("listening for the API server's requests: %w (in use by %s)", err, portOwner(port))
	}
	return l, &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: c.plan.ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12, VerifyConnection: onlyAPIServer, NextProtos: []string{"http/1.1"},
	}, nil
}

// onlyAPIServer keeps other holders of client certificates away from exec.
func onlyAPIServer(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 || s.PeerCertificates[0].Subject.CommonName != "kube-apiserver-kubelet-client" {
		return errors.New("only the API server may ask")
	}
	return nil
}

func (c *Cluster) logger() (*slog.Logger, *os.File, error) {
	if c.opts.Log != nil {
		return c.opts.Log, nil, nil
	}
	f, err := os.OpenFile(filepath.Join(c.LogDir(), "runtime.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the runtime's log: %w", err)
	}
	return slog.New(slog.NewTextHandler(f, nil)), f, nil
}
