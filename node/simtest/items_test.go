package simtest

import (
	"testing"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// hands are two players on both sides of a border, near enough to give each other what they have.
type hands struct {
	*Cluster
	t           *testing.T
	left, right *Client
}

func newHands(t *testing.T) *hands {
	t.Helper()
	h := &hands{Cluster: start(t, Options{Columns: 2, Rows: 1, RegionEdgeChunks: 15, Nodes: 2}), t: t}
	h.left = h.Login(h.Nodes[0], 1, &torus.Pos{X: edge - 2, Y: 100})
	h.right = h.Login(h.Nodes[1], 2, &torus.Pos{X: edge + 1, Y: 100})
	until(t, h.Cluster, 300, "both players are in the world", func() bool { return settled(h.left)() && settled(h.right)() })
	return h
}

// do sends an input and returns its result.
func (h *hands) do(cl *Client, in *wire.Input) *wire.InputResult {
	h.t.Helper()
	n := h.Send(cl, in)
	var res *wire.InputResult
	until(h.t, h.Cluster, 200, "the input is answered", func() bool {
		for _, r := range cl.TakeResults() {
			if r.Number == n {
				res = r
			}
		}
		return res != nil
	})
	return res
}

func (h *hands) ok(cl *Client, in *wire.Input) {
	h.t.Helper()
	if res := h.do(cl, in); res.Code != wire.InputResult_CODE_OK {
		h.t.Fatalf("account %d: %v: %v", cl.Account, in, res)
	}
}

func (h *hands) refused(cl *Client, in *wire.Input) {
	h.t.Helper()
	if res := h.do(cl, in); res.Code != wire.InputResult_CODE_INVALID {
		h.t.Fatalf("account %d: %v: %v", cl.Account, in, res)
	}
}

// lying is what a client sees lie, nil if there is nothing; it waits a little for it.
func (h *hands) lying(cl *Client) *client.Seen {
	h.t.Helper()
	var found *client.Seen
	until(h.t, h.Cluster, 20, "something lies there", func() bool {
		for _, s := range cl.Entities {
			if s.Kind == wire.Visual_KIND_ITEM {
				found = s
			}
		}
		return found != nil
	})
	return found
}

func (h *hands) carries(cl *Client, n int) {
	h.t.Helper()
	until(h.t, h.Cluster, 20, "the inventory is shown", func() bool { return len(cl.Own().Inventory) == n })
}

// nothingLies waits until the last item has gone out of a client's sight.
func (h *hands) nothingLies(cl *Client) {
	h.t.Helper()
	until(h.t, h.Cluster, 40, "nothing lies there any more", func() bool {
		for _, s := range cl.Entities {
			if s.Kind == wire.Visual_KIND_ITEM {
				return false
			}
		}
		return true
	})
}

// TestItemsGoOverABorder: what one digs up on the other side of a border is picked up, given, dropped and picked up again,
// by players of two nodes; each serial is in one place at every tick.
func TestItemsGoOverABorder(t *testing.T) {
	h := newHands(t)
	h.ok(h.left, digAt(edge, 100))
	h.refused(h.right, digAt(edge, 100))
	lies := h.lying(h.left)
	serial := lies.Item.Serial
	h.ok(h.left, pickUp(lies))
	h.carries(h.left, 1)
	h.nothingLies(h.right)
	h.refused(h.right, pickUp(lies))
	h.ok(h.left, giveItem(serial, h.right.Own().ID))
	h.carries(h.left, 0)
	h.carries(h.right, 1)
	h.refused(h.left, giveItem(serial, h.right.Own().ID))
	h.ok(h.right, dropItem(serial))
	h.carries(h.right, 0)
	if lies = h.lying(h.left); lies.Item.Serial != serial {
		t.Fatalf("item %d lies there, not %d", lies.Item.Serial, serial)
	}
	h.ok(h.left, pickUp(lies))
	h.carries(h.left, 1)
}

// carry digs something up for a player and returns its serial.
func (h *hands) carry(cl *Client, x int64) uint64 {
	h.t.Helper()
	h.ok(cl, digAt(x, 100))
	lies := h.lying(cl)
	h.ok(cl, pickUp(lies))
	h.carries(cl, 1)
	return lies.Item.Serial
}

// TestAnItemComesBackThatWasGivenToSomebodyWhoLeft: whoever rests takes nothing in; that this stays so is written to its record
// before the giver has the item back.
func TestAnItemComesBackThatWasGivenToSomebodyWhoLeft(t *testing.T) {
	h := newHands(t)
	serial, gone := h.carry(h.left, edge-3), h.right.Own().ID
	h.Logout(h.right)
	until(t, h.Cluster, 100, "the other player rests", func() bool {
		r, _ := h.storage.record(gone)
		return r.Resting
	})
	if res := h.do(h.left, giveItem(serial, gone)); res.Code != wire.InputResult_CODE_INVALID {
		t.Fatalf("given to somebody at rest: %v", res)
	}
	h.carries(h.left, 1)
	if r, _ := h.storage.record(gone); len(r.Contents.Items) != 0 || len(r.Contents.In) != 1 || !r.Contents.In[0].Void {
		t.Fatalf("the record of who left has %+v", r.Contents)
	}
}

// TestAMovementGoesOnAfterItsOwnersDeath: the owner of an item that is out dies before anybody has heard of it; its heir finds
// the out entry and hands the item over.
func TestAMovementGoesOnAfterItsOwnersDeath(t *testing.T) {
	h := newHands(t)
	serial := h.carry(h.left, edge-3)
	owner := h.Nodes[0]
	died := false
	h.Trap(owner, zone.ItemTaken, 1, parts(0), func() { died = true })
	h.Send(h.left, giveItem(serial, h.right.Own().ID))
	until(t, h.Cluster, 100, "the owner dies with the item out", func() bool { return died })
	session := owner.Session()
	run(t, h.Cluster, 20)
	h.Revoke(session, h.Nodes[1])
	until(t, h.Cluster, 300, "the item has arrived", func() bool { return len(h.right.Own().Inventory) == 1 })
	if got := h.right.Own().Inventory[0].Serial; got != serial {
		t.Fatalf("item %d arrived, not %d", got, serial)
	}
}

// TestThousandsOfGiftsShutNobodysHands: to a ground, to what lies on one, and to somebody who is too far away. Whoever refuses them
// remembers few of them, and none for long.
func TestThousandsOfGiftsShutNobodysHands(t *testing.T) {
	h := newHands(t)
	serial := h.carry(h.left, edge-3)
	h.ok(h.left, digAt(edge-2, 100))
	lying := h.lying(h.left)
	h.Walk(h.right, torus.Pos{X: edge + 30, Y: 100})
	until(t, h.Cluster, 300, "the other one is too far away", func() bool { return h.right.At(h.right.Own(), h.right.Tick).X > edge+20 })
	remembered := func() (n int) {
		for _, x := range []zone.Holder{{Entity: h.right.Own().ID}, {Region: h.Grid.RegionAt(0)}, {Region: h.Grid.RegionAt(1)}} {
			a := h.Store.Do(zone.StoreRequest{Op: zone.StorePeek, Holder: x})
			n = max(n, len(a.Contents.In))
		}
		return n
	}
	most, given := 0, 0
	for _, to := range []ecs.EntityID{1<<63 | 1, 1 << 63, lying.ID, h.right.Own().ID} {
		for n := 0; n < 1000; {
			for h.left.Unanswered() < 4 {
				h.Send(h.left, giveItem(serial, to))
				n, given = n+1, given+1
			}
			run(t, h.Cluster, 1)
			h.left.TakeResults()
			most = max(most, remembered())
		}
	}
	run(t, h.Cluster, 100)
	h.carries(h.left, 1)
	if most > zone.MaxRemembered/4 {
		t.Errorf("%d gifts, %d were remembered at once", given, most)
	}
	h.ok(h.left, dropItem(serial))
	h.ok(h.left, pickUp(lying))
	run(t, h.Cluster, 20*60)
	if n := remembered(); n > 0 {
		t.Errorf("%d of %d gifts are never forgotten", n, given)
	}
	t.Logf("%d gifts, at most %d were remembered at once", given, most)
}

// TestHandsHaveLimits: what is out of reach, not carried or no stack is refused, and costs nothing.
func TestHandsHaveLimits(t *testing.T) {
	h := newHands(t)
	serial := h.carry(h.left, edge-3)
	for what, in := range map[string]*wire.Input{
		"dig far away":        digAt(edge+20, 100),
		"drop of another's":   dropItem(serial + 1),
		"give to oneself":     giveItem(serial, h.left.Own().ID),
		"split into nothing":  {Action: &wire.Input_Split{Split: &wire.Split{Serial: serial}}},
		"merge with itself":   {Action: &wire.Input_Merge{Merge: &wire.Merge{From: serial, Into: serial}}},
		"use of nothing":      {Action: &wire.Input_Use{Use: &wire.Use{Serial: 1}}},
		"pick of what is not": {Action: &wire.Input_Pick{Pick: &wire.Pick{Entity: 77, At: &wire.Position{X: uint32(edge), Y: 100}}}},
		"pick far away":       {Action: &wire.Input_Pick{Pick: &wire.Pick{Entity: 77, At: &wire.Position{X: 5, Y: 100}}}},
	} {
		if res := h.do(h.left, in); res.Code != wire.InputResult_CODE_INVALID || res.Detail == "" {
			t.Errorf("%s: %v", what, res)
		}
	}
	h.carries(h.left, 1)
}
