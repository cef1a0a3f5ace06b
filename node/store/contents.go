package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

const (
	// maxPosition bounds the coordinates of what lies on the ground, in metres: far beyond any world.
	maxPosition = 1 << 40
	// maxCount keeps the counts of contents, such as Made, within what a server counts exactly.
	maxCount = 1 << 62
	// maxStep bounds what one change adds to them.
	maxStep = 1 << 32
)

// Apply carries out a change on the contents of a holder and counts it in Moves, or returns why it does not fit, and
// then c is as it was. The slices that c had before are never written to, so a copy of c from before stays valid.
func Apply(c *zone.Contents, ch *zone.Change, ground bool) error {
	if err := checkChange(ch, ground); err != nil {
		return err
	}
	after := *c
	if err := after.Apply(ch); err != nil {
		return err
	}
	if err := checkParts(after, ground); err != nil {
		return err
	}
	*c = after
	return nil
}

// CloneContents copies contents; the copy shares no memory with them.
func CloneContents(c zone.Contents) zone.Contents {
	c.Items, c.Out, c.In, c.Edits = cloned(c.Items), cloned(c.Out), cloned(c.In), cloned(c.Edits)
	return c
}

// cloned is slices.Clone, but nothing is nil.
func cloned[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return slices.Clone(list)
}

func serialOf(h zone.Held) uint64 { return h.Serial }

func movementOut(e zone.OutEntry) uint64 { return e.Movement }

func movementIn(e zone.InEntry) uint64 { return e.Movement }

func maxItems(ground bool) int {
	if ground {
		return zone.MaxLying
	}
	return zone.MaxHeld
}

func sortBy[T any](list []T, key func(T) uint64) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}

// repeated finds a key that a sorted list has twice.
func repeated[T any](list []T, key func(T) uint64) (uint64, bool) {
	for i := 1; i < len(list); i++ {
		if key(list[i-1]) == key(list[i]) {
			return key(list[i]), true
		}
	}
	return 0, false
}

// checkChange reports why a change makes no sense, whatever the contents are.
func checkChange(ch *zone.Change, ground bool) error {
	if ch == nil {
		return errors.New("no change")
	}
	if !ground && len(ch.Edits) > 0 {
		return errors.New("edits of an entity")
	}
	if ch.Made > maxStep || ch.Ended > maxStep {
		return fmt.Errorf("%d serials made and %d ended at once", ch.Made, ch.Ended)
	}
	added := zone.Contents{Items: ch.AddItems, Out: ch.AddOut, In: ch.AddIn, Edits: ch.Edits}
	return errors.Join(
		checkParts(sortContents(CloneContents(added)), ground),
		checkKeys("item", ch.RemoveItems, nil, maxItems(ground)),
		checkKeys("out entry", ch.RemoveOut, keysOf(ch.AddOut, movementOut), zone.MaxOpen),
		checkKeys("in entry", ch.RemoveIn, keysOf(ch.AddIn, movementIn), zone.MaxRemembered),
	)
}

func keysOf[T any](list []T, key func(T) uint64) []uint64 {
	var keys []uint64
	for _, v := range list {
		keys = append(keys, key(v))
	}
	return keys
}

// checkKeys wants keys that are not 0, each once and not among others.
func checkKeys(what string, keys, others []uint64, limit int) error {
	if len(keys) == 0 {
		return nil
	}
	all := slices.Concat(keys, others)
	slices.Sort(all)
	if _, twice := repeated(all, func(k uint64) uint64 { return k }); twice || all[0] == 0 || len(keys) > limit {
		return fmt.Errorf("%d keys of an %s to remove, one 0 or twice or added, or above %d", len(keys), what, limit)
	}
	return nil
}

// checkContents reports why contents can not be those of a holder. They have to be sorted.
func checkContents(c zone.Contents, ground bool) error {
	if c.Moves >= maxCount || c.Made >= maxCount || c.Ended >= maxCount {
		return fmt.Errorf("counts of %d, %d and %d", c.Moves, c.Made, c.Ended)
	}
	return checkParts(c, ground)
}

func checkParts(c zone.Contents, ground bool) error {
	switch {
	case len(c.Items) > maxItems(ground):
		return fmt.Errorf("%d items, %d are allowed", len(c.Items), maxItems(ground))
	case len(c.Out) > zone.MaxOpen || len(c.In) > zone.MaxRemembered:
		return fmt.Errorf("%d out entries and %d in entries", len(c.Out), len(c.In))
	case len(c.Edits) > zone.MaxEdits || len(c.Edits) > 0 && !ground:
		return fmt.Errorf("%d edits", len(c.Edits))
	}
	return errors.Join(
		checkEach(c.Items, serialOf, func(h zone.Held) error { return checkHeld(h, ground) }),
		checkEach(c.Out, movementOut, checkOut),
		checkEach(c.In, movementIn, func(e zone.InEntry) error { return checkHolder(e.From) }),
		checkEdits(c.Edits),
	)
}

// checkEach wants entries in the order of their keys, each once, and none with key 0.
func checkEach[T any](list []T, key func(T) uint64, check func(T) error) error {
	last := uint64(0)
	for _, v := range list {
		k := key(v)
		if k <= last {
			return fmt.Errorf("entry %d after %d", k, last)
		}
		last = k
		if err := check(v); err != nil {
			return fmt.Errorf("entry %d: %w", k, err)
		}
	}
	return nil
}

func checkHeld(h zone.Held, ground bool) error {
	switch {
	case ground && h.Lying.Entity == 0:
		return errors.New("lies on the ground without an entity")
	case !ground && h.Lying != zone.Lying{}:
		return errors.New("lies on the ground and is an entity's")
	}
	return errors.Join(checkItem(h.Item), checkPosition(h.Lying.At))
}

func checkOut(e zone.OutEntry) error {
	return errors.Join(checkItem(e.Item), checkHolder(e.To), checkPosition(e.Lying.At))
}

func checkItem(i zone.Item) error {
	if i.Serial == 0 || i.Count == 0 {
		return fmt.Errorf("item of serial %d and count %d", i.Serial, i.Count)
	}
	return nil
}

func checkPosition(p torus.Pos) error {
	if p.X < 0 || p.Y < 0 || p.X >= maxPosition || p.Y >= maxPosition || p.Z <= -maxPosition || p.Z >= maxPosition {
		return fmt.Errorf("position %s is in no world", p)
	}
	return nil
}

func checkEdits(edits []zone.Edit) error {
	for i, e := range edits {
		if i > 0 && zone.CompareEdits(edits[i-1], e) >= 0 {
			return fmt.Errorf("column %d,%d twice", e.X, e.Y)
		}
		if err := checkPosition(torus.Pos{X: e.X, Y: e.Y}); err != nil || e.Depth == 0 {
			return fmt.Errorf("column %d,%d of depth %d", e.X, e.Y, e.Depth)
		}
	}
	return nil
}

func checkHolder(h zone.Holder) error {
	switch {
	case h.OnGround():
		return checkRegion(h.Region)
	case h.Region != torus.RegionPos{}:
		return fmt.Errorf("holder is entity %d and region %s", h.Entity, h.Region)
	}
	return nil
}

// sortContents brings contents into their order, in place.
func sortContents(c zone.Contents) zone.Contents {
	sortBy(c.Items, serialOf)
	sortBy(c.Out, movementOut)
	sortBy(c.In, movementIn)
	slices.SortFunc(c.Edits, zone.CompareEdits)
	return c
}
