package audit

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/zone"
)

// doubleTries is how often the places of one item are looked at, until its movements lead to nowhere else.
const doubleTries = 10

// proven reports what is wrong for certain in a world of which no point in time was found: what was unreadable when it was
// read, and items that are in two places when these are looked at again, at one instant.
func (w *World) proven(ctx context.Context, client redis.UniversalClient) (*Report, error) {
	rough, r := w.Check(), &Report{Passes: w.passes, Busy: w.busy}
	for _, f := range rough.Faults {
		switch f.Kind {
		case Unreadable:
			r.fault(f)
		case Twice:
			again, found, err := double(ctx, client, f)
			if err != nil {
				return nil, err
			}
			if found {
				r.fault(again)
			}
		}
	}
	return r, nil
}

// double looks at the places of an item, and at where it may have gone from there, at one instant.
func double(ctx context.Context, client redis.UniversalClient, f Fault) (Fault, bool, error) {
	var holders []zone.Holder
	for _, key := range f.Keys {
		holders = append(holders, store.ParseKey(key).Holder)
	}
	for range doubleTries {
		replies, err := hashes(ctx, client.TxPipeline(), holders)
		if err != nil {
			return Fault{}, false, err
		}
		w := NewWorld()
		for i, h := range holders {
			if replies[i].bad == nil {
				w.Put(h, replies[i].fields)
			}
		}
		further := w.targets(f.Serial, holders)
		if len(further) > 0 {
			holders = append(holders, further...)
			continue
		}
		for _, again := range w.Check().Faults {
			if again.Kind == Twice && again.Serial == f.Serial {
				return again, true, nil
			}
		}
		return Fault{}, false, nil
	}
	return Fault{}, false, nil
}

// targets are where an item is on its way to, but for holders that are known.
func (w *World) targets(serial uint64, known []zone.Holder) []zone.Holder {
	var list []zone.Holder
	for _, now := range w.holders {
		for _, o := range now.out {
			if o.serial == serial && !slices.Contains(known, o.to) && !slices.Contains(list, o.to) {
				list = append(list, o.to)
			}
		}
	}
	return list
}
