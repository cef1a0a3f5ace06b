package zone

import (
	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
)

// Strays: two nodes die, one that gave an entity away and the one that took it. The claim of that one lands late: after the region that
// the entity came to was loaded, and before the one that it left is. Then neither recovery has it. Whoever finds it gone tells the
// holder of its home, who brings it back from its record if it is nowhere.

// follow looks where the records are that a region had when it was loaded before, and has no more.
func (s *sim) follow(r *region, before, now []Record) {
	has := make(map[ecs.EntityID]bool, len(now))
	for i := range now {
		has[now[i].Entity] = true
	}
	for i := range before {
		if id := before[i].Entity; !has[id] && !s.world.Alive(id) {
			s.store(StoreRequest{Op: StoreLoad, Entity: id}, func(a StoreAnswer) {
				if a.Record != nil {
					s.stray(r, *a.Record)
				}
			})
		}
	}
}

// stray tells the holder of a record's home, if that is another region. Without one there is nobody to tell: who recovers it, loads it.
func (s *sim) stray(r *region, rec Record) {
	home := s.grid.RegionIndex(rec.Home)
	if rec.Resting || home == r.index {
		return
	}
	if to := s.liveHolder(home); to != "" {
		s.send(to, &wire.PeerMessage{Message: &wire.PeerMessage_Stray{Stray: &wire.Stray{
			Entity: uint64(rec.Entity), Region: uint32(home), Epoch: wireEpoch(rec.Epoch),
		}}})
	}
}

// strayed expects an entity as if who had it had died just now: until it is known where it is, nobody is told that it is gone.
func (s *sim) strayed(m *wire.Stray) {
	if int64(m.Region) >= int64(len(s.regions)) || m.Entity == 0 {
		s.stats.Malformed++
		return
	}
	id, r := ecs.EntityID(m.Entity), s.regions[m.Region]
	if r == nil || s.world.Alive(id) || len(r.expected) >= maxExpected {
		return
	}
	rec := Record{Entity: id, Epoch: epochOf(m.Epoch), Home: s.grid.RegionAt(r.index)}
	r.expect(expected{id: id, deadAt: s.tick, record: rec, chunk: s.recordChunk(&rec)})
}
