package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// World is what all holders of a store have, as of one instant.
type World struct {
	holders map[zone.Holder]*holding
	// passes and busy say how Read came to it.
	passes, busy int
}

// holding is what is kept of one holder.
type holding struct {
	stamp       string
	size        int
	seen        int // the last pass that found its key
	bad         error
	void        bool
	home        torus.RegionPos
	account     uint64
	made, ended uint64
	items       []uint64
	out         []outEntry
	in          []zone.InEntry
}

type outEntry struct {
	movement, serial uint64
	to               zone.Holder
}

// NewWorld is one without holders.
func NewWorld() *World { return &World{holders: map[zone.Holder]*holding{}} }

// Holders is how many there are.
func (w *World) Holders() int { return len(w.holders) }

// Put sets what a holder has: all fields of its hash, as name, value, name, value ... No fields: it is not there.
func (w *World) Put(h zone.Holder, fields []any) {
	if len(fields) == 0 {
		delete(w.holders, h)
		return
	}
	w.put(h, read(h, fields))
}

func (w *World) put(h zone.Holder, now *holding) *holding {
	if before := w.holders[h]; before != nil {
		now.seen = before.seen
	}
	w.holders[h] = now
	return now
}

// read keeps of a holder's fields what the rules are about.
func read(h zone.Holder, fields []any) *holding {
	now := &holding{}
	values := map[string]string{}
	for i, v := range fields {
		text, _ := v.(string)
		now.size += len(text)
		if i%2 == 0 && i+1 < len(fields) && (text == "void" || text == "counts") {
			values[text], _ = fields[i+1].(string)
		}
	}
	rec, found, err := store.DecodeHolder(h, fields)
	now.bad = err
	if _, void := values["void"]; void && !found && err == nil {
		now.void = true
		if len(fields) > 2 {
			now.bad = fmt.Errorf("its creation was given up, and it has fields besides")
		}
		return now
	}
	switch counts, counted := values["counts"]; {
	case err != nil:
		return now
	case !found:
		now.bad = fmt.Errorf("it has none of the fields that a record needs")
		return now
	case counted && counts != store.EncodeCounts(rec.Contents):
		now.bad = fmt.Errorf("its field counts is %.64q, but it has %q", counts, store.EncodeCounts(rec.Contents))
	}
	now.keep(rec)
	return now
}

func (now *holding) keep(rec zone.Record) {
	c := rec.Contents
	now.home, now.account, now.made, now.ended = rec.Home, rec.Account, c.Made, c.Ended
	now.items = make([]uint64, len(c.Items))
	for i, item := range c.Items {
		now.items[i] = item.Serial
	}
	for _, o := range c.Out {
		now.out = append(now.out, outEntry{o.Movement, o.Item.Serial, o.To})
	}
	now.in = slices.Clip(c.In)
}

// sorted are the holders in an order that does not depend on the map's.
func (w *World) sorted() []zone.Holder {
	list := make([]zone.Holder, 0, len(w.holders))
	for h := range w.holders {
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b zone.Holder) int {
		return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Region.Column, b.Region.Column), cmp.Compare(a.Region.Row, b.Region.Row))
	})
	return list
}

// place is where a serial is.
type place struct {
	serial uint64
	holder uint32 // its number in the sorted list
	moving bool   // in an out entry
}

// Check reports everything that is wrong with the holders and their items.
func (w *World) Check() *Report {
	r := &Report{Passes: w.passes, Busy: w.busy, Faults: []Fault{}}
	order := w.sorted()
	var places []place
	unreadable := 0
	for n, h := range order {
		now := w.holders[h]
		r.count(h, now)
		if now.bad != nil {
			r.fault(Fault{Kind: Unreadable, Keys: []string{store.HolderKey(h)}, What: now.bad.Error(), Do: "repair its fields by hand, or restore it; nodes do not overwrite it"})
			if now.items == nil {
				unreadable++
			}
		}
		for _, serial := range now.items {
			places = append(places, place{serial, uint32(n), false})
		}
		for _, o := range now.out {
			if !w.arrived(h, o, r) {
				places = append(places, place{o.serial, uint32(n), true})
			}
		}
		w.leftovers(now, r)
	}
	r.Items = len(places)
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.serial, b.serial), cmp.Compare(a.holder, b.holder)) })
	distinct := r.doubles(places, order)
	r.difference(distinct, unreadable)
	r.serials = places
	return r
}

// arrived reports whether the target of an out entry has taken the item in: then it is the target's affair where it is.
func (w *World) arrived(h zone.Holder, o outEntry, r *Report) bool {
	target := w.holders[o.to]
	if target == nil {
		return false
	}
	in, found := remembered(target, o.movement)
	if found && in.From != h {
		r.fault(Fault{
			Kind: Movement, Serial: o.serial, Keys: []string{store.HolderKey(h), store.HolderKey(o.to), store.HolderKey(in.From)},
			What: fmt.Sprintf("movement %d leaves %s, and %s remembers that it came from %s", o.movement, store.HolderKey(h), store.HolderKey(o.to), store.HolderKey(in.From)),
			Do:   "a movement's number was used twice: find out where the item is and remove the wrong entry by hand",
		})
		return false
	}
	return found && !in.Void
}

func remembered(c *holding, movement uint64) (zone.InEntry, bool) {
	i, found := slices.BinarySearchFunc(c.in, movement, func(e zone.InEntry, m uint64) int { return cmp.Compare(e.Movement, m) })
	if !found {
		return zone.InEntry{}, false
	}
	return c.in[i], true
}

// leftovers counts the movements that a holder remembers without need: their source has forgotten them.
func (w *World) leftovers(now *holding, r *Report) {
	for _, in := range now.in {
		source := w.holders[in.From]
		if source == nil || !slices.ContainsFunc(source.out, func(o outEntry) bool { return o.movement == in.Movement }) {
			r.Leftovers++
		}
	}
}
