package zone

import (
	"cmp"
	"slices"
)

// What can be asked of a holding: what is there, with all that the store has yet to answer for.

// busy reports whether the store has yet to answer for the contents.
func (hd *holding) busy() bool { return len(hd.flight) > 0 || hd.reading || hd.reread }

// changes yields what the store has yet to answer for.
func (hd *holding) changes(yield func(*Change) bool) {
	for _, list := range [...][]itemWrite{hd.flight, hd.queue} {
		for i := range list {
			if !yield(&list[i].change) {
				return
			}
		}
	}
}

// spoken reports whether an item is being written already.
func (hd *holding) spoken(serial uint64) bool {
	for c := range hd.changes {
		if slices.Contains(c.RemoveItems, serial) {
			return true
		}
	}
	return false
}

// expected is how many items the holder will have at most: with those that may come back and those that are being put.
func (hd *holding) expected() int {
	n := len(hd.Items) + len(hd.Out)
	for c := range hd.changes {
		n += max(0, len(c.AddItems)-len(c.RemoveItems))
	}
	return n
}

// has reports whether an item is there.
func (hd *holding) has(serial uint64) bool {
	_, found := slices.BinarySearchFunc(hd.Items, serial, func(h Held, s uint64) int { return cmp.Compare(h.Serial, s) })
	return found
}

// opening is how many out entries there will be at most, deepening how many edits.
func (hd *holding) opening() int {
	n := len(hd.Out)
	for c := range hd.changes {
		n += len(c.AddOut)
	}
	return n
}

func (hd *holding) deepening() int {
	n := len(hd.Edits)
	for c := range hd.changes {
		n += len(c.Edits)
	}
	return n
}

func (hd *holding) in(movement uint64) *InEntry {
	i, found := slices.BinarySearchFunc(hd.In, movement, func(e InEntry, m uint64) int { return cmp.Compare(e.Movement, m) })
	if !found {
		return nil
	}
	return &hd.In[i]
}

// putting reports whether a movement is being written as an in entry.
func (hd *holding) putting(movement uint64) bool {
	for c := range hd.changes {
		if slices.ContainsFunc(c.AddIn, func(e InEntry) bool { return e.Movement == movement }) {
			return true
		}
	}
	return false
}

func (hd *holding) out(movement uint64) *OutEntry {
	i, found := slices.BinarySearchFunc(hd.Out, movement, func(e OutEntry, m uint64) int { return cmp.Compare(e.Movement, m) })
	if !found {
		return nil
	}
	return &hd.Out[i]
}

func (hd *holding) course(movement uint64) *course {
	for i := range hd.routes {
		if hd.routes[i].movement == movement {
			return &hd.routes[i]
		}
	}
	return nil
}

// full reports whether no more may wait. Those who wait for an answer are no more than the writes.
func (hd *holding) full(ground bool) bool {
	if ground {
		return len(hd.queue) >= maxGroundWrites
	}
	return len(hd.queue) >= maxWrites
}
