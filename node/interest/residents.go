package interest

import "cmp"

// Residents relates entities to the one chunk each is indexed in. The zero value is ready for use.
type Residents[E cmp.Ordered] struct {
	byChunk map[uint64][]E // sorted
	chunk   map[E]uint64
}

// Move indexes e in a chunk, whether it was indexed before or not. It returns the chunk it leaves, if it was elsewhere.
func (r *Residents[E]) Move(e E, to uint64) (from uint64, moved bool) {
	if r.byChunk == nil {
		r.byChunk, r.chunk = map[uint64][]E{}, map[E]uint64{}
	}
	from, known := r.chunk[e]
	if known && from == to {
		return from, false
	}
	if known {
		r.leave(e, from)
	}
	r.byChunk[to], _ = insert(r.byChunk[to], e)
	r.chunk[e] = to
	return from, known
}

// Remove forgets e.
func (r *Residents[E]) Remove(e E) {
	if from, known := r.chunk[e]; known {
		r.leave(e, from)
		delete(r.chunk, e)
	}
}

func (r *Residents[E]) leave(e E, chunk uint64) {
	if list, _ := remove(r.byChunk[chunk], e); len(list) == 0 {
		delete(r.byChunk, chunk)
	} else {
		r.byChunk[chunk] = list
	}
}

// In returns the entities of a chunk, sorted. The slice is valid until the next change and may not be written.
func (r *Residents[E]) In(chunk uint64) []E { return r.byChunk[chunk] }

// Chunk returns where e is indexed.
func (r *Residents[E]) Chunk(e E) (uint64, bool) {
	c, ok := r.chunk[e]
	return c, ok
}
