package ghost

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
)

// graveTicks is how long the epoch of what was removed, and who spoke for a home before, are known: 30 s, more than one
// link may lag behind another.
const graveTicks = 600

// claim is an owner that spoke for a home.
type claim struct {
	owner string
	tick  int64
}

// doubt is a replica of which the store waits to hear.
type doubt struct {
	replica *Replica
	since   int64
}

type grave struct {
	entity ecs.EntityID
	epoch  ecs.Epoch
	tick   int64
}

// claim notes that an owner speaks for a home. Who did so before may be the one that is late: both are kept for a while.
func (s *Store) claim(home uint32, owner string) {
	kept := slices.DeleteFunc(s.claims[home], func(c claim) bool {
		return c.owner == owner || s.dead(c.owner) || s.tick-c.tick >= graveTicks
	})
	s.claims[home] = append(kept, claim{owner, s.tick})
}

// contested reports whether another live owner speaks for a replica's home. Who gave the entity away did so with the home, if
// it has not spoken for that since: the table may be late.
func (s *Store) contested(r *Replica) bool {
	return slices.ContainsFunc(s.claims[r.Home], func(c claim) bool {
		return c.owner != r.Owner && !s.dead(c.owner) && (c.owner != r.signer || c.tick > r.signedOff)
	})
}

// doubt notes a replica whose home another live owner speaks for: when its own is dead, or has lost that home, it goes.
func (s *Store) doubt(r *Replica) {
	if !r.doubted && s.contested(r) {
		r.doubted = true
		s.doubts = append(s.doubts, doubt{r, s.tick})
	}
}

// fade removes what dead owners left and nobody took over: the snapshot that lacks it may be faster than the news of who has
// it.
func (s *Store) fade() {
	s.doubts = slices.DeleteFunc(s.doubts, func(d doubt) bool {
		d.replica.doubted = s.replicas[d.replica.Entity] == d.replica && s.contested(d.replica)
		return !d.replica.doubted
	})
	if len(s.doubts) == 0 {
		return
	}
	leaving := map[string]bool{} // asked once for each dead owner
	owing := s.owing()
	for i := range s.doubts {
		d := &s.doubts[i]
		if _, known := leaving[d.replica.Owner]; !known && s.dead(d.replica.Owner) {
			leaving[d.replica.Owner] = s.leaves(d.replica.Owner)
		}
		switch r := d.replica; {
		case s.holds(r.Owner, r.Home) || !s.leftBefore(r) || s.unanswered(r, owing) || !s.complete(r.Chunk):
			d.since = s.tick
		case leaving[r.Owner]:
		case s.tick-d.since >= HoldTicks && s.replicas[r.Entity] == r && len(r.held) == 0:
			s.observe(Swept, r.Entity)
			s.Remove(r, wire.VanishReason_VANISH_REASON_GONE)
		}
	}
}

// complete reports whether nobody who has yet to speak can have what was in a chunk: the dead owner may have given it to a
// neighbour that died as well.
func (s *Store) complete(chunk uint64) bool { return s.Complete == nil || s.Complete(chunk) }

// unanswered reports whether another live owner that speaks for a replica's home has yet to tell of some chunk: it may have it
// there.
func (s *Store) unanswered(r *Replica, owing map[string]bool) bool {
	return slices.ContainsFunc(s.claims[r.Home], func(c claim) bool {
		return c.owner != r.Owner && !s.dead(c.owner) && owing[c.owner]
	})
}

// owing are the owners of whom a snapshot is awaited.
func (s *Store) owing() map[string]bool {
	owing := map[string]bool{}
	for _, owners := range s.awaited {
		for _, owner := range owners {
			owing[owner] = true
		}
	}
	return owing
}

// leaves reports whether a dead owner spoke for a home that nobody speaks for now: the store may have there what it said is at
// another home of it.
func (s *Store) leaves(owner string) bool {
	for home, claims := range s.claims {
		if s.observed(home) && slices.ContainsFunc(claims, func(c claim) bool { return c.owner == owner }) &&
			!slices.ContainsFunc(claims, func(c claim) bool { return !s.dead(c.owner) }) {
			return true
		}
	}
	return false
}

// holds reports whether an owner may have what is at home in a region: whether it lives, and is not known to have lost it.
func (s *Store) holds(owner string, home uint32) bool {
	return !s.dead(owner) && !slices.Contains(s.lost[home], owner)
}

// Passed: a region is another session's than before, says the table. One who is named owner by somebody else may have it before the
// table says so, therefore only who had it by the table can lose it.
func (s *Store) Passed(home uint32, from, to string) {
	kept := slices.DeleteFunc(s.lost[home], func(owner string) bool { return owner == to || owner == from || s.dead(owner) })
	if from != "" {
		kept = append(kept, from)
	}
	s.lost[home] = kept
}

func (s *Store) observed(home uint32) bool { return s.Observed == nil || s.Observed(home) }

// leftBefore reports whether a replica cannot come back from the home that it was last handed over from: who took it may have
// died before the store had it there, so that home's owner must have spoken since. One that lives on tells within 30 s, if
// there is something to tell.
func (s *Store) leftBefore(r *Replica) bool {
	return r.signedOff == 0 || !s.observed(r.before) || slices.ContainsFunc(s.claims[r.before], func(c claim) bool {
		return !s.dead(c.owner) && (c.tick > r.signedOff || s.tick-r.signedOff >= graveTicks)
	})
}

// askUnheard: an owner that was named by the one before and is not heard of may have lost the entity before it was asked.
func (s *Store) askUnheard() {
	s.unheard = slices.DeleteFunc(s.unheard, func(d doubt) bool {
		r := d.replica
		due := s.tick-d.since >= HoldTicks
		if due && r.unheard && s.replicas[r.Entity] == r {
			s.unknown = append(s.unknown, Unknown{r.Owner, r.Chunk})
		}
		return due || !r.unheard
	})
}

// bury remembers the epoch of what is removed: older news of it, on a slower stream, do not bring it back.
func (s *Store) bury(r *Replica) {
	s.buried[r.Entity] = r.Epoch
	s.graves = append(s.graves, grave{r.Entity, r.Epoch, s.tick})
}

func (s *Store) forgetGraves() {
	n := 0
	for ; n < len(s.graves) && s.tick-s.graves[n].tick >= graveTicks; n++ {
		if g := s.graves[n]; s.buried[g.entity] == g.epoch {
			delete(s.buried, g.entity)
		}
	}
	s.graves = s.graves[n:]
}
