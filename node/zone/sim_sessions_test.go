package zone

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
)

// servedBy is an engine with one master whose gateway is another session.
func servedBy(t *testing.T, gateway string) *Engine {
	t.Helper()
	e := crowd(t, 1)
	e.sim.saving.Set(1, saving{claimed: true, next: 1 << 40}) // no save is under way, which rest would wait for
	e.sim.game.Session.Set(1, game.Session{Gateway: gateway, Epoch: 3})
	return e
}

// resting reports whether the master is saved for good within so many ticks.
func (e *Engine) resting(t *testing.T, ticks int64) bool {
	t.Helper()
	for range ticks {
		for _, r := range e.step(t, &Inbox{}).Store {
			if r.Op == StoreSave && r.Record.Resting {
				return true
			}
		}
	}
	return false
}

func TestAMasterWhoseGatewayDiesWhileItStandsFrozenGoesToRest(t *testing.T) {
	e := servedBy(t, neighbour)
	e.sim.world.Frozen.Set(1, ecs.Frozen{})
	e.step(t, &Inbox{Peers: []PeerEvent{{neighbour, PeerDead}}})
	e.sim.world.Frozen.Remove(1)
	if !e.resting(t, int64(resumeWindow)+2) {
		t.Error("nobody comes back for it, and it stands there for ever")
	}
}

func TestAMasterWhoseGatewayNobodyKnowsGoesToRest(t *testing.T) {
	e := servedBy(t, "w-zone-9#4")
	if e.resting(t, strangerPatience) {
		t.Error("its gateway may be linked any moment")
	}
	if !e.resting(t, int64(resumeWindow)+2) {
		t.Error("its gateway died before this node came, and it stands there for ever")
	}
	e.step(t, &Inbox{})
	e.sim.game.Session.Remove(1)
	for range 3 * TicksPerSecond {
		e.step(t, &Inbox{})
	}
	if len(e.sim.strangers) > 0 {
		t.Errorf("%v are remembered though nobody names them", e.sim.strangers)
	}
}

func TestAMasterKeepsAGatewayThatLives(t *testing.T) {
	e := servedBy(t, neighbour)
	e.step(t, &Inbox{Peers: []PeerEvent{{neighbour, PeerDown}}})
	if e.resting(t, strangerPatience+int64(resumeWindow)+2) {
		t.Error("its gateway is only not linked")
	}
}

// A handoff that is refused, or a move that comes to nothing, takes a frozen master back.
func TestADetachCountsForAFrozenMaster(t *testing.T) {
	e := servedBy(t, neighbour)
	e.sim.world.Frozen.Set(1, ecs.Frozen{})
	e.hear(t, &wire.PeerMessage{Message: &wire.PeerMessage_Detach{Detach: &wire.Detach{Account: 1, SessionEpoch: 3, Entity: 1}}})
	e.sim.world.Frozen.Remove(1)
	if !e.resting(t, int64(resumeWindow)+2) {
		t.Error("its socket is lost, and it stands there for ever")
	}
}

// What a gateway was to be told, or what it has told, may have been refused by a link that was full.
func TestAGatewayThatIsLinkedAnewHearsOfTheSessionsThatItServes(t *testing.T) {
	e := servedBy(t, neighbour)
	out := e.step(t, &Inbox{Peers: []PeerEvent{{neighbour, PeerDown}, {neighbour, PeerUp}}})
	if len(out.Reliable) != 1 || out.Reliable[0].Session != neighbour {
		t.Fatalf("said %v", out.Reliable)
	}
	m := &wire.PeerMessage{}
	if err := proto.Unmarshal(out.Reliable[0].Bytes, m); err != nil || m.GetAccountMessage().GetSessionEpoch() != 3 {
		t.Errorf("said %v, %v", m, err)
	}
}
