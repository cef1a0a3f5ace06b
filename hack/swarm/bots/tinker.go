package bots

import (
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	// tinkerEvery is how often a tinkering bot does something with items, give or take a half.
	tinkerEvery = 3 * time.Second
	// hoard is how many items it carries before it only gets rid of them.
	hoard = 6
	// maxDoings bounds its inputs about items that have no result yet.
	maxDoings = 3
	// handReach and digReach are those of the contract, in metres: api/wire/client.proto.
	handReach = 8
	digReach  = 3
)

// action is what is done with items.
type action string

const (
	picks  action = "pick"
	drops  action = "drop"
	gives  action = "give"
	uses   action = "use"
	digs   action = "dig"
	splits action = "split"
	merges action = "merge"
)

// doing is an input about items.
type doing struct {
	action action
	serial uint64 // 0: of a dig
	count  uint32 // of that item, before
	into   uint64 // of a merge: where it goes, and how many those were
	onto   uint32
	off    uint32 // of a split: how many
	to     *bot   // of a give
	sent   time.Time

	entity ecs.EntityID // what is picked up, or to whom it is given
	at     torus.Pos    // where it lies, or is dug
}

// surroundings are what a bot could do something with.
type surroundings struct {
	lying []doing // picks
	near  []*bot
}

// tinker does something with items from time to time.
func (b *bot) tinker(now time.Time) {
	if now.Before(b.nextTinker) || len(b.hands.doings) >= maxDoings {
		return
	}
	b.nextTinker = now.Add(tinkerEvery/2 + b.chance(tinkerEvery))
	d, ok := b.idea(b.lookAround())
	if !ok {
		return
	}
	d.sent = now
	n, err := b.send(&d)
	if err != nil {
		return
	}
	b.sent(n)
	b.swarm.items.begun(b, n, d)
}

// lookAround lists what lies within reach and who stands there, in the order of their entities.
func (b *bot) lookAround() (s surroundings) {
	b.client.Do(func(m *client.Model, tick uint64) {
		for id, seen := range m.Entities {
			if id == b.truth.entity || !seen.Placed() || m.Grid.Chebyshev(b.truth.at, m.At(seen, tick)) > handReach {
				continue
			}
			if seen.Item != nil {
				s.lying = append(s.lying, doing{action: picks, serial: seen.Item.Serial, count: seen.Item.Count, entity: id, at: m.At(seen, tick)})
			} else if other := b.swarm.byEntity[id]; other != nil {
				s.near = append(s.near, other)
			}
		}
	})
	slices.SortFunc(s.lying, func(x, y doing) int { return int(int64(x.entity) - int64(y.entity)) })
	slices.SortFunc(s.near, func(x, y *bot) int { return x.index - y.index })
	return s
}

// idea is what to do next; false: nothing.
func (b *bot) idea(s surroundings) (doing, bool) {
	idle := b.hands.idle()
	if n := len(idle); n > 0 && (n > hoard || b.rng.IntN(2) == 0) {
		return b.handle(idle, s.near)
	}
	s.lying = slices.DeleteFunc(s.lying, func(d doing) bool { return b.hands.busy(d.serial) })
	if n := len(s.lying); n > 0 && b.rng.IntN(4) > 0 {
		return s.lying[b.rng.IntN(n)], true
	}
	// a metre less than the reach: the bot walks while the input travels
	aside := func() int64 { return b.rng.Int64N(2*digReach-1) - (digReach - 1) }
	return doing{action: digs, at: b.swarm.opts.Grid.Add(b.truth.at, aside(), aside())}, true
}

// handle does something with an item that is carried.
func (b *bot) handle(idle []*wire.Item, near []*bot) (doing, bool) {
	item := idle[b.rng.IntN(len(idle))]
	d := doing{serial: item.Serial, count: item.Count}
	switch n := b.rng.IntN(8); {
	case n == 0 && item.Kind > 1: // stones cannot be eaten
		d.action = uses
	case n == 1 && item.Count > 1:
		d.action, d.off = splits, 1+b.rng.Uint32N(item.Count-1)
	case n == 2:
		i := slices.IndexFunc(idle, func(other *wire.Item) bool { return other.Serial != item.Serial && other.Kind == item.Kind })
		if i < 0 {
			return d, false
		}
		d.action, d.into, d.onto = merges, idle[i].Serial, idle[i].Count
	case n < 6 && len(near) > 0:
		d.action, d.to = gives, near[b.rng.IntN(len(near))]
		d.entity = d.to.truth.entity
	default:
		d.action = drops
	}
	return d, d.action != gives || d.entity != 0
}

// send sends the input.
func (b *bot) send(d *doing) (uint64, error) {
	switch c := b.client; d.action {
	case picks:
		return c.Pick(d.entity, d.at)
	case drops:
		return c.Drop(d.serial)
	case gives:
		return c.Give(d.serial, d.entity)
	case uses:
		return c.Use(d.serial)
	case splits:
		return c.Split(d.serial, d.off)
	case merges:
		return c.Merge(d.serial, d.into)
	default:
		return c.Dig(d.at)
	}
}
