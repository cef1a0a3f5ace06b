package zone

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Items as the store keeps them. Each item has a serial and is in one place: with a holder, or between two of them in the
// out entry of the one that it left. A holder is a durable entity, whose items are part of its record, or the ground of a
// region, whose items are in the region's slot.
//
// A movement from one holder to another is three writes, each to one slot: take (the item goes from the source's items into
// its out entries), put (into the target's items, with an in entry that remembers the movement), clear (out of the out
// entries). A target that does not want the item writes an in entry that is void, and the source takes the item back. The
// in entry stays until the source is known to have no out entry any more: whatever comes twice meets it. Whoever finds an
// out entry finishes its movement.

// Holder is who has items: an entity, or, with Entity 0, the ground of a region.
type Holder struct {
	Entity ecs.EntityID
	Region torus.RegionPos // of the ground; zero for an entity
}

// OnGround reports whether the holder is the ground of a region.
func (h Holder) OnGround() bool { return h.Entity == 0 }

// Item is one that exists once.
type Item = game.Item

// Lying is where an item is on the ground, and the entity that shows it there. It is zero for items of entities.
type Lying struct {
	Entity ecs.EntityID
	At     torus.Pos
}

// Held is an item of a holder.
type Held struct {
	Item
	Lying Lying
}

// OutEntry is an item that left a holder, on its way to another one.
type OutEntry struct {
	Movement uint64 // never used twice, never 0
	Item     Item
	To       Holder
	// Lying is where the item lies: on the ground that it is taken from as long as the movement is open, or, if To is a
	// ground, where it will. Entity 0: it was not on the ground.
	Lying Lying
}

// InEntry remembers a movement that came to a holder.
type InEntry struct {
	Movement uint64
	From     Holder
	Void     bool // the item was not taken in
}

// Edit is the state of one column of ground: how often it was dug. It only rises.
type Edit struct {
	X, Y  int64 // canonical metres
	Depth uint32
}

// Contents are the items of a holder.
type Contents struct {
	// Moves counts the writes of the contents. A write names the count that it expects, so it is carried out once, and
	// never after a later one.
	Moves uint64
	Items []Held     // by serial
	Out   []OutEntry // by movement
	In    []InEntry  // by movement
	Edits []Edit     // by X, then Y; ground only
	// Made and Ended count the serials that began and ended their existence at this holder: over all holders of a world,
	// their difference is the number of items.
	Made, Ended uint64
}

// Change is one atomic write to the contents of a holder. What it adds must not be there, what it removes must be.
// A serial may be in AddItems and in RemoveItems: the item then is replaced.
type Change struct {
	AddItems    []Held
	RemoveItems []uint64 // serials
	AddOut      []OutEntry
	RemoveOut   []uint64 // movements
	AddIn       []InEntry
	RemoveIn    []uint64 // movements
	Edits       []Edit   // set
	Made, Ended uint64   // added
}

// Limits of contents.
const (
	MaxHeld       = game.MaxHeld // items of an entity
	MaxLying      = 4096         // items on the ground of a region
	MaxOpen       = 1024         // out entries of a holder
	MaxRemembered = 4096         // in entries of a holder
	MaxEdits      = 1 << 16      // dug columns of a region
)

// Apply carries out a change and counts it in Moves; on an error, which says why it does not fit, nothing has changed. The slices
// that the contents had before are never written to, so a copy from before stays valid. Limits are not its affair.
func (c *Contents) Apply(ch *Change) error {
	after := *c
	var errs [4]error
	after.Items, errs[0] = edited(c.Items, ch.RemoveItems, ch.AddItems, func(h *Held) uint64 { return h.Serial })
	after.Out, errs[1] = edited(c.Out, ch.RemoveOut, ch.AddOut, func(o *OutEntry) uint64 { return o.Movement })
	after.In, errs[2] = edited(c.In, ch.RemoveIn, ch.AddIn, func(i *InEntry) uint64 { return i.Movement })
	after.Edits, errs[3] = deepened(c.Edits, ch.Edits)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	after.Moves++
	after.Made, after.Ended = c.Made+ch.Made, c.Ended+ch.Ended
	*c = after
	return nil
}

// edited returns a list, sorted by key, without some keys and with some values. What is removed has to be there, what is added
// must not be, unless it was removed. The list itself stays as it is.
func edited[T any](list []T, remove []uint64, add []T, key func(*T) uint64) ([]T, error) {
	if len(remove)+len(add) == 0 {
		return list, nil
	}
	find := func(in []T, k uint64) (int, bool) {
		return slices.BinarySearchFunc(in, k, func(v T, k uint64) int { return cmp.Compare(key(&v), k) })
	}
	remove = slices.Sorted(slices.Values(remove))
	after := make([]T, 0, len(list)+len(add))
	for i := range list {
		if len(remove) > 0 && key(&list[i]) == remove[0] {
			remove = remove[1:]
			continue
		}
		after = append(after, list[i])
	}
	if len(remove) > 0 {
		return nil, fmt.Errorf("%d is to be removed and is not there", remove[0])
	}
	for _, v := range add {
		i, found := find(after, key(&v))
		if found {
			return nil, fmt.Errorf("%d is to be added and is there already", key(&v))
		}
		after = slices.Insert(after, i, v)
	}
	if len(after) == 0 {
		return nil, nil
	}
	return after, nil
}

// deepened returns the edits of a ground with some set. Depths only rise.
func deepened(list, set []Edit) ([]Edit, error) {
	if len(set) == 0 {
		return list, nil
	}
	after := slices.Grow(slices.Clone(list), len(set))
	for _, e := range set {
		i, found := slices.BinarySearchFunc(after, e, CompareEdits)
		switch {
		case !found:
			after = slices.Insert(after, i, e)
		case e.Depth < after[i].Depth:
			return nil, fmt.Errorf("column %d,%d would become shallower", e.X, e.Y)
		default:
			after[i] = e
		}
	}
	return after, nil
}

// CompareEdits orders edits by X, then Y.
func CompareEdits(a, b Edit) int { return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y)) }
