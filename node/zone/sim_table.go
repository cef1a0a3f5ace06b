package zone

import (
	"maps"
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/handoff"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Which regions are this node's: what a new table makes of them, and what is given up.

// tableChanged takes regions that became ours and gives up those that are not ours any more.
func (s *sim) tableChanged() {
	s.noteHolders()
	for i := range s.regions {
		held := s.table.At(i)
		mine, r := held.Session == s.self, s.regions[i]
		switch {
		case mine && r == nil && s.unfold(i, held.Epoch, s.table.Row(i).Stage):
		case mine && r == nil:
			s.recover(i, held.Epoch)
		case mine && held.Epoch == r.epoch:
		case mine && r.move != nil && r.move.phase == moveCommitting: // it was another's meanwhile
			s.surrender(i)
			s.recover(i, held.Epoch)
		case mine:
			s.raised(r, held.Epoch)
		case r != nil && r.move != nil && r.move.phase == moveCommitting && s.table.Row(i).Stage == r.move.stage:
			s.movedAway(r, held.Epoch)
		case r != nil:
			s.surrender(i)
		}
	}
	for _, r := range s.regions {
		if r != nil && !r.active {
			r.waiting = slices.DeleteFunc(r.waiting, func(session string) bool {
				gone := !s.mayHold(session) && !s.answers(session)
				if gone {
					s.atRegion(RecoveryExcused, r.index, session)
				}
				return gone
			})
		}
	}
}

// noteHolders notes who holds a region, or had one last that nobody holds now: its Lease may be gone, and whoever had it need not know
// that yet.
func (s *sim) noteHolders() {
	distinct := map[string]bool{}
	for i := range s.lastHolders {
		if session := s.table.At(i).Session; session != "" {
			s.lastHolders[i] = session
		}
		if session := s.lastHolders[i]; session != "" {
			distinct[session] = true
		}
	}
	s.holders = slices.Sorted(maps.Keys(distinct))
}

// mayHold reports whether a session holds a region, as far as it may know itself.
func (s *sim) mayHold(session string) bool {
	_, found := slices.BinarySearch(s.holders, session)
	return found
}

func (s *sim) newRegion(index int, epoch uint64) *region {
	r := &region{
		index: index, epoch: epoch, began: s.tick, beganAt: s.boot, elsewhere: map[ecs.EntityID]string{},
		creating: map[uint64]bool{}, waking: map[ecs.EntityID]bool{}, missed: map[ecs.EntityID]absence{},
	}
	s.regions[index] = r
	return r
}

// surrender drops all that is at home in a region that another node holds now: it speaks for it.
func (s *sim) surrender(index int) {
	s.regions[index] = nil
	s.atRegion(RegionSurrendered, index, s.table.At(index).Session)
	at := s.grid.RegionAt(index)
	for _, id := range s.homed(at) {
		if s.world.Owned(id) {
			s.game.Halt(id) // until the heir speaks of it, it stands
			s.tell(id)
		}
		if !s.keepForHeir(id, index) {
			s.dropCopy(id)
		}
	}
	s.note("region %v is no longer held here", at)
}

// keepForHeir: an entity that came home here, and of which the store does not know that yet, is in no record of the region, and
// who brought it may be dead. It is kept like one that was handed over, and offered to the heir; one that was on its way out, to
// where it went.
func (s *sim) keepForHeir(id ecs.EntityID, index int) bool {
	sv := s.saving.Get(id)
	if sv == nil || sv.claimed || s.grid.RegionIndex(sv.stored) == index {
		return false
	}
	if o := s.outgoing.Get(id); o != nil {
		s.takeBack(id, o)
		return true
	}
	a := s.authority.Get(id)
	at := s.game.Position.Get(id).At
	o := &handoff.Outgoing{
		Entity: id, Epoch: a.epoch, Region: index, Chunk: s.grid.ChunkKey(s.grid.ChunkOf(at)), Accepted: true, AcceptedAt: s.boot,
		FrozenAt: s.boot, Offer: &wire.Offer{
			Entity: uint64(id), Expect: wireEpoch(a.epoch), SourceRegion: uint32(s.grid.RegionIndex(sv.stored)),
			SourceRegionEpoch: s.table.At(s.grid.RegionIndex(sv.stored)).Epoch, TargetRegion: uint32(index), Components: s.blobs(id, false),
		},
	}
	s.outgoing.Begin(s.tick, o)
	s.evict(id)
	return true
}

func (s *sim) homed(at torus.RegionPos) []ecs.EntityID {
	var ids []ecs.EntityID
	for id := range ecs.NewQuery(s.world).With(s.authority).IncludeFrozen().Each {
		if s.authority.Get(id).home == at {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// chunkActive reports whether no region here that may have entities in a chunk is still being recovered.
func (s *sim) chunkActive(chunk uint64) bool {
	var buf [4]torus.RegionPos
	for _, at := range partition.AppendRegionsTouched(buf[:0], s.grid, s.grid.ChunkFromKey(chunk), partition.Hysteresis) {
		if r := s.regions[s.grid.RegionIndex(at)]; r != nil && !r.active {
			return false
		}
	}
	return true
}

func (s *sim) regionCounts() (held, recovering int) {
	for _, r := range s.regions {
		if r != nil {
			held++
			if !r.active {
				recovering++
			}
		}
	}
	return held, recovering
}

func (s *sim) loads() []RegionLoad {
	list := make([]RegionLoad, 0, 64)
	at := map[int]int{}
	for i, r := range s.regions {
		if r != nil {
			at[i] = len(list)
			list = append(list, RegionLoad{Region: i, Epoch: r.epoch, Active: r.active})
		}
	}
	for id := range ecs.NewQuery(s.world).With(s.authority).Each {
		if i, ok := at[s.grid.RegionIndex(s.authority.Get(id).home)]; ok {
			list[i].Entities++
			if s.game.Session.Has(id) {
				list[i].Players++
			}
		}
	}
	return list
}
