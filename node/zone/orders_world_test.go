package zone

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/ghost"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// A stage is a world of 2 x 2 regions around one corner. A walker is handed over from the first region to the second and on
// to the fourth; a watcher stands in the third, behind some node.

const (
	walker      = ecs.EntityID(77)
	watcher     = uint64(2)
	stageEdge   = 16
	stageBorder = stageEdge * torus.ChunkEdge
)

type stage struct {
	t      testing.TB
	grid   torus.Grid
	table  *partition.Table
	actors []*actor
	now    time.Duration
	tick   int
	said   int
	quiet  bool // the walker says nothing more
	whole  bool // the watcher is there from the beginning, and no link breaks
	// delay is how many ticks a replication batch that is sent in a tick is late; nil: none is.
	delay  func(from, to string, tick int) int
	before func() // each step
	// broken is the link that is down, and until when.
	broken [2]string
	mended int
}

// actor is a node on the stage.
type actor struct {
	session string
	e       *Engine
	in      Inbox
	mail    []sent
	kept    []PeerBytes   // reliable messages that wait for a link
	model   *client.Model // of the watcher, where its gateway is
	read    []Inbox       // what it read, tick by tick
}

// sent is a replication batch on its way.
type sent struct {
	due   int
	batch PeerBytes
}

// newStage returns a stage whose regions are held by the nodes named, in the order of the regions. The watcher logs in at
// the gateway.
func newStage(t testing.TB, holders [4]string, gateway string) *stage {
	t.Helper()
	g, err := torus.NewGrid(2, 2, stageEdge)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, grid: g, now: time.Second}
	rows := make([]partition.Row, len(holders))
	for i, h := range holders {
		rows[i] = partition.Row{Owner: partition.Owner{Session: h, Node: h, Epoch: 1}}
	}
	if s.table, err = partition.NewTable(g, rows); err != nil {
		t.Fatal(err)
	}
	names := append(slices.Clone(holders[:]), gateway)
	slices.Sort(names)
	names = slices.Compact(names)
	for i, name := range names {
		a := s.newActor(name, i)
		for _, peer := range names {
			if peer != name {
				a.in.Peers = append(a.in.Peers, PeerEvent{peer, PeerUp})
			}
		}
		a.in.Table = s.table
		s.actors = append(s.actors, a)
	}
	at := torus.Pos{X: stageBorder - 10, Y: stageBorder + 20}
	w := s.actor(gateway)
	w.model = &client.Model{}
	w.in.Clients = []ClientEvent{{Conn: 1, Connected: &ClientConnected{Account: watcher, Name: "watcher", Spawn: &at, FreshSecret: "secret"}}}
	return s
}

func (s *stage) newActor(session string, ordinal int) *actor {
	e, err := New(Config{Grid: s.grid, Session: session, Node: session, Ordinal: ordinal, Incarnation: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	return &actor{session: session, e: e}
}

func (s *stage) actor(session string) *actor {
	for _, a := range s.actors {
		if a.session == session {
			return a
		}
	}
	return nil
}

// enter puts the walker on the stage, at home in the first region. It walks in the one chunk that is in the overhang of all.
func (s *stage) enter() {
	e := s.actors[0].e
	if err := e.sim.world.Create(walker); err != nil {
		s.t.Fatal(err)
	}
	at := torus.Pos{X: stageBorder + 4, Y: stageBorder + 4}
	e.sim.game.SpawnMaster(walker, 1, "walker", at)
	p := e.sim.game.Path.Get(walker)
	p.Speed = motion.DefaultSpeed * 3 / 4                                 // slow enough for the longest delay: a client allows client.Slack metres
	p.Waypoints = []torus.Pos{s.grid.Add(at, 8, 0), s.grid.Add(at, 8, 8)} // 5 s
	e.sim.adopt(walker, ecs.Epoch{}, torus.RegionPos{}, false)
}

// cross hands the walker over to a region, as if it had left its overhang.
func (s *stage) cross(region int) {
	owner := s.owner()
	if owner == nil {
		s.t.Fatal("the walker is on its way already")
	}
	sent := len(owner.out.Reliable)
	at := owner.sim.game.Position.Get(walker).At
	owner.sim.offer(walker, owner.sim.authority.Get(walker), region, s.table.At(region).Session, at)
	s.collect(s.actor(owner.self), &Outbox{Reliable: owner.out.Reliable[sent:]}) // between two steps
}

// step is one tick of all nodes. What is sent in it arrives in the next one.
func (s *stage) step() {
	if s.before != nil {
		s.before()
	}
	s.tick++
	s.now += TickDuration
	if owner := s.owner(); owner != nil && !s.quiet && s.tick%2 == 0 {
		s.said++
		owner.sim.game.Act(walker, &wire.Input{Action: &wire.Input_Say{Say: &wire.Say{Text: fmt.Sprint(s.said)}}})
	}
	if s.tick == s.mended {
		s.mend()
	}
	outs := make([]*Outbox, len(s.actors))
	for i, a := range s.actors {
		s.arrive(a)
		a.read = append(a.read, a.in)
		a.in = Inbox{}
		outs[i] = a.step(s.t, s.now, &a.read[len(a.read)-1])
	}
	for i, a := range s.actors {
		s.collect(a, outs[i])
	}
}

// arrive moves the batches that are due into a node's inbox, in order per sender.
func (s *stage) arrive(a *actor) {
	waits := map[string]bool{}
	kept := a.mail[:0]
	for _, m := range a.mail {
		if waits[m.batch.Session] || m.due > s.tick {
			waits[m.batch.Session] = true
			kept = append(kept, m)
			continue
		}
		a.in.Replication = append(a.in.Replication, m.batch)
	}
	a.mail = kept
}

// step makes one step of a node and tells its watcher.
func (a *actor) step(t testing.TB, now time.Duration, in *Inbox) *Outbox {
	in.Boot, in.Deadline, in.WallMillis = now, now+time.Minute, ecs.IDEpochMillis+now.Milliseconds()
	out := a.e.Step(in)
	for _, b := range out.Clients {
		if err := a.model.Receive(b.Bytes); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (s *stage) collect(a *actor, out *Outbox) {
	for _, b := range out.Replication {
		if s.isBroken(a.session, b.Session) {
			continue
		}
		due := s.tick + 1
		if s.delay != nil {
			due += s.delay(a.session, b.Session, s.tick)
		}
		to := s.actor(b.Session)
		to.mail = append(to.mail, sent{due, PeerBytes{Session: a.session, Bytes: b.Bytes}})
	}
	for _, b := range out.Reliable {
		to := s.actor(b.Session)
		m := PeerBytes{Session: a.session, Bytes: b.Bytes}
		if s.isBroken(a.session, b.Session) {
			to.kept = append(to.kept, m)
			continue
		}
		to.in.Reliable = append(to.in.Reliable, m)
	}
	for _, r := range out.Store {
		record := r.Record
		a.in.Store = append(a.in.Store, StoreAnswer{ID: r.ID, Op: r.Op, Code: StoreOK, SessionEpoch: 1, LoginEpoch: 1, Record: onlyClaimed(r, &record)})
	}
	for _, r := range out.Chunks {
		a.in.Chunks = append(a.in.Chunks, ChunkAnswer{Chunk: r.Chunk, Encoding: wire.ChunkData_ENCODING_RLE, Payload: []byte{1}})
	}
	if a.model == nil {
		return
	}
	if wanted := a.model.TakeWanted(); len(wanted) > 0 {
		m := &wire.ChunkRequest{}
		for _, c := range wanted {
			m.Chunks = append(m.Chunks, uint32(c.X), uint32(c.Y))
		}
		a.in.Clients = append(a.in.Clients, ClientEvent{Conn: 1, Message: &wire.ClientEnvelope{Message: &wire.ClientEnvelope_ChunkRequest{ChunkRequest: m}}})
	}
}

// cut breaks the link of two nodes for so many ticks: the replication under way is lost, reliable messages wait.
func (s *stage) cut(x, y string, ticks int) {
	s.broken, s.mended = [2]string{x, y}, s.tick+ticks
	for i, name := range s.broken {
		a, other := s.actor(name), s.broken[1-i]
		a.mail = slices.DeleteFunc(a.mail, func(m sent) bool { return m.batch.Session == other })
		a.in.Peers = append(a.in.Peers, PeerEvent{other, PeerDown})
	}
}

func (s *stage) mend() {
	for i, name := range s.broken {
		a := s.actor(name)
		a.in.Peers = append(a.in.Peers, PeerEvent{s.broken[1-i], PeerUp})
		a.in.Reliable, a.kept = append(a.in.Reliable, a.kept...), nil
	}
	s.broken = [2]string{}
}

func (s *stage) isBroken(x, y string) bool {
	return s.broken == [2]string{x, y} || s.broken == [2]string{y, x}
}

func onlyClaimed(r StoreRequest, record *Record) *Record {
	if r.Op == StoreClaim {
		return record
	}
	return nil
}

// owner is the node that simulates the walker now, nil while it is frozen or on its way.
func (s *stage) owner() *Engine {
	for _, a := range s.actors {
		if a.e.sim.world.Alive(walker) && a.e.sim.world.Owned(walker) {
			return a.e
		}
	}
	return nil
}

// group is a run of batches of one sender that the observer gets in one tick.
type group struct {
	from    string
	first   int // tick in which the first one arrives, if nothing is late
	last    int
	batches []PeerBytes
}

func (g group) String() string {
	text := fmt.Sprintf("%s, ticks %d to %d:", g.from, g.first, g.last)
	for _, b := range g.batches {
		text += describe(b.Bytes)
	}
	return text
}

// describe lists what a batch says of the walker.
func describe(batch []byte) (text string) {
	var f ghost.Frame
	_ = ghost.EachField(batch, func(num protowire.Number, _ uint64, body []byte) error {
		switch {
		case num == batchSnapshots:
			text += " mark"
		case num == batchFrames && f.Decode(body) == nil && f.Entity == walker:
			text += fmt.Sprintf(" %v %d.%d", f.Kind, f.Epoch.Recoveries, f.Epoch.Transfers)
		}
		return nil
	})
	return text
}
