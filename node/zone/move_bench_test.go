package zone

import (
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// BenchmarkMove is what the move of a region with 2000 walking players costs its nodes: how long both of them together compute
// between the freeze and the first step of the new owner (cut-ms; the network and the API server come on top), and the longest single
// step of the old and of the new owner. No step may take longer than a tick.
func BenchmarkMove(b *testing.B) {
	const walkers = 2000
	var cut, longestA, longestB time.Duration
	for b.Loop() {
		b.StopTimer()
		m := newMoving(b, walkers)
		b.StartTimer()
		m.run(b)
		cut += m.cut
		longestA, longestB = max(longestA, m.longest[0]), max(longestB, m.longest[1])
	}
	b.ReportMetric(float64(cut.Microseconds())/1e3/float64(b.N), "cut-ms")
	b.ReportMetric(float64(longestA.Microseconds())/1e3, "longest-step-old-ms")
	b.ReportMetric(float64(longestB.Microseconds())/1e3, "longest-step-new-ms")
}

// moving is a region on its way from one engine to another.
type moving struct {
	nodes   [2]*Engine
	inbox   [2]Inbox
	row     partition.Row
	cut     time.Duration
	frozen  bool
	longest [2]time.Duration
}

func newMoving(tb testing.TB, walkers int) *moving {
	tb.Helper()
	a := crowd(tb, walkers)
	a.walkOn()
	for range 20 {
		a.step(tb, &Inbox{})
	}
	n, err := New(Config{Grid: a.grid, Session: "w-zone-1#1", Node: "w-zone-1", Ordinal: 1, Incarnation: 1})
	if err != nil {
		tb.Fatal(err)
	}
	m := &moving{nodes: [2]*Engine{a, n}}
	m.row = partition.Row{Owner: partition.Owner{Session: a.self, Node: a.cfg.Node, Epoch: 1}, Target: n.cfg.Node}
	m.inbox[1].Peers = []PeerEvent{{a.self, PeerUp}}
	m.publish(tb)
	return m
}

func (m *moving) publish(tb testing.TB) {
	tb.Helper()
	table, err := partition.NewTable(m.nodes[0].grid, []partition.Row{m.row})
	if err != nil {
		tb.Fatal(err)
	}
	m.inbox[0].Table, m.inbox[1].Table = table, table
}

// run steps both until the new owner has made a step with the region.
func (m *moving) run(tb testing.TB) {
	tb.Helper()
	for range 200 {
		for i := range m.nodes {
			m.turn(tb, i, false)
		}
		for m.frozen && m.urgent() {
			for i := range m.nodes {
				m.turn(tb, i, true)
			}
		}
		if r := m.nodes[1].sim.regions[0]; r != nil {
			m.turn(tb, 1, false)
			return
		}
	}
	tb.Fatal("the region did not arrive")
}

func (m *moving) urgent() bool {
	return len(m.inbox[0].Reliable)+len(m.inbox[1].Reliable) > 0 || m.inbox[0].Table != nil || m.inbox[1].Table != nil
}

// turn lets a node make a step, or take in what is urgent.
func (m *moving) turn(tb testing.TB, i int, between bool) {
	tb.Helper()
	e, in := m.nodes[i], m.inbox[i]
	in.Boot, in.Deadline = e.due, e.due+time.Minute
	wasStill := m.still()
	kept := Inbox{}
	if between {
		kept.Replication, in.Replication = in.Replication, nil
	}
	m.inbox[i] = kept
	began := time.Now()
	var out *Outbox
	if between {
		out = e.Between(&in)
	} else {
		out = e.Step(&in)
	}
	took := time.Since(began)
	m.longest[i] = max(m.longest[i], took)
	if wasStill || m.still() {
		m.frozen = true
	}
	if m.frozen {
		m.cut += took
	}
	other := &m.inbox[1-i]
	for _, x := range out.Reliable {
		if x.Session == m.nodes[1-i].self {
			other.Reliable = append(other.Reliable, PeerBytes{Session: e.self, Bytes: x.Bytes})
		}
	}
	for _, x := range out.Replication {
		if x.Session == m.nodes[1-i].self {
			other.Replication = append(other.Replication, PeerBytes{Session: e.self, Bytes: x.Bytes})
		}
	}
	for _, r := range out.Commits {
		m.row.Owner, m.row.Stage = partition.Owner{Session: r.To, Node: m.row.Target, Epoch: r.Epoch + 1}, r.Stage
		m.publish(tb)
	}
}

func (m *moving) still() bool {
	r := m.nodes[0].sim.regions[0]
	return r != nil && r.still()
}

func TestARegionMovesWithAllThatIsAtHomeInIt(t *testing.T) {
	m := newMoving(t, 200)
	m.run(t)
	if n := len(m.nodes[1].sim.homed(torus.RegionPos{})); n != 200 {
		t.Errorf("%d of 200 entities arrived", n)
	}
	if n := len(m.nodes[0].sim.homed(torus.RegionPos{})); n != 0 {
		t.Errorf("%d entities stayed", n)
	}
}
