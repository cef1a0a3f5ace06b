package simtest

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
)

// tinker lets those who have the habit do something with items every few ticks: they dig, pick up what lies near, drop it,
// give it to whoever stands near, eat, split and merge. What they do depends on the plan's seed and on what they see.
func (r *Run) tinker() {
	for _, cl := range r.Clients {
		if r.ticks >= r.habits[cl].tinkersUntil || !cl.Open || cl.Own() == nil || (r.ticks+int(cl.Account)*3)%5 != 0 {
			continue
		}
		if in := r.tinkering(cl); in != nil {
			r.Send(cl, in)
		}
	}
}

// hoard is how many items a tinkering player carries before it only gets rid of them.
const hoard = 6

func (r *Run) tinkering(cl *Client) *wire.Input {
	own := cl.Own()
	at := cl.At(own, cl.Tick)
	if n := len(own.Inventory); n > 0 && (n > hoard || r.dice.IntN(2) == 0) {
		return r.handle(cl, own.Inventory[r.dice.IntN(n)])
	}
	if s := r.near(cl, func(s *client.Seen) bool { return s.Item != nil }); s != nil && r.dice.IntN(4) > 0 {
		return pickUp(s)
	}
	spot := r.Grid.Add(at, r.dice.Int64N(2*game.DigReach+1)-game.DigReach, r.dice.Int64N(2*game.DigReach+1)-game.DigReach)
	return digAt(spot.X, spot.Y)
}

// near is one of the others that a client sees within its reach, nil if there is none.
func (r *Run) near(cl *Client, wanted func(*client.Seen) bool) *client.Seen {
	at := cl.At(cl.Own(), cl.Tick)
	var ids []ecs.EntityID
	for id, s := range cl.Entities {
		if s != cl.Own() && s.Placed() && wanted(s) && r.Grid.Chebyshev(at, cl.At(s, cl.Tick)) <= game.HandReach {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return cl.Entities[ids[r.dice.IntN(len(ids))]]
}

// handle does something with an item that is carried.
func (r *Run) handle(cl *Client, item *wire.Item) *wire.Input {
	switch r.dice.IntN(8) {
	case 0:
		return &wire.Input{Action: &wire.Input_Use{Use: &wire.Use{Serial: item.Serial}}}
	case 1:
		return &wire.Input{Action: &wire.Input_Split{Split: &wire.Split{Serial: item.Serial, Count: 1}}}
	case 2:
		inv := cl.Own().Inventory
		return &wire.Input{Action: &wire.Input_Merge{Merge: &wire.Merge{From: item.Serial, Into: inv[r.dice.IntN(len(inv))].Serial}}}
	case 3, 4, 5:
		if s := r.near(cl, func(s *client.Seen) bool { return s.Item == nil }); s != nil {
			return giveItem(item.Serial, s.ID)
		}
	}
	return dropItem(item.Serial)
}

func digAt(x, y int64) *wire.Input {
	return &wire.Input{Action: &wire.Input_Dig{Dig: &wire.Dig{X: uint32(x), Y: uint32(y)}}}
}

func pickUp(s *client.Seen) *wire.Input {
	return &wire.Input{Action: &wire.Input_Pick{Pick: &wire.Pick{
		Entity: uint64(s.ID), At: &wire.Position{X: uint32(s.Walk.At.X), Y: uint32(s.Walk.At.Y)},
	}}}
}

func dropItem(serial uint64) *wire.Input {
	return &wire.Input{Action: &wire.Input_Drop{Drop: &wire.Drop{Serial: serial}}}
}

func giveItem(serial uint64, to ecs.EntityID) *wire.Input {
	return &wire.Input{Action: &wire.Input_Give{Give: &wire.Give{Serial: serial, To: uint64(to)}}}
}
