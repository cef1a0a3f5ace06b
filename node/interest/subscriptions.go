package interest

import (
	"cmp"
	"slices"
)

// Subscriptions relates observers to the chunks they hold. The zero value is ready for use.
type Subscriptions[K cmp.Ordered] struct {
	observers map[uint64][]K // by chunk, sorted
	chunks    map[K][]uint64 // by observer, sorted
}

// Add subscribes k to a chunk. It returns whether the subscription is new, and whether k is the chunk's first observer.
func (s *Subscriptions[K]) Add(k K, chunk uint64) (added, first bool) {
	if s.observers == nil {
		s.observers, s.chunks = map[uint64][]K{}, map[K][]uint64{}
	}
	list, added := insert(s.observers[chunk], k)
	if !added {
		return false, false
	}
	s.observers[chunk] = list
	s.chunks[k], _ = insert(s.chunks[k], chunk)
	return true, len(list) == 1
}

// Remove ends the subscription of k to a chunk. It returns whether there was one, and whether k was the last observer.
func (s *Subscriptions[K]) Remove(k K, chunk uint64) (removed, last bool) {
	list, removed := remove(s.observers[chunk], k)
	if !removed {
		return false, false
	}
	last = len(list) == 0
	if last {
		delete(s.observers, chunk)
	} else {
		s.observers[chunk] = list
	}
	if rest, _ := remove(s.chunks[k], chunk); len(rest) == 0 {
		delete(s.chunks, k)
	} else {
		s.chunks[k] = rest
	}
	return true, last
}

// Drop ends all subscriptions of k and returns the chunks that have no observer left.
func (s *Subscriptions[K]) Drop(k K) (orphaned []uint64) {
	for _, chunk := range slices.Clone(s.chunks[k]) {
		if _, last := s.Remove(k, chunk); last {
			orphaned = append(orphaned, chunk)
		}
	}
	return orphaned
}

// Observers returns who holds a chunk, sorted. The slice is valid until the next change and may not be written.
func (s *Subscriptions[K]) Observers(chunk uint64) []K { return s.observers[chunk] }

// Chunks returns what k holds, sorted. The slice is valid until the next change and may not be written.
func (s *Subscriptions[K]) Chunks(k K) []uint64 { return s.chunks[k] }

// Has reports whether k holds a chunk.
func (s *Subscriptions[K]) Has(k K, chunk uint64) bool {
	_, found := slices.BinarySearch(s.observers[chunk], k)
	return found
}

// Len is the number of chunks with an observer.
func (s *Subscriptions[K]) Len() int { return len(s.observers) }

func insert[T cmp.Ordered](list []T, v T) ([]T, bool) {
	i, found := slices.BinarySearch(list, v)
	if found {
		return list, false
	}
	return slices.Insert(list, i, v), true
}

func remove[T cmp.Ordered](list []T, v T) ([]T, bool) {
	i, found := slices.BinarySearch(list, v)
	if !found {
		return list, false
	}
	return slices.Delete(list, i, i+1), true
}
