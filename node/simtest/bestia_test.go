package simtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// pack is a master with five bestias on a world of two nodes, at the border between them, and somebody who watches.
type pack struct {
	*Cluster
	t       *testing.T
	master  *Client
	watcher *Client
	bestias []ecs.EntityID
}

const (
	packMaster = ecs.EntityID(1000)
	packWidth  = 40 // metres that the master walks beyond the border, further than the overhang
)

// newPack stocks the store before the first step, then the player logs in.
func newPack(t *testing.T, o Options) *pack {
	t.Helper()
	o.Columns, o.Rows, o.RegionEdgeChunks, o.Nodes = 2, 1, 15, 2
	p := &pack{Cluster: start(t, o), t: t}
	p.stock(func() torus.Pos { return torus.Pos{X: edge - packWidth, Y: 100 + 5*int64(len(p.bestias))} })
	p.master = p.Login(p.Nodes[0], 1, nil)
	p.watcher = p.Login(p.Nodes[1], 2, &torus.Pos{X: edge + 1, Y: 110})
	until(t, p.Cluster, 300, "both players are in the world", func() bool { return settled(p.master)() && settled(p.watcher)() })
	until(t, p.Cluster, 300, "the team is with its master", p.together)
	return p
}

// stock puts the master and its five bestias into the store, each at a place.
func (p *pack) stock(place func() torus.Pos) {
	p.t.Helper()
	var team []game.Member
	at := place()
	for i := range game.MaxTeam {
		id := packMaster + 1 + ecs.EntityID(i)
		rec, err := zone.BestiaRecord(p.Grid, id, packMaster, 1, fmt.Sprintf("bestia %d", i), place())
		p.put(rec, err)
		p.bestias = append(p.bestias, id)
		team = append(team, game.Member{Bestia: id}) // where it is at home is found out
	}
	p.put(zone.MasterRecord(p.Grid, packMaster, 1, "master", at, team...))
}

func (p *pack) put(rec zone.Record, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	if a := p.Store.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: rec}); a.Code != zone.StoreOK {
		p.t.Fatalf("storing %v: %v", rec.Entity, a.Code)
	}
}

// entity is the copy that somebody acts for.
func (p *pack) entity(id ecs.EntityID) (found zone.Entity, ok bool) {
	for _, n := range p.Nodes {
		if n.Engine == nil {
			continue
		}
		for _, e := range n.Engine.Entities() {
			if e.ID == id && e.Acting {
				return e, true
			}
		}
	}
	return found, false
}

// together reports whether all bestias stand within 10 m of their master.
func (p *pack) together() bool {
	m, ok := p.entity(packMaster)
	for _, id := range p.bestias {
		b, found := p.entity(id)
		ok = ok && found && p.Grid.Chebyshev(m.At, b.At) <= 10
	}
	return ok
}

// cross lets the master walk over the border and, if it can, its team after it.
func (p *pack) cross(crossing int) {
	p.t.Helper()
	x := edge + packWidth
	if crossing%2 == 1 {
		x = edge - packWidth
	}
	p.WalkTo(p.master, torus.Pos{X: x, Y: 100})
	run(p.t, p.Cluster, 2*packWidth*5+15)
}

// settle waits until the team is together and nothing is open any more.
func (p *pack) settle() {
	p.t.Helper()
	until(p.t, p.Cluster, 2000, "the team is with its master, and all commands are answered", func() bool {
		return p.together() && p.Stats(func(s zone.Stats) uint64 { return uint64(s.CommandsOpen) }) == 0
	})
	for _, cl := range []*Client{p.master, p.watcher} {
		for _, id := range append([]ecs.EntityID{packMaster}, p.bestias...) {
			if cl.Entities[id] == nil {
				p.t.Errorf("account %d does not see entity %v", cl.Account, id)
			}
		}
	}
}

// eachOnce checks that what was commanded was executed, each command once.
func (p *pack) eachOnce() {
	p.t.Helper()
	made := p.Stats(func(s zone.Stats) uint64 { return s.CommandsMade })
	done := p.Stats(func(s zone.Stats) uint64 { return s.CommandsDone })
	lost := p.Stats(func(s zone.Stats) uint64 { return s.CommandsRefused + s.CommandsGivenUp })
	p.t.Logf("%d commands, %d executed, %d repeats; waited or moved %d times", made, done,
		p.Stats(func(s zone.Stats) uint64 { return s.CommandsRepeated }), p.Stats(func(s zone.Stats) uint64 { return s.CommandsElsewhere }))
	if made != done || lost > 0 {
		p.t.Errorf("of %d commands %d were executed, %d were refused or given up", made, done, lost)
	}
}

// TestBestiasFollowTheirMasterOverABorder, two hundred times, and nobody who looks on sees one blink.
func TestBestiasFollowTheirMasterOverABorder(t *testing.T) {
	const crossings = 200
	p := newPack(t, Options{})
	for i := range crossings {
		p.cross(i)
	}
	p.settle()
	p.eachOnce()
	for _, id := range append([]ecs.EntityID{packMaster}, p.bestias...) {
		if e, _ := p.entity(id); e.Epoch.Transfers < crossings-5 || e.Epoch.Transfers > crossings+5 {
			t.Errorf("entity %v was handed over %d times in %d crossings", id, e.Epoch.Transfers, crossings)
		}
	}
}

// TestBestiasFollowOverALinkThatBreaks: the link between the two nodes is cut while some of the team are over the border and
// some are not; the master goes on giving orders.
func TestBestiasFollowOverALinkThatBreaks(t *testing.T) {
	p := newPack(t, Options{LinkDelay: 120 * time.Millisecond})
	for i := range int64(16) {
		p.cross(0)
		p.WalkTo(p.master, torus.Pos{X: edge - packWidth, Y: 100})
		run(t, p.Cluster, 345+2*int(i))
		p.Cut(p.Nodes[0], p.Nodes[1])
		for n := range i {
			p.WalkTo(p.master, torus.Pos{X: edge - packWidth - i, Y: 100 + n%2})
			run(t, p.Cluster, 9)
		}
		p.Mend(p.Nodes[0], p.Nodes[1])
		run(t, p.Cluster, 500)
	}
	p.settle()
	p.eachOnce()
	if p.Stats(func(s zone.Stats) uint64 { return s.CommandsRepeated }) == 0 {
		t.Error("no command was ever sent twice")
	}
}

// TestOpenCommandsAreSentOnByTheNextOwner: the master calls a bestia that its node has no link to, and is handed over to
// one that has.
func TestOpenCommandsAreSentOnByTheNextOwner(t *testing.T) {
	p := &pack{Cluster: start(t, Options{Columns: 3, Rows: 1, RegionEdgeChunks: 15, Nodes: 3}), t: t}
	id, at := packMaster+1, torus.Pos{X: edge - 20, Y: 100}
	rec, err := zone.BestiaRecord(p.Grid, id, packMaster, 1, "bestia", torus.Pos{X: 2*edge + 150, Y: 100})
	p.put(rec, err)
	p.put(zone.MasterRecord(p.Grid, packMaster, 1, "master", at, game.Member{Bestia: id, Home: 2}))
	p.bestias = []ecs.EntityID{id}
	until(t, p.Cluster, 100, "the bestia is in the world", func() bool { _, found := p.entity(id); return found })
	p.Cut(p.Nodes[0], p.Nodes[2])
	p.master = p.Login(p.Nodes[1], 1, nil)
	until(t, p.Cluster, 300, "the player is in the world", settled(p.master))
	p.WalkTo(p.master, torus.Pos{X: edge + packWidth, Y: 100})
	run(t, p.Cluster, 100)
	if p.Nodes[0].Engine.Stats().CommandsOpen == 0 {
		t.Fatal("no command is open at the first owner")
	}
	until(t, p.Cluster, 6000, "the bestia is with its master", p.together)
	if first, second := p.Nodes[0].Engine.Stats(), p.Nodes[1].Engine.Stats(); first.CommandsMade == 0 || first.CommandsAnswered > 0 || second.CommandsAnswered <= second.CommandsMade {
		t.Errorf("the first owner made %d commands and got %d answers, the second made %d and got %d",
			first.CommandsMade, first.CommandsAnswered, second.CommandsMade, second.CommandsAnswered)
	}
}

// TestBestiasFollowAfterTheirNodeDied: what the store had goes on, at most 5 s old, and finds its master again.
func TestBestiasFollowAfterTheirNodeDied(t *testing.T) {
	for _, ticks := range []int{20, 190, 250, 400} {
		t.Run(fmt.Sprintf("%d ticks on the way", ticks), func(t *testing.T) {
			p := newPack(t, Options{})
			for i := range 3 {
				p.cross(i)
			}
			p.WalkTo(p.master, torus.Pos{X: edge - packWidth, Y: 100})
			run(t, p.Cluster, ticks)
			dead := p.Nodes[1]
			p.Kill(dead)
			run(t, p.Cluster, 100)
			session := dead.Session()
			if err := p.Start(dead); err != nil {
				t.Fatal(err)
			}
			p.Revoke(session, p.Nodes[0])
			run(t, p.Cluster, 200)
			until(t, p.Cluster, 200, "the player goes on", func() bool { return p.master.Complete && p.master.Own() != nil })
			p.Resume(p.watcher, p.Nodes[0])
			until(t, p.Cluster, 200, "the watcher is back", func() bool { return p.watcher.Complete && p.watcher.Own() != nil })
			p.cross(0)
			p.cross(1)
			p.settle()
		})
	}
}
