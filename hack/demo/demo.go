package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/hack/localcluster"
	"github.com/spatialcells/spatialcells/hack/swarm/bots"
	"github.com/spatialcells/spatialcells/node/torus"
)

// removePatience bounds the deletion of the World at the end; the cluster ends in any case.
const removePatience = 20 * time.Second

// demo is one run.
type demo struct {
	settings
	out   io.Writer
	began time.Time

	cluster *localcluster.Cluster
	site    *site
	grid    torus.Grid
	swarm   *bots.Swarm
	watch   *watch
	ready   time.Duration

	mu     sync.Mutex
	nodes  []zoneNode
	faulty []string // outcomes of faults, for the summary
	failed []string // expectations that were not met
	gap    *float64 // p99 in milliseconds before the first fault
}

func (d *demo) say(line string) {
	fmt.Fprintf(d.out, "%5.1f s  %s\n", time.Since(d.began).Seconds(), line)
}

func (d *demo) log(name string) string { return filepath.Join(d.dir, "logs", name) }

// run does everything, in order, and leaves nothing behind.
func (d *demo) run(ctx context.Context) (err error) {
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return fmt.Errorf("finding the demo's folder: %w", err)
	}
	if err := checkDisk(d.dir); err != nil {
		return err
	}
	key, err := worldKey(d.world)
	if err != nil {
		return err
	}
	if d.chaos || d.drilled() {
		if err := needStore(); err != nil {
			return err
		}
	}
	lock, err := takeLock(d.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := d.bringUp(ctx, key); err != nil {
		return err
	}
	defer func() {
		d.say("stopping the cluster")
		err = errors.Join(err, d.cluster.Down(context.WithoutCancel(ctx)))
	}()
	defer d.removeWorld()
	world, err := d.awaitWorld(ctx)
	if err != nil {
		return err
	}
	return d.play(ctx, world)
}

// bringUp compiles the binaries while the control plane starts, and applies everything as soon as the API server answers:
// the first pods start when the cluster takes pods.
func (d *demo) bringUp(ctx context.Context, key client.ObjectKey) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		if err := d.install(ctx, key); err != nil {
			cancel(err)
		}
	}()
	cluster, err := localcluster.Up(ctx, localcluster.Options{Dir: d.dir, APIPort: d.apiPort, Fresh: true, Audit: d.fence, Progress: d.say})
	if err != nil {
		cancel(err)
	}
	<-applied
	d.cluster = cluster
	if cause := context.Cause(ctx); cause != nil { // what came first counts
		err = cause
		if cluster != nil {
			err = errors.Join(err, cluster.Down(context.WithoutCancel(ctx)))
		}
	}
	return err
}

// install compiles the binaries and applies operator and World to the cluster that comes up in d.dir.
func (d *demo) install(ctx context.Context, key client.ObjectKey) error {
	bin := filepath.Join(d.dir, "bin")
	d.say("compiling operator and zone-node")
	if err := build(ctx, bin, d.log("build.log")); err != nil {
		return err
	}
	config, err := d.awaitAPI(ctx)
	if err != nil {
		return err
	}
	for ref, name := range images {
		if err := localcluster.LoadImage(d.dir, ref, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	if d.site, err = newSite(config, key); err != nil {
		return err
	}
	return d.apply(ctx, config)
}

// kubectl runs the cluster's own kubectl.
func (d *demo) kubectl(ctx context.Context, log string, args ...string) error {
	state, err := localcluster.Inspect(d.dir)
	if err != nil {
		return err
	}
	return command(ctx, d.log(log), []string{"KUBECONFIG=" + state.Kubeconfig}, state.Kubectl, args...)
}

// awaitAPI waits until the API server of this process's cluster answers; its start has its own patience.
func (d *demo) awaitAPI(ctx context.Context) (*rest.Config, error) {
	for {
		state, err := localcluster.Inspect(d.dir)
		if err == nil && state.Owner.PID == os.Getpid() {
			config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
			if err == nil && get(ctx, config, "/readyz") == nil {
				return config, nil
			}
		}
		if err := pause(ctx, pollPeriod); err != nil {
			return nil, err
		}
	}
}

// get asks the API server for a path.
func get(ctx context.Context, config *rest.Config, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return c.RESTClient().Get().AbsPath(path).Do(ctx).Error()
}

// apply installs the operator and applies the World.
func (d *demo) apply(ctx context.Context, config *rest.Config) error {
	d.say("kubectl apply --server-side -k config/default")
	if err := d.kubectl(ctx, "apply-default.log", "apply", "--server-side", "-k", "config/default"); err != nil {
		return err
	}
	for get(ctx, config, "/apis/"+v1alpha1.GroupVersion.String()) != nil {
		if err := pause(ctx, pollPeriod); err != nil {
			return err
		}
	}
	d.say("kubectl apply -f " + d.world)
	return d.kubectl(ctx, "apply-world.log", "apply", "-f", d.world)
}

// awaitWorld waits until players can play.
func (d *demo) awaitWorld(ctx context.Context) (*v1alpha1.World, error) {
	w, err := d.site.awaitReady(ctx, d.say)
	if err == nil {
		d.ready = time.Since(d.began)
		d.say(fmt.Sprintf("World %s is Ready, %.1f s after the start", w.Name, d.ready.Seconds()))
		return w, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &trouble{
		cause:  fmt.Errorf("%w; the last error of a pod: %s", err, podError(d.log("pods"))),
		remedy: "read the logs of operator and zone nodes", log: d.log("pods"),
	}
}

// podError is the last line of level error in the pods' logs.
func podError(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	newest, found := "", "none"
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for l := range strings.Lines(string(b)) { // lines begin with their time
			if strings.Contains(l, "ERROR") && l > newest {
				newest, found = l, filepath.Base(filepath.Dir(f))+": "+l[min(len(l), 38):min(len(l), 400)]
			}
		}
	}
	return oneLine(found)
}

// removeWorld deletes the World, as somebody would who tidies up.
func (d *demo) removeWorld() {
	d.say("deleting World " + d.site.key.Name)
	ctx, cancel := context.WithTimeout(context.Background(), removePatience)
	defer cancel()
	if err := d.site.remove(ctx); err != nil {
		d.say(oneLine(err.Error()))
	}
}

// play shows the World, sends the bots and judges.
func (d *demo) play(ctx context.Context, w *v1alpha1.World) error {
	if err := d.meet(ctx, w); err != nil {
		return err
	}
	d.show(ctx)
	switch {
	case d.chaos:
		return d.wreck(ctx)
	case d.drilled():
		return d.drill(ctx)
	}
	s, err := d.walk(ctx)
	if err != nil {
		return err
	}
	s.Faults, s.Failed, s.GapBefore = d.faulty, append(s.Failed, d.failed...), d.gap
	s.noSeamX, s.noSeamY = d.grid.Columns() < 3, d.grid.Rows() < 3
	s.check(d.duration > 0 && ctx.Err() == nil, d.handoffs)
	fmt.Fprint(d.out, s.String())
	if err := writeJSON(d.json, s); err != nil {
		return err
	}
	if d.keep && ctx.Err() == nil {
		d.say("the world goes on without bots until Ctrl-C; export KUBECONFIG=" + d.cluster.Kubeconfig())
		<-ctx.Done()
	}
	if len(s.Failed) > 0 {
		return &trouble{
			cause:  fmt.Errorf("the run did not show what it must: %s", strings.Join(s.Failed, "; ")),
			remedy: strings.Join(s.remedies, "; "),
		}
	}
	return nil
}

// meet learns the grid, the nodes and their gateways, and plans the bots.
func (d *demo) meet(ctx context.Context, w *v1alpha1.World) error {
	var err error
	grid := w.Spec.Grid
	if d.grid, err = torus.NewGrid(int(grid.Columns), int(grid.Rows), int(grid.RegionEdgeChunks)); err != nil {
		return fmt.Errorf("the grid of the World: %w", err)
	}
	nodes, err := d.site.nodes(ctx, int(*w.Spec.Nodes.Replicas))
	if err != nil {
		return err
	}
	d.remember(nodes)
	owners, err := d.site.owners(ctx, d.grid)
	if err != nil {
		return err
	}
	key, err := d.site.tokenKey(ctx, w)
	if err != nil {
		return err
	}
	d.watch = newWatch()
	d.watch.ask(ctx, nodes)
	o := bots.Options{
		Gateways: gateways(nodes), Key: key, World: w.Name, Bots: d.bots, Grid: d.grid, Loopback: true,
		Owner: func(region int) string { return owners[region] },
	}
	if d.chaos || d.drilled() {
		o.Tinker, o.Rest = true, restPatience
	}
	if d.drilled() { // pods get new addresses on the way
		service := &corev1.Service{}
		if err := d.site.api.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: v1alpha1.GatewayServiceName(w.Name)}, service); err != nil {
			return fmt.Errorf("finding the gateway: %w", err)
		}
		o.Gateways = []string{net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(portGateway))}
	}
	d.swarm, err = bots.New(o)
	return err
}

func gateways(nodes []zoneNode) []string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.gateway
	}
	return list
}

// remember keeps what is known of the nodes; their addresses change when they restart.
func (d *demo) remember(nodes []zoneNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = nodes
}

func (d *demo) known() []zoneNode {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes
}

// show prints what a user would look at.
func (d *demo) show(ctx context.Context) {
	cmd := exec.CommandContext(ctx, d.cluster.Kubectl(), "get", "wld,zn", "-A")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.cluster.Kubeconfig())
	if out, err := cmd.CombinedOutput(); err == nil {
		fmt.Fprintf(d.out, "\n$ kubectl get wld,zn\n%s\n", out)
	}
	fmt.Fprintf(d.out, "kubectl   export KUBECONFIG=%s; %s\n", d.cluster.Kubeconfig(), d.cluster.Kubectl())
	fmt.Fprintf(d.out, "gateways  ws://%s/play\n\n", strings.Join(gateways(d.known()), "/play  ws://"))
}

// walk runs the bots, the live line and the faults until the time is over or ctx ends.
func (d *demo) walk(ctx context.Context) (summary, error) {
	run, cancel := context.WithCancel(ctx)
	if d.duration > 0 {
		run, cancel = context.WithTimeout(ctx, d.duration)
	}
	defer cancel()
	d.say(fmt.Sprintf("%d bots log in", d.bots))
	var side sync.WaitGroup
	side.Add(2)
	go func() { defer side.Done(); d.live(run) }()
	go func() { defer side.Done(); d.harm(run) }()
	report := d.swarm.Run(run)
	cancel()
	side.Wait()
	last, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	d.watch.ask(last, d.known())
	return summarize(d.watch, d.known(), d.ready, report), nil
}

// live prints the live line until ctx ends.
func (d *demo) live(ctx context.Context) {
	tick := time.NewTicker(livePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			nodes := d.known()
			d.watch.ask(ctx, nodes)
			d.say(line(d.watch, nodes, d.swarm.Report()))
		}
	}
}

// harm injects the faults, each at its time; one that is not over delays the next.
func (d *demo) harm(ctx context.Context) {
	start := time.Now()
	for _, f := range d.faults {
		if pause(ctx, time.Until(start.Add(f.at))) != nil {
			return
		}
		if d.gap == nil {
			sum := d.watch.sum()
			d.gap = new(milliseconds(sum.quantile(metricGap, .99)))
		}
		err := d.inject(ctx, f)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.say(err.Error())
			d.failed = append(d.failed, err.Error())
			d.faulty = append(d.faulty, fmt.Sprintf("%v: not as expected", f))
		default:
			d.faulty = append(d.faulty, fmt.Sprintf("%v: as expected", f))
		}
	}
}
