package ecs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

type position struct{ x, y int }

type health struct{ points int }

type burning struct{}

// notHandedOver is a registration for tests that need no codec.
func notHandedOver(name string) Meta { return Meta{Name: name, NotHandedOver: "it is of a test"} }

// newWorld is a world with entities 1 to n.
func newWorld(t testing.TB, n int) *World {
	t.Helper()
	w := NewWorld()
	for id := EntityID(1); id <= EntityID(n); id++ {
		if err := w.Create(id); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func wantPanic(t *testing.T, text string, f func()) {
	t.Helper()
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, text) {
			t.Errorf("panic %q, want %q in it", got, text)
		}
	}()
	f()
}

func TestCreateRefusesWhatIsNoEntityOrAliveAlready(t *testing.T) {
	w := newWorld(t, 1)
	if err := w.Create(0); !errors.Is(err, ErrNoID) {
		t.Errorf("id 0: %v", err)
	}
	if err := w.Create(1); !errors.Is(err, ErrAlive) {
		t.Errorf("twice: %v", err)
	}
	if w.Len() != 1 {
		t.Errorf("%d entities", w.Len())
	}
}

func TestWorldHasALimit(t *testing.T) {
	if got := NewWorld().limit; got != MaxEntities {
		t.Errorf("the limit is %d", got)
	}
	w := newWorld(t, 9)
	w.limit = 9
	if err := w.Create(10); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	w.Evict(5)
	if err := w.Create(10); err != nil {
		t.Errorf("after one left: %v", err)
	}
}

func TestDestroyTellsListenersInOrderWhileComponentsAreThere(t *testing.T) {
	w := newWorld(t, 1)
	pos := Register[position](w, notHandedOver("position"))
	pos.Set(1, position{3, 4})
	var told []string
	w.OnDestroy(func(id EntityID) {
		if p := pos.Get(id); p == nil || p.x != 3 || !w.Alive(id) {
			t.Errorf("entity %d is gone already", id)
		}
		if w.Destroy(id) {
			t.Error("destroyed twice")
		}
		told = append(told, "first")
	})
	w.OnDestroy(func(EntityID) { told = append(told, "second") })
	if !w.Destroy(1) || w.Alive(1) || pos.Len() != 0 || pos.Get(1) != nil {
		t.Error("the entity is still there")
	}
	if w.Destroy(1) || !slices.Equal(told, []string{"first", "second"}) {
		t.Errorf("told %v", told)
	}
}

func TestEvictTellsNobody(t *testing.T) {
	w := newWorld(t, 1)
	pos := Register[position](w, notHandedOver("position"))
	pos.Set(1, position{3, 4})
	w.OnDestroy(func(EntityID) { t.Error("a listener was told") })
	if !w.Evict(1) || w.Alive(1) || pos.Len() != 0 {
		t.Error("the entity is still there")
	}
	if w.Evict(1) {
		t.Error("evicted twice")
	}
}

func TestAnEntityCreatedAgainHasNothingOfItsFormerLife(t *testing.T) {
	w := newWorld(t, 2)
	pos := Register[position](w, notHandedOver("position"))
	pos.Set(1, position{3, 4})
	w.Ghost.Set(1, Ghost{})
	w.Evict(1)
	if err := w.Create(1); err != nil {
		t.Fatal(err)
	}
	if pos.Has(1) || w.Ghost.Has(1) || !w.Owned(1) {
		t.Error("it kept a component")
	}
}

func TestOwnedIsNeitherGhostNorFrozen(t *testing.T) {
	w := newWorld(t, 3)
	w.Ghost.Set(1, Ghost{})
	w.Frozen.Set(2, Frozen{})
	for id, want := range map[EntityID]bool{1: false, 2: false, 3: true, 4: false} {
		if w.Owned(id) != want {
			t.Errorf("Owned(%d) = %v", id, !want)
		}
	}
	w.Frozen.Remove(2)
	if !w.Owned(2) {
		t.Error("thawed, but not owned")
	}
}

func TestDeferredChangesAreMadeInOrderIncludingThoseTheyDefer(t *testing.T) {
	w := newWorld(t, 2)
	hp := Register[health](w, notHandedOver("health"))
	var made []int
	note := func(n int) func() { return func() { made = append(made, n) } }
	hp.DeferSet(1, health{1})
	hp.DeferSet(1, health{2})
	w.Defer(func() { note(1)(); w.Defer(note(3)) })
	w.Defer(note(2))
	w.DeferDestroy(2)
	hp.DeferSet(2, health{9}) // after its entity's end: without effect
	if hp.Has(1) || w.Deferred() != 6 {
		t.Errorf("%d changes wait", w.Deferred())
	}
	w.Apply()
	if got := hp.Get(1); got == nil || got.points != 2 {
		t.Errorf("health %v, want the later one", got)
	}
	if !slices.Equal(made, []int{1, 2, 3}) || w.Alive(2) || hp.Has(2) || w.Deferred() != 0 {
		t.Errorf("made %v, alive %v", made, w.Alive(2))
	}
	hp.DeferRemove(1)
	w.DeferEvict(1)
	w.Apply()
	if hp.Len() != 0 || w.Len() != 0 {
		t.Error("removal and eviction wait still")
	}
}

func TestApplyGoesOnBehindAChangeThatPanicked(t *testing.T) {
	w := newWorld(t, 0)
	made := 0
	w.Defer(func() { made++; panic("a bad change") })
	w.Defer(func() { made += 10 })
	wantPanic(t, "a bad change", w.Apply)
	w.Apply()
	if made != 11 || w.Deferred() != 0 {
		t.Errorf("made %d, %d wait", made, w.Deferred())
	}
}

func TestChangesThatDeferForEverAreStopped(t *testing.T) {
	w := newWorld(t, 0)
	var again func()
	again = func() { w.Defer(again) }
	w.Defer(again)
	wantPanic(t, "go on deferring", w.Apply)
}

func TestNothingIsAddedOrRemovedUnderAnIteration(t *testing.T) {
	w := newWorld(t, 2)
	hp := Register[health](w, notHandedOver("health"))
	hp.Set(1, health{1})
	for name, change := range map[string]func(){
		"Create":          func() { _ = w.Create(9) },
		"Destroy":         func() { w.Destroy(1) },
		"Evict":           func() { w.Evict(1) },
		"adding health":   func() { hp.Set(2, health{}) },
		"removing health": func() { hp.Remove(1) },
		"Apply":           func() { w.Apply() },
	} {
		q := NewQuery(w)
		wantPanic(t, name+" while a query is iterated", func() {
			for range q.Each {
				change()
			}
		})
	}
	for range NewQuery(w).With(hp).Each {
		hp.Set(1, health{2}) // replaces a value only
		hp.DeferSet(2, health{3})
	}
	w.Apply()
	if hp.Get(1).points != 2 || hp.Get(2).points != 3 {
		t.Error("after the iterations, changes are free again")
	}
}

func TestWhatLeavesIsForgotten(t *testing.T) {
	w := newWorld(t, 2)
	names := Register[*string](w, notHandedOver("name"))
	one, two := "one", "two"
	names.Set(1, &one)
	names.Set(2, &two)
	for range 100 {
		w.Evict(1)
		_ = w.Create(1)
	}
	if got := len(w.leaving); got != 2 {
		t.Errorf("%d slots for 2 entities", got)
	}
	if got := *names.values.at(0); got != &two {
		t.Error("the last did not take the place of the one that left")
	}
	if got := *names.values.at(1); got != nil {
		t.Error("the store holds on to what left")
	}
}

func TestPointersOutliveAdditions(t *testing.T) {
	w := newWorld(t, 1000)
	hp := Register[health](w, notHandedOver("health"))
	first := hp.Set(1, health{1})
	for id := EntityID(2); id <= 1000; id++ {
		hp.Set(id, health{int(id)})
	}
	first.points = 77
	if got := hp.Get(1).points; got != 77 {
		t.Errorf("wrote to a stale copy: %d", got)
	}
}

func TestSetReplacesAndRefusesTheDead(t *testing.T) {
	w := newWorld(t, 1)
	hp := Register[health](w, notHandedOver("health"))
	if hp.Set(5, health{1}) != nil || hp.Get(5) != nil || hp.Has(5) || hp.Remove(5) {
		t.Error("a dead entity has a component")
	}
	hp.Set(1, health{1})
	if hp.Set(1, health{2}).points != 2 || hp.Len() != 1 {
		t.Error("set twice is not one component")
	}
	if !hp.Remove(1) || hp.Remove(1) || hp.Len() != 0 {
		t.Error("removed twice or not at all")
	}
}
