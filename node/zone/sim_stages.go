package zone

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/partition"
)

// A region that moves, at the node that it is ordered to. What comes of it is staged beside the world, and becomes part of it when
// the region's Lease names this node with that very stage; a stage without that is nothing. The entities are then what they are
// after an offer was taken: simulated at once, unsaved until their records are claimed. Decoding waits until then, too: it costs
// less than a tick for two thousand entities, and what was replaced meanwhile is never decoded.

const (
	// maxStages bounds the regions that come to a node at the same time, maxStageBytes what one may hold.
	maxStages, maxStageBytes = 64, 256 << 20
	// stagePatience is after how long an unfinished stage is forgotten of which nothing is heard: 30 s.
	stagePatience = 30 * TicksPerSecond
	// inheritTicks is for how long a region is served to who observed it before, unless they ask for it themselves: 10 s.
	inheritTicks = 10 * TicksPerSecond
)

// stages are the regions that are on their way here, by index.
type stages struct {
	by        map[int]*stagedRegion
	made      uint64 // stages named by this node
	inherited []inherited
	guests    map[burst]bool        // of those: who has not asked by itself yet
	foreseen  map[int]partition.Row // regions that went to another node, which has said so before the table did
}

// stagedRegion is one of them.
type stagedRegion struct {
	name, from string
	received   uint32
	size       int
	entities   map[ecs.EntityID]*wire.MovedEntity
	ground     []*wire.MovedItem
	observers  []*wire.MovedObserver
	results    []*wire.MovedResult
	cut        *wire.MoveCut // nil: there is more to come
	completed  bool
	heard      int64 // the tick of the last part
}

// inherited are chunks that a node observed at the owner before.
type inherited struct {
	session string
	chunks  []uint64
	until   int64
}

// movePrepared makes a stage for a region that is ordered here.
func (s *sim) movePrepared(from string, m *wire.MovePrepare) {
	if int64(m.Region) >= int64(len(s.regions)) || m.Stage == "" {
		s.stats.Malformed++
		return
	}
	index := int(m.Region)
	row, st := s.table.Row(index), s.stages.by[index]
	answer := &wire.MoveAnswer{Region: m.Region, Stage: m.Stage, Code: wire.MoveAnswer_CODE_TAKEN}
	switch {
	case st != nil && st.name == m.Stage && st.from == from:
		answer.Received = st.received
	case row.Target != s.cfg.Node:
		answer.Code, answer.Reason = wire.MoveAnswer_CODE_REFUSED, "the region is not ordered here"
	case row.Session != from:
		answer.Code, answer.Reason = wire.MoveAnswer_CODE_REFUSED, "the region is another's"
	case s.stopping:
		answer.Code, answer.Reason = wire.MoveAnswer_CODE_REFUSED, "this node goes down"
	case st == nil && len(s.stages.by) >= maxStages:
		answer.Code, answer.Reason = wire.MoveAnswer_CODE_REFUSED, "too many regions are on their way here"
	default:
		s.stages.by[index] = &stagedRegion{name: m.Stage, from: from, entities: map[ecs.EntityID]*wire.MovedEntity{}, heard: s.tick}
		s.atRegion(StagePrepared, index, from)
	}
	s.answerMove(from, answer)
}

func (s *sim) answerMove(to string, a *wire.MoveAnswer) {
	s.send(to, &wire.PeerMessage{Message: &wire.PeerMessage_MoveAnswer{MoveAnswer: a}})
}

// movePart takes the next part of a stage.
func (s *sim) movePart(from string, m *wire.MovePart) {
	index := int(m.Region)
	st := s.stages.by[index]
	answer := &wire.MoveAnswer{Region: m.Region, Stage: m.Stage, Code: wire.MoveAnswer_CODE_TAKEN}
	switch {
	case st == nil || st.name != m.Stage || st.from != from:
		answer.Code, answer.Reason = wire.MoveAnswer_CODE_REFUSED, "there is no such stage"
		s.answerMove(from, answer)
		return
	case m.Number == st.received+1 && st.cut == nil:
		st.take(m)
	}
	st.heard, answer.Received = s.tick, st.received
	switch {
	case st.size > maxStageBytes || st.cut != nil && int(st.cut.Entities) != len(st.entities):
		delete(s.stages.by, index)
		answer.Code, answer.Reason = wire.MoveAnswer_CODE_REFUSED, "the stage is too large, or not whole"
	case st.cut != nil:
		answer.Code = wire.MoveAnswer_CODE_STAGED
		if !st.completed {
			st.completed = true
			s.atRegion(StageCompleted, index, from)
		}
	}
	s.answerMove(from, answer)
}

func (st *stagedRegion) take(m *wire.MovePart) {
	st.received = m.Number
	for _, e := range m.Entities {
		id := ecs.EntityID(e.Entity)
		if id == 0 {
			continue
		}
		st.size += proto.Size(e)
		if old := st.entities[id]; old != nil {
			st.size -= proto.Size(old)
		}
		st.entities[id] = e
	}
	for _, id := range m.Left {
		delete(st.entities, ecs.EntityID(id))
	}
	st.ground, st.observers, st.results = append(st.ground, m.Ground...), append(st.observers, m.Observers...), append(st.results, m.Results...)
	st.size += proto.Size(&wire.MovePart{Ground: m.Ground, Observers: m.Observers, Results: m.Results})
	st.cut = m.Cut
}

func (s *sim) moveDropped(from string, m *wire.MoveDrop) {
	if st := s.stages.by[int(m.Region)]; st != nil && st.name == m.Stage && st.from == from {
		s.dropStage(int(m.Region), st)
	}
}

func (s *sim) dropStage(index int, st *stagedRegion) {
	delete(s.stages.by, index)
	s.atRegion(StageDropped, index, st.from)
}

// forgetStages drops stages that will not be needed, and stops to serve who has not asked by itself.
func (s *sim) forgetStages() {
	if s.tick%TicksPerSecond != 0 {
		return
	}
	for _, index := range slices.Sorted(maps.Keys(s.stages.by)) {
		st, row := s.stages.by[index], s.table.Row(index)
		if row.Target != s.cfg.Node || row.Session != st.from && row.Session != s.self || st.cut == nil && s.tick-st.heard > stagePatience {
			s.dropStage(index, st)
		}
	}
	for len(s.stages.inherited) > 0 && s.stages.inherited[0].until <= s.tick {
		in := s.stages.inherited[0]
		s.stages.inherited = s.stages.inherited[1:]
		for _, chunk := range in.chunks {
			if b := (burst{in.session, chunk}); s.stages.guests[b] {
				delete(s.stages.guests, b)
				s.nodes.Remove(b.to, b.chunk)
			}
		}
	}
}

// unfold makes a staged region part of the world, if there is a stage of that name. The store follows: its fence is raised, and what
// lies on the ground is read; until then no item moves there.
func (s *sim) unfold(index int, epoch uint64, name string) bool {
	st := s.stages.by[index]
	if st == nil {
		return false
	}
	delete(s.stages.by, index)
	if st.cut == nil || name != st.name {
		s.atRegion(StageDropped, index, st.from)
		return false
	}
	r := s.newRegion(index, epoch)
	r.active = true
	s.stats.MovesIn++
	s.atRegion(StageActivated, index, st.from)
	s.serveGuests(st)
	for _, id := range slices.Sorted(maps.Keys(st.entities)) {
		s.takeMoved(id, st.entities[id], st, r)
	}
	s.unfoldGround(r, st)
	s.answerMove(st.from, &wire.MoveAnswer{Region: uint32(index), Stage: st.name, Code: wire.MoveAnswer_CODE_ACTIVATED, RegionEpoch: epoch})
	s.again(r) // who observed other regions here in the same chunks
	s.note("region %v came from %s at epoch %d, with %d entities", s.grid.RegionAt(index), st.from, epoch, len(st.entities))
	return true
}

// unfoldGround shows what lies there. How often it was written is not known until the store has said so: nothing is written before.
func (s *sim) unfoldGround(r *region, st *stagedRegion) {
	at := s.grid.RegionAt(r.index)
	for _, x := range st.ground {
		item, ok := game.ReadItem(x.Item)
		if p, there := game.Canonical(s.grid, x.At.GetX(), x.At.GetY(), x.At.GetZ()); ok && there && !s.world.Alive(ecs.EntityID(x.Entity)) {
			r.ground.Items = append(r.ground.Items, Held{item, Lying{ecs.EntityID(x.Entity), p}})
			s.lay(at, &r.ground.Items[len(r.ground.Items)-1])
		}
	}
	slices.SortFunc(r.ground.Items, func(a, b Held) int { return cmp.Compare(a.Serial, b.Serial) })
	for _, x := range st.results {
		res := &wire.OrderResult{}
		if proto.Unmarshal(x.Result, res) == nil {
			r.ground.remember(told{lateKey{x.Sender, numberOf(x.Number)}, res})
		}
	}
	s.readGround(r)
}

func (s *sim) takeMoved(id ecs.EntityID, e *wire.MovedEntity, st *stagedRegion, r *region) {
	if s.world.Alive(id) {
		return
	}
	if err := s.compose(id, e.Components); err != nil {
		s.note("entity %v, moved by %s, cannot be read: %v; it comes back from its record", id, st.from, err)
		return
	}
	expect := epochOf(e.Epoch)
	s.received(id, r)
	s.atEntity(OfferTaken, id, expect.Transferred(1), st.from)
	s.adopt(id, expect.Transferred(1), s.grid.RegionAt(r.index), s.tick-st.heard > jumpTicks) // observers have walked on what stood still
	if e.Jump != nil {
		if to, ok := game.Canonical(s.grid, e.Jump.X, e.Jump.Y, e.Jump.Z); ok {
			s.Teleport(id, to)
		}
	}
	if s.durableEntity(id) {
		s.saving.Set(id, saving{stored: s.grid.RegionAt(r.index), dirty: true, next: s.tick, source: st.from, takenAt: s.boot, cameFrom: r.index, cameAt: s.tick})
		s.claimTransferred(id, expect)
	}
}

// serveGuests goes on to tell those who observed the region at its owner before; they will ask by themselves, or are forgotten.
func (s *sim) serveGuests(st *stagedRegion) {
	for _, o := range st.observers {
		p := s.peers[o.Session]
		if p == nil || !p.up {
			continue
		}
		in := inherited{session: o.Session, until: s.tick + inheritTicks}
		for _, chunk := range o.Chunks {
			if s.checkKey(chunk) == nil && !s.nodes.Has(o.Session, chunk) && len(s.nodes.Chunks(o.Session)) < maxObserved {
				s.nodes.Add(o.Session, chunk)
				s.stages.guests[burst{o.Session, chunk}] = true
				in.chunks = append(in.chunks, chunk)
			}
		}
		if len(in.chunks) > 0 {
			s.stages.inherited = append(s.stages.inherited, in)
		}
	}
}
