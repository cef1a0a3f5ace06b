package fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const (
	simNodes   = 3
	simColumns = 4 // regions
	simLength  = 4 * time.Minute
)

// weather is what one process suffers: pauses and cuts, as seen by its requests, by chance from a seed.
type weather struct {
	mu       sync.Mutex
	rand     *rand.Rand
	cutUntil time.Time
}

// plan lets a request be slow, stuck (and land later), lost or unanswered.
func (w *weather) plan(string, string) plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, now := w.rand, time.Now()
	if now.Before(w.cutUntil) {
		return plan{before: w.cutUntil.Sub(now) + 3*time.Second, fail: errors.New("no route")}
	}
	if r.Float64() < 0.01 {
		w.cutUntil = now.Add(time.Duration(r.Int64N(int64(40 * time.Second))))
	}
	p := plan{before: w.some(50 * time.Millisecond), after: w.some(50 * time.Millisecond)}
	switch {
	case r.Float64() < 0.05: // stuck on its way, or a pause between the check and the write: lands after its sender gave up
		p.before = w.some(30 * time.Second)
	case r.Float64() < 0.05:
		p.mute = true
	case r.Float64() < 0.03:
		p.fail = errors.New("etcd")
	}
	return p
}

// lag is how late a watch event is: a node that is cut off sees none.
func (w *weather) lag() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(time.Until(w.cutUntil), 0) + w.some(300*time.Millisecond)
}

func (w *weather) some(most time.Duration) time.Duration {
	return time.Duration(w.rand.Int64N(int64(most)))
}

// simNode is one pod slot: its processes live one after the other.
type simNode struct {
	mu      sync.Mutex
	session *Session
	clock   *simClock
	table   Table
}

// writes returns the regions that the node would act for at this instant.
func (n *simNode) writes() (regions []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session == nil || n.session.Deadline().Passed(n.clock.Boottime()) {
		return nil
	}
	for i, row := range n.table.Regions {
		if row.Session == n.session.Session() {
			regions = append(regions, i)
		}
	}
	return regions
}

// live is one process of the node, until ctx ends or its session is lost.
func (n *simNode) live(ctx context.Context, c *conn, cfg Config) {
	ctx, die := context.WithCancel(ctx)
	defer die()
	s, err := Acquire(ctx, Clients{Session: c}, cfg)
	if err != nil {
		return
	}
	defer s.Stopped()
	n.mu.Lock()
	n.session, n.table = s, Table{}
	n.mu.Unlock()
	defer func() { n.mu.Lock(); n.session = nil; n.mu.Unlock() }() // the process is gone before its successor starts
	g, err := NewRegions(Clients{Regions: c}, s, RegionsConfig{Columns: simColumns, Rows: 1, OnTable: func(t Table) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.table = t
	}})
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() { g.Run(ctx) })
	_ = s.Run(ctx)
	die()
	running.Wait()
}

// operate is the operator: it revokes what it saw unchanged for a full duration, frees regions of dead sessions, and
// changes its mind about targets.
func operate(ctx context.Context, c *conn, clock Clock, r *rand.Rand) {
	var seen [simNodes]observation
	for pause(ctx, 500*time.Millisecond) == nil {
		live := map[string]bool{}
		for i := range simNodes {
			sent := clock.Boottime()
			lease, err := c.api.get(v1alpha1.NodeName(testWorld, i))
			if err != nil || holderOf(lease) == "" {
				continue
			}
			live[v1alpha1.SessionID(testWorld, i, transitionsOf(lease))] = true
			if seen[i].see(sent, clock.Boottime(), lease, 3*time.Second) >= 15*time.Second {
				_, _ = c.Update(ctx, rewritten(lease, "", transitionsOf(lease)), updateOptions)
			}
		}
		for i := range simColumns {
			lease, err := c.api.get(v1alpha1.RegionLeaseName(testWorld, i, 0))
			if err != nil {
				continue
			}
			next, old := lease.DeepCopy(), lease
			if holder := holderOf(lease); holder != "" && !live[holder] {
				next = rewritten(lease, "", transitionsOf(lease))
			}
			if r.IntN(20) == 0 {
				setTarget(v1alpha1.NodeName(testWorld, r.IntN(simNodes)))(next)
			}
			if !equality.Semantic.DeepEqual(next, old) {
				_, _ = c.Update(ctx, next, updateOptions)
			}
		}
	}
}

// simulate runs one seed and reports how often a region was taken, and every instant with two writers.
func simulate(t *testing.T, seed int64, spoil func(*Config)) (takes int, overlaps []string) {
	synctest.Test(t, func(t *testing.T) {
		api, r := newModelAPI(), rand.New(rand.NewPCG(uint64(seed), 0))
		for i := range simNodes {
			api.create(sessionLease(i))
		}
		for i := range simColumns {
			api.create(regionLease(i, 0, "", 1, v1alpha1.NodeName(testWorld, r.IntN(simNodes))))
		}
		api.onWrite = func(old, now *coordinationv1.Lease) {
			if now.Labels[v1alpha1.LabelLease] == v1alpha1.LeaseKindRegion && holderOf(now) != "" && holderOf(now) != holderOf(old) {
				takes++
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		nodes := make([]*simNode, simNodes)
		for i := range nodes {
			clock := newSimClock()
			clock.rate = 0.9 + 0.2*r.Float64()
			nodes[i] = &simNode{clock: clock}
			w := &weather{rand: rand.New(rand.NewPCG(uint64(seed), uint64(1+i)))}
			running.Go(func() {
				for life := 0; ctx.Err() == nil; life++ {
					c := dial(api)
					c.plan = w.plan
					c.lag = w.lag
					cfg := testConfig(i, fmt.Sprint(life/3), clock) // every third death is the pod's
					if spoil != nil {
						spoil(&cfg)
					}
					w.mu.Lock()
					lifetime := 20*time.Second + w.some(2*time.Minute)
					w.mu.Unlock()
					life, die := context.WithTimeout(ctx, lifetime)
					nodes[i].live(life, c, cfg)
					die()
					_ = pause(ctx, time.Second)
				}
			})
		}
		clock := newSimClock()
		clock.rate = 0.9 + 0.2*r.Float64()
		running.Go(func() { operate(ctx, dial(api), clock, r) })
		for range int(simLength / (50 * time.Millisecond)) {
			time.Sleep(50 * time.Millisecond)
			writers := map[int]int{}
			for i, n := range nodes {
				for _, region := range n.writes() {
					if other, twice := writers[region]; twice {
						overlaps = append(overlaps, fmt.Sprintf("seed %d: nodes %d and %d both act for region %d", seed, other, i, region))
					}
					writers[region] = i
				}
			}
		}
		stop()
		running.Wait()
		overlaps = append(overlaps, api.broken...)
	})
	return takes, overlaps
}

func TestNoTwoNodesEverActForOneRegion(t *testing.T) {
	takes := 0
	for seed := range int64(12) {
		n, overlaps := simulate(t, seed, nil)
		takes += n
		if len(overlaps) > 0 {
			t.Fatalf("%d violations, the first: %s", len(overlaps), overlaps[0])
		}
	}
	if takes < 100 {
		t.Errorf("only %d takes: the simulation shows little", takes)
	}
	t.Logf("%d takes", takes)
}

func TestSimulationNoticesANodeThatIgnoresItsDeadline(t *testing.T) {
	for seed := range int64(12) {
		if _, overlaps := simulate(t, seed, func(c *Config) { c.RenewDeadline, c.LeaseDuration = 50*time.Second, 60*time.Second }); len(overlaps) > 0 {
			return
		}
	}
	t.Error("no seed shows two writers, though the operator revokes before the deadline")
}
