package ghost

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
)

// BeginSnapshot marks the replicas of an owner in a chunk: those that its snapshot does not confirm will vanish.
func (s *Store) BeginSnapshot(chunk uint64, owner string) {
	for _, id := range s.residents.In(chunk) {
		if r := s.replicas[id]; r.Owner == owner {
			r.stale = true
		}
	}
	if !slices.Contains(s.awaited[chunk], owner) {
		s.awaited[chunk] = append(s.awaited[chunk], owner)
	}
}

// Unheard: an owner is not asked for a chunk any more, while the chunk is still observed. If it comes back as its holder,
// what it said meanwhile is missing.
func (s *Store) Unheard(chunk uint64, owner string) {
	for _, id := range s.residents.In(chunk) {
		if r := s.replicas[id]; r.Owner == owner {
			r.resetNext = true
		}
	}
}

// Late: an owner was silent for a while and is heard again on the same stream. Its news may be of any moment of the silence:
// what they say now may jump, and so may the first that is on time again.
func (s *Store) Late(tick int64, owner string) {
	for _, r := range s.replicas {
		if r.Owner == owner {
			r.lateUntil = tick + HoldTicks
		}
	}
}

// Interrupted: the stream of an owner broke, so news of its replicas may be missing. The next ones may jump.
func (s *Store) Interrupted(owner string) {
	for _, r := range s.replicas {
		if r.Owner == owner {
			r.resetNext = true
		}
		if r.holds(owner) {
			r.breakOff(owner)
		}
	}
}

// EndSnapshot notes what the snapshot of a chunk should have confirmed and did not: the owner's own replicas, and those of
// dead owners at home in one of the regions that it covers. They may have moved to a chunk whose snapshot is still on its way, so
// they stay until Sweep. What never moves goes at once.
func (s *Store) EndSnapshot(chunk uint64, owner string, homes []uint32) {
	s.answered(chunk, owner)
	for _, home := range homes {
		s.claim(home, owner)
	}
	for _, id := range slices.Clone(s.residents.In(chunk)) {
		r := s.replicas[id]
		switch {
		case !slices.Contains(homes, r.Home) || r.missing:
		case s.unconfirmed(r, owner):
			s.observe(Swept, id)
			s.Remove(r, wire.VanishReason_VANISH_REASON_GONE)
		case r.Owner != owner && !s.dead(r.Owner): // one of them is late
			s.doubt(r)
		case r.Owner != owner || r.stale:
			r.missing = true
			s.missing[owner] = append(s.missing[owner], id)
		}
	}
}

// EndGround is EndSnapshot for what never moves, at home in regions of which the owner leaves the rest open: nobody brings that.
func (s *Store) EndGround(chunk uint64, owner string, homes []uint32) {
	for _, id := range slices.Clone(s.residents.In(chunk)) {
		if r := s.replicas[id]; slices.Contains(homes, r.Home) && s.unconfirmed(r, owner) {
			s.observe(Swept, id)
			s.Remove(r, wire.VanishReason_VANISH_REASON_GONE)
		}
	}
}

// unconfirmed reports whether a replica that never moves is one that the owner would have told of.
func (s *Store) unconfirmed(r *Replica, owner string) bool {
	return r.fixed && (r.Owner == owner && r.stale || r.Owner != owner && s.dead(r.Owner))
}

func (s *Store) answered(chunk uint64, owner string) {
	owners := s.awaited[chunk]
	if i := slices.Index(owners, owner); i >= 0 {
		owners = slices.Delete(owners, i, i+1)
	}
	if len(owners) > 0 {
		s.awaited[chunk] = owners
	} else {
		delete(s.awaited, chunk)
	}
}

// Sweep removes what all snapshots of an owner together did not confirm, as soon as the others that may have it there have told as
// well: an owner that lost its region for a while may have offered it to one that died. Call it when none of them is on its way.
// What was a dead owner's goes when nobody says for as long as frames are held that it is his.
func (s *Store) Sweep(owner string) {
	for _, id := range s.missing[owner] {
		switch r := s.replicas[id]; {
		case r == nil || !r.missing:
		case r.Owner != owner:
			r.missing = false
			s.doubt(r)
		default:
			s.lacking = append(s.lacking, r)
		}
	}
	delete(s.missing, owner)
	s.sweepLacking()
}

func (s *Store) sweepLacking() {
	s.lacking = slices.DeleteFunc(s.lacking, func(r *Replica) bool {
		if len(r.held) > 0 { // who does not have it will not sign it off
			s.succeed(r)
		}
		lacks := r.missing && s.replicas[r.Entity] == r
		if lacks && s.complete(r.Chunk) {
			s.observe(Swept, r.Entity)
			s.Remove(r, wire.VanishReason_VANISH_REASON_GONE)
			return true
		}
		return !lacks
	})
}
