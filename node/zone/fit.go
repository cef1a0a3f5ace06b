package zone

import "slices"

// What the store has of a world of another shape, because it was imported or the grid was changed: a record, or an entry of a
// ground, that names a region which this world does not have. It stays in the store as it is, and nobody here acts on it.

// fit refuses what of an answer does not fit the grid.
func (e *Engine) fit(op StoreOp, a *StoreAnswer) {
	if a.Record != nil && !e.fits(a.Record) {
		a.Code, a.Record = StoreUnfit, nil
	}
	if slices.ContainsFunc(a.Records, func(r Record) bool { return !e.fits(&r) }) {
		a.Records = slices.DeleteFunc(slices.Clone(a.Records), func(r Record) bool { return !e.fits(&r) })
	}
	if a.Contents != nil && op != StorePeek {
		a.Contents = e.fitting(a.Contents)
	}
}

func (e *Engine) fits(r *Record) bool {
	if e.grid.CanonicalRegion(r.Home) && e.fitting(&r.Contents) == &r.Contents {
		return true
	}
	if len(e.unfit) < maxFailures && !e.unfit[r.Entity] {
		e.unfit[r.Entity] = true
		e.note("entity %v of account %d is stored by a world of another shape, at home in region %v: it stays in the store as it is, and cannot be here",
			r.Entity, r.Account, r.Home)
	}
	return false
}

// fitting are contents without the movements that cannot be carried out here; the very same if there are none.
func (e *Engine) fitting(c *Contents) *Contents {
	out := func(o OutEntry) bool { return !e.holds(o.To) || !e.grid.Canonical(o.Lying.At) }
	in := func(i InEntry) bool { return !e.holds(i.From) }
	if !slices.ContainsFunc(c.Out, out) && !slices.ContainsFunc(c.In, in) {
		return c
	}
	rest := *c
	rest.Out, rest.In = slices.DeleteFunc(slices.Clone(c.Out), out), slices.DeleteFunc(slices.Clone(c.In), in)
	return &rest
}

// holds reports whether a holder can be in this world.
func (e *Engine) holds(h Holder) bool { return !h.OnGround() || e.grid.CanonicalRegion(h.Region) }
