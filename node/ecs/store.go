package ecs

import (
	"fmt"
	"reflect"
)

// Component is a registered component type, whatever its Go type: what registries, queries and codecs need of a Store.
type Component interface {
	// Meta returns the registration.
	Meta() Meta
	// Has reports whether the entity has the component.
	Has(EntityID) bool
	// Remove takes the component from the entity and reports whether it had it.
	Remove(EntityID) bool
	// Len is the number of entities that have the component.
	Len() int

	terms() *column
}

// Store holds all components of type T. Make it with Register.
type Store[T any] struct {
	column
	meta   Meta
	values pages[T]
}

// Register adds the component type T to the world and returns its store. What is wrong with the registration is
// told by World.Check, all at once.
func Register[T any](w *World, meta Meta) *Store[T] {
	s := &Store[T]{meta: meta, column: column{world: w}}
	s.swapped = s.values.moveLast
	goType := reflect.TypeFor[T]()
	if other, taken := w.goTypes[goType]; taken {
		w.registration = append(w.registration, fmt.Errorf("component %q: its type %v is registered as %q", meta.Name, goType, other))
	}
	w.goTypes[goType] = meta.Name
	w.byName[meta.Name] = s
	w.components = append(w.components, s)
	w.columns = append(w.columns, &s.column)
	return s
}

// Meta returns the registration.
func (s *Store[T]) Meta() Meta { return s.meta }

// SetCodec attaches the handover codec, which usually needs the store to be made.
func (s *Store[T]) SetCodec(codec Codec) { s.meta.Codec = codec }

// Get returns the component of id, nil if it has none or is not alive. The pointer is good until the next removal.
func (s *Store[T]) Get(id EntityID) *T {
	if slot, alive := s.world.slots[id]; alive {
		if i := s.at(slot); i >= 0 {
			return s.values.at(i)
		}
	}
	return nil
}

// Set gives the component to id, or replaces its value, and returns where it is. It returns nil if id is not alive: a
// deferred Set may come after the end of its entity.
func (s *Store[T]) Set(id EntityID, value T) *T {
	slot, alive := s.world.slots[id]
	if !alive {
		return nil
	}
	i := s.at(slot)
	if i < 0 {
		s.world.mustNotIterate("adding " + s.meta.Name)
		i = s.insert(id, slot)
		s.values.grow(i)
	}
	p := s.values.at(i)
	*p = value
	return p
}

// Remove takes the component from id and reports whether it had it.
func (s *Store[T]) Remove(id EntityID) bool {
	slot, alive := s.world.slots[id]
	if !alive || !s.has(slot) {
		return false
	}
	s.world.mustNotIterate("removing " + s.meta.Name)
	return s.drop(slot)
}

// DeferSet defers Set(id, value).
func (s *Store[T]) DeferSet(id EntityID, value T) { s.world.Defer(func() { s.Set(id, value) }) }

// DeferRemove defers Remove(id).
func (s *Store[T]) DeferRemove(id EntityID) { s.world.Defer(func() { s.Remove(id) }) }

// Has reports whether id has the component.
func (s *Store[T]) Has(id EntityID) bool {
	slot, alive := s.world.slots[id]
	return alive && s.has(slot)
}

// Len is the number of entities that have the component, ghosts and frozen ones included.
func (s *Store[T]) Len() int { return len(s.ids) }

func (s *Store[T]) terms() *column { return &s.column }

// HandOver attaches a codec made of two functions. encode appends the value; decode fills a zero value from bytes that
// came from outside and must limit what it reads.
func (s *Store[T]) HandOver(encode func(dst []byte, value *T) []byte, decode func(b []byte, value *T) error) {
	s.SetCodec(&storeCodec[T]{store: s, encode: encode, decode: decode})
}

type storeCodec[T any] struct {
	store  *Store[T]
	encode func([]byte, *T) []byte
	decode func([]byte, *T) error
}

func (c *storeCodec[T]) Append(dst []byte, id EntityID) []byte { return c.encode(dst, c.store.Get(id)) }

func (c *storeCodec[T]) Has(id EntityID) bool { return c.store.Has(id) }

func (c *storeCodec[T]) Decode(id EntityID, b []byte) error {
	var value T
	if err := c.decode(b, &value); err != nil {
		return fmt.Errorf("decoding %s of %d: %w", c.store.meta.Name, id, err)
	}
	if c.store.Set(id, value) == nil {
		return fmt.Errorf("decoding %s of %d: the entity is not alive", c.store.meta.Name, id)
	}
	return nil
}
