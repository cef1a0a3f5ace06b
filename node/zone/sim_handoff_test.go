package zone

import (
	"testing"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/handoff"
)

// A region has gone from b to c, who recovers it and was told that this node keeps an entity for it: b's late word that it has the
// entity says nothing any more, as long as c lives.
func TestOnlyTheHeirsDurableCounts(t *testing.T) {
	const id = ecs.EntityID(7)
	for name, c := range map[string]struct {
		from, dead string
		kept       bool
	}{
		"who was asked first":                   {"b#1", "", true},
		"the heir":                              {"c#1", "", false},
		"who was asked first, the heir is dead": {"b#1", "c#1", false},
	} {
		e := alone(t)
		if c.dead != "" {
			e.peerEvent(PeerEvent{Session: c.dead, Kind: PeerDead})
		}
		o := &handoff.Outgoing{Entity: id, Epoch: ecs.Epoch{Recoveries: 1, Transfers: 2}, Target: "b#1", Accepted: true, Offer: &wire.Offer{}}
		e.sim.outgoing.Begin(0, o)
		o.Recovering(0, "c#1")
		e.sim.offerDurable(c.from, &wire.OfferDurable{Entity: uint64(id), Epoch: wireEpoch(o.Epoch)})
		if kept := e.sim.outgoing.Get(id) != nil; kept != c.kept {
			t.Errorf("%s says that it is durable: kept %v, want %v", name, kept, c.kept)
		}
	}
}
