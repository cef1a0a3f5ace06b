package localcluster

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/spatialcells/spatialcells/hack/assets/programs"
	"github.com/spatialcells/spatialcells/hack/localcluster/pods"
	"github.com/spatialcells/spatialcells/hack/localcluster/services"
	"github.com/spatialcells/spatialcells/hack/localcluster/volumes"
)

// SilenceClients drops what client-go says on its own: watches that break while an API server is away are no news to
// whoever stopped it. It changes the process's logging and is therefore for mains and tests to call, before Up.
func SilenceClients() { klog.SetLogger(logr.Discard()) }

// runtime is what this process does for the cluster itself: machines, pods, services, volumes.
type runtime struct {
	pods   *pods.Runtime
	inf    informers.SharedInformerFactory
	events record.EventBroadcaster
	log    *os.File
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (c *Cluster) startRuntime(ctx context.Context) error {
	conf, err := clientcmd.BuildConfigFromFlags("", c.plan.kubeconfig("runtime"))
	if err != nil {
		return fmt.Errorf("reading the runtime's kubeconfig: %w", err)
	}
	conf.QPS = -1
	conf.ContentType = "application/vnd.kubernetes.protobuf"
	conf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(conf)
	if err != nil {
		return fmt.Errorf("making the runtime's client: %w", err)
	}
	log, file, err := c.logger()
	if err != nil {
		return err
	}
	r := &c.runtime
	r.log = file
	r.inf = informers.NewSharedInformerFactory(client, 0)
	quiet := klog.NewContext(context.Background(), logr.Discard()) // an outage is no news to whoever runs the cluster
	r.events = record.NewBroadcaster(record.WithContext(quiet))
	r.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	a, b := c.plan.lane.podPrefix()
	r.pods, err = pods.New(pods.Config{
		Dir: c.opts.Dir, Client: client, Informers: r.inf, Keeper: c.keeper, Log: log,
		Events: r.events.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: "kubelet", Host: "local"}),
		Server: c.plan.server(), CAFile: c.plan.ca.CAFile(),
		Machines: c.machines(), Image: c.images.find, Network: pods.NewAddresses(a, b),
	})
	if err != nil {
		return err
	}
	api := map[string]string{"default/kubernetes": fmt.Sprintf("127.0.0.1:%d", c.plan.apiPort)}
	proxy, err := services.New(client, r.inf, api, log)
	if err != nil {
		return err
	}
	prov, err := volumes.New(c.opts.Dir+"/volumes", client, r.inf, log)
	if err != nil {
		return err
	}
	life, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	if err := c.serveMachines(life); err != nil {
		return err
	}
	r.inf.Start(life.Done())
	r.goRun(func() { proxy.Run(life) })
	r.goRun(func() { prov.Run(life) })
	return synced(ctx, r.inf)
}

func synced(ctx context.Context, inf informers.SharedInformerFactory) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for t, ok := range inf.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("the runtime cannot watch %v: %w", t, context.Cause(ctx))
		}
	}
	return nil
}

func (r *runtime) goRun(f func()) {
	r.wg.Add(1)
	go func() { defer r.wg.Done(); f() }()
}

// machines maps the machines' names to their addresses.
func (c *Cluster) machines() map[string]string {
	m := map[string]string{}
	for i := range c.opts.Machines {
		m[fmt.Sprintf("machine-%d", i)] = c.plan.lane.machine(i)
	}
	return m
}

func (c *Cluster) serveMachines(life context.Context) error {
	for name, address := range c.machines() {
		l, conf, err := c.kubeletListener(life, address, pods.KubeletPort)
		if err != nil {
			return err
		}
		c.goRun(func() {
			if err := c.runtime.pods.Serve(life, l, conf); err != nil {
				c.opts.Progress(err.Error())
			}
		})
		c.goRun(func() { c.runtime.pods.KeepMachine(life, name, programs.Version, func() {}) })
	}
	return nil
}

// stop ends the pods, then everything that served them.
func (r *runtime) stop(grace time.Duration) {
	if r.pods != nil {
		r.pods.Stop(grace)
	}
	if r.cancel != nil {
		r.cancel()
	}
	r.wg.Wait()
	if r.inf != nil {
		r.inf.Shutdown()
	}
	if r.events != nil {
		r.events.Shutdown()
	}
	if r.log != nil {
		_ = r.log.Close()
	}
}
