package simtest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// small is a world that any seed of the soak may draw: four nodes around a corner, ten masters with three bestias each that
// walk around it and speak, leases and store as nasty as they can be, all checks on.
type small struct {
	*Run
	rand *rand.Rand
}

const (
	smallNodes   = 4
	smallMasters = 10
	smallTeam    = 3
)

// newSmall brings everybody into the world.
func newSmall(tb testing.TB) *small {
	tb.Helper()
	p := &Plan{
		Seed: 1, Columns: 2, Rows: 2, EdgeChunks: 15, Nodes: smallNodes, Owners: []int{0, 1, 2, 3}, LinkDelay: 5 * time.Millisecond,
		LinkJitter: 10 * time.Millisecond, StoreDelay: 10 * time.Millisecond, Nasty: true, Operators: 2, Teams: map[uint64]int{},
		SettleTicks: 2000,
	}
	s := &small{rand: rand.New(rand.NewPCG(1, 1))}
	for account := range int64(smallMasters) {
		x, y := s.place()
		p.Teams[uint64(account+1)] = smallTeam
		p.Actions = append(p.Actions, Action{0, "login", []int64{account + 1, account % smallNodes, x, y}})
	}
	var err error
	if s.Run, err = NewRun(p); err != nil {
		tb.Fatal(err)
	}
	p.Ticks = 40
	if err := s.Execute(); err != nil {
		tb.Fatal(err)
	}
	s.advance(tb, 500) // buffers grow, everybody walks
	return s
}

func (s *small) place() (x, y int64) {
	const edge = 15 * 32
	return edge - 100 + s.rand.Int64N(200), edge - 100 + s.rand.Int64N(200)
}

// advance lets the world live on: each tick, by chance, somebody turns and somebody speaks.
func (s *small) advance(tb testing.TB, ticks int) {
	tb.Helper()
	for range ticks {
		account := int64(1 + s.rand.IntN(smallMasters))
		switch s.rand.IntN(10) {
		case 0:
			x, y := s.place()
			s.Do(Action{Verb: "walk", Args: []int64{account, x, y}})
		case 1:
			s.Do(Action{Verb: "say", Args: []int64{account}})
		}
		if err := s.Cluster.Run(1); err != nil {
			tb.Fatal(err)
		}
	}
}

// userCPU is the time that this process has computed, whatever else the machine does.
func userCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

func BenchmarkSmallWorld(b *testing.B) {
	s := newSmall(b)
	b.ReportAllocs()
	before, ticks := userCPU(b), 0
	for b.Loop() {
		s.advance(b, 1)
		ticks++
	}
	b.ReportMetric(float64(ticks*smallNodes)/float64((userCPU(b)-before).Microseconds())*1000, "node-ticks/ms")
}

// TestSmallWorldSpeed prints how fast the simulation is. What it costs in time depends on the machine, what it allocates does not.
func TestSmallWorldSpeed(t *testing.T) {
	const ticks, most = 2000, 100
	s := newSmall(t)
	var before, after runtime.MemStats
	handoffs := s.Stats(func(st zone.Stats) uint64 { return st.Handoffs })
	runtime.ReadMemStats(&before)
	start := userCPU(t)
	s.advance(t, ticks)
	spent := userCPU(t) - start
	runtime.ReadMemStats(&after)
	handoffs = s.Stats(func(st zone.Stats) uint64 { return st.Handoffs }) - handoffs
	steps := float64(ticks * smallNodes)
	allocations := float64(after.Mallocs-before.Mallocs) / steps
	fmt.Printf("%.1f node ticks per ms of CPU, %.0f allocations and %.0f bytes per node tick, %d handoffs\n",
		steps/float64(spent.Microseconds())*1000, allocations, float64(after.TotalAlloc-before.TotalAlloc)/steps, handoffs)
	if allocations > most {
		t.Errorf("%.0f allocations per node tick, want at most %d", allocations, most)
	}
	if handoffs < smallMasters {
		t.Errorf("%d handoffs: the world is too quiet to say anything", handoffs)
	}
}
