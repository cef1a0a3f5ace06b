package zone

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/route"
)

// Inputs about items wait in the call log of their entity until it is known what came of them.

// inputObeyed takes the answer to a command that an input waits for.
func (s *sim) inputObeyed(id ecs.EntityID, target uint64, number route.Number, res *wire.OrderResult) bool {
	log := s.game.Calls.Get(id)
	if log == nil {
		return false
	}
	i := slices.IndexFunc(log.Waiting(), func(w route.Waiting) bool { return w.Target == target && w.Command == number })
	if i < 0 {
		return false
	}
	call := log.Waiting()[i].Call
	_, ground := groundOf(target)
	switch {
	case res == nil:
		s.tellCall(id, log, call, wire.InputResult_CODE_UNAVAILABLE, "what came of it is not known")
	case res.Code != wire.OrderResult_CODE_OK:
		s.tellCall(id, log, call, wire.InputResult_CODE_INVALID, res.Detail)
	case ground:
		s.tellCall(id, log, call, wire.InputResult_CODE_OK, "")
	default: // it is picked up and comes, or has come before the answer
		hd := s.contents.Get(id)
		if hd == nil {
			hd = s.contents.Set(id, holding{})
		}
		if in := hd.in(res.Movement); in != nil {
			s.tellPicked(id, target, takenIn(in))
		} else {
			hd.picks = append(hd.picks, pick{call: call})
		}
	}
	return true
}

// pickSweeps is for how long an item is waited for that was picked up: 30 s in which the store answers.
const pickSweeps = 30

// pick is an input that waits for an item which is on its way, and for how many sweeps.
type pick struct {
	call   uint64
	sweeps int
}

// sweepPicks tells inputs that what they picked up does not come: the store may have lost that it was taken, and nobody knows of it.
func (s *sim) sweepPicks(id ecs.EntityID, hd *holding) {
	log := s.game.Calls.Get(id)
	hd.picks = slices.DeleteFunc(hd.picks, func(p pick) bool {
		return log == nil || !slices.ContainsFunc(log.Waiting(), func(w route.Waiting) bool { return w.Call == p.call })
	})
	for i := range hd.picks {
		if hd.picks[i].sweeps++; hd.picks[i].sweeps > pickSweeps {
			s.tellCall(id, log, hd.picks[i].call, wire.InputResult_CODE_UNAVAILABLE, "what was picked up does not come: it is not known where it is")
		}
	}
}

// takenIn is why an item that came was not taken in; nil: it was.
func takenIn(in *InEntry) error {
	if in.Void {
		return errNotTaken
	}
	return nil
}

// tellPicked: what was picked up is here, or was not taken.
func (s *sim) tellPicked(id ecs.EntityID, picked uint64, why error) {
	if picked == 0 || id == 0 {
		return
	}
	code, detail := wire.InputResult_CODE_OK, ""
	if why != nil {
		code, detail = wire.InputResult_CODE_INVALID, why.Error()
	}
	s.tellWaiting(id, func(w *route.Waiting) bool { return w.Target == picked }, code, detail)
}

// tellMovement tells the input that waits for a movement.
func (s *sim) tellMovement(id ecs.EntityID, movement uint64, code wire.InputResult_Code, detail string) {
	s.tellWaiting(id, func(w *route.Waiting) bool { return w.Movement == movement }, code, detail)
}

// tellWaiting tells every input of an entity that waits for something: some ask twice.
func (s *sim) tellWaiting(id ecs.EntityID, waits func(w *route.Waiting) bool, code wire.InputResult_Code, detail string) {
	log := s.game.Calls.Get(id)
	if log == nil {
		return
	}
	for _, w := range slices.Clone(log.Waiting()) {
		if waits(&w) {
			s.tellCall(id, log, w.Call, code, detail)
		}
	}
}

// tellCall ends an input that waited, and answers its gateway.
func (s *sim) tellCall(id ecs.EntityID, log *route.Log, call uint64, code wire.InputResult_Code, detail string) {
	result := encodeResult(&wire.InputResult{Number: call, Code: code, Detail: detail})
	if !log.Tell(call, result) {
		return
	}
	s.dirty(id)
	ses, acc := s.game.Session.Get(id), s.game.Account.Get(id)
	if ses == nil || ses.Lost > 0 || acc == nil {
		return
	}
	s.send(ses.Gateway, &wire.PeerMessage{Message: &wire.PeerMessage_CallAnswer{CallAnswer: &wire.CallAnswer{
		Entity: uint64(id), Account: acc.ID, LoginEpoch: log.State().Login, Number: call, Code: wire.CallAnswer_CODE_DONE, Result: result,
	}}})
}

// resume goes on with what an entity had under way when its record was written last: movements go on from the store, and
// inputs that wait for what nobody will tell are told that it is not known.
func (s *sim) resume(id ecs.EntityID) {
	log := s.game.Calls.Get(id)
	if log == nil {
		return
	}
	hd, q := s.contents.Get(id), s.commands.queues.Get(id)
	for _, w := range slices.Clone(log.Waiting()) {
		moving := w.Movement != 0 && hd != nil && hd.out(w.Movement) != nil
		asking := w.Command != (route.Number{}) && q != nil && q.Has(w.Target, w.Command)
		if !moving && !asking {
			s.tellCall(id, log, w.Call, wire.InputResult_CODE_UNAVAILABLE, "what came of it is not known: its owner crashed")
		}
	}
}
