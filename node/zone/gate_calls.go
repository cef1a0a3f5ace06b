package zone

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/route"
)

// The inputs of a client, at its gateway: numbered calls to the owner of its entity, sent again until they are answered.

const (
	callRetryTicks = 2
	// answerTicks is how long the first of the unanswered calls may be under way: 2 s. Then it, or its answer, was refused by a
	// link that was full.
	answerTicks = 2 * TicksPerSecond
)

func (s *session) input(in *wire.Input) {
	if !s.welcome {
		s.end(wire.Disconnected_REASON_MALFORMED, "an input before Welcome", false)
		return
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
	if err == nil {
		err = s.calls.Add(in.Number, b)
	}
	switch {
	case err == nil, errors.Is(err, route.ErrRepeat): // a repeat was answered, or will be
	case errors.Is(err, route.ErrFull):
		s.end(wire.Disconnected_REASON_RATE_LIMITED, "more than 16 inputs are unanswered: wait for InputResult", false)
	default:
		s.end(wire.Disconnected_REASON_MALFORMED, err.Error(), false)
	}
}

// forward sends the calls that are not on their way.
func (s *session) forward() {
	if s.state != sessionAttached || s.retry != 0 {
		return
	}
	open := s.calls.Open()
	for i := range open {
		if !open[i].Sent {
			open[i].Sent = true
			if open[i].Life == 0 {
				open[i].Life = s.firstLife(open[i].Number)
			}
			s.gate.at(Happened{Point: CallSent, Account: s.account, Entity: s.entity, Number: open[i].Number, Peer: s.owner})
			s.gate.send(s.owner, &wire.PeerMessage{Message: &wire.PeerMessage_Call{Call: &wire.Call{
				Entity: uint64(s.entity), Account: s.account, LoginEpoch: s.login, SessionEpoch: s.epoch, Number: open[i].Number, Input: open[i].Input, Life: open[i].Life,
			}}})
		}
	}
}

// firstLife is the life of its owner, counted from 1, to which an input may have been sent first: this one, or any before if the client
// has sent it by another connection, perhaps of a gateway that died together with that owner.
func (s *session) firstLife(number uint64) uint32 {
	if s.resumed && number <= s.info.SentInput {
		return 1
	}
	return s.recoveries + 1
}

func (g *gate) callAnswered(from string, m *wire.CallAnswer) {
	s := g.sessions[m.Account]
	if s == nil || s.login != m.LoginEpoch || uint64(s.entity) != m.Entity {
		return
	}
	if m.Code == wire.CallAnswer_CODE_DONE {
		s.answered(m)
		return
	}
	if from != s.owner || s.state != sessionAttached {
		return // of an owner before
	}
	switch m.Code {
	case wire.CallAnswer_CODE_GAP:
		s.calls.Resend(m.Want)
	case wire.CallAnswer_CODE_WAIT:
		s.retry = g.tick + callRetryTicks
	case wire.CallAnswer_CODE_MOVED:
		if m.Region < uint32(g.grid.Regions()) {
			s.home = int(m.Region)
		}
		if holder := g.table.At(s.home).Session; holder != "" && g.alive(holder) {
			s.owner = holder
		}
		s.calls.Resend(0)
		s.retry = g.tick + 1
	case wire.CallAnswer_CODE_NOT_HERE, wire.CallAnswer_CODE_STALE_SESSION:
		s.calls.Resend(0)
		s.attachAgain()
	}
}

// answered gives the client the result of an input, once and in order.
func (s *session) answered(m *wire.CallAnswer) {
	if !s.calls.Answer(m.Number) {
		return
	}
	s.gate.at(Happened{Point: CallAnswered, Account: s.account, Sender: s.login, Entity: s.entity, Number: m.Number})
	res := &wire.InputResult{}
	if err := proto.Unmarshal(m.Result, res); err != nil {
		s.gate.stats.Malformed++
	}
	res.Number = m.Number
	s.envelope(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Result{Result: res}})
}

// missAnswer sends the unanswered calls again when the first answer does not come. What waits for a link goes on with it, by itself.
func (s *session) missAnswer() {
	g, head := s.gate, uint64(0)
	if open := s.calls.Open(); len(open) > 0 {
		head = open[0].Number
	}
	if head != s.head || s.state != sessionAttached || !g.linked(s.owner) {
		s.head, s.headAt = head, g.tick
	}
	if head != 0 && g.tick-s.headAt > answerTicks {
		s.headAt = g.tick
		s.calls.Resend(0)
	}
}
