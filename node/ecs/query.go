package ecs

// Query visits the entities that have all of its positive and none of its negative terms. Ghost and Frozen are negative
// terms unless it opts in. Make it once with NewQuery and use it each tick; it may be nested in itself and in others.
type Query struct {
	world   *World
	with    []*column
	without []*column
}

// NewQuery returns a query for all entities that this node owns and may act for.
func NewQuery(w *World) *Query {
	q := &Query{world: w}
	q.exclude(w.Ghost.terms())
	q.exclude(w.Frozen.terms())
	return q
}

// With adds positive terms. To name a mark as a positive term is to opt in to it.
func (q *Query) With(terms ...Component) *Query {
	for _, t := range terms {
		q.include(t.terms())
		q.with = append(q.with, t.terms())
	}
	return q
}

// Without adds negative terms.
func (q *Query) Without(terms ...Component) *Query {
	for _, t := range terms {
		q.exclude(t.terms())
	}
	return q
}

// IncludeGhosts lets entities through that another node owns.
func (q *Query) IncludeGhosts() *Query {
	q.include(q.world.Ghost.terms())
	return q
}

// IncludeFrozen lets entities through that are being handed over.
func (q *Query) IncludeFrozen() *Query {
	q.include(q.world.Frozen.terms())
	return q
}

func (q *Query) exclude(c *column) { q.without = append(q.without, c) }

// include takes a negative term back.
func (q *Query) include(c *column) {
	kept := q.without[:0]
	for _, other := range q.without {
		if other != c {
			kept = append(kept, other)
		}
	}
	q.without = kept
}

// Each visits the matching entities, for use with range. The order is that of the smallest positive term, the first of
// equally small ones. Nothing may be added or removed meanwhile but by deferring it.
func (q *Query) Each(yield func(EntityID) bool) {
	base := q.smallest()
	q.world.iterating++
	defer q.done()
	for i, slot := range base.slots {
		if q.matches(slot) && !yield(base.ids[i]) {
			return
		}
	}
}

// Matches reports whether id is alive and the query would visit it. It is how ids from elsewhere, say from a chunk's
// index, pass the same terms.
func (q *Query) Matches(id EntityID) bool {
	slot, alive := q.world.slots[id]
	return alive && q.matches(slot)
}

// Count is the number of matching entities; it visits them.
func (q *Query) Count() (n int) {
	for range q.Each {
		n++
	}
	return n
}

// smallest returns the shortest set that holds all matches.
func (q *Query) smallest() *column {
	base := &q.world.alive
	for i, c := range q.with {
		if i == 0 || len(c.ids) < len(base.ids) {
			base = c
		}
	}
	return base
}

func (q *Query) matches(slot uint32) bool {
	for _, c := range q.with {
		if !c.has(slot) {
			return false
		}
	}
	for _, c := range q.without {
		if c.has(slot) {
			return false
		}
	}
	return true
}

func (q *Query) done() { q.world.iterating-- }

// Each1 visits the matches of q that have an A, with a pointer to it.
func Each1[A any](q *Query, a *Store[A], visit func(EntityID, *A)) {
	base := q.smallestOf(&a.column)
	q.world.iterating++
	defer q.done()
	for i, slot := range base.slots {
		if ia := a.at(slot); ia >= 0 && q.matches(slot) {
			visit(base.ids[i], a.values.at(ia))
		}
	}
}

// Each2 visits the matches of q that have an A and a B, with pointers to them.
func Each2[A, B any](q *Query, a *Store[A], b *Store[B], visit func(EntityID, *A, *B)) {
	base := q.smallestOf(&a.column, &b.column)
	q.world.iterating++
	defer q.done()
	for i, slot := range base.slots {
		ia, ib := a.at(slot), b.at(slot)
		if ia >= 0 && ib >= 0 && q.matches(slot) {
			visit(base.ids[i], a.values.at(ia), b.values.at(ib))
		}
	}
}

// Each3 visits the matches of q that have an A, a B and a C, with pointers to them.
func Each3[A, B, C any](q *Query, a *Store[A], b *Store[B], c *Store[C], visit func(EntityID, *A, *B, *C)) {
	base := q.smallestOf(&a.column, &b.column, &c.column)
	q.world.iterating++
	defer q.done()
	for i, slot := range base.slots {
		ia, ib, ic := a.at(slot), b.at(slot), c.at(slot)
		if ia >= 0 && ib >= 0 && ic >= 0 && q.matches(slot) {
			visit(base.ids[i], a.values.at(ia), b.values.at(ib), c.values.at(ic))
		}
	}
}

// smallestOf returns the shortest of the query's positive terms and more.
func (q *Query) smallestOf(more ...*column) *column {
	base := q.smallest()
	for _, c := range more {
		if len(c.ids) < len(base.ids) {
			base = c
		}
	}
	return base
}
