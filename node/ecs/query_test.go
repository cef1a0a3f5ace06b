package ecs

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func visited(q *Query) (ids []EntityID) {
	for id := range q.Each {
		ids = append(ids, id)
	}
	return ids
}

func TestQueriesLeaveOutGhostsAndFrozenUnlessTheyOptIn(t *testing.T) {
	w := newWorld(t, 4)
	hp := Register[health](w, notHandedOver("health"))
	for id := EntityID(1); id <= 4; id++ {
		hp.Set(id, health{int(id)})
	}
	w.Ghost.Set(1, Ghost{})
	w.Frozen.Set(2, Frozen{})
	w.Ghost.Set(3, Ghost{})
	w.Frozen.Set(3, Frozen{})
	for name, c := range map[string]struct {
		query *Query
		want  []EntityID
	}{
		"all":                   {NewQuery(w), []EntityID{4}},
		"a component":           {NewQuery(w).With(hp), []EntityID{4}},
		"ghosts":                {NewQuery(w).With(hp).IncludeGhosts(), []EntityID{1, 4}},
		"frozen":                {NewQuery(w).IncludeFrozen().With(hp), []EntityID{2, 4}},
		"both":                  {NewQuery(w).With(hp).IncludeGhosts().IncludeFrozen(), []EntityID{1, 2, 3, 4}},
		"ghosts by name":        {NewQuery(w).With(hp, w.Ghost), []EntityID{1}},
		"frozen by name":        {NewQuery(w).With(w.Frozen), []EntityID{2}},
		"ghosts, not frozen":    {NewQuery(w).With(w.Ghost).Without(w.Frozen), []EntityID{1}},
		"nothing has and lacks": {NewQuery(w).With(hp).Without(hp), nil},
	} {
		if got := visited(c.query); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if got := c.query.Count(); got != len(c.want) {
			t.Errorf("%s: count %d", name, got)
		}
		for id := EntityID(1); id <= 5; id++ {
			if c.query.Matches(id) != slices.Contains(c.want, id) {
				t.Errorf("%s: Matches(%d) = %v", name, id, c.query.Matches(id))
			}
		}
	}
}

func TestTypedIterationKeepsTheNegativeTerms(t *testing.T) {
	w := newWorld(t, 4)
	pos := Register[position](w, notHandedOver("position"))
	hp := Register[health](w, notHandedOver("health"))
	fire := Register[burning](w, notHandedOver("burning"))
	for id := EntityID(1); id <= 4; id++ {
		pos.Set(id, position{int(id), 0})
		hp.Set(id, health{})
		fire.Set(id, burning{})
	}
	w.Ghost.Set(1, Ghost{})
	w.Frozen.Set(2, Frozen{})
	q := NewQuery(w)
	var ids []EntityID
	Each1(q, pos, func(id EntityID, p *position) { ids = append(ids, id); p.y++ })
	Each2(q, pos, hp, func(id EntityID, p *position, h *health) { ids = append(ids, id); h.points += p.x })
	Each3(q, hp, pos, fire, func(id EntityID, h *health, _ *position, _ *burning) { ids = append(ids, id); h.points *= 10 })
	if want := []EntityID{3, 4, 3, 4, 3, 4}; !slices.Equal(ids, want) {
		t.Errorf("visited %v, want %v", ids, want)
	}
	if pos.Get(1).y != 0 || pos.Get(3).y != 1 || hp.Get(4).points != 40 || hp.Get(2).points != 0 {
		t.Error("the pointers are not those of the entities")
	}
}

func TestTheSmallestPositiveTermGivesTheOrder(t *testing.T) {
	w := newWorld(t, 5)
	pos := Register[position](w, notHandedOver("position"))
	hp := Register[health](w, notHandedOver("health"))
	for _, id := range []EntityID{1, 2, 3, 4, 5} {
		pos.Set(id, position{})
	}
	for _, id := range []EntityID{4, 2, 5} {
		hp.Set(id, health{})
	}
	if got := visited(NewQuery(w).With(pos, hp)); !slices.Equal(got, []EntityID{4, 2, 5}) {
		t.Errorf("both: %v", got)
	}
	if got := visited(NewQuery(w).With(pos)); !slices.Equal(got, []EntityID{1, 2, 3, 4, 5}) {
		t.Errorf("positions: %v", got)
	}
	var got []EntityID
	Each2(NewQuery(w), pos, hp, func(id EntityID, _ *position, _ *health) { got = append(got, id) })
	if !slices.Equal(got, []EntityID{4, 2, 5}) {
		t.Errorf("Each2: %v", got)
	}
	hp.Remove(4) // the last takes its place
	if got := visited(NewQuery(w).With(pos, hp)); !slices.Equal(got, []EntityID{5, 2}) {
		t.Errorf("after a removal: %v", got)
	}
}

func TestIterationEndsEarlyAndNests(t *testing.T) {
	w := newWorld(t, 3)
	q, pairs := NewQuery(w), 0
	for range q.Each {
		for range q.Each {
			pairs++
		}
	}
	for range q.Each {
		break
	}
	if pairs != 9 || w.iterating != 0 {
		t.Errorf("%d pairs, %d iterations open", pairs, w.iterating)
	}
}

func TestASystemThatPanicsLeavesNoIterationOpen(t *testing.T) {
	w := newWorld(t, 3)
	hp := Register[health](w, notHandedOver("health"))
	hp.Set(1, health{})
	wantPanic(t, "broken system", func() {
		Each1(NewQuery(w), hp, func(EntityID, *health) { panic("broken system") })
	})
	if !w.Destroy(1) {
		t.Error("the world is stuck")
	}
}

// operation is one step of the model test.
type operation struct {
	kind int
	id   EntityID
}

func run(w *World, stores []Component, set []func(EntityID), operations []operation) {
	for _, op := range operations {
		switch n := len(stores); {
		case op.kind == 0:
			_ = w.Create(op.id)
		case op.kind == 1:
			w.Evict(op.id)
		case op.kind < 2+n:
			set[op.kind-2](op.id)
		default:
			stores[op.kind-2-n].Remove(op.id)
		}
	}
}

// build makes a world with four kinds of components and the functions that set them.
func build() (*World, []Component, []func(EntityID)) {
	w := NewWorld()
	hp, fire := Register[health](w, notHandedOver("health")), Register[burning](w, notHandedOver("burning"))
	return w, []Component{hp, fire, w.Ghost, w.Frozen}, []func(EntityID){
		func(id EntityID) { hp.Set(id, health{int(id)}) },
		func(id EntityID) { fire.Set(id, burning{}) },
		func(id EntityID) { w.Ghost.Set(id, Ghost{}) },
		func(id EntityID) { w.Frozen.Set(id, Frozen{}) },
	}
}

// model is what a world should be, kept the slow way.
func model(operations []operation) map[EntityID]*[4]bool {
	alive := map[EntityID]*[4]bool{}
	for _, op := range operations {
		has := alive[op.id]
		switch {
		case op.kind == 0 && has == nil:
			alive[op.id] = &[4]bool{}
		case op.kind == 1:
			delete(alive, op.id)
		case op.kind >= 2 && has != nil:
			has[(op.kind-2)%4] = op.kind < 6
		}
	}
	return alive
}

func TestQueriesAgreeWithAModelAndRepeatTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		operations := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) operation {
			return operation{rapid.IntRange(0, 9).Draw(t, "kind"), EntityID(rapid.IntRange(1, 6).Draw(t, "id"))}
		}), 0, 200).Draw(t, "operations")
		w, stores, set := build()
		run(w, stores, set, operations)
		q := NewQuery(w).With(stores[0]).Without(stores[1])
		got := visited(q)
		var want []EntityID
		expected := model(operations)
		if all := visited(NewQuery(w).IncludeGhosts().IncludeFrozen()); len(all) != len(expected) || w.Len() != len(expected) {
			t.Fatalf("%v are alive, %d by count, want %d", all, w.Len(), len(expected))
		}
		for id, has := range expected {
			if *has == [4]bool{0: true} {
				want = append(want, id)
			}
			if hp := stores[0].(*Store[health]).Get(id); has[0] != (hp != nil) || hp != nil && hp.points != int(id) {
				t.Fatalf("entity %d has the health %v", id, hp)
			}
		}
		slices.Sort(want)
		if sorted := slices.Sorted(slices.Values(got)); !slices.Equal(sorted, want) {
			t.Fatalf("visited %v, want %v", got, want)
		}
		twin, twinStores, twinSet := build()
		run(twin, twinStores, twinSet, operations)
		if again := visited(NewQuery(twin).With(twinStores[0]).Without(twinStores[1])); !slices.Equal(again, got) {
			t.Fatalf("the same operations gave %v and %v", got, again)
		}
	})
}

func TestIterationDoesNotAllocate(t *testing.T) {
	w, pos, hp, q := crowd(t, 1000)
	sum := 0
	for name, iterate := range map[string]func(){
		"Each": func() {
			for id := range q.Each {
				sum += int(id)
			}
		},
		"Each2":   func() { Each2(q, pos, hp, func(_ EntityID, p *position, h *health) { sum += p.x + h.points }) },
		"Matches": func() { sum += q.Count(); q.Matches(5); w.Owned(5) },
		"Get":     func() { sum += pos.Get(7).x; pos.Set(7, position{}) },
		"come and go": func() {
			w.Evict(9)
			if w.Create(9) == nil {
				pos.Set(9, position{})
			}
		},
	} {
		if allocs := testing.AllocsPerRun(20, iterate); allocs != 0 {
			t.Errorf("%s: %v allocations, want 0", name, allocs)
		}
	}
}

// crowd is a world of n entities with positions, of which half have health and one in ten is a ghost.
func crowd(t testing.TB, n int) (*World, *Store[position], *Store[health], *Query) {
	w := newWorld(t, n)
	pos, hp := Register[position](w, notHandedOver("position")), Register[health](w, notHandedOver("health"))
	for id := EntityID(1); id <= EntityID(n); id++ {
		pos.Set(id, position{int(id), 0})
		if id%2 == 0 {
			hp.Set(id, health{100})
		}
		if id%10 == 0 {
			w.Ghost.Set(id, Ghost{})
		}
	}
	return w, pos, hp, NewQuery(w).With(pos, hp)
}

func BenchmarkEach(b *testing.B) {
	_, _, _, q := crowd(b, 10_000)
	sum := 0
	for b.Loop() {
		for id := range q.Each {
			sum += int(id)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4000, "ns/entity")
}

func BenchmarkEach2(b *testing.B) {
	_, pos, hp, q := crowd(b, 10_000)
	for b.Loop() {
		Each2(q, pos, hp, func(_ EntityID, p *position, h *health) { p.x += h.points })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4000, "ns/entity")
}

func BenchmarkGet(b *testing.B) {
	_, pos, _, _ := crowd(b, 10_000)
	for b.Loop() {
		pos.Get(777).x++
	}
}

func BenchmarkEvictAndCreate(b *testing.B) {
	w, pos, hp, _ := crowd(b, 10_000)
	for b.Loop() {
		w.Evict(778)
		_ = w.Create(778)
		pos.Set(778, position{})
		hp.Set(778, health{})
	}
}
