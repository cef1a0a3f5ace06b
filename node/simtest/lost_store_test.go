package simtest

import (
	"testing"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// recorded reports whether the store has the record of an entity, and whether it is at rest.
func recorded(c *Cluster, id ecs.EntityID) (found, resting bool) {
	for _, r := range c.Store.Records() {
		if r.Entity == id {
			return true, r.Resting
		}
	}
	return false, false
}

// TestAStoreThatLostEverythingGetsItBackFromTheNodes: by a crossing, by a save and by a logout. The players notice nothing.
func TestAStoreThatLostEverythingGetsItBackFromTheNodes(t *testing.T) {
	c := two(t)
	crossing, walking, leaving := login(t, c, c.Nodes[0], 1, edge-10, 100), login(t, c, c.Nodes[0], 2, edge-40, 100), login(t, c, c.Nodes[1], 3, edge-30, 110)
	ids := []ecs.EntityID{crossing.Own().ID, walking.Own().ID, leaving.Own().ID}
	run(t, c, 120) // everything is saved
	c.Store = &store.Memory{}
	c.Walk(crossing, torus.Pos{X: edge + 40, Y: 100})
	c.Walk(walking, torus.Pos{X: edge - 60, Y: 100})
	until(t, c, 600, "who crossed the border and who walked are in the store again", func() bool {
		a, _ := recorded(c, ids[0])
		b, _ := recorded(c, ids[1])
		return a && b
	})
	c.Close(leaving)
	until(t, c, 30*20+100, "who left is in the store, at rest", func() bool { found, resting := recorded(c, ids[2]); return found && resting })
	for i, cl := range []*Client{crossing, walking} {
		if cl.Own() == nil || cl.Own().ID != ids[i] {
			t.Errorf("client %d has lost its entity %v", i, ids[i])
		}
	}
	back := c.Login(c.Nodes[0], 3, nil)
	until(t, c, 300, "who left is back", settled(back))
	if back.Own().ID != ids[2] {
		t.Errorf("account 3 came back as entity %v, want %v", back.Own().ID, ids[2])
	}
}

// TestWhoLogsOutAfterTheStoreWasLostKeepsItsItems: they are part of the record that is put back.
func TestWhoLogsOutAfterTheStoreWasLostKeepsItsItems(t *testing.T) {
	h := newHands(t)
	serial, id := h.carry(h.left, edge-3), h.left.Own().ID
	run(t, h.Cluster, 120) // everything is saved
	h.Cluster.Store = &store.Memory{}
	h.Logout(h.left)
	until(t, h.Cluster, 100, "who left is in the store, at rest", func() bool { found, resting := recorded(h.Cluster, id); return found && resting })
	if r, _ := h.storage.record(id); len(r.Contents.Items) != 1 || r.Contents.Items[0].Serial != serial {
		t.Errorf("its record has %+v", r.Contents)
	}
	back := h.Login(h.Nodes[1], 1, nil)
	until(t, h.Cluster, 300, "who left is back with what it carried", func() bool {
		return settled(back)() && back.Own().ID == id && len(back.Own().Inventory) == 1
	})
}

// forgetSince takes the store back to the records that it had before, as a failover does to a replica that was behind. The fences of
// regions stay.
func forgetSince(c *Cluster, records []zone.Record) {
	c.Store = &store.Memory{}
	for _, r := range records {
		c.Store.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: r})
	}
	for i := range c.Grid.Regions() {
		c.Store.Do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: c.Grid.RegionAt(i), RegionEpoch: c.Table().At(i).Epoch})
	}
}

// stored is the record of an entity.
func stored(c *Cluster, id ecs.EntityID) zone.Record {
	r, _ := c.storage.record(id)
	return r
}

// epochs are those of the copies of an entity that act.
func epochs(c *Cluster, id ecs.EntityID) (list []zone.Epoch) {
	for _, n := range c.Nodes {
		if n.Engine == nil {
			continue
		}
		n.Engine.EachEntity(func(e zone.Entity) {
			if e.ID == id && e.Acting {
				list = append(list, e.Epoch)
			}
		})
	}
	return list
}

// rewound is a cluster whose store has forgotten that two players crossed the border: one who stands still since, and one who walks.
func rewound(t *testing.T) (c *Cluster, idle, walks *Client) {
	t.Helper()
	c = two(t)
	idle, walks = login(t, c, c.Nodes[0], 1, edge-10, 100), login(t, c, c.Nodes[0], 2, edge-10, 120)
	run(t, c, 120)
	before := c.Store.Records()
	there := c.Grid.RegionAt(1)
	for _, cl := range []*Client{idle, walks} {
		c.WalkTo(cl, torus.Pos{X: edge + 50, Y: 100})
		until(t, c, 600, "the store has who crossed", func() bool { return stored(c, cl.Own().ID).Home == there })
	}
	run(t, c, 300) // everybody stands, and everything is saved
	forgetSince(c, before)
	return c, idle, walks
}

// TestAClaimThatTheStoreHasLostIsMadeAgain: who crossed a border is saved where it is, though the store has forgotten that it did. What
// one save finds out is looked for everywhere.
func TestAClaimThatTheStoreHasLostIsMadeAgain(t *testing.T) {
	c, idle, walks := rewound(t)
	c.WalkTo(walks, torus.Pos{X: edge + 90, Y: 100})
	for _, cl := range []*Client{walks, idle} {
		until(t, c, 400, "it is the new owner's again", func() bool {
			r, acts := stored(c, cl.Own().ID), epochs(c, cl.Own().ID)
			return r.Home == c.Grid.RegionAt(1) && len(acts) == 1 && r.Epoch == acts[0]
		})
	}
	c.Logout(walks)
	at := walks.At(walks.Own(), walks.Tick)
	until(t, c, 100, "it rests where it is", func() bool { return stored(c, walks.Own().ID).Resting })
	back := c.Login(c.Nodes[0], 2, nil)
	until(t, c, 300, "it is back", settled(back))
	if d := c.Grid.Chebyshev(at, back.At(back.Own(), back.Tick)); d > 8 {
		t.Errorf("it left at %v and is back %d m from there", at, d)
	}
}

// TestWhoLogsOutThoughTheStoreHasLostItsClaimRestsWhereItIs: its claim is made again first.
func TestWhoLogsOutThoughTheStoreHasLostItsClaimRestsWhereItIs(t *testing.T) {
	c, idle, _ := rewound(t)
	id, epoch := idle.Own().ID, epochs(c, idle.Own().ID)[0]
	c.Logout(idle)
	until(t, c, 100, "it rests", func() bool { return stored(c, id).Resting })
	if r := stored(c, id); r.Epoch != epoch || r.Home != c.Grid.RegionAt(1) {
		t.Errorf("it rests at epoch %v in region %v; it left at epoch %v in the second region", r.Epoch, r.Home, epoch)
	}
}

// TestARecoveryThatTheStoreHasLostIsClaimedAgain, by who recovered, and by whom it was handed to since.
func TestARecoveryThatTheStoreHasLostIsClaimedAgain(t *testing.T) {
	for name, crosses := range map[string]bool{"where it was recovered": false, "over a border since": true} {
		t.Run(name, func(t *testing.T) {
			c := start(t, Options{Columns: 3, Rows: 1, RegionEdgeChunks: 15, Nodes: 3})
			cl := login(t, c, c.Nodes[1], 1, edge-10, 100)
			id := cl.Own().ID
			run(t, c, 120)
			before, session := c.Store.Records(), c.Nodes[0].Session()
			c.Kill(c.Nodes[0])
			c.Revoke(session, c.Nodes[2])
			until(t, c, 600, "it is recovered", func() bool { return stored(c, id).Epoch.Recoveries > before[0].Epoch.Recoveries })
			run(t, c, 40)
			home := c.Grid.RegionAt(0)
			if crosses { // it is handed over before it is saved
				home = c.Grid.RegionAt(1)
				c.WalkTo(cl, torus.Pos{X: edge + 60, Y: 100})
				until(t, c, 600, "it is about to cross", func() bool { return cl.At(cl.Own(), cl.Tick).X >= edge+30 })
			} else {
				c.WalkTo(cl, torus.Pos{X: edge - 60, Y: 100})
			}
			forgetSince(c, before)
			until(t, c, 400, "the store has it again", func() bool {
				r, acts := stored(c, id), epochs(c, id)
				return len(acts) == 1 && r.Epoch == acts[0] && r.Home == home
			})
			if n := c.Stats(func(s zone.Stats) uint64 { return s.HandoffConflicts }); n > 0 {
				t.Errorf("%d copies were dropped: what was done since the last save is lost", n)
			}
		})
	}
}

// TestNobodyIsRecoveredWhereTheStoreHasForgottenThatItLeft: who has it says so to the heir of the region that it came from.
func TestNobodyIsRecoveredWhereTheStoreHasForgottenThatItLeft(t *testing.T) {
	c := start(t, Options{Columns: 3, Rows: 1, RegionEdgeChunks: 15, Nodes: 3})
	cl := login(t, c, c.Nodes[2], 1, edge-10, 100)
	id := cl.Own().ID
	run(t, c, 120)
	before, session := c.Store.Records(), c.Nodes[0].Session()
	c.WalkTo(cl, torus.Pos{X: edge + 34, Y: 100})
	until(t, c, 600, "the store has it on the other side", func() bool { return stored(c, id).Home == c.Grid.RegionAt(1) })
	run(t, c, 20) // it is saved there
	forgetSince(c, before)
	c.Kill(c.Nodes[0])
	c.Revoke(session, c.Nodes[2])
	until(t, c, 600, "it is claimed again where it is", func() bool { return stored(c, id).Home == c.Grid.RegionAt(1) })
	if r, acts := stored(c, id), epochs(c, id); len(acts) != 1 || r.Epoch != acts[0] || r.Epoch.Recoveries != before[0].Epoch.Recoveries {
		t.Errorf("the store has it at epoch %v, it acts at %v", r.Epoch, acts)
	}
}

// TestACopyThatTheStoreKnowsToBeOlderIsDropped: by a save, and by a logout.
func TestACopyThatTheStoreKnowsToBeOlderIsDropped(t *testing.T) {
	for name, leave := range map[string]func(*Cluster, *Client){
		"save":   func(c *Cluster, cl *Client) { c.WalkTo(cl, torus.Pos{X: 60, Y: 100}) },
		"logout": (*Cluster).Logout,
	} {
		t.Run(name, func(t *testing.T) {
			c := two(t)
			cl := login(t, c, c.Nodes[0], 1, 100, 100)
			id := cl.Own().ID
			run(t, c, 120)
			newer := stored(c, id)
			c.Store.Do(zone.StoreRequest{Op: zone.StoreClaim, Expect: newer.Epoch, Record: zone.Record{Entity: id, Epoch: newer.Epoch.Recovered(), Home: c.Grid.RegionAt(1)}})
			leave(c, cl)
			until(t, c, 300, "it is gone here", func() bool { return len(epochs(c, id)) == 0 })
			if r := stored(c, id); r.Epoch != newer.Epoch.Recovered() || r.Resting {
				t.Errorf("the store has %+v", r)
			}
		})
	}
}
