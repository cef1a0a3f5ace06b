package simtest

import (
	"testing"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/torus"
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
