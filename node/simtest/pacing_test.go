package simtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// pacer is a player who walks to and fro between two places, and turns where it arrives.
type pacer struct {
	*Client
	ends [2]torus.Pos
	to   int
}

// stroll is how somebody paces over a border: the middle of its way lies so many metres beyond the border, its ends
// so many before and behind the middle.
type stroll struct {
	beyond, swing int64
	bestias       int
}

// gangway is a border that is paced over: a place on it, and the direction across.
type gangway struct {
	name   string
	at     torus.Pos
	dx, dy int64
}

// gangways are those of a world of 2 x 2 regions of 480 m.
var gangways = []gangway{
	{"border", torus.Pos{X: 480, Y: 240}, 1, 0},
	{"border from the other side", torus.Pos{X: 240, Y: 480}, 0, -1},
	{"corner", torus.Pos{X: 480, Y: 480}, 1, 1},
	{"other diagonal of the corner", torus.Pos{X: 480, Y: 480}, -1, 1},
	{"seam", torus.Pos{X: 0, Y: 240}, 1, 0},
	{"corner on the seam", torus.Pos{X: 0, Y: 0}, -1, -1},
	{"border that ends in the seam", torus.Pos{X: 480, Y: 0}, 1, 1},
}

// pacing is a world of pacers, and what crossings of theirs were real.
type pacing struct {
	*Cluster
	t       *testing.T
	pacers  []*pacer
	strides map[ecs.EntityID]*stride
}

// stride follows one entity by its positions alone: its home is where it was last found beyond the strip around the
// home before.
type stride struct {
	home      torus.RegionPos
	crossings uint32
	handed    uint32 // entity epoch at the start
	transfers uint32
}

// newPacing puts everybody who strolls over every gangway into a world; the first half of them starts behind the border.
func newPacing(t *testing.T, nodes int, strolls []stroll) *pacing {
	t.Helper()
	o := Options{Columns: 2, Rows: 2, RegionEdgeChunks: 15, Nodes: nodes}
	g, err := torus.NewGrid(o.Columns, o.Rows, o.RegionEdgeChunks)
	if err != nil {
		t.Fatal(err)
	}
	p := &pacing{t: t, strides: map[ecs.EntityID]*stride{}}
	for _, w := range gangways {
		for i, s := range strolls {
			place := func(m int64) torus.Pos { return g.Add(w.at, m*w.dx, m*w.dy) }
			c := &pacer{ends: [2]torus.Pos{place(s.beyond - s.swing), place(s.beyond + s.swing)}, to: i % 2}
			p.pacers = append(p.pacers, c)
			if s.bestias > 0 {
				records, err := stock(g, uint64(len(p.pacers)), s.bestias, c.ends[1-c.to])
				if err != nil {
					t.Fatal(err)
				}
				o.Records = append(o.Records, records...)
			}
		}
	}
	p.Cluster = start(t, o)
	for i, c := range p.pacers {
		c.Client = p.Login(p.Nodes[i%nodes], uint64(i+1), &c.ends[1-c.to])
	}
	for _, c := range p.pacers {
		until(t, p.Cluster, 600, "all are in the world", settled(c.Client))
	}
	return p
}

// pace lets everybody pace for a minute of virtual time and follows all entities.
func (p *pacing) pace() {
	p.t.Helper()
	for range int(time.Minute / zone.TickDuration) {
		for _, c := range p.pacers {
			if at := c.At(c.Own(), c.Tick); c.Unanswered() == 0 && c.Own().Walk.Standing() {
				if at == c.ends[c.to] {
					c.to = 1 - c.to
				}
				p.WalkTo(c.Client, c.ends[c.to])
			}
		}
		run(p.t, p.Cluster, 1)
		for _, n := range p.Nodes {
			n.Engine.EachEntity(p.follow)
		}
	}
}

func (p *pacing) follow(e zone.Entity) {
	if !e.Acting {
		return
	}
	s := p.strides[e.ID]
	if s == nil {
		s = &stride{home: e.Home, handed: e.Epoch.Transfers}
		p.strides[e.ID] = s
	}
	s.transfers = e.Epoch.Transfers - s.handed
	if max(p.outside(e.At.X, s.home.Column, p.Grid.SizeX()), p.outside(e.At.Y, s.home.Row, p.Grid.SizeY())) > torus.ChunkEdge {
		s.home = p.Grid.RegionOf(e.At)
		s.crossings++
	}
}

// outside is how many metres a coordinate lies outside a region, on one axis of the torus.
func (p *pacing) outside(v int64, region int32, size int64) int64 {
	edge := int64(p.Grid.RegionEdgeChunks()) * torus.ChunkEdge
	offset := (v - int64(region)*edge + size) % size
	if offset < edge {
		return 0
	}
	return min(offset-edge+1, size-offset)
}

// handoffs are those that the nodes counted.
func (p *pacing) handoffs() uint64 {
	return p.Stats(func(s zone.Stats) uint64 { return s.Handoffs + s.HandoffsLocal })
}

func (p *pacing) crossings() (sum uint64) {
	for _, s := range p.strides {
		sum += uint64(s.crossings)
	}
	return sum
}

func eachOnOneAndOnFour(t *testing.T, test func(t *testing.T, nodes int)) {
	for _, nodes := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) { test(t, nodes) })
	}
}

// TestPacingInsideTheOverhangHandsNobodyOver: who never leaves the strip around its home region stays at home, however
// often it walks over the border itself. Bestias walk 3 m beside their master.
func TestPacingInsideTheOverhangHandsNobodyOver(t *testing.T) {
	eachOnOneAndOnFour(t, func(t *testing.T, nodes int) {
		p := newPacing(t, nodes, []stroll{{swing: 1}, {swing: 2}, {swing: 4, bestias: 3}, {swing: 15}, {beyond: 1, swing: 27, bestias: 3}, {beyond: -1, swing: 27}})
		before := p.handoffs()
		p.pace()
		if n := p.handoffs() - before; n > 0 || p.crossings() > 0 {
			t.Errorf("%d handoffs and %d real crossings, want none", n, p.crossings())
		}
	})
}

// TestPacingBeyondTheOverhangCostsAtMostTwoHandoffsACrossing: a crossing is real when the entity leaves the strip around
// its home. One handoff does; a second is what a corner may cost that is left again in the middle of the first.
func TestPacingBeyondTheOverhangCostsAtMostTwoHandoffsACrossing(t *testing.T) {
	eachOnOneAndOnFour(t, func(t *testing.T, nodes int) {
		p := newPacing(t, nodes, []stroll{{swing: 34}, {swing: 36, bestias: 3}, {swing: 48}, {beyond: 33, swing: 2}, {beyond: -33, swing: 3, bestias: 3}, {beyond: 20, swing: 40}})
		before := p.handoffs()
		p.pace()
		n, crossings := p.handoffs()-before, p.crossings()
		if t.Logf("%d handoffs in %d real crossings", n, crossings); n > 2*crossings {
			t.Errorf("%d handoffs in %d real crossings", n, crossings)
		}
		if least := uint64(2 * len(p.pacers)); crossings < least {
			t.Errorf("%d real crossings, want at least %d to say anything", crossings, least)
		}
		for id, s := range p.strides {
			if s.transfers > 2*s.crossings || s.transfers+1 < s.crossings {
				t.Errorf("entity %v was handed over %d times in %d real crossings", id, s.transfers, s.crossings)
			}
		}
	})
}
