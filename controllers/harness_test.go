package controllers_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers"
	"github.com/spatialcells/spatialcells/controllers/liveness"
	"github.com/spatialcells/spatialcells/controllers/policy"
	"github.com/spatialcells/spatialcells/hack/envtest"
)

func TestMain(m *testing.M) {
	handler := slog.DiscardHandler
	if os.Getenv("OPERATOR_LOG") != "" {
		handler = slog.NewTextHandler(os.Stderr, nil)
	}
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	envtest.Main(m)
}

// bench is one namespace with an operator, a stand-in for the kubelets and zone nodes in it, and a client.
type bench struct {
	*testing.T
	cfg    *rest.Config
	client client.Client
	ns     string
	wire   *wire
	nodes  *kubelets
	store  *fakeStore
	image  string
	stop   func()
	// ahead is how far the operator's wall clock is ahead, in nanoseconds.
	ahead atomic.Int64
	// freed counts the regions that an operator was seen to free.
	freed atomic.Int64
}

// now is what the operator's wall clock shows.
func (b *bench) now() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }

func selectorOf(b *bench, text string) labels.Selector {
	b.Helper()
	selector, err := labels.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	return selector
}

// newBench starts an operator in a namespace of its own.
func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return newBenchAlone(t)
}

// newBenchAlone is newBench for a test that measures: no other runs beside it.
func newBenchAlone(t *testing.T) *bench {
	t.Helper()
	cfg := envtest.Start(t)
	b := &bench{T: t, cfg: cfg, client: envtest.Client(t, cfg), ns: envtest.Namespace(t, cfg), wire: &wire{}, store: newFakeStore(), image: "zone-node:test"}
	b.nodes = startKubelets(b)
	b.wire.done = b.checkFree
	b.startOperator()
	t.Cleanup(func() { b.stop() })
	return b
}

// startOperator starts the operator; what it sends goes over the bench's wire.
func (b *bench) startOperator() {
	b.Helper()
	cfg := rest.CopyConfig(b.cfg)
	wire := b.wire
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return wire.over(rt) })
	controllers.LimitRequests(cfg)
	options := controllers.CacheOptions()
	options.DefaultNamespaces = map[string]cache.Config{b.ns: {}}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: envtest.Scheme(b), Cache: options, Client: controllers.ClientOptions(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		b.Fatalf("making a manager: %v", err)
	}
	guard := &controllers.Guard{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Render: policy.Render,
		Identify: func(ctx context.Context) (string, error) {
			review := &authenticationv1.SelfSubjectReview{}
			err := mgr.GetClient().Create(ctx, review)
			return review.Status.UserInfo.Username, err
		},
	}
	worlds := &controllers.WorldReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("operator"), Guard: guard,
		DefaultImage: b.image, Stores: b.store.access(), Boottime: liveness.Boottime, Now: b.now,
	}
	if err := worlds.SetupWithManager(mgr); err != nil {
		b.Fatalf("setting up: %v", err)
	}
	if err := (&controllers.RebalanceReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		b.Fatalf("setting up: %v", err)
	}
	if err := mgr.Add(guard); err != nil {
		b.Fatalf("adding the guard: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			b.Errorf("the operator ended: %v", err)
		}
	}()
	var once sync.Once
	b.stop = func() { once.Do(func() { cancel(); <-done }) }
}

// mortal is a World of which nodes will die: its lease timings are short.
func (b *bench) mortal(columns, rows, replicas int32) *v1alpha1.World {
	world := b.world(columns, rows, replicas)
	world.Spec.Fencing = v1alpha1.FencingSpec{LeaseDurationSeconds: int32(leaseDuration / time.Second), RenewDeadlineSeconds: 6, RenewPeriodSeconds: 1}
	return world
}

// world is a World of the given size. Its nodes have time: the machine may be slow.
func (b *bench) world(columns, rows, replicas int32) *v1alpha1.World {
	return &v1alpha1.World{
		ObjectMeta: metav1.ObjectMeta{Name: "genesis", Namespace: b.ns},
		Spec: v1alpha1.WorldSpec{
			Grid:     v1alpha1.GridSpec{Columns: columns, Rows: rows},
			Nodes:    v1alpha1.NodesSpec{Replicas: &replicas},
			Fencing:  v1alpha1.FencingSpec{LeaseDurationSeconds: 30, RenewDeadlineSeconds: 20, RenewPeriodSeconds: 1},
			Failover: v1alpha1.FailoverSpec{RedistributionDelaySeconds: new(int32(0))},
		},
	}
}

// apply creates a World and waits until it is ready.
func (b *bench) apply(world *v1alpha1.World) *v1alpha1.World {
	b.Helper()
	b.create(world)
	return b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}

func (b *bench) create(o client.Object) {
	b.Helper()
	if err := b.client.Create(context.Background(), o); err != nil {
		b.Fatalf("creating %s: %v", o.GetName(), err)
	}
}

func (b *bench) get() *v1alpha1.World {
	b.Helper()
	world := &v1alpha1.World{}
	if err := b.client.Get(context.Background(), b.key("genesis"), world); err != nil {
		b.Fatalf("reading the World: %v", err)
	}
	return world
}

func (b *bench) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: b.ns, Name: name}
}

// edit changes the World's spec.
func (b *bench) edit(change func(*v1alpha1.World)) {
	b.Helper()
	for {
		world := b.get()
		change(world)
		err := b.client.Update(context.Background(), world)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "the object has been modified") {
			b.Fatalf("editing the World: %v", err)
		}
	}
}

// patience bounds every wait: the machine may be compiling.
const patience = 60 * time.Second

// await polls until ok, or fails with what was seen last.
func (b *bench) await(what string, ok func() (bool, string)) {
	b.Helper()
	deadline := time.Now().Add(patience)
	seen := ""
	for time.Now().Before(deadline) {
		good, state := ok()
		if good {
			return
		}
		seen = state
		<-time.After(100 * time.Millisecond)
	}
	b.Fatalf("waited %s for %s; last seen: %s", patience, what, seen)
}

func (b *bench) awaitCondition(kind string, status metav1.ConditionStatus, reason string) *v1alpha1.World {
	b.Helper()
	var world *v1alpha1.World
	b.await(fmt.Sprintf("%s=%s/%s", kind, status, reason), func() (bool, string) {
		world = b.get()
		c := meta.FindStatusCondition(world.Status.Conditions, kind)
		good := c != nil && c.Status == status && c.Reason == reason && c.ObservedGeneration == world.Generation
		return good, describe(world)
	})
	return world
}

func describe(world *v1alpha1.World) string {
	var out strings.Builder
	fmt.Fprintf(&out, "regions %s nodes %s rows %v", world.Status.Regions.Summary, world.Status.Nodes.Summary, world.Status.ZoneNodes)
	for _, c := range world.Status.Conditions {
		fmt.Fprintf(&out, "\n  %s=%s/%s (generation %d of %d): %s", c.Type, c.Status, c.Reason, c.ObservedGeneration, world.Generation, c.Message)
	}
	return out.String()
}

func (b *bench) message(kind string) string {
	b.Helper()
	c := meta.FindStatusCondition(b.get().Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return c.Message
}

func (b *bench) regions() []coordinationv1.Lease {
	b.Helper()
	list := &coordinationv1.LeaseList{}
	err := b.client.List(context.Background(), list, client.InNamespace(b.ns), client.MatchingLabels{v1alpha1.LabelLease: v1alpha1.LeaseKindRegion})
	if err != nil {
		b.Fatalf("listing region leases: %v", err)
	}
	return list.Items
}

func (b *bench) lease(name string) *coordinationv1.Lease {
	b.Helper()
	lease := &coordinationv1.Lease{}
	if err := b.client.Get(context.Background(), b.key(name), lease); err != nil {
		b.Fatalf("reading lease %s: %v", name, err)
	}
	return lease
}

// quiet fails if the operator writes anything while the bench watches.
func (b *bench) quiet(watch time.Duration) {
	b.Helper()
	before := b.wire.writes.Load()
	<-time.After(watch) // the absence of something can only be waited for
	if n := b.wire.writes.Load() - before; n != 0 {
		b.Errorf("the operator wrote %d times in %s, the last: %s", n, watch, b.wire.last())
	}
}

// settled waits until the operator has stopped writing.
func (b *bench) settled() {
	b.Helper()
	seen, since := b.wire.writes.Load(), time.Now()
	b.await("an end of the writes", func() (bool, string) {
		if now := b.wire.writes.Load(); now != seen {
			seen, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second, b.wire.last()
	})
}

// wire counts what the operator writes, and spoils answers.
type wire struct {
	writes atomic.Int64
	mu     sync.Mutex
	recent string
	// spoil, if set, may answer instead of the API server, before or after it acted.
	spoil func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error)
	// done, if set, is shown every region Lease that was written.
	done func(sent *coordinationv1.Lease)
}

func (w *wire) over(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet {
			w.writes.Add(1)
			w.mu.Lock()
			w.recent = req.Method + " " + req.URL.Path
			w.mu.Unlock()
		}
		w.mu.Lock()
		spoil := w.spoil
		w.mu.Unlock()
		send := func() (*http.Response, error) { return w.witness(req, next) }
		if spoil == nil {
			return send()
		}
		return spoil(req, send)
	})
}

// witness sends a request, and shows the region Lease in it if it was written.
func (w *wire) witness(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if req.Method != http.MethodPut || w.done == nil || !strings.Contains(req.URL.Path, "/leases/genesis-r-") {
		return next.RoundTrip(req)
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("reading what is sent: %w", err)
	}
	sent, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding what is sent: %w", err)
	}
	response, err := next.RoundTrip(req)
	if err == nil && response.StatusCode == http.StatusOK {
		w.done(sent.(*coordinationv1.Lease))
	}
	return response, err
}

func (w *wire) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.recent
}

func (w *wire) set(spoil func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spoil = spoil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
