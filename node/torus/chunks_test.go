package torus

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// shiftChunks returns the chunks moved by (dx, dy).
func shiftChunks(g Grid, chunks []ChunkPos, dx, dy int32) []ChunkPos {
	moved := make([]ChunkPos, len(chunks))
	for i, c := range chunks {
		moved[i] = g.AddChunk(c, dx, dy)
	}
	return moved
}

func wantDistinct(t *rapid.T, g Grid, chunks []ChunkPos) map[ChunkPos]bool {
	seen := map[ChunkPos]bool{}
	for _, c := range chunks {
		if seen[c] || !g.CanonicalChunk(c) {
			t.Fatalf("chunk %v is there twice or not canonical", c)
		}
		seen[c] = true
	}
	return seen
}

// everyChunk visits all chunks of g.
func everyChunk(g Grid, visit func(ChunkPos)) {
	for y := range g.ChunksY() {
		for x := range g.ChunksX() {
			visit(ChunkPos{x, y})
		}
	}
}

// drawTinyGrid draws worlds small enough to look at each chunk.
func drawTinyGrid(t *rapid.T) Grid {
	axis := rapid.IntRange(1, 3)
	return mustGrid(t, axis.Draw(t, "columns"), axis.Draw(t, "rows"), rapid.IntRange(15, 17).Draw(t, "edge"))
}

func TestChunkKeysAreDenseAndInvertible(t *testing.T) {
	g := mustGrid(t, 3, 2, 15)
	want := uint64(0)
	everyChunk(g, func(c ChunkPos) {
		if g.ChunkKey(c) != want || g.ChunkFromKey(want) != c {
			t.Fatalf("chunk %v: key %d, want %d", c, g.ChunkKey(c), want)
		}
		want++
	})
	if c := g.ChunkFromKey(1<<63 + 5); !g.CanonicalChunk(c) {
		t.Fatalf("a key beyond the world gave %v", c)
	}
}

func TestKeysDerivedFromWrappedPositionsAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		p := drawPos(t, g, "p")
		laps := rapid.Int64Range(-3, 3)
		far := Pos{p.X + laps.Draw(t, "x")*g.SizeX(), p.Y + laps.Draw(t, "y")*g.SizeY(), p.Z}
		c := g.ChunkOf(p)
		if g.ChunkOf(g.Wrap(far)) != c || g.RegionOf(g.Wrap(far)) != g.RegionOf(p) {
			t.Fatal("the same place has two keys")
		}
		if g.WrapChunk(int(c.X)-3*int(g.ChunksX()), int(c.Y)+2*int(g.ChunksY())) != c {
			t.Fatal("the same chunk has two names")
		}
		if o := g.ChunkOrigin(c); p.X-o.X < 0 || p.X-o.X >= ChunkEdge || p.Y-o.Y < 0 || p.Y-o.Y >= ChunkEdge {
			t.Fatalf("%v is not in the chunk at %v", p, o)
		}
	})
}

func TestChunkDeltaLeadsFromAToBHalfOpen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		a, b, by := drawChunk(t, g, "a"), drawChunk(t, g, "b"), drawChunk(t, g, "by")
		dx, dy := g.ChunkDelta(a, b)
		if g.AddChunk(a, dx, dy) != b {
			t.Fatalf("%v + (%d, %d) is not %v", a, dx, dy, b)
		}
		if 2*dx < -g.ChunksX() || 2*dx >= g.ChunksX() || 2*dy < -g.ChunksY() || 2*dy >= g.ChunksY() {
			t.Fatalf("(%d, %d) is not the short way", dx, dy)
		}
		if g.ChunkChebyshev(a, b) != g.ChunkChebyshev(b, a) {
			t.Fatal("not symmetric")
		}
		if sx, sy := g.ChunkDelta(g.AddChunk(a, by.X, by.Y), g.AddChunk(b, by.X, by.Y)); sx != dx || sy != dy {
			t.Fatal("changes under a shift")
		}
	})
}

func TestSquareHoldsExactlyTheChunksWithinItsRadiusNearestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawTinyGrid(t)
		center, radius := drawChunk(t, g, "center"), rapid.IntRange(0, 30).Draw(t, "radius")
		square := g.AppendSquare(nil, center, radius)
		seen := wantDistinct(t, g, square)
		everyChunk(g, func(c ChunkPos) {
			if near := int(g.ChunkChebyshev(center, c)) <= radius; near != seen[c] {
				t.Fatalf("chunk %v: within the radius %v, in the square %v", c, near, seen[c])
			}
		})
		if !slices.IsSortedFunc(square, func(a, b ChunkPos) int {
			return int(g.ChunkChebyshev(center, a) - g.ChunkChebyshev(center, b))
		}) {
			t.Fatal("not nearest first")
		}
	})
}

func TestSquareAppendsAndANegativeRadiusIsEmpty(t *testing.T) {
	g := mustGrid(t, 1, 1, 15)
	kept := ChunkPos{9, 9}
	if got := g.AppendSquare([]ChunkPos{kept}, ChunkPos{}, 0); !slices.Equal(got, []ChunkPos{kept, {}}) {
		t.Errorf("radius 0: %v", got)
	}
	if got := g.AppendSquare(nil, ChunkPos{}, -1); got != nil {
		t.Errorf("radius -1: %v", got)
	}
	if got := len(g.AppendSquare(nil, ChunkPos{}, 1<<40)); got != 15*15 {
		t.Errorf("a radius beyond the world: %d chunks", got)
	}
}

func TestSquareMovesWithItsCenter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawTinyGrid(t)
		center, by := drawChunk(t, g, "center"), drawChunk(t, g, "by")
		radius := rapid.IntRange(0, 12).Draw(t, "radius")
		here := g.AppendSquare(nil, center, radius)
		there := g.AppendSquare(nil, g.AddChunk(center, by.X, by.Y), radius)
		if !slices.Equal(shiftChunks(g, here, by.X, by.Y), there) {
			t.Fatal("the shifted square is another one")
		}
	})
}

func TestBoxTouchesExactlyTheChunksOfItsMetres(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := mustGrid(t, rapid.IntRange(1, 2).Draw(t, "columns"), 1, 15)
		center := drawPos(t, g, "center")
		half := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, 3*g.SizeX()))
		halfX, halfY := half.Draw(t, "halfX"), half.Draw(t, "halfY")
		seen := wantDistinct(t, g, g.AppendBoxChunks(nil, center, halfX, halfY))
		want := map[ChunkPos]bool{}
		for _, x := range axisChunks(center.X, halfX, g.SizeX()) {
			for _, y := range axisChunks(center.Y, halfY, g.SizeY()) {
				want[ChunkPos{x, y}] = true
			}
		}
		if len(want) != len(seen) {
			t.Fatalf("%d chunks, want %d", len(seen), len(want))
		}
		for c := range want {
			if !seen[c] {
				t.Fatalf("chunk %v is missing", c)
			}
		}
	})
}

// axisChunks walks the metres of [center-half, center+half] one by one, the slow way.
func axisChunks(center, half, size int64) []int32 {
	var chunks []int32
	for d := -min(half, size); d <= min(half, size); d++ {
		c := int32(((center+d)%size + size) % size / ChunkEdge)
		if !slices.Contains(chunks, c) {
			chunks = append(chunks, c)
		}
	}
	return chunks
}

func TestBoxMovesWithItsCenterByWholeChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawTinyGrid(t)
		center, by := drawPos(t, g, "center"), drawChunk(t, g, "by")
		half := rapid.Int64Range(0, 2000)
		halfX, halfY := half.Draw(t, "halfX"), half.Draw(t, "halfY")
		here := g.AppendBoxChunks(nil, center, halfX, halfY)
		there := g.AppendBoxChunks(nil, g.Add(center, int64(by.X)*ChunkEdge, int64(by.Y)*ChunkEdge), halfX, halfY)
		if !slices.Equal(shiftChunks(g, here, by.X, by.Y), there) {
			t.Fatal("the shifted box is another one")
		}
	})
}

func TestNegativeBoxIsEmpty(t *testing.T) {
	g := mustGrid(t, 1, 1, 15)
	if got := g.AppendBoxChunks(nil, Pos{}, -1, 5); got != nil {
		t.Errorf("got %v", got)
	}
}
