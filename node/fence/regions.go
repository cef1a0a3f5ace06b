package fence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const (
	// maxWrites bounds the region writes in flight.
	maxWrites = 8
	// writeTimeout is the longest that one request about a region may take.
	writeTimeout = 2 * time.Second
	// sweepInterval is how often all regions are looked at when nothing changes.
	sweepInterval = 2 * time.Second
	// maxRewatch bounds the wait before a broken watch is made anew, so that an outage of the API server is over when it is
	// over: the default of client-go is 30 s.
	maxRewatch = 2 * time.Second
)

// Errors of writes to the Lease of one region.
var (
	// ErrNotHeld: this session does not hold the region.
	ErrNotHeld = errors.New("region not held by this session")
	// ErrFenced: the deadline passed, nothing was written.
	ErrFenced = errors.New("deadline passed")
	// ErrEpochExhausted: the wanted epoch does not fit the Lease.
	ErrEpochExhausted = errors.New("region epoch exhausted")
)

// RegionsConfig says which grid the regions form and who is told.
type RegionsConfig struct {
	Columns, Rows int
	// OnTable is called with each new table, from one goroutine, one at a time. Changes that come meanwhile make one table:
	// the latest.
	OnTable func(Table)
}

// Regions watches the Leases of the World and takes the regions that are this node's.
type Regions struct {
	cfg     RegionsConfig
	session *Session
	leases  WatchedLeases
	clock   Clock
	log     *slog.Logger
	ledger  *ledger
	dirty   chan struct{} // capacity 1: something changed
	writes  chan struct{} // capacity maxWrites: one token per write in flight
	// busy holds a token per region while a write of its Lease is in flight or being settled: never two at once.
	busy []chan struct{}

	mu       sync.Mutex
	failures map[int]failure // regions that wait after a failed take
	barred   map[int]bool    // regions that were given up
	foreign  noter
	unnamed  noter // of Run
}

// failure is why a region is left alone for a while.
type failure struct {
	count int
	until time.Duration // boot time
}

// NewRegions returns the region side of an acquired session.
func NewRegions(clients Clients, session *Session, cfg RegionsConfig) (*Regions, error) {
	if cfg.Columns < 1 || cfg.Rows < 1 || cfg.Columns > 4096 || cfg.Rows > 4096 || cfg.Columns*cfg.Rows > 4096 {
		return nil, fmt.Errorf("configuring regions: a grid of %d x %d, want at least 1 x 1 and at most 4096 regions", cfg.Columns, cfg.Rows)
	}
	if cfg.OnTable == nil {
		cfg.OnTable = func(Table) {}
	}
	g := &Regions{
		cfg: cfg, session: session, leases: clients.Regions, clock: session.cfg.Clock, log: session.log,
		dirty: make(chan struct{}, 1), writes: make(chan struct{}, maxWrites),
		busy:     make([]chan struct{}, cfg.Columns*cfg.Rows),
		failures: map[int]failure{}, barred: map[int]bool{},
		foreign: noter{log: session.log}, unnamed: noter{log: session.log},
	}
	for i := range g.busy {
		g.busy[i] = make(chan struct{}, 1)
	}
	g.ledger = newLedger(shape{world: session.cfg.World, columns: cfg.Columns, rows: cfg.Rows}, g.wake, g.noteForeign)
	g.ledger.observe(session.first)
	return g, nil
}

// wake makes Run look at everything again.
func (g *Regions) wake() {
	select {
	case g.dirty <- struct{}{}:
	default:
	}
}

func (g *Regions) noteForeign(name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.foreign.say(g.clock.Boottime(), "a lease with the labels of this World is ignored", "lease", name, "error", err)
}

// Run watches, publishes and takes until ctx ends; nothing of it runs on when it returns.
func (g *Regions) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { g.reflector().RunWithContext(klog.NewContext(ctx, logr.FromSlogHandler(g.log.Handler()))) })
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	var last *Table
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.dirty:
		case <-sweep.C:
		}
		last = g.publish(last)
		g.takeAll(ctx, &running)
	}
}

// publish calls OnTable if the table says something new, and returns the table that was published last. The first one waits
// until the Leases name everybody.
func (g *Regions) publish(last *Table) *Table {
	if last == nil && g.heldBack() {
		return nil
	}
	t := g.ledger.table()
	switch {
	case t == nil:
		return last
	case last == nil:
		t.Version = 1
	case t.same(last):
		return last
	default:
		t.Version = last.Version + 1
	}
	g.cfg.OnTable(*t)
	return t
}

// heldBack reports whether somebody may act whom the Leases do not name, and says so.
func (g *Regions) heldBack() bool {
	why := g.ledger.unnamed()
	if why != "" {
		g.unnamed.say(g.clock.Boottime(), "waiting for the leases to name everybody who acts before this node does", "detail", why)
	}
	return why != ""
}

// reflector keeps the ledger current with one watch over all Leases of the World, so that sessions and regions are seen in
// the order in which they changed.
func (g *Regions) reflector() *cache.Reflector {
	selector := labels.Set{v1alpha1.LabelWorld: g.session.cfg.World}.AsSelector().String() +
		"," + v1alpha1.LabelLease + " in (" + v1alpha1.LeaseKindRegion + "," + v1alpha1.LeaseKindSession + ")"
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.LabelSelector = selector
			return g.leases.List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.LabelSelector = selector
			return g.leases.Watch(ctx, opts)
		},
	}
	logger := logr.FromSlogHandler(g.log.Handler())
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, g.leases), &coordinationv1.Lease{}, g.ledger,
		cache.ReflectorOptions{
			Name: "leases of World " + g.session.cfg.World, Logger: &logger,
			Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: maxRewatch},
		})
}

// takeAll starts a write for each region that this node should take, as far as writes are free. Each one that ends wakes
// Run again.
func (g *Regions) takeAll(ctx context.Context, running *sync.WaitGroup) {
	now := g.clock.Boottime()
	if g.session.deadline.Passed(now) {
		return
	}
	for _, index := range g.ledger.wanted(g.wants) {
		if !g.ready(index, now) || !tryToken(g.busy[index]) {
			continue
		}
		if !tryToken(g.writes) {
			<-g.busy[index]
			return
		}
		running.Go(func() {
			defer g.wake()
			defer func() { <-g.writes; <-g.busy[index] }()
			g.take(ctx, index)
		})
	}
}

// wants reports whether a region is this node's to take.
func (g *Regions) wants(r regionFacts) bool {
	action, _ := g.decide(r)
	return action != leave
}

func (g *Regions) decide(r regionFacts) (action, string) {
	return decideRegion(r, g.session.cfg.PodName, g.session.tenure.incarnation)
}

// ready reports whether a region is neither given up nor waiting after a failure.
func (g *Regions) ready(index int, now time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.barred[index] && now >= g.failures[index].until
}

// take decides about a region once more and writes its Lease. The outcome is what the API server shows next.
func (g *Regions) take(ctx context.Context, index int) {
	r := g.ledger.region(index)
	action, reason := leave, ""
	if r.lease != nil && g.ready(index, g.clock.Boottime()) {
		action, reason = g.decide(r.regionFacts)
	}
	if action == leave {
		return
	}
	err := g.write(ctx, rewritten(r.lease, g.session.Session(), r.epoch+1))
	g.settle(index, err)
	switch {
	case err == nil && action == inherit:
		g.session.cfg.Metrics.took("inherited")
	case err == nil:
		g.session.cfg.Metrics.took("taken")
	case errors.Is(err, ErrFenced):
		g.session.cfg.Metrics.took("fenced")
	default:
		g.session.cfg.Metrics.took(classify(err).String())
	}
	if err == nil {
		g.log.Info("region taken", "lease", r.lease.Name, "epoch", r.epoch+1, "reason", reason)
	} else if ctx.Err() == nil {
		g.log.Info("region not taken", "lease", r.lease.Name, "reason", reason, "error", err)
	}
}

// settle counts the failures of a region in a row.
func (g *Regions) settle(index int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		delete(g.failures, index)
		return
	}
	count := g.failures[index].count + 1
	g.failures[index] = failure{count: count, until: g.clock.Boottime() + backoff(count)}
	time.AfterFunc(backoff(count), g.wake)
}

func tryToken(c chan struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	default:
		return false
	}
}
