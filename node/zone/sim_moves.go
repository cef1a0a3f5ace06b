package zone

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/partition"
)

// A region that moves, at the node that has it. Ordered to another node, it is copied there while it goes on; then nothing new is
// begun that would have to be waited for (draining), then all that is at home in it is frozen at once, the rest of the copy is sent
// (the cut), and when the other node has staged it, one write of the region's Lease hands it over (the commit). The table decides
// what came of it: if it names the other node with this stage, everything here is what it is after an accepted handoff, kept until
// it is durable there. Before the commit every failure ends in the thaw, and nothing has happened. Once it is asked for, only its
// outcome counts: a write that was not answered is settled by another write, never by a read.

const (
	// maxMoves bounds the regions that leave a node at the same time.
	maxMoves = 8
	// movePartsPerTick is how many parts a tick makes for all moves, up to the cut.
	movePartsPerTick = 2
	// moveRounds is how often what changed since is copied before the cut; with fewChanges it is not worth another round.
	moveRounds, fewChanges = 3, movePartEntities
	// How long the other node may take to answer, or to take a part, the region to come to rest, and the cut until it is staged: 5, 10,
	// 5 and 1 s.
	preparePatience, copyPatience, drainPatience, cutPatience = 5 * TicksPerSecond, 10 * TicksPerSecond, 5 * TicksPerSecond, TicksPerSecond
	// moveBackOffTicks is after how long a move that came to nothing is tried again: 2 s.
	moveBackOffTicks = 2 * TicksPerSecond
	// cutBudget is how long the last renewal may have taken: with a slower API server the region would stand still for too long.
	cutBudget = 100 * time.Millisecond
)

type movePhase uint8

const (
	movePreparing  movePhase = iota // the other node makes a stage
	moveCopying                     // the region goes on
	moveDraining                    // it goes on, but for what would have to be waited for
	moveCut                         // it is frozen, all of it is sent
	moveCommitting                  // the Lease is being written
)

// move is a region on its way to another node.
type move struct {
	to, stage string
	node      string // of to
	phase     movePhase
	since     int64 // tick at which the phase began
	began     int64

	has     map[ecs.EntityID]*wire.MovedEntity // what the stage has
	queue   []ecs.EntityID                     // yet to be looked at in this round
	round   int
	changed int
	parts   parts

	frozen    []ecs.EntityID // at the cut
	frozenAt  time.Duration
	cutTick   int64
	observers []*wire.MovedObserver
}

func (m *move) enter(phase movePhase, tick int64) { m.phase, m.since = phase, tick }

// closing reports whether nothing is begun in a region that a move would have to wait for; still, whether it stands.
func (r *region) closing() bool { return r.move != nil && r.move.phase >= moveDraining }
func (r *region) still() bool   { return r.move != nil && r.move.phase >= moveCut }

// closing reports whether the home of an entity is closing.
func (s *sim) closing(id ecs.EntityID) bool {
	r := s.regions[s.grid.RegionIndex(s.authority.Get(id).home)]
	return r != nil && r.closing()
}

// still reports whether the home of an entity stands still.
func (s *sim) still(id ecs.EntityID) bool {
	r := s.regions[s.grid.RegionIndex(s.authority.Get(id).home)]
	return r != nil && r.still()
}

// stepMoves goes on with the regions that leave, and begins with those that are ordered away.
func (s *sim) stepMoves() {
	budget, moving := movePartsPerTick, 0
	for _, r := range s.regions {
		if r != nil && r.move != nil {
			moving++
			s.stepMove(r, &budget)
		}
	}
	for i := 0; i < len(s.regions) && moving < maxMoves && !s.stopping; i++ {
		if r := s.regions[i]; r != nil && r.move == nil && s.ordered(r) {
			moving++
		}
	}
	s.forgetStages()
}

// ordered begins to move a region if it is ordered to a node that answers.
func (s *sim) ordered(r *region) bool {
	node := s.table.Row(r.index).Target
	if node == "" || node == s.cfg.Node || !r.active || s.tick < r.moveAfter {
		return false
	}
	to := s.sessionOf(node)
	if to == "" || !s.answers(to) {
		return false
	}
	s.stages.made++
	r.move = &move{
		to: to, node: node, stage: stageName(s.self, s.stages.made), since: s.tick, began: s.tick,
		has: map[ecs.EntityID]*wire.MovedEntity{}, parts: parts{progress: s.tick},
	}
	s.atRegion(MoveBegan, r.index, to)
	s.prepareMove(r)
	return true
}

// stageName names a stage by the session that sends it and a number that it never uses again.
func stageName(session string, n uint64) string { return session + "/" + strconv.FormatUint(n, 10) }

func (s *sim) prepareMove(r *region) {
	s.send(r.move.to, &wire.PeerMessage{Message: &wire.PeerMessage_MovePrepare{MovePrepare: &wire.MovePrepare{
		Region: uint32(r.index), RegionEpoch: r.epoch, Stage: r.move.stage,
	}}})
}

// sessionOf is the session of a node that is linked and not known to be dead, "" if there is none.
func (s *sim) sessionOf(node string) string {
	for _, session := range slices.Backward(s.order) {
		if p := s.peers[session]; p.up && strings.HasPrefix(session, node) && strings.HasPrefix(session[len(node):], "#") {
			return session
		}
	}
	return ""
}

func (s *sim) stepMove(r *region, budget *int) {
	m := r.move
	if m.phase == moveCommitting { // the outcome decides, and nothing else
		return
	}
	if reason := s.moveOff(r); reason != "" {
		s.abortMove(r, reason)
		return
	}
	s.sendPartsAgain(m)
	switch m.phase {
	case movePreparing:
		if s.tick > m.since && (s.tick-m.since)%TicksPerSecond == 0 {
			s.prepareMove(r)
		}
	case moveCopying:
		s.copyOn(r, budget)
	case moveDraining:
		if s.restless(r) == "" {
			s.cut(r)
		}
	}
}

// moveOff says why a move may not go on, "" if it may.
func (s *sim) moveOff(r *region) string {
	m := r.move
	waited := s.tick - m.since
	switch {
	case s.table.Row(r.index).Target != m.node:
		return "the order was taken back"
	case !s.alive(m.to) || s.sessionOf(m.node) != m.to:
		return "the other node is not linked any more"
	case s.stopping:
		return "this node goes down"
	case m.phase == movePreparing && waited > preparePatience:
		return "the other node does not answer"
	case m.phase == moveCopying && s.tick-m.parts.progress > copyPatience:
		return "the other node takes nothing of it"
	case m.phase == moveDraining && waited > drainPatience:
		return "the region does not come to rest: " + s.restless(r)
	case m.phase == moveCut && waited > cutPatience:
		return "the cut was not staged in time"
	}
	return ""
}

// copyOn looks at entities of the region and sends those that the stage does not have as they are.
func (s *sim) copyOn(r *region, budget *int) {
	m := r.move
	for *budget > 0 && m.parts.open() < moveWindow {
		if len(m.queue) == 0 && !s.nextRound(r) {
			return
		}
		*budget--
		n := min(len(m.queue), movePartEntities)
		p := s.pack(r)
		for _, id := range m.queue[:n] {
			if s.copyMoved(p, id) {
				m.changed++
			}
		}
		m.queue = m.queue[n:]
		p.flush()
	}
}

// nextRound looks again for what changed since. False: little did, or it was done often enough. Then the region drains, as soon as all
// that was sent is there: what the cut would wait for, the region would stand still for.
func (s *sim) nextRound(r *region) bool {
	m := r.move
	if m.round > 0 && m.changed <= fewChanges || m.round > moveRounds {
		if m.parts.open() > 0 {
			return false
		}
		s.atRegion(MoveDraining, r.index, m.to)
		m.enter(moveDraining, s.tick)
		return false
	}
	m.round++
	m.changed, m.queue = 0, s.homed(s.grid.RegionAt(r.index))
	return len(m.queue) > 0 || s.nextRound(r)
}

// copyMoved packs an entity, unless the stage has it so.
func (s *sim) copyMoved(p *packing, id ecs.EntityID) bool {
	m, a := p.move, s.authority.Get(id)
	if a == nil || s.game.Lies.Has(id) { // gone meanwhile; what lies goes with the cut
		return false
	}
	e := &wire.MovedEntity{Entity: uint64(id), Epoch: wireEpoch(a.epoch), Components: s.blobs(id, false)}
	if at, jumps := s.jumps[id]; jumps {
		e.Jump = game.WirePosition(at)
	}
	if had := m.has[id]; had == nil || !sameMoved(had, e) {
		m.has[id] = e
		p.entity(e)
		return true
	}
	return false
}

func sameMoved(a, b *wire.MovedEntity) bool {
	return epochOf(a.Epoch) == epochOf(b.Epoch) && a.Jump.GetX() == b.Jump.GetX() && a.Jump.GetY() == b.Jump.GetY() && a.Jump.GetZ() == b.Jump.GetZ() &&
		slices.EqualFunc(a.Components, b.Components, func(x, y *wire.ComponentBlob) bool {
			return x.Component == y.Component && x.Version == y.Version && bytes.Equal(x.Data, y.Data)
		})
}

// restless says what a region waits for before it can be cut, "" if it stands as it is.
func (s *sim) restless(r *region) string {
	switch {
	case s.awaySince != 0:
		return "the store does not answer"
	case s.renewal > cutBudget:
		return "the API server is slow"
	case len(r.creating)+len(r.waking)+r.claims > 0:
		return "masters are on their way from the store"
	case len(r.expected) > 0:
		return "others may bring what a recovery expects"
	case r.outbid != 0 || r.ground.busy() || len(r.ground.queue)+len(r.ground.Out)+len(r.ground.late) > 0:
		return "items of its ground are on their way"
	}
	for _, o := range s.outgoing.All() {
		if o.Region == r.index || int(o.Offer.SourceRegion) == r.index && !o.Accepted {
			return "entities are on their way out, or back in"
		}
	}
	for _, id := range s.homed(s.grid.RegionAt(r.index)) {
		hd, sv := s.contents.Get(id), s.saving.Get(id)
		switch {
		case !s.world.Owned(id):
			return "a master goes to rest"
		case hd != nil && (hd.busy() || len(hd.late) > 0) || s.settling(id):
			return "items are on their way"
		case sv != nil && sv.settling != 0:
			return "the store is putting something back"
		}
	}
	return ""
}

// cut freezes the region and sends the rest of it.
func (s *sim) cut(r *region) {
	m := r.move
	m.frozen, m.frozenAt, m.cutTick = s.homed(s.grid.RegionAt(r.index)), s.boot, s.tick
	m.enter(moveCut, s.tick)
	s.atRegion(MoveCut, r.index, m.to)
	p := s.pack(r)
	here := make(map[ecs.EntityID]bool, len(m.frozen))
	for _, id := range m.frozen {
		s.world.Frozen.Set(id, ecs.Frozen{})
		if l := s.game.Lies.Get(id); l != nil {
			p.item(&wire.MovedItem{Entity: uint64(id), Item: game.WireItem(l.Item), At: game.WirePosition(s.game.Position.Get(id).At)})
			continue
		}
		here[id] = true
		s.copyMoved(p, id)
	}
	for _, id := range slices.Sorted(maps.Keys(m.has)) {
		if !here[id] {
			p.left(id)
			delete(m.has, id)
		}
	}
	for _, told := range r.ground.results() {
		p.result(told)
	}
	m.observers = s.observersOf(r)
	for _, o := range m.observers {
		p.observer(o)
	}
	p.close(&wire.MoveCut{Entities: uint32(len(m.has))})
}

// results are what a ground remembers for who asks again.
func (hd *holding) results() []*wire.MovedResult {
	list := make([]*wire.MovedResult, 0, len(hd.told))
	for i := range hd.told {
		t := &hd.told[(hd.next+i)%len(hd.told)] // the oldest first
		list = append(list, &wire.MovedResult{Sender: t.key.sender, Number: wireNumber(t.key.number), Result: encodeOrderResult(t.result)})
	}
	return list
}

// observersOf lists who observes the chunks of a region and those around it.
func (s *sim) observersOf(r *region) []*wire.MovedObserver {
	at := s.grid.RegionAt(r.index)
	var list []*wire.MovedObserver
	for _, session := range s.order {
		o := &wire.MovedObserver{Session: session}
		for _, chunk := range s.nodes.Chunks(session) {
			if s.grid.ChunksOutside(s.grid.ChunkFromKey(chunk), at) <= partition.Hysteresis {
				o.Chunks = append(o.Chunks, chunk)
			}
		}
		if len(o.Chunks) > 0 {
			list = append(list, o)
		}
	}
	return list
}
