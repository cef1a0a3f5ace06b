package ecs

import (
	"errors"
	"fmt"
	"reflect"
)

const (
	// MaxEntities bounds a world: twenty times what a node is meant to simulate.
	MaxEntities = 1 << 20
	// maxDeferred bounds the changes waiting for Apply: more is a system that defers in a loop.
	maxDeferred = 1 << 20
)

// Errors of Create.
var (
	ErrNoID  = errors.New("entity id 0 is no entity")
	ErrAlive = errors.New("entity is alive already")
	ErrFull  = fmt.Errorf("world holds %d entities, its limit", MaxEntities)
)

// Ghost marks an entity that another node owns: here it is seen and aimed at, never written.
type Ghost struct{}

// Frozen marks an entity in the middle of a handoff: nobody acts for it. It counts as alive for memory, range and trade.
type Frozen struct{}

// World holds the entities and component stores of one node. Make it with NewWorld.
type World struct {
	// Ghost and Frozen are the marks that queries exclude by default.
	Ghost  *Store[Ghost]
	Frozen *Store[Frozen]

	components   []Component
	columns      []*column // of the components, in the same order
	byName       map[string]Component
	goTypes      map[reflect.Type]string
	registration []error

	slots   map[EntityID]uint32 // where an entity's components are found; never iterated
	alive   column              // of all entities
	leaving []bool              // per slot: Destroy is telling its listeners
	free    []uint32            // slots to use again, last freed first
	onEnd   []func(EntityID)
	limit   int // MaxEntities, less in tests

	iterating int
	deferred  []func()
	applied   int // how many of deferred are done
}

// NewWorld returns an empty world with the marks registered.
func NewWorld() *World {
	w := &World{limit: MaxEntities, slots: map[EntityID]uint32{}, byName: map[string]Component{}, goTypes: map[reflect.Type]string{}}
	w.Ghost = Register[Ghost](w, Meta{Name: "ghost", NotHandedOver: "it marks this node's view of another's entity"})
	w.Frozen = Register[Frozen](w, Meta{Name: "frozen", NotHandedOver: "it marks the copy that stays behind in a handoff"})
	return w
}

// Create makes the entity id, without components. The error is ErrNoID, ErrAlive or ErrFull.
func (w *World) Create(id EntityID) error {
	w.mustNotIterate("Create")
	switch _, exists := w.slots[id]; {
	case id == 0:
		return ErrNoID
	case exists:
		return fmt.Errorf("creating %d: %w", id, ErrAlive)
	case len(w.slots) >= w.limit:
		return ErrFull
	}
	slot := w.takeSlot()
	w.slots[id] = slot
	w.alive.insert(id, slot)
	return nil
}

// takeSlot returns a slot that no entity uses.
func (w *World) takeSlot() uint32 {
	if n := len(w.free); n > 0 {
		slot := w.free[n-1]
		w.free = w.free[:n-1]
		return slot
	}
	w.leaving = append(w.leaving, false)
	return uint32(len(w.leaving) - 1)
}

// OnDestroy adds a listener that Destroy calls, in the order of adding, while the entity and its components are still
// there to be read.
func (w *World) OnDestroy(listener func(EntityID)) { w.onEnd = append(w.onEnd, listener) }

// Destroy ends the entity: listeners first, then its components. It reports whether the entity was alive; one that is
// being destroyed already is not destroyed again.
func (w *World) Destroy(id EntityID) bool {
	w.mustNotIterate("Destroy")
	slot, exists := w.slots[id]
	if !exists || w.leaving[slot] {
		return false
	}
	w.leaving[slot] = true
	defer func() { w.leaving[slot] = false }()
	for _, listener := range w.onEnd {
		listener(id)
	}
	return w.Evict(id)
}

// Evict removes the entity and its components without telling anybody: it lives on elsewhere, and whoever saw it goes on
// seeing it. It reports whether the entity was alive.
func (w *World) Evict(id EntityID) bool {
	w.mustNotIterate("Evict")
	slot, exists := w.slots[id]
	if !exists {
		return false
	}
	for _, c := range w.columns {
		c.drop(slot)
	}
	w.alive.drop(slot)
	delete(w.slots, id)
	w.free = append(w.free, slot)
	return true
}

// Alive reports whether the entity exists here, be it as a ghost or frozen.
func (w *World) Alive(id EntityID) bool {
	_, exists := w.slots[id]
	return exists
}

// Owned reports whether the entity exists here and may be acted for: it is neither a ghost nor frozen.
func (w *World) Owned(id EntityID) bool {
	slot, exists := w.slots[id]
	return exists && !w.Ghost.has(slot) && !w.Frozen.has(slot)
}

// Len is the number of entities, ghosts and frozen ones included.
func (w *World) Len() int { return len(w.slots) }

// Components returns the registered component types in the order of registration. The caller must not change the slice.
func (w *World) Components() []Component { return w.components }

// Component returns the component type registered under a name.
func (w *World) Component(name string) (Component, bool) {
	c, known := w.byName[name]
	return c, known
}

// Defer keeps a change for Apply. It may be called at any time, also while iterating and by a deferred change itself,
// which then is made by the same Apply, after all that were there before.
func (w *World) Defer(change func()) {
	if len(w.deferred)-w.applied >= maxDeferred {
		panic("ecs: too many deferred changes: a system defers in a loop")
	}
	w.deferred = append(w.deferred, change)
}

// DeferDestroy defers Destroy(id).
func (w *World) DeferDestroy(id EntityID) { w.Defer(func() { w.Destroy(id) }) }

// DeferEvict defers Evict(id).
func (w *World) DeferEvict(id EntityID) { w.Defer(func() { w.Evict(id) }) }

// Deferred is the number of changes that wait for Apply.
func (w *World) Deferred() int { return len(w.deferred) - w.applied }

// Apply makes the deferred changes in the order in which they were deferred. A change that panics is not made again: if
// the caller recovers, the next Apply goes on behind it.
func (w *World) Apply() {
	w.mustNotIterate("Apply")
	for made := 0; w.applied < len(w.deferred); made++ {
		if made >= maxDeferred {
			panic("ecs: deferred changes go on deferring others")
		}
		change := w.deferred[w.applied]
		w.deferred[w.applied] = nil
		w.applied++
		change()
	}
	w.deferred, w.applied = w.deferred[:0], 0
}

// mustNotIterate guards what would pull entities away from under a running query.
func (w *World) mustNotIterate(operation string) {
	if w.iterating > 0 {
		panic("ecs: " + operation + " while a query is iterated: defer it")
	}
}
