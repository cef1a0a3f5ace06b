package client

import (
	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Inputs about items. Their result is known when the store has it: CODE_OK, it is so; CODE_INVALID, it is not, and the detail
// says why; CODE_UNAVAILABLE, it is not known, and Seen.Inventory will tell. An item that was moved stays moved, whatever
// crashes.

// Pick takes up an item that lies at a place within 8 m: an entity in sight with an Item. One carries at most 64.
func (c *Client) Pick(entity ecs.EntityID, at torus.Pos) (number uint64, err error) {
	return c.Send(&wire.Input{Action: &wire.Input_Pick{Pick: &wire.Pick{
		Entity: uint64(entity), At: &wire.Position{X: uint32(at.X), Y: uint32(at.Y), Z: int32(at.Z)},
	}}})
}

// Drop puts an item of the inventory down where one stands.
func (c *Client) Drop(serial uint64) (number uint64, err error) {
	return c.Send(&wire.Input{Action: &wire.Input_Drop{Drop: &wire.Drop{Serial: serial}}})
}

// Give hands an item of the inventory to an entity within 8 m.
func (c *Client) Give(serial uint64, to ecs.EntityID) (number uint64, err error) {
	return c.Send(&wire.Input{Action: &wire.Input_Give{Give: &wire.Give{Serial: serial, To: uint64(to)}}})
}

// Use consumes one of an item of the inventory.
func (c *Client) Use(serial uint64) (number uint64, err error) {
	return c.Send(&wire.Input{Action: &wire.Input_Use{Use: &wire.Use{Serial: serial}}})
}

// Dig digs the ground within 3 m. A place yields something once, which then lies there.
func (c *Client) Dig(at torus.Pos) (number uint64, err error) {
	return c.Send(&wire.Input{Action: &wire.Input_Dig{Dig: &wire.Dig{X: uint32(at.X), Y: uint32(at.Y)}}})
}

// Split takes count of a stack for a new one, which gets a serial of its own; at least one stays.
func (c *Client) Split(serial uint64, count uint32) (number uint64, err error) {
	return c.Send(&wire.Input{Action: &wire.Input_Split{Split: &wire.Split{Serial: serial, Count: count}}})
}

// Merge puts a stack onto another of its kind; the first one's serial ends.
func (c *Client) Merge(from, into uint64) (number uint64, err error) {
	return c.Send(&wire.Input{Action: &wire.Input_Merge{Merge: &wire.Merge{From: from, Into: into}}})
}
