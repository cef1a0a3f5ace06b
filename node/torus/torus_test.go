package torus

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mustGrid is a grid of valid numbers.
func mustGrid(t interface{ Fatal(...any) }, columns, rows, edge int) Grid {
	g, err := NewGrid(columns, rows, edge)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// drawGrid draws mostly tiny worlds, where a square or a box meets itself.
func drawGrid(t *rapid.T) Grid {
	axis := rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(1, 16))
	edge := rapid.OneOf(rapid.IntRange(15, 18), rapid.IntRange(15, 250))
	return mustGrid(t, axis.Draw(t, "columns"), axis.Draw(t, "rows"), edge.Draw(t, "edge"))
}

func drawPos(t *rapid.T, g Grid, name string) Pos {
	coordinate := func(size int64, axis string) int64 {
		return rapid.OneOf(
			rapid.Int64Range(0, size-1),
			rapid.SampledFrom([]int64{0, 1, size/2 - 1, size / 2, size/2 + 1, size - 1}),
		).Draw(t, name+axis)
	}
	return Pos{coordinate(g.SizeX(), "X"), coordinate(g.SizeY(), "Y"), rapid.Int64().Draw(t, name+"Z")}
}

func drawChunk(t *rapid.T, g Grid, name string) ChunkPos { return g.ChunkOf(drawPos(t, g, name)) }

func TestGridRefusesShapesOutOfBoundsAndNamesTheBound(t *testing.T) {
	for _, c := range []struct {
		columns, rows, edge int
		want                string
	}{
		{0, 1, 250, "1 to 64"},
		{65, 1, 250, "1 to 64"},
		{1, 0, 250, "1 to 64"},
		{1, 65, 250, "1 to 64"},
		{1, 1, 14, "15 to 4096"},
		{1, 1, 4097, "15 to 4096"},
	} {
		_, err := NewGrid(c.columns, c.rows, c.edge)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewGrid(%d, %d, %d) = %v, want an error with %q", c.columns, c.rows, c.edge, err, c.want)
		}
	}
}

func TestDefaultWorldIs128Kilometres(t *testing.T) {
	g := mustGrid(t, 16, 16, 250)
	if g.SizeX() != 128_000 || g.SizeY() != 128_000 || g.ChunksX() != 4000 || g.Regions() != 256 {
		t.Fatalf("got %d x %d m, %d chunks, %d regions", g.SizeX(), g.SizeY(), g.ChunksX(), g.Regions())
	}
}

func TestLargestWorldKeepsKeysUniqueAndDistancesExact(t *testing.T) {
	g := mustGrid(t, 64, 64, 4096)
	last := ChunkPos{g.ChunksX() - 1, g.ChunksY() - 1}
	if got, want := g.ChunkKey(last), uint64(1)<<36-1; got != want {
		t.Errorf("key of the last chunk = %d, want %d", got, want)
	}
	half := g.SizeX() / 2
	if got, want := g.Distance2(Pos{}, Pos{X: half, Y: half}), 2*half*half; got != want {
		t.Errorf("longest distance squared = %d, want %d", got, want)
	}
}

func TestWrapIsCanonicalAndKeepsTheResidue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		p := Pos{rapid.Int64().Draw(t, "x"), rapid.Int64().Draw(t, "y"), rapid.Int64().Draw(t, "z")}
		w := g.Wrap(p)
		if !g.Canonical(w) || w.Z != p.Z {
			t.Fatalf("Wrap(%v) = %v", p, w)
		}
		if (w.X-p.X%g.SizeX())%g.SizeX() != 0 || (w.Y-p.Y%g.SizeY())%g.SizeY() != 0 {
			t.Fatalf("Wrap(%v) = %v is another place", p, w)
		}
		if g.Wrap(w) != w {
			t.Fatal("wrapping twice differs from once")
		}
	})
}

func TestAddNeverOverflows(t *testing.T) {
	g := mustGrid(t, 3, 2, 15)
	for _, d := range []int64{math.MaxInt64, math.MinInt64} {
		start := Pos{X: g.SizeX() - 1, Y: g.SizeY() - 1}
		if got, want := g.Add(start, d, d), g.Add(start, d%g.SizeX(), d%g.SizeY()); got != want || !g.Canonical(got) {
			t.Errorf("Add of %d = %v, want %v", d, got, want)
		}
	}
}

func TestDeltaLeadsFromAToBAndIsShortest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		a, b := drawPos(t, g, "a"), drawPos(t, g, "b")
		dx, dy := g.Delta(a, b)
		if got := g.Add(a, dx, dy); got.X != b.X || got.Y != b.Y {
			t.Fatalf("%v + (%d, %d) = %v, want %v", a, dx, dy, got, b)
		}
		if dx < -g.SizeX()/2 || dx >= g.SizeX()/2 || dy < -g.SizeY()/2 || dy >= g.SizeY()/2 {
			t.Fatalf("Delta(%v, %v) = (%d, %d) is not half-open", a, b, dx, dy)
		}
	})
}

func TestAntipodesAreTheNegativeWayFromBothEnds(t *testing.T) {
	g := mustGrid(t, 2, 1, 15)
	a, b := Pos{X: 3}, Pos{X: 3 + g.SizeX()/2}
	there, _ := g.Delta(a, b)
	back, _ := g.Delta(b, a)
	if there != -g.SizeX()/2 || back != there {
		t.Fatalf("there %d, back %d", there, back)
	}
}

func TestDistancesAreAMetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		a, b, c := drawPos(t, g, "a"), drawPos(t, g, "b"), drawPos(t, g, "c")
		if g.Distance2(a, b) != g.Distance2(b, a) || g.Chebyshev(a, b) != g.Chebyshev(b, a) {
			t.Fatal("not symmetric")
		}
		if samePlace := a.X == b.X && a.Y == b.Y; samePlace != (g.Distance2(a, b) == 0) {
			t.Fatal("zero exactly at the same place")
		}
		if g.Chebyshev(a, c) > g.Chebyshev(a, b)+g.Chebyshev(b, c) {
			t.Fatal("a detour is shorter (Chebyshev)")
		}
		ac, ab, bc := math.Sqrt(float64(g.Distance2(a, c))), math.Sqrt(float64(g.Distance2(a, b))), math.Sqrt(float64(g.Distance2(b, c)))
		if ac > ab+bc+1e-6 {
			t.Fatal("a detour is shorter")
		}
	})
}

func TestDistancesDoNotChangeUnderAShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		a, b, by := drawPos(t, g, "a"), drawPos(t, g, "b"), drawPos(t, g, "by")
		dx, dy := g.Delta(a, b)
		sx, sy := g.Delta(g.Add(a, by.X, by.Y), g.Add(b, by.X, by.Y))
		if dx != sx || dy != sy {
			t.Fatalf("(%d, %d) became (%d, %d)", dx, dy, sx, sy)
		}
	})
}

func TestTheSeamIsOneMetreWide(t *testing.T) {
	g := mustGrid(t, 2, 2, 15)
	corner := Pos{X: g.SizeX() - 1, Y: g.SizeY() - 1}
	if dx, dy := g.Delta(corner, Pos{}); dx != 1 || dy != 1 {
		t.Errorf("across the corner: (%d, %d)", dx, dy)
	}
	if d := g.ChunkChebyshev(g.ChunkOf(corner), ChunkPos{}); d != 1 {
		t.Errorf("the corner chunks are %d apart", d)
	}
	if !g.InBox(corner, 1, 1, Pos{}) || g.InBox(corner, 1, 0, Pos{}) {
		t.Error("a box at the corner must reach over both seams")
	}
}

func TestSlabsOfDepthsAreBelowSeaLevel(t *testing.T) {
	for z, want := range map[int64]int64{-257: -2, -256: -1, -1: -1, 0: 0, 255: 0, 256: 1} {
		if got := SlabOf(z); got != want {
			t.Errorf("SlabOf(%d) = %d, want %d", z, got, want)
		}
	}
}

func TestHotFunctionsDoNotAllocate(t *testing.T) {
	g := mustGrid(t, 16, 16, 250)
	a, b := Pos{X: 5, Y: 127_999}, Pos{X: 127_990, Y: 3}
	dst := make([]ChunkPos, 0, 256)
	var sink int64
	allocs := testing.AllocsPerRun(100, func() {
		sink += g.Distance2(a, b) + g.Chebyshev(a, b) + g.Wrap(b).X + g.Add(a, -9, 9).X
		c := g.ChunkOf(a)
		sink += int64(g.ChunksOutside(c, g.RegionOf(b))) + int64(g.ChunkKey(c)) + int64(g.RegionIndexOf(a))
		dst = g.AppendSquare(dst[:0], c, 5)
		dst = g.AppendBoxChunks(dst[:0], a, 100, 100)
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
	_ = sink
}
