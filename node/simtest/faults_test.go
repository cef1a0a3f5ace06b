package simtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

const edge = int64(15 * 32)

func two(t *testing.T) *Cluster {
	return start(t, Options{Columns: 2, Rows: 1, RegionEdgeChunks: 15, Nodes: 2})
}

func login(t *testing.T, c *Cluster, n *Node, account uint64, x, y int64) *Client {
	t.Helper()
	cl := c.Login(n, account, &torus.Pos{X: x, Y: y})
	until(t, c, 300, fmt.Sprintf("account %d is in the world", account), settled(cl))
	return cl
}

// TestAResumeAtAnotherGateway: the socket is lost, the client comes back elsewhere; its entity stayed, its numbers go on,
// nothing vanishes for it or for others.
func TestAResumeAtAnotherGateway(t *testing.T) {
	c := two(t)
	a, b := login(t, c, c.Nodes[0], 1, 100, 100), login(t, c, c.Nodes[0], 2, 110, 100)
	id := a.Own().ID
	c.Walk(a, torus.Pos{X: 140, Y: 100})
	run(t, c, 20)
	c.Close(a)
	run(t, c, 40)
	if b.Entities[id] == nil {
		t.Fatal("a lost socket made the master vanish")
	}
	c.Resume(a, c.Nodes[1])
	until(t, c, 300, "the full set is here", func() bool { return a.Complete && a.Welcome.Resumed })
	if a.Own() == nil || a.Own().ID != id || a.Entities[b.Own().ID] == nil {
		t.Fatal("the resumed client does not see itself and its neighbour")
	}
	c.Walk(a, torus.Pos{X: 150, Y: 120})
	until(t, c, 600, "the walk is answered and done", func() bool { at := a.At(a.Own(), a.Tick); return at.X == 150 && at.Y == 120 })
	if got := a.Acked(); got != 2 {
		t.Errorf("highest answered input is %d, want 2: numbers go on over a resume", got)
	}
}

// TestALostSocketSendsTheMasterToRest, after the resume window, and a login wakes it where it stood.
func TestALostSocketSendsTheMasterToRest(t *testing.T) {
	c := two(t)
	a, b := login(t, c, c.Nodes[0], 1, 100, 100), login(t, c, c.Nodes[1], 2, 110, 100)
	id := a.Own().ID
	c.Walk(a, torus.Pos{X: 120, Y: 120})
	run(t, c, 300)
	c.Close(a)
	run(t, c, 30*20-40)
	if b.Entities[id] == nil {
		t.Fatal("the master left before the window was over")
	}
	until(t, c, 100, "the master is at rest", func() bool { return b.Entities[id] == nil })
	back := c.Login(c.Nodes[1], 1, nil)
	until(t, c, 300, "the master is back", settled(back))
	if at := back.At(back.Own(), back.Tick); back.Own().ID != id || at.X != 120 || at.Y != 120 {
		t.Errorf("entity %v woke at %v, want %v at 120,120", back.Own().ID, at, id)
	}
}

// TestASecondLoginDisplacesTheFirst, on another node as well.
func TestASecondLoginDisplacesTheFirst(t *testing.T) {
	c := two(t)
	a := login(t, c, c.Nodes[0], 1, 100, 100)
	b := c.Login(c.Nodes[1], 1, nil)
	until(t, c, 300, "the second is in", settled(b))
	until(t, c, 20, "the first is closed", func() bool { return a.Closed != nil })
	if a.Closed.Reason.String() != "REASON_DISPLACED" {
		t.Errorf("closed with %v", a.Closed.Reason)
	}
	if a.Welcome.Entity != b.Welcome.Entity {
		t.Error("the second login got another entity")
	}
}

// TestAFencedNodeIsSilent: it makes no step from its deadline on; the step it was in is not lost; it thaws in place.
func TestAFencedNodeIsSilent(t *testing.T) {
	c := two(t)
	a, b := login(t, c, c.Nodes[0], 1, 100, 100), login(t, c, c.Nodes[1], 2, 110, 100)
	c.Walk(a, torus.Pos{X: 150, Y: 100}, torus.Pos{X: 200, Y: 100})
	run(t, c, 5)
	c.Nodes[0].Fenced, c.Nodes[0].Deadline = true, c.Now()
	tick := c.Nodes[0].Engine.Tick()
	run(t, c, 20*20)
	if got := c.Nodes[0].Engine.Tick(); got != tick {
		t.Fatalf("a fenced node made %d steps", got-tick)
	}
	if c.Nodes[0].Engine.Stats().FencedSteps == 0 {
		t.Error("the held steps were not counted")
	}
	c.Nodes[0].Fenced = false
	until(t, c, 1200, "the walk is done", func() bool { return a.At(a.Own(), a.Tick).X == 200 })
	run(t, c, 60)
	if at := b.At(b.Entities[a.Own().ID], b.Tick); at.X != 200 {
		t.Errorf("the other node's player sees the walker at %v", at)
	}
}

// TestAKilledNodeIsRecovered: its regions go to another node, which brings its masters back from the store; their gateways
// go on, and nobody else notices more than a marked reset.
func TestAKilledNodeIsRecovered(t *testing.T) {
	c := two(t)
	mine := login(t, c, c.Nodes[1], 1, 100, 100)  // simulated by node 0, gateway node 1
	other := login(t, c, c.Nodes[1], 2, 110, 100) // the same
	away := login(t, c, c.Nodes[1], 3, edge+200, 100)
	c.Walk(mine, torus.Pos{X: 130, Y: 100})
	run(t, c, 200) // more than a save
	c.Walk(mine, torus.Pos{X: 100, Y: 130})
	run(t, c, 10)
	dead := c.Nodes[0].Session()
	c.Kill(c.Nodes[0])
	run(t, c, 100)
	c.Revoke(dead, c.Nodes[1])
	until(t, c, 200, "the players are attached and have their full set", func() bool {
		return mine.Complete && mine.Resyncs > 0 && mine.Own() != nil && other.Complete
	})
	c.Walk(mine, torus.Pos{X: 140, Y: 140})
	until(t, c, 1200, "inputs flow again", func() bool { return mine.At(mine.Own(), mine.Tick) == torus.Pos{X: 140, Y: 140} })
	if other.Entities[mine.Own().ID] == nil || mine.Entities[other.Own().ID] == nil {
		t.Error("the recovered masters do not see each other")
	}
	if away.Resyncs != 0 && away.ViolationCount > 0 {
		t.Error("a player far away was disturbed")
	}
}

// TestASaveOfTheDeadIsRefused: the record belongs to who recovered it.
func TestASaveOfTheDeadIsRefused(t *testing.T) {
	c := two(t)
	mine := login(t, c, c.Nodes[1], 1, 100, 100)
	run(t, c, 200)
	before := c.Store.Records()[0]
	dead := c.Nodes[0].Session()
	c.Kill(c.Nodes[0])
	c.Revoke(dead, c.Nodes[1])
	until(t, c, 300, "recovered", func() bool { return mine.Resyncs > 0 && mine.Complete })
	if a := c.Store.Do(zone.StoreRequest{Op: zone.StoreSave, Record: before}); a.Code != zone.StoreConflict {
		t.Errorf("a save at epoch %v answered %v", before.Epoch, a.Code)
	}
	if now := c.Store.Records()[0]; now.Epoch.Recoveries != before.Epoch.Recoveries+1 {
		t.Errorf("the record's epoch is %v after %v", now.Epoch, before.Epoch)
	}
}

// TestTheTargetDiesBeforeDurable: the source keeps what it gave away until the store has it, and offers it to the next
// owner.
func TestTheTargetDiesBeforeDurable(t *testing.T) {
	c := start(t, Options{Columns: 2, Rows: 1, RegionEdgeChunks: 15, Nodes: 2, StoreDelay: 2 * time.Second})
	walker := c.Login(c.Nodes[0], 1, &torus.Pos{X: edge - 20, Y: 100})
	until(t, c, 600, "the walker is in the world", settled(walker))
	c.Walk(walker, torus.Pos{X: edge + 38, Y: 100})
	until(t, c, 900, "the walker was handed over", func() bool {
		return c.Stats(func(s zone.Stats) uint64 { return s.Handoffs }) == 1
	})
	dead := c.Nodes[1].Session()
	c.Kill(c.Nodes[1])
	run(t, c, 20)
	c.Revoke(dead, c.Nodes[0])
	until(t, c, 600, "the walker acts again", func() bool {
		for _, e := range c.Nodes[0].Engine.Entities() {
			if e.Account == 1 && e.Acting {
				return true
			}
		}
		return false
	})
	until(t, c, 600, "nothing is kept any more", func() bool { return c.Nodes[0].Engine.Stats().Outgoing == 0 })
	until(t, c, 600, "the player goes on", func() bool { return walker.Complete && walker.Own() != nil })
	if n := len(c.Store.Records()); n != 1 {
		t.Errorf("%d records", n)
	}
}

// TestIdsOfTwoLivesDiffer: a restarted node never repeats an id.
func TestIdsOfTwoLivesDiffer(t *testing.T) {
	c := start(t, Options{Columns: 1, Rows: 1, RegionEdgeChunks: 15, Nodes: 1})
	seen := map[ecs.EntityID]bool{}
	for life := range 3 {
		a := login(t, c, c.Nodes[0], uint64(life+1), 100, 100)
		if seen[a.Own().ID] {
			t.Fatalf("id %v came twice", a.Own().ID)
		}
		seen[a.Own().ID] = true
		dead := c.Nodes[0].Session()
		c.Kill(c.Nodes[0])
		if err := c.Start(c.Nodes[0]); err != nil {
			t.Fatal(err)
		}
		c.Revoke(dead, c.Nodes[0])
	}
}

// TestAStoreThatKnowsANewerEpochIsOutbid: the lease is raised above the store's fence, then the region is loaded.
func TestAStoreThatKnowsANewerEpochIsOutbid(t *testing.T) {
	c := start(t, Options{Columns: 1, Rows: 1, RegionEdgeChunks: 15, Nodes: 1})
	c.Store.Do(zone.StoreRequest{Op: zone.StoreLoadRegion, RegionEpoch: 41})
	until(t, c, 200, "the region is active", func() bool { return c.Nodes[0].Engine.Stats().RegionsRecovering == 0 && c.Now() > 2*time.Second })
	if e := c.Table().At(0).Epoch; e != 42 {
		t.Errorf("the lease is at epoch %d, want 42", e)
	}
}
