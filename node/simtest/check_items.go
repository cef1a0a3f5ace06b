package simtest

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Items, invariant 2: after every tick each serial has one holder or one out entry in the store, none is gone that was not
// used up, and no node has or shows what the store does not.

// shelves is all contents in the store, as readers see them now.
type shelves map[zone.Holder]*zone.Contents

func (k *checker) shelves(v *vaultStore) shelves {
	all := shelves{}
	for h, c := range v.EachHolder {
		all[h] = &c
	}
	return all
}

// items asserts that. A store that came back empty has taken items with it.
func (k *checker) items() {
	v, ok := k.c.storage.(*vaultStore)
	if !ok || !k.handlesItems || k.c.faults.loss.run != nil {
		return
	}
	all := k.shelves(v)
	if f := &k.c.faults; f.rewound { // memory follows with the next write
		if lost, twice, why := all.single(); lost+twice > f.lostWrites {
			k.broke(2, "%d items are lost and %d doubled (%v), by the loss of %d entries", lost, twice, why, f.lostWrites)
		}
		return
	}
	if _, _, why := all.single(); why != nil {
		k.broke(2, "%v", why)
	}
	for _, n := range k.c.Nodes {
		if n.Engine == nil || !n.Acts() {
			continue
		}
		k.memory(n, all)
	}
}

// memory asserts that what a node has and shows is what the store has, or had before a write whose answer is on its way.
func (k *checker) memory(n *Node, all shelves) {
	grounds := map[torus.RegionPos]*zone.Contents{}
	n.Engine.EachHolding(func(h zone.Holder, c *zone.Contents, busy bool) {
		stored := all[h]
		if stored == nil {
			stored = &zone.Contents{}
		}
		if h.OnGround() {
			grounds[h.Region] = c
		}
		if !busy && c.Moves != stored.Moves {
			k.broke(1, "%s has seen %d writes to the items of %v, the store %d: somebody else writes", n.Session(), c.Moves, h, stored.Moves)
		}
		if c.Moves == stored.Moves && !same(c, stored) {
			k.broke(2, "%s has %+v of %v, the store has %+v", n.Session(), *c, h, *stored)
		}
	})
	n.Engine.EachEntity(func(e zone.Entity) {
		if e.Shows == 0 || !e.Acting {
			return
		}
		if c := grounds[e.Home]; c == nil || !shown(c, e) {
			k.broke(2, "%s shows item %d as entity %v in region %v, where none lies", n.Session(), e.Shows, e.ID, e.Home)
		}
	})
}

func same(a, b *zone.Contents) bool {
	equal := func(x, y any, n, m int) bool { return n == m && (n == 0 || reflect.DeepEqual(x, y)) }
	return a.Made == b.Made && a.Ended == b.Ended && equal(a.Items, b.Items, len(a.Items), len(b.Items)) &&
		equal(a.Out, b.Out, len(a.Out), len(b.Out)) && equal(a.In, b.In, len(a.In), len(b.In)) && equal(a.Edits, b.Edits, len(a.Edits), len(b.Edits))
}

// single says how many serials are lost and how many are in two places, and which or how many is wrong.
func (all shelves) single() (lost, twice int, why error) {
	places := map[uint64]zone.Holder{}
	var made, ended uint64
	put := func(serial uint64, h zone.Holder) {
		if other, known := places[serial]; known {
			twice++
			why = fmt.Errorf("item %d is in two places, %v and %v", serial, other, h)
		}
		places[serial] = h
	}
	for h, c := range all {
		made, ended = made+c.Made, ended+c.Ended
		for _, held := range c.Items {
			put(held.Serial, h)
		}
		for _, o := range c.Out {
			if !all.arrived(&o) {
				put(o.Item.Serial, h)
			}
		}
	}
	if lost = int(made-ended) - len(places); lost != 0 && why == nil {
		why = fmt.Errorf("%d items were made and %d used up, but there are %d", made, ended, len(places))
	}
	return max(lost, -lost), twice, why
}

// arrived reports whether the target of an out entry has taken the item: then it is the target's affair where it is.
func (all shelves) arrived(o *zone.OutEntry) bool {
	c := all[o.To]
	if c == nil {
		return false
	}
	for _, in := range c.In {
		if in.Movement == o.Movement {
			return !in.Void
		}
	}
	return false
}

// shown reports whether an item lies on a ground, or is being taken from it, and is shown by an entity.
func shown(c *zone.Contents, e zone.Entity) bool {
	return slices.ContainsFunc(c.Items, func(h zone.Held) bool { return h.Serial == e.Shows && h.Lying.Entity == e.ID }) ||
		slices.ContainsFunc(c.Out, func(o zone.OutEntry) bool { return o.Item.Serial == e.Shows && o.Lying.Entity == e.ID })
}

// lies reports whether the store has an item on the ground that an entity shows.
func (k *checker) lies(t *tracked) bool {
	v, ok := k.c.storage.(*vaultStore)
	if !ok {
		return false
	}
	for h, c := range v.EachHolder {
		if h.OnGround() && h.Region == t.home {
			return slices.ContainsFunc(c.Items, func(x zone.Held) bool { return x.Lying.Entity == t.id })
		}
	}
	return false
}
