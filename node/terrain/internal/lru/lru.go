// Package lru is a cache that keeps what was used last, bounded by the sum of costs. It is not safe for concurrent use.
package lru

import "container/list"

// Cache maps keys to values; make it with New.
type Cache[K comparable, V any] struct {
	limit, used int
	byKey       map[K]*list.Element
	order       list.List // front: used last
}

type entry[K comparable, V any] struct {
	key   K
	value V
	cost  int
}

// New returns a cache whose costs sum up to at most limit.
func New[K comparable, V any](limit int) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, byKey: map[K]*list.Element{}}
}

// Get returns the value of a key and marks it as used.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	e, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(entry[K, V]).value, true
}

// Put sets the value of a key and drops what was not used for longest until the costs fit. A value that alone exceeds the
// limit is not kept.
func (c *Cache[K, V]) Put(key K, value V, cost int) {
	if e, ok := c.byKey[key]; ok {
		c.remove(e)
	}
	if cost > c.limit {
		return
	}
	for c.used+cost > c.limit {
		c.remove(c.order.Back())
	}
	c.byKey[key] = c.order.PushFront(entry[K, V]{key, value, cost})
	c.used += cost
}

// Used is the sum of costs, Len the number of entries.
func (c *Cache[K, V]) Used() int { return c.used }

// Len is the number of entries.
func (c *Cache[K, V]) Len() int { return len(c.byKey) }

// remove drops an entry.
func (c *Cache[K, V]) remove(e *list.Element) {
	gone := c.order.Remove(e).(entry[K, V])
	delete(c.byKey, gone.key)
	c.used -= gone.cost
}
