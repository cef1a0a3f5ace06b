package zone

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
)

// What a recovery has skipped, because another node has it, may yet come: no snapshot denies it before it is known that it does
// not.

// expected is an entity that a recovery has skipped, because another node has it, or that was offered while it went on.
type expected struct {
	id      ecs.EntityID
	record  Record // as the recovery found it, without its blob; none if it was only offered
	chunk   uint64 // where its record has it
	offered bool
	by      string // who said that it has it
	deadAt  int64  // since which tick that one is known to be dead; 0: it is not
	asking  bool   // the store is being asked where it is
}

// recordChunk is the chunk in which an entity is indexed that comes from a record; the origin of its home if the record cannot be
// read.
func (s *sim) recordChunk(r *Record) uint64 {
	var snap wire.Snapshot
	if proto.Unmarshal(r.Blob, &snap) == nil {
		for _, b := range snap.Components {
			var m wire.Position
			if b.Component == s.game.Position.Meta().Name && proto.Unmarshal(b.Data, &m) == nil {
				if at, ok := game.Canonical(s.grid, m.X, m.Y, m.Z); ok {
					return s.indexChunk(at, r.Home)
				}
			}
		}
	}
	return s.grid.ChunkKey(s.grid.RegionOrigin(r.Home))
}

// expect notes what may yet come: until it is here, or surely does not come, no snapshot denies it.
func (r *region) expect(x expected) {
	i, found := slices.BinarySearchFunc(r.expected, x.id, func(e expected, id ecs.EntityID) int { return cmp.Compare(e.id, id) })
	if !found {
		r.expected = slices.Insert(r.expected, i, x)
	}
	e := &r.expected[i]
	e.offered = e.offered || x.offered
	if x.record.Entity != 0 {
		e.record, e.chunk = x.record, x.chunk
	}
	if x.by != "" {
		e.by = x.by
	}
	if e.deadAt == 0 {
		e.deadAt = x.deadAt
	}
}

// answered: the store has said where something is that is expected, or not.
func (r *region) answered(id ecs.EntityID) {
	for i := range r.expected {
		if r.expected[i].id == id {
			r.expected[i].asking = false
		}
	}
}

func (r *region) unexpect(id ecs.EntityID) {
	r.expected = slices.DeleteFunc(r.expected, func(x expected) bool { return x.id == id })
}

// maxExpected bounds what others say that is to come to a region.
const maxExpected = 1 << 16

// expectTicks is for how long a snapshot leaves open what somebody may yet bring who lives: 30 s. Who has it may be cut off.
const expectTicks = 30 * TicksPerSecond

// unsure reports whether something that observers have seen at home in a region may yet come to this node, from who keeps it
// or by way of the store: a snapshot cannot deny it.
func (s *sim) unsure(index int) bool {
	r := s.regions[index]
	for i := range r.expected {
		if !r.active || s.tick < r.gaveUp || r.expected[i].deadAt != 0 { // of the dead it is about to be known
			return true
		}
	}
	for _, o := range s.outgoing.All() {
		if o.Accepted && o.Target == s.self && (o.Region == index || int(o.Offer.SourceRegion) == index) {
			return true
		}
	}
	return false
}

// await goes on with what may yet come, and closes the snapshots that were kept open for it.
func (s *sim) await(r *region) {
	every := TicksPerSecond
	if s.tick >= r.gaveUp { // who has it may die much later
		every = wakePatience
	}
	if len(r.expected) > 0 {
		r.expected = slices.DeleteFunc(r.expected, func(x expected) bool {
			return s.world.Alive(x.id) || s.tick >= r.gaveUp && x.record.Entity == 0
		})
	}
	if s.tick%every == 0 {
		for i := range r.expected {
			x := &r.expected[i]
			if x.deadAt == 0 && x.by != "" && !s.alive(x.by) {
				x.deadAt = s.tick
			}
			if (!x.offered || x.deadAt != 0) && !x.asking && !s.storeAway() {
				x.asking = true
				s.locateExpected(r, x.id, x.deadAt != 0 && s.tick-x.deadAt > wakePatience)
			}
		}
	}
	if r.hedged && !s.unsure(r.index) {
		r.hedged = false
		s.again(r)
	}
}

// locateExpected: what the store has elsewhere, or at rest, does not come. orphaned: who had it is dead for so long that nobody
// can be bringing it, and what the store has here is brought back.
func (s *sim) locateExpected(r *region, id ecs.EntityID, orphaned bool) {
	s.store(StoreRequest{Op: StoreLoad, Entity: id}, func(a StoreAnswer) {
		r.answered(id)
		if a.Record == nil || a.Record.Resting || s.grid.RegionIndex(a.Record.Home) != r.index {
			r.unexpect(id)
			return
		}
		if orphaned && s.acts(r) && !s.world.Alive(id) && !r.waking[id] && s.outgoing.Get(id) == nil {
			s.claimMissed(r, *a.Record)
		}
	})
}
