package zone

import (
	"testing"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/ghost"
)

// An entity was signed off to a node that this one cannot reach yet: what that said of it meanwhile never came, so it may be anywhere
// when the first link to it is up.
func TestWhatWasSignedOffToAStrangerJumpsWhenItIsHeard(t *testing.T) {
	e := alone(t)
	replicas := e.gate.replicas
	e.gate.observers.Add(1, 0)
	one, two := ecs.Epoch{Recoveries: 1}, ecs.Epoch{Recoveries: 1, Transfers: 1}
	replicas.Apply(1, "b#1", &ghost.Frame{Entity: 7, Kind: wire.EntityFrame_KIND_SNAPSHOT, Epoch: one})
	replicas.Apply(1, "b#1", &ghost.Frame{Entity: 7, Kind: wire.EntityFrame_KIND_TRANSFERRED, Epoch: two, To: "c#1"})
	replicas.Settle()
	r := replicas.Get(7)
	if r == nil || r.Owner != "c#1" {
		t.Fatalf("%+v", r)
	}
	e.peerEvent(PeerEvent{Session: "c#1", Kind: PeerUp})
	replicas.Apply(2, "c#1", &ghost.Frame{Entity: 7, Kind: wire.EntityFrame_KIND_UPDATE, Epoch: two})
	if !r.Reset {
		t.Error("news of it may be missing, and nothing says so")
	}
}

// The store has lost that a master was made, and the owner of it has died since: nobody has it, and the store has no record of it. Its
// player is not kept waiting for good.
func TestAPlayerWhomTheStoreHasLostIsSentAway(t *testing.T) {
	e := twoRegions(t, "a#1", "b#1")
	e.step(t, &Inbox{Clients: []ClientEvent{{Conn: 1, Connected: &ClientConnected{Account: 5, FreshSecret: "s"}}}})
	s := e.gate.sessions[5]
	s.epoch, s.state, s.welcome, s.entity, s.home = 3, sessionAttaching, true, 8, 1
	began := e.tick
	for e.gate.sessions[5] == s && e.tick-began < 2*lostTicks {
		e.gate.attachAnswered("b#1", &wire.AttachAnswer{Account: 5, SessionEpoch: 3, Region: 1, Code: wire.AttachAnswer_CODE_NOT_HERE})
		var missing []StoreAnswer
		for id, p := range e.pending {
			if p.request.Op == StoreLoad && p.request.Entity == 8 {
				missing = append(missing, StoreAnswer{ID: id, Op: StoreLoad, Code: StoreMissing})
			}
		}
		e.step(t, &Inbox{Store: missing})
	}
	if waited := e.tick - began; e.gate.sessions[5] == s || waited < lostTicks {
		t.Errorf("after %d ticks: it waits %v", waited, e.gate.sessions[5] == s)
	}
}
