package zone

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// removal is a region of the largest kind that is ordered from one node to another. The test is store, link and API server.
type removal struct {
	t        *testing.T
	from, to *Engine
	rows     []partition.Row
	in       map[*Engine]*Inbox
	// lose says of a message whether the link refuses it; nil: none is.
	lose    func(m *wire.PeerMessage) bool
	largest int
	commits []CommitRequest
	notes   []string
}

func newRemoval(t *testing.T) *removal {
	t.Helper()
	g, err := torus.NewGrid(2, 1, 250)
	if err != nil {
		t.Fatal(err)
	}
	r := &removal{t: t, in: map[*Engine]*Inbox{}, rows: []partition.Row{
		{Owner: partition.Owner{Session: "w-zone-0#1", Node: "w-zone-0", Epoch: 1}},
		{Owner: partition.Owner{Session: neighbour, Node: "w-zone-1", Epoch: 1}},
	}}
	for i, e := range []**Engine{&r.from, &r.to} {
		owner := r.rows[i].Owner
		if *e, err = New(Config{Grid: g, Session: owner.Session, Node: owner.Node, Ordinal: i, Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		r.in[*e] = &Inbox{Peers: []PeerEvent{{r.rows[1-i].Session, PeerUp}}}
	}
	r.table()
	r.run(8)
	return r
}

// table shows the rows to both.
func (r *removal) table() {
	r.t.Helper()
	table, err := partition.NewTable(r.from.grid, r.rows)
	if err != nil {
		r.t.Fatal(err)
	}
	r.in[r.from].Table, r.in[r.to].Table = table, table
}

// order lets the first region move to the second node.
func (r *removal) order() {
	r.rows[0].Target = "w-zone-1"
	r.table()
}

// commit hands its Lease over.
func (r *removal) commit() {
	c := r.commits[0]
	r.rows[0].Owner, r.rows[0].Stage = partition.Owner{Session: c.To, Node: "w-zone-1", Epoch: c.Epoch + 1}, c.Stage
	r.table()
}

func (r *removal) run(ticks int64) {
	r.t.Helper()
	for range ticks {
		r.step(r.from, r.to)
		r.step(r.to, r.from)
	}
}

func (r *removal) step(e, other *Engine) {
	r.t.Helper()
	in := r.in[e]
	r.in[e] = &Inbox{}
	out := e.step(r.t, in)
	for _, q := range out.Store {
		r.in[e].Store = append(r.in[e].Store, StoreAnswer{ID: q.ID, Op: q.Op, Code: StoreOK, Record: onlyClaimed(q, &q.Record)})
	}
	for _, b := range out.Reliable {
		m := &wire.PeerMessage{}
		if err := proto.Unmarshal(b.Bytes, m); err != nil {
			r.t.Fatal(err)
		}
		r.largest = max(r.largest, len(b.Bytes))
		if r.lose == nil || !r.lose(m) {
			r.in[other].Reliable = append(r.in[other].Reliable, PeerBytes{Session: e.self, Bytes: b.Bytes})
		}
	}
	for _, b := range out.Replication {
		r.in[other].Replication = append(r.in[other].Replication, PeerBytes{Session: e.self, Bytes: b.Bytes})
	}
	r.commits = append(r.commits, out.Commits...)
	r.notes = append(r.notes, out.Notes...)
}

// inhabit puts masters in the region, each with so many bytes of components that this version does not know.
func (r *removal) inhabit(masters, bulk int) {
	r.t.Helper()
	s := r.from.sim
	for i := range masters {
		id := ecs.EntityID(i + 1)
		if err := s.world.Create(id); err != nil {
			r.t.Fatal(err)
		}
		s.game.SpawnMaster(id, uint64(id), "walker", torus.Pos{X: int64(100 + i), Y: 100})
		s.foreign.Set(id, foreign{[]*wire.ComponentBlob{{Component: "of tomorrow", Data: bytes.Repeat([]byte{1}, bulk)}}})
		s.adopt(id, ecs.Epoch{}, torus.RegionPos{}, false)
		s.saving.Set(id, saving{claimed: true})
	}
}

// linkMessage is what a link takes at most.
const linkMessage = 1 << 20

func TestAMoveOfAnyRegionFitsTheLink(t *testing.T) {
	r := newRemoval(t)
	r.inhabit(40, 60<<10)
	for _, observer := range []string{neighbour, "w-zone-2#1", "w-zone-3#1", "w-zone-4#1", "w-zone-5#1", "w-zone-6#1"} {
		r.from.peer(observer).up = true
		for y := range int32(250) {
			for x := range int32(250) {
				r.from.sim.nodes.Add(observer, r.from.grid.ChunkKey(torus.ChunkPos{X: x, Y: y}))
			}
		}
	}
	r.order()
	for range 10 * TicksPerSecond {
		if r.run(1); len(r.commits) > 0 {
			break
		}
	}
	if r.largest > linkMessage || len(r.commits) == 0 {
		t.Fatalf("the largest message has %d bytes, %d commits, noted %q", r.largest, len(r.commits), r.notes)
	}
	r.commit()
	r.run(2)
	if n, chunks := len(r.to.sim.homed(torus.RegionPos{})), len(r.to.sim.nodes.Chunks("w-zone-3#1")); n != 40 || chunks != 0 {
		t.Errorf("%d entities came, %d chunks are served to who is not linked there", n, chunks)
	}
	if n := len(r.to.sim.stages.by); n > 0 {
		t.Errorf("%d stages are left", n)
	}
}

// A link that was full has refused parts, or their answers.
func TestAMoveGoesOnWhenPartsAndAnswersAreLost(t *testing.T) {
	r := newRemoval(t)
	r.inhabit(300, 10)
	lost := 0
	r.lose = func(m *wire.PeerMessage) bool {
		n := m.GetMovePart().GetNumber()
		if (n == 2 || n == 3 || m.GetMoveAnswer().GetReceived() >= 4) && lost < 12 {
			lost++
			return true
		}
		return false
	}
	r.order()
	r.run(5 * TicksPerSecond)
	if lost == 0 || len(r.commits) == 0 {
		t.Errorf("%d messages are lost, %d commits, noted %q", lost, len(r.commits), r.notes)
	}
}

func TestAMoveOfWhichNothingIsTakenIsGivenUp(t *testing.T) {
	r := newRemoval(t)
	r.inhabit(300, 10)
	r.lose = func(m *wire.PeerMessage) bool { return m.GetMovePart() != nil }
	r.order()
	r.run(copyPatience / 2)
	if r.from.stats.MovesAborted > 0 {
		t.Errorf("given up too early: %q", r.notes)
	}
	r.run(copyPatience/2 + 10)
	if r.from.stats.MovesAborted != 1 {
		t.Errorf("given up %d times after %v: %q", r.from.stats.MovesAborted, time.Duration(copyPatience)*TickDuration, r.notes)
	}
}
