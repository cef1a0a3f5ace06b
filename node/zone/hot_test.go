package zone

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// crowd is an engine that holds a world of one region with so many walkers in it, each chunk observed by two other nodes
// and by this one.
func crowd(tb testing.TB, walkers int) *Engine {
	tb.Helper()
	g, err := torus.NewGrid(1, 1, 64)
	if err != nil {
		tb.Fatal(err)
	}
	e, err := New(Config{Grid: g, Session: "w-zone-0#1", Node: "w-zone-0", Incarnation: 1})
	if err != nil {
		tb.Fatal(err)
	}
	table, err := partition.NewTable(g, []partition.Row{{Owner: partition.Owner{Session: "w-zone-0#1", Node: "w-zone-0", Epoch: 1}}})
	if err != nil {
		tb.Fatal(err)
	}
	e.step(tb, &Inbox{Table: table, Peers: []PeerEvent{{"w-zone-1#1", PeerUp}, {"w-zone-2#1", PeerUp}}})
	e.step(tb, &Inbox{Store: []StoreAnswer{{ID: 1, Op: StoreLoadRegion, Code: StoreOK}}})
	e.step(tb, &Inbox{})
	for chunk := range uint64(64 * 64) {
		for _, session := range []string{"w-zone-0#1", "w-zone-1#1", "w-zone-2#1"} {
			if err := e.sim.subscribe(session, chunk); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for i := range walkers {
		id := ecs.EntityID(i + 1)
		if err := e.sim.world.Create(id); err != nil {
			tb.Fatal(err)
		}
		e.sim.game.SpawnMaster(id, uint64(i+1), "walker", game.Birthplace(g, uint64(i)))
		e.sim.adopt(id, ecs.Epoch{}, torus.RegionPos{}, false)
	}
	for range 100 { // buffers grow, snapshots go out
		e.step(tb, &Inbox{})
	}
	return e
}

func (e *Engine) step(tb testing.TB, in *Inbox) *Outbox {
	tb.Helper()
	in.Boot, in.Deadline, in.WallMillis = e.due, e.due+time.Minute, ecs.IDEpochMillis+1
	out := e.Step(in)
	if out == nil {
		tb.Fatal("no step was made")
	}
	return out
}

// walkOn gives every walker a long way to go.
func (e *Engine) walkOn() {
	for id := range e.sim.walking.Each {
		p, at := e.sim.game.Path.Get(id), e.sim.game.Position.Get(id).At
		p.Waypoints = p.Waypoints[:0]
		for i := range int64(8) {
			p.Waypoints = append(p.Waypoints, e.grid.Add(at, 50*(i+1), 30*(i+1)))
		}
		p.Speed = motion.DefaultSpeed
		e.sim.Changed(id, game.NumberPath)
	}
}

// TestATickAllocatesNothingPerEntity: a thousand walkers cost a few allocations a tick - one batch per peer and the
// outbox - however many of them change.
func TestATickAllocatesNothingPerEntity(t *testing.T) {
	const walkers = 1000
	e := crowd(t, walkers)
	e.walkOn()
	for range 50 {
		e.step(t, &Inbox{})
	}
	allocations := testing.AllocsPerRun(100, func() { e.step(t, &Inbox{}) })
	t.Logf("%.0f allocations a tick for %d walkers", allocations, walkers)
	if allocations > walkers/20 {
		t.Errorf("%.0f allocations a tick for %d walkers", allocations, walkers)
	}
}

// TestAnUpdateIsEncodedOnceForAllItsObservers, and copied for each.
func TestAnUpdateIsEncodedOnceForAllItsObservers(t *testing.T) {
	e := crowd(t, 200)
	e.step(t, &Inbox{})
	before := e.stats
	e.walkOn()
	e.step(t, &Inbox{})
	encoded, spliced := e.stats.Encoded-before.Encoded, e.stats.Spliced-before.Spliced
	if encoded > 2*200 || spliced < 3*200 {
		t.Errorf("%d encodings and %d copies for 200 changes with 3 observing nodes; want at most one encoding at the owner and one at the gateway", encoded, spliced)
	}
}

func BenchmarkTick(b *testing.B) {
	for _, walkers := range []int{100, 1000, 5000} {
		b.Run(map[int]string{100: "100", 1000: "1000", 5000: "5000"}[walkers]+" walkers", func(b *testing.B) {
			e := crowd(b, walkers)
			e.walkOn()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i++; i%500 == 0 {
					b.StopTimer()
					e.walkOn()
					b.StartTimer()
				}
				e.step(b, &Inbox{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(walkers), "ns/walker")
		})
	}
}

// BenchmarkWriteBehind is what it costs to write 2000 walking players back to the store, each every 5 s: the share of a tick's
// 50 ms, and of what the tick costs without. Both worlds are stepped in turn, and the thread's own time counts.
func BenchmarkWriteBehind(b *testing.B) {
	const walkers, ticks = 2000, 10 * saveTicks
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	with, without := crowd(b, walkers), crowd(b, walkers)
	with.behind()
	var cost, base time.Duration
	var out *Outbox
	for i := range ticks {
		if i%500 == 0 {
			with.walkOn()
			without.walkOn()
		}
		var answers []StoreAnswer
		if out != nil {
			answers = saved(out)
		}
		start := threadTime(b)
		out = with.step(b, &Inbox{Store: answers})
		middle := threadTime(b)
		without.step(b, &Inbox{})
		cost, base = cost+middle-start, base+threadTime(b)-middle
	}
	if with.stats.Saves < 8*walkers || without.stats.Saves != 0 {
		b.Fatalf("%d saves of %d walkers in 50 s, and %d where there are none", with.stats.Saves, walkers, without.stats.Saves)
	}
	for b.Loop() { // 50 s of both worlds are behind
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*float64(cost-base)/float64(ticks*int64(TickDuration)), "%of50ms")
	b.ReportMetric(100*float64(cost-base)/float64(base), "%oftick")
}

// threadTime is the CPU time of this thread.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// behind makes the store know all walkers, whose saves fall due one after the other.
func (e *Engine) behind() {
	var ids []ecs.EntityID
	for id := range e.sim.mine.Each {
		ids = append(ids, id)
	}
	for _, id := range ids {
		e.sim.saving.Set(id, saving{claimed: true, next: e.tick + int64(id)%saveTicks})
	}
}

// saved answers what a step has asked of the store.
func saved(out *Outbox) (answers []StoreAnswer) {
	for _, r := range out.Store {
		answers = append(answers, StoreAnswer{ID: r.ID, Op: r.Op, Code: StoreOK})
	}
	return answers
}
