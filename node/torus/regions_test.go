package torus

import (
	"testing"

	"pgregory.net/rapid"
)

func TestRegionIndicesAreDenseAndInvertible(t *testing.T) {
	g := mustGrid(t, 5, 3, 15)
	want := 0
	for row := range int32(3) {
		for column := range int32(5) {
			r := RegionPos{column, row}
			if g.RegionIndex(r) != want || g.RegionAt(want) != r {
				t.Fatalf("region %v: index %d, want %d", r, g.RegionIndex(r), want)
			}
			if g.RegionOfChunk(g.RegionOrigin(r)) != r {
				t.Fatalf("region %v does not hold its origin", r)
			}
			want++
		}
	}
	if g.WrapRegion(-1, 3) != (RegionPos{4, 0}) {
		t.Error("regions wrap as everything does")
	}
}

func TestRegionOfAPositionIsThatOfItsChunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		p := drawPos(t, g, "p")
		r := g.RegionOf(p)
		if r != g.RegionOfChunk(g.ChunkOf(p)) || g.RegionIndexOf(p) != g.RegionIndex(r) || !g.CanonicalRegion(r) {
			t.Fatalf("%v: region %v, by chunk %v", p, r, g.RegionOfChunk(g.ChunkOf(p)))
		}
	})
}

// drawRegion draws any region of g.
func drawRegion(t *rapid.T, g Grid) RegionPos {
	return g.RegionAt(rapid.IntRange(0, g.Regions()-1).Draw(t, "region"))
}

func TestChunksOutsideIsTheDistanceToTheNearestChunkOfTheRegion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawTinyGrid(t)
		r, c := drawRegion(t, g), drawChunk(t, g, "c")
		want, depth := g.ChunksX()+g.ChunksY(), int32(g.RegionEdgeChunks())
		everyChunk(g, func(other ChunkPos) {
			if g.RegionOfChunk(other) == r {
				want = min(want, g.ChunkChebyshev(c, other))
			} else {
				depth = min(depth, g.ChunkChebyshev(c, other))
			}
		})
		if got := g.ChunksOutside(c, r); got != want {
			t.Fatalf("chunk %v is %d outside %v, want %d", c, got, r, want)
		}
		if g.RegionOfChunk(c) != r {
			depth = 0
		}
		if got := g.ChunksInside(c, r); got != depth {
			t.Fatalf("chunk %v is %d inside %v, want %d", c, got, r, depth)
		}
	})
}

func TestOverhangReachesOverSeamAndCorner(t *testing.T) {
	g := mustGrid(t, 2, 2, 15)
	origin := RegionPos{}
	for c, want := range map[ChunkPos]int32{
		{0, 0}: 0, {14, 14}: 0, {15, 0}: 1, {29, 0}: 1, {29, 29}: 1, {15, 29}: 1, {16, 0}: 2, {28, 29}: 2, {22, 0}: 8, {23, 0}: 7,
	} {
		if got := g.ChunksOutside(c, origin); got != want {
			t.Errorf("chunk %v: %d outside, want %d", c, got, want)
		}
	}
}

func TestNothingIsOutsideTheOnlyRegion(t *testing.T) {
	g := mustGrid(t, 1, 1, 15)
	everyChunk(g, func(c ChunkPos) {
		if g.ChunksOutside(c, RegionPos{}) != 0 || g.ChunksInside(c, RegionPos{}) != 15 {
			t.Fatalf("chunk %v: %d outside, %d inside", c, g.ChunksOutside(c, RegionPos{}), g.ChunksInside(c, RegionPos{}))
		}
	})
}

func TestAColumnWorldHasNoBorderAlongItsOwnAxis(t *testing.T) {
	g := mustGrid(t, 2, 1, 15)
	if got := g.ChunksInside(ChunkPos{7, 0}, RegionPos{}); got != 8 {
		t.Errorf("in the middle: %d inside, want 8", got)
	}
	if got := g.ChunksOutside(ChunkPos{22, 14}, RegionPos{}); got != 8 {
		t.Errorf("in the middle of the other: %d outside, want 8", got)
	}
}
