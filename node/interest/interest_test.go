package interest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/node/torus"
)

// TestSubscriptionsAgreeWithASetOfPairs: whatever is added, removed and dropped, both directions tell the same.
func TestSubscriptionsAgreeWithASetOfPairs(t *testing.T) {
	type pair struct {
		k     string
		chunk uint64
	}
	rapid.Check(t, func(t *rapid.T) {
		var s Subscriptions[string]
		model := map[pair]bool{}
		observers := func(chunk uint64) (list []string) {
			for p := range model {
				if p.chunk == chunk {
					list = append(list, p.k)
				}
			}
			slices.Sort(list)
			return list
		}
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			p := pair{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "observer"), uint64(rapid.IntRange(0, 4).Draw(t, "chunk"))}
			before := len(observers(p.chunk))
			switch rapid.IntRange(0, 2).Draw(t, "operation") {
			case 0:
				added, first := s.Add(p.k, p.chunk)
				if added == model[p] || first != (before == 0) {
					t.Fatalf("add %v: added %v first %v", p, added, first)
				}
				model[p] = true
			case 1:
				removed, last := s.Remove(p.k, p.chunk)
				if removed != model[p] || last != (removed && before == 1) {
					t.Fatalf("remove %v: removed %v last %v", p, removed, last)
				}
				delete(model, p)
			case 2:
				var orphaned []uint64
				for chunk := range uint64(5) {
					if list := observers(chunk); len(list) == 1 && list[0] == p.k {
						orphaned = append(orphaned, chunk)
					}
				}
				if got := s.Drop(p.k); !slices.Equal(got, orphaned) {
					t.Fatalf("drop %s orphaned %v, want %v", p.k, got, orphaned)
				}
				for q := range model {
					if q.k == p.k {
						delete(model, q)
					}
				}
			}
			for chunk := range uint64(5) {
				if got, want := s.Observers(chunk), observers(chunk); !slices.Equal(got, want) {
					t.Fatalf("observers of %d: %v, want %v", chunk, got, want)
				}
			}
			for _, k := range []string{"a", "b", "c"} {
				for _, chunk := range s.Chunks(k) {
					if !model[pair{k, chunk}] || !s.Has(k, chunk) {
						t.Fatalf("%s holds %d and should not", k, chunk)
					}
				}
			}
		}
	})
}

func TestResidentsMoveAndLeave(t *testing.T) {
	var r Residents[int]
	if _, moved := r.Move(1, 10); moved {
		t.Error("a first place is no move")
	}
	r.Move(2, 10)
	if from, moved := r.Move(1, 11); !moved || from != 10 {
		t.Errorf("moved %v from %d", moved, from)
	}
	if !slices.Equal(r.In(10), []int{2}) || !slices.Equal(r.In(11), []int{1}) {
		t.Errorf("in 10: %v, in 11: %v", r.In(10), r.In(11))
	}
	r.Remove(2)
	if _, known := r.Chunk(2); known || len(r.In(10)) != 0 {
		t.Error("a removed entity is still indexed")
	}
}

func grid(t interface{ Fatal(...any) }, columns, rows, edge int) torus.Grid {
	g, err := torus.NewGrid(columns, rows, edge)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAViewIsASquareThatIsGivenUpOneChunkLater(t *testing.T) {
	g := grid(t, 2, 2, 15)
	var v View
	c, changed := v.Anchor(g, torus.ChunkPos{X: 29, Y: 0}) // at the seam
	if !changed || len(c.Added) != 121 || len(c.Removed) != 0 || c.Added[0] != (torus.ChunkPos{X: 29, Y: 0}) {
		t.Fatalf("first anchor: %d added, %d removed, nearest %v", len(c.Added), len(c.Removed), c.Added[0])
	}
	for _, chunk := range c.Added {
		if g.ChunkChebyshev(torus.ChunkPos{X: 29, Y: 0}, chunk) > ViewRadius {
			t.Errorf("%v is out of view", chunk)
		}
		if !v.Want(g.ChunkKey(chunk)) {
			t.Errorf("%v was announced and may not be asked for", chunk)
		}
		v.Sent(g.ChunkKey(chunk))
	}
	if !v.Settled() {
		t.Error("all was sent and the view is not settled")
	}
	if c, _ := v.Anchor(g, torus.ChunkPos{X: 0, Y: 0}); len(c.Added) != 11 || len(c.Removed) != 0 {
		t.Errorf("one step over the seam: %d added, %d removed, want 11 and none: the margin keeps the last column", len(c.Added), len(c.Removed))
	}
	if c, _ := v.Anchor(g, torus.ChunkPos{X: 1, Y: 0}); len(c.Added) != 11 || len(c.Removed) != 11 || len(c.Released) != 11 {
		t.Errorf("the second step: %d added, %d removed, %d released, want 11 each", len(c.Added), len(c.Removed), len(c.Released))
	}
	if _, changed := v.Anchor(g, torus.ChunkPos{X: 1, Y: 0}); changed {
		t.Error("an anchor that stays changed the view")
	}
}

func TestOnlyAnnouncedChunksAreSent(t *testing.T) {
	g := grid(t, 2, 2, 15)
	var v View
	if v.Want(g.ChunkKey(torus.ChunkPos{X: 3, Y: 3})) {
		t.Error("a chunk may be asked for before anything was announced")
	}
	v.Anchor(g, torus.ChunkPos{X: 3, Y: 3})
	key := g.ChunkKey(torus.ChunkPos{X: 3, Y: 3})
	if !v.Want(key) || v.Want(key) {
		t.Error("a chunk is asked for once")
	}
	if v.Want(g.ChunkKey(torus.ChunkPos{X: 20, Y: 20})) {
		t.Error("a chunk out of view was granted")
	}
}

// TestAViewShiftedIsTheSameView: the seam is nowhere.
func TestAViewShiftedIsTheSameView(t *testing.T) {
	g := grid(t, 2, 2, 15)
	rapid.Check(t, func(t *rapid.T) {
		dx, dy := rapid.Int32Range(0, 29).Draw(t, "dx"), rapid.Int32Range(0, 29).Draw(t, "dy")
		var here, there View
		at := torus.ChunkPos{}
		for range 12 {
			at = g.AddChunk(at, rapid.Int32Range(-2, 2).Draw(t, "x"), rapid.Int32Range(-2, 2).Draw(t, "y"))
			a, _ := here.Anchor(g, at)
			b, _ := there.Anchor(g, g.AddChunk(at, dx, dy))
			if len(a.Added) != len(b.Added) || len(a.Removed) != len(b.Removed) {
				t.Fatalf("at %v: %d/%d added, %d/%d removed", at, len(a.Added), len(b.Added), len(a.Removed), len(b.Removed))
			}
			for i := range a.Added {
				if g.AddChunk(a.Added[i], dx, dy) != b.Added[i] {
					t.Fatalf("%v shifted is not %v", a.Added[i], b.Added[i])
				}
			}
		}
	})
}
