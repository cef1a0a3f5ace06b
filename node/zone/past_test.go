package zone

import (
	"fmt"
	"testing"

	"github.com/spatialcells/spatialcells/node/ecs"
)

func TestSessionsThatAreOverLeaveOneNumberForEachNode(t *testing.T) {
	e := crowd(t, 1)
	peers, sessions := len(e.peers), len(e.order)
	for life := range 50 {
		session := fmt.Sprintf("w-zone-7#%d", life+1)
		e.step(t, &Inbox{Peers: []PeerEvent{{session, PeerUp}}})
		if err := e.sim.subscribe(session, 3); err != nil {
			t.Fatal(err)
		}
		e.step(t, &Inbox{Peers: []PeerEvent{{session, PeerDead}}})
	}
	if len(e.peers) != peers || len(e.order) != sessions || len(e.past) != 1 || len(e.gate.seenUp) > peers {
		t.Errorf("%d peers, %d in order, %d nodes of the past, %d seen", len(e.peers), len(e.order), len(e.past), len(e.gate.seenUp))
	}
	for session, alive := range map[string]bool{"w-zone-7#50": false, "w-zone-7#9": false, "w-zone-7#51": true, "w-zone-70#1": true, neighbour: true} {
		if e.alive(session) != alive {
			t.Errorf("%s is alive: %v", session, !alive)
		}
	}
}

func TestWhatTheDeadSaidIsNotHeard(t *testing.T) {
	e := crowd(t, 1)
	e.step(t, &Inbox{Peers: []PeerEvent{{neighbour, PeerDead}}})
	e.step(t, &Inbox{
		Peers:       []PeerEvent{{neighbour, PeerUp}},
		Replication: []PeerBytes{{Session: neighbour, Bytes: appendKeys(nil, batchSubscribe, []uint64{1})}},
	})
	if e.alive(neighbour) || e.peers[neighbour] != nil || len(e.sim.nodes.Chunks(neighbour)) > 0 {
		t.Error("the dead came back")
	}
}

// All that is wanted of a session is asked for anew when it is linked.
func TestNothingIsKeptToBeToldToWhoIsNotLinked(t *testing.T) {
	e := crowd(t, 1)
	g := e.gate
	e.step(t, &Inbox{Peers: []PeerEvent{{neighbour, PeerDown}}})
	for range 100 {
		g.ask(neighbour, 3)
		g.leave(neighbour, 3)
	}
	if len(g.add)+len(g.drop) > 0 {
		t.Errorf("to be told: %v, %v", g.add, g.drop)
	}
}

func TestAnAbsenceThatNobodyAsksForIsForgotten(t *testing.T) {
	e := crowd(t, 1)
	r := e.sim.regions[0]
	for id := range ecs.EntityID(50) {
		r.overdue(id+100, e.tick)
	}
	for range 2*wakePatience + 1 {
		r.overdue(7, e.tick)
		e.step(t, &Inbox{})
	}
	if len(r.missed) != 1 || !r.overdue(7, e.tick) {
		t.Errorf("%d are missed", len(r.missed))
	}
}
