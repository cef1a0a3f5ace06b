package simtest

import (
	"testing"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
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
