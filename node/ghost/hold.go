package ghost

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
)

// held is a frame that waits, or the place where the stream of its sender broke.
type held struct {
	from   string
	frame  Frame
	tick   int64
	late   bool
	broken bool
}

// transfer is the old owner's sign-off: from here the new owner's messages count, those that came early first.
func (s *Store) transfer(r *Replica, f *Frame) {
	s.observe(SignedOff, r.Entity)
	r.before, r.signedOff, r.signer = r.Home, s.tick, r.Owner
	r.Owner, r.Epoch, r.Home, r.stale, r.missing = f.To, f.Epoch, f.Home, false, false
	r.resetNext = r.resetNext || f.Reset || r.unheard // an owner of which no word came before its last
	r.unheard = true
	if !s.interested(f.Chunk, r.Account) {
		s.Remove(r, wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT)
		return
	}
	s.move(r, f.Chunk)
	s.touch(r)
	s.doubt(r)
	s.unheard = append(s.unheard, doubt{r, s.tick})
	s.release(r)
}

func (s *Store) hold(r *Replica, h *held) {
	if len(r.held) == 0 {
		r.heldSince = s.tick
		s.holding = append(s.holding, r.Entity)
	}
	if len(r.held) >= maxHeld {
		s.Counters.Overflow++
		r.breakOff(h.from)
		return
	}
	s.Counters.Held++
	s.observe(HeldBack, r.Entity)
	r.held = append(r.held, *h)
}

// holds reports whether frames of an owner wait.
func (r *Replica) holds(owner string) bool {
	return slices.ContainsFunc(r.held, func(h held) bool { return h.from == owner })
}

// breakOff notes that frames of an owner that would follow those that wait are lost.
func (r *Replica) breakOff(owner string) {
	if len(r.held) >= maxHeld {
		r.held = r.held[:maxHeld-1]
	}
	r.held = append(r.held, held{from: owner, broken: true})
}

// release applies what was held for the replica, in the order it came.
func (s *Store) release(r *Replica) {
	if len(r.held) == 0 {
		return
	}
	s.observe(Released, r.Entity)
	frames := r.held
	r.held = nil
	now := s.tick
	for i := range frames {
		h := &frames[i]
		switch {
		case !h.broken:
			s.tick = h.tick
			s.apply(h.from, &h.frame, h.late)
		case r.Owner == h.from:
			r.resetNext = true
		case r.holds(h.from):
			r.breakOff(h.from)
		}
	}
	s.tick = now
}

// Expire adopts the senders of frames that waited too long, or whose predecessor died. Call it once a tick.
func (s *Store) Expire(tick int64) {
	s.tick = tick
	s.holding, s.spare = s.spare[:0], s.holding // what is held again meanwhile goes on a list of its own
	for _, id := range s.spare {
		r := s.replicas[id]
		switch {
		case r == nil || len(r.held) == 0:
		case tick-r.heldSince < HoldTicks && !s.dead(r.Owner):
			s.holding = append(s.holding, id)
		default:
			s.Counters.HoldExpired++
			s.observe(Expired, id)
			s.succeed(r)
		}
	}
	s.askUnheard()
	s.fade()
	s.sweepLacking()
	s.forgetGraves()
}

// succeed makes the first that waits the owner, though the one before did not sign off.
func (s *Store) succeed(r *Replica) {
	for i := range r.held {
		if h := &r.held[i]; !h.broken && (r.Epoch.Less(h.frame.Epoch) || h.frame.Epoch == r.Epoch && s.dead(r.Owner)) {
			r.Owner, r.Epoch, r.resetNext = h.from, h.frame.Epoch, true
			break
		}
	}
	s.release(r)
}

// adopt makes the sender the owner: the old one is dead, or did not sign off in time.
func (s *Store) adopt(r *Replica, from string, f *Frame) {
	r.Owner, r.Epoch, r.resetNext = from, f.Epoch, true // what the old owner said last may never have come
	s.applyOwner(r, f)
}
