package zone

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/route"
)

// TestAnInputOfAnEarlierLifeMovesNoItems: what its owner did with it before the crash may be in the store, although the log
// does not say so. Inputs that move nothing but their own entity are executed: a crash undoes those.
func TestAnInputOfAnEarlierLifeMovesNoItems(t *testing.T) {
	use := &wire.Input{Action: &wire.Input_Use{Use: &wire.Use{Serial: 7}}}
	stop := &wire.Input{Action: &wire.Input_Stop{Stop: &wire.Stop{}}}
	for what, c := range map[string]struct {
		input *wire.Input
		life  uint32
		want  wire.InputResult_Code
	}{
		"items, sent to the life before": {use, 1, wire.InputResult_CODE_UNAVAILABLE},
		"items, sent to this life":       {use, 2, wire.InputResult_CODE_INVALID}, // executed: nothing is carried
		"items, life not known":          {use, 0, wire.InputResult_CODE_INVALID},
		"no items":                       {stop, 1, wire.InputResult_CODE_OK},
	} {
		s := crowd(t, 1).sim
		s.authority.Get(1).epoch = ecs.Epoch{Recoveries: 1}
		s.saving.Set(1, saving{claimed: true})
		s.game.Session.Set(1, game.Session{Gateway: s.self, Epoch: 1})
		log := s.game.Calls.Set(1, route.Log{})
		log.Login(1, 0)
		input, err := proto.Marshal(c.input)
		if err != nil {
			t.Fatal(err)
		}
		answer, res := &wire.CallAnswer{}, &wire.InputResult{}
		s.judge(1, &wire.Call{Entity: 1, Account: 1, LoginEpoch: 1, SessionEpoch: 1, Number: 1, Input: input, Life: c.life}, answer)
		if err := proto.Unmarshal(answer.Result, res); err != nil {
			t.Fatal(err)
		}
		if answer.Code != wire.CallAnswer_CODE_DONE || res.Code != c.want || log.State().Last != 1 {
			t.Errorf("%s: %v, %v, %d done", what, answer.Code, res, log.State().Last)
		}
	}
}

// A client comes by another gateway, with inputs that it has sent before: the gateway that knew to which life of their owner may have
// died together with that owner.
func TestWhatAResumingClientHasSentMayBeOfAnyEarlierLife(t *testing.T) {
	s := &session{info: ClientConnected{SentInput: 5}, recoveries: 3, resumed: true}
	for number, want := range map[uint64]uint32{4: 1, 5: 1, 6: 4} {
		if got := s.firstLife(number); got != want {
			t.Errorf("input %d may have been sent to life %d first, want %d", number, got, want)
		}
	}
	s.resumed = false // a fresh login numbers anew
	if got := s.firstLife(1); got != 4 {
		t.Errorf("of a fresh login: life %d", got)
	}
}
