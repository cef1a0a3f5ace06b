package fence

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

var updateOptions = metav1.UpdateOptions{}

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// modelAPI keeps Leases as the API server does: one counter of versions, a PUT needs uid and resourceVersion of what is
// there, watches show each change in order. It runs in a synctest bubble.
type modelAPI struct {
	mu       sync.Mutex
	version  int
	objects  map[string]*coordinationv1.Lease
	watchers map[*modelWatch]bool
	// onWrite sees each change of a Lease, under the lock.
	onWrite func(old, now *coordinationv1.Lease)
	broken  []string
}

func newModelAPI() *modelAPI {
	return &modelAPI{objects: map[string]*coordinationv1.Lease{}, watchers: map[*modelWatch]bool{}, onWrite: func(_, _ *coordinationv1.Lease) {}}
}

func conflictOn(name string) error {
	return apierrors.NewConflict(leaseResource, name, fmt.Errorf("the object has been modified"))
}

func (a *modelAPI) get(name string) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if lease := a.objects[name]; lease != nil {
		return lease.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(leaseResource, name)
}

// put is a PUT with the rules that the lease policies enforce; breaking one of those is noted.
func (a *modelAPI) put(lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.objects[lease.Name]
	if old == nil || old.UID != lease.UID || old.ResourceVersion != lease.ResourceVersion {
		return nil, conflictOn(lease.Name)
	}
	before, after := transitionsOf(old), transitionsOf(lease)
	newHolder := holderOf(lease) != holderOf(old) && holderOf(lease) != ""
	if after < before || newHolder && after != before+1 {
		a.broken = append(a.broken, fmt.Sprintf("%s: holder %q -> %q with transitions %d -> %d", lease.Name, holderOf(old), holderOf(lease), before, after))
	}
	if apiequality.Semantic.DeepEqual(old, lease) { // as the API server does: nothing is written, and nobody is told
		return old.DeepCopy(), nil
	}
	return a.store(old, lease.DeepCopy()), nil
}

// store enters a new version under the lock.
func (a *modelAPI) store(old, lease *coordinationv1.Lease) *coordinationv1.Lease {
	a.version++
	lease.ResourceVersion = strconv.Itoa(a.version)
	a.objects[lease.Name] = lease
	a.onWrite(old, lease)
	kind := watch.Modified
	if old == nil {
		kind = watch.Added
	}
	a.tell(watch.Event{Type: kind, Object: lease.DeepCopy()})
	return lease.DeepCopy()
}

func (a *modelAPI) tell(e watch.Event) {
	for w := range a.watchers {
		w.tell(e)
	}
}

// create makes a Lease as the operator does.
func (a *modelAPI) create(lease *coordinationv1.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lease.UID = types.UID(fmt.Sprintf("object-%d", a.version+1))
	a.store(nil, lease)
}

// complete makes the Leases that are missing: the sessions up to a node, and the regions of a grid, ordered for node 0.
func (a *modelAPI) complete(last, columns, rows int) {
	create := func(lease *coordinationv1.Lease) {
		if _, err := a.get(lease.Name); err != nil {
			a.create(lease)
		}
	}
	for ordinal := range last + 1 {
		create(sessionLease(ordinal))
	}
	for region := range columns * rows {
		create(regionLease(region%columns, region/columns, "", 1, zone0))
	}
}

// edit changes a Lease by a write of somebody else.
func (a *modelAPI) edit(name string, change func(*coordinationv1.Lease)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.objects[name]
	lease := old.DeepCopy()
	change(lease)
	a.store(old, lease)
}

func (a *modelAPI) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lease := a.objects[name].DeepCopy()
	delete(a.objects, name)
	a.version++
	lease.ResourceVersion = strconv.Itoa(a.version)
	a.tell(watch.Event{Type: watch.Deleted, Object: lease})
}

// breakWatches ends every watch, as a restart of the API server does.
func (a *modelAPI) breakWatches() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for w := range a.watchers {
		w.end()
		delete(a.watchers, w)
	}
}

// modelWatch delivers events in order, each after a lag.
type modelWatch struct {
	events chan watch.Event
	out    chan watch.Event
	done   chan struct{}
	once   sync.Once
}

func newModelWatch(lag func() time.Duration) *modelWatch {
	w := &modelWatch{events: make(chan watch.Event, 100_000), out: make(chan watch.Event), done: make(chan struct{})}
	go func() {
		defer close(w.out)
		for {
			select {
			case <-w.done:
				return
			case e := <-w.events:
				select {
				case <-time.After(lag()):
				case <-w.done:
					return
				}
				select {
				case w.out <- e:
				case <-w.done:
					return
				}
			}
		}
	}()
	return w
}

func (w *modelWatch) tell(e watch.Event)             { w.events <- e }
func (w *modelWatch) end()                           { w.once.Do(func() { close(w.done) }) }
func (w *modelWatch) Stop()                          { w.end() }
func (w *modelWatch) ResultChan() <-chan watch.Event { return w.out }

// plan is what happens to one request.
type plan struct {
	before time.Duration // until it lands, whether or not its sender still waits
	after  time.Duration // until the answer is back
	fail   error         // it is answered with this, and changes nothing
	mute   bool          // it takes effect and is never answered
}

// conn is the connection of one process to the API. It has no verbs but those of WatchedLeases.
type conn struct {
	api  *modelAPI
	plan func(verb, name string) plan // called under mu
	lag  func() time.Duration

	mu       sync.Mutex
	inFlight map[string]int
	most     int
	puts     int
}

func dial(api *modelAPI) *conn {
	return &conn{
		api: api, plan: func(string, string) plan { return plan{} }, lag: func() time.Duration { return 0 },
		inFlight: map[string]int{},
	}
}

var _ WatchedLeases = (*conn)(nil)

// will changes what happens to the requests from now on.
func (c *conn) will(plan func(verb, name string) plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan = plan
}

type answer struct {
	lease *coordinationv1.Lease
	err   error
}

func (c *conn) do(ctx context.Context, verb, name string, apply func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	c.mu.Lock()
	p := c.plan(verb, name)
	c.mu.Unlock()
	answers := make(chan answer, 1)
	time.AfterFunc(p.before, func() {
		if p.fail != nil {
			answers <- answer{err: p.fail}
			return
		}
		lease, err := apply()
		if !p.mute {
			time.AfterFunc(p.after, func() { answers <- answer{lease, err} })
		}
	})
	select {
	case a := <-answers:
		return a.lease, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *conn) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, "get", name, func() (*coordinationv1.Lease, error) { return c.api.get(name) })
}

func (c *conn) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	c.mu.Lock()
	c.puts++
	c.inFlight[lease.Name]++
	total := 0
	for _, n := range c.inFlight {
		total += n
	}
	c.most = max(c.most, total)
	if c.inFlight[lease.Name] > 1 {
		c.api.mu.Lock()
		c.api.broken = append(c.api.broken, "two writes of "+lease.Name+" in flight")
		c.api.mu.Unlock()
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.inFlight[lease.Name]--
		c.mu.Unlock()
	}()
	lease = lease.DeepCopy()
	return c.do(ctx, "put", lease.Name, func() (*coordinationv1.Lease, error) { return c.api.put(lease) })
}

func (c *conn) List(ctx context.Context, _ metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	list := &coordinationv1.LeaseList{}
	_, err := c.do(ctx, "list", "", func() (*coordinationv1.Lease, error) {
		c.api.mu.Lock()
		defer c.api.mu.Unlock()
		for _, lease := range c.api.objects {
			list.Items = append(list.Items, *lease.DeepCopy())
		}
		list.ResourceVersion = strconv.Itoa(c.api.version)
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (c *conn) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w := newModelWatch(c.lag)
	_, err := c.do(ctx, "watch", "", func() (*coordinationv1.Lease, error) {
		c.api.mu.Lock()
		defer c.api.mu.Unlock()
		if opts.ResourceVersion != strconv.Itoa(c.api.version) {
			return nil, apierrors.NewResourceExpired("the version is too old") // no history is kept: list again
		}
		c.api.watchers[w] = true
		return nil, nil
	})
	if err != nil {
		w.Stop()
		return nil, err
	}
	context.AfterFunc(ctx, w.Stop)
	return w, nil
}

// IsWatchListSemanticsUnSupported makes the reflector list first.
func (c *conn) IsWatchListSemanticsUnSupported() bool { return true }

// simClock is boot time in a synctest bubble, running at a rate of its own.
type simClock struct {
	start  time.Time
	offset time.Duration
	rate   float64
}

func newSimClock() *simClock { return &simClock{start: time.Now(), offset: time.Hour, rate: 1} }

func (c *simClock) Boottime() time.Duration {
	return c.offset + time.Duration(c.rate*float64(time.Since(c.start)))
}

const testWorld = "genesis"

// sessionLease is a session Lease as the operator makes it.
func sessionLease(ordinal int) *coordinationv1.Lease {
	none, zero := "", int32(0)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeName(testWorld, ordinal), Labels: map[string]string{
			v1alpha1.LabelWorld: testWorld, v1alpha1.LabelLease: v1alpha1.LeaseKindSession,
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &none, LeaseTransitions: &zero},
	}
}

// regionLease is a region Lease as the operator makes it, ordered for a node.
func regionLease(column, row int, holder string, epoch int32, target string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.RegionLeaseName(testWorld, column, row),
			Labels: map[string]string{
				v1alpha1.LabelWorld: testWorld, v1alpha1.LabelLease: v1alpha1.LeaseKindRegion,
				v1alpha1.LabelRegion: v1alpha1.RegionLabel(column, row),
			},
			Annotations: map[string]string{v1alpha1.AnnotationTarget: target},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &epoch},
	}
}

// held gives a Lease a holder.
func held(lease *coordinationv1.Lease, holder string, transitions int32) *coordinationv1.Lease {
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &holder, &transitions
	return lease
}

func setHolder(holder string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &holder }
}

func setTarget(target string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationTarget] = target }
}

// testConfig is node ordinal in a pod of the given uid, with the default timing and a quiet log.
func testConfig(ordinal int, uid string, clock Clock) Config {
	return Config{
		World: testWorld, Ordinal: ordinal, PodName: v1alpha1.NodeName(testWorld, ordinal), PodUID: uid,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RenewPeriod: 2 * time.Second,
		Address: "10.0.0.1:7777", KeyHash: "abc", Gateway: "10.0.0.1:8080",
		SkipTokenCheck: true, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Exit: func(code int) { panic("exit " + strconv.Itoa(code)) },
	}
}

// mustAcquire acquires a session that is free.
func mustAcquire(t *testing.T, c *conn, cfg Config) *Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Acquire(ctx, Clients{Session: c, Regions: c}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// noRuleBroken fails the test if a write broke a rule of the policies.
func (a *modelAPI) noRuleBroken(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, rule := range a.broken {
		t.Error(rule)
	}
}
