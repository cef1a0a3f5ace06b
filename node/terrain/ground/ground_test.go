package ground

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/node/torus"
)

var seed = []byte("a seed of thirty-two bytes or so")

func generator(t testing.TB, columns, rows, edge int) *Generator {
	t.Helper()
	grid, err := torus.NewGrid(columns, rows, edge)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(grid, seed)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// positions draws a canonical position.
func positions(g *Generator) *rapid.Generator[torus.Pos] {
	return rapid.Custom(func(t *rapid.T) torus.Pos {
		return torus.Pos{
			X: rapid.Int64Range(0, g.grid.SizeX()-1).Draw(t, "x"),
			Y: rapid.Int64Range(0, g.grid.SizeY()-1).Draw(t, "y"),
		}
	})
}

// The golden hashes pin the ground of Version 1. When one changes, raise Version: all nodes of a world must agree.
func TestTheGroundOfThisVersionStaysAsItIs(t *testing.T) {
	g := generator(t, 16, 16, 250)
	for c, want := range map[torus.ChunkPos]string{
		{X: 0, Y: 0}:       "96b3faa5e161bec4",
		{X: 3999, Y: 3999}: "ec567ce2e9c43e59",
		{X: 1234, Y: 987}:  "0675c31fe57ccc67",
		{X: 2000, Y: 1}:    "cedac6cbcdc9abc4",
	} {
		var chunk Chunk
		g.Chunk(c, &chunk)
		sum := sha256.Sum256(AppendRuns(nil, &chunk))
		if got := hex.EncodeToString(sum[:8]); got != want {
			t.Errorf("chunk %v has hash %s, want %s", c, got, want)
		}
	}
	if got := g.SeedHash(); got != 0x4ea7aa17536ff660 {
		t.Errorf("seed hash %#x", got)
	}
}

func TestTheSeamIsNoEdge(t *testing.T) {
	for name, g := range map[string]*Generator{
		"128 km": generator(t, 16, 16, 250), "480 m": generator(t, 1, 1, 15), "oblong": generator(t, 3, 1, 40),
	} {
		sizeX, sizeY := g.grid.SizeX(), g.grid.SizeY()
		seam, inside := 0, 0
		const samples = 120
		for i := range int64(samples) {
			x, y := i*sizeX/samples, i*sizeY/samples
			seam = max(seam, difference(g, torus.Pos{X: sizeX - 1, Y: y}, torus.Pos{X: 0, Y: y}),
				difference(g, torus.Pos{X: x, Y: sizeY - 1}, torus.Pos{X: x, Y: 0}))
			inside = max(inside, difference(g, torus.Pos{X: sizeX/2 - 1, Y: y}, torus.Pos{X: sizeX / 2, Y: y}),
				difference(g, torus.Pos{X: x, Y: sizeY/2 - 1}, torus.Pos{X: x, Y: sizeY / 2}))
		}
		if seam > inside+2 || seam > 8 {
			t.Errorf("%s: heights differ by up to %d m over the seam, %d m elsewhere", name, seam, inside)
		}
	}
}

func difference(g *Generator, a, b torus.Pos) int {
	return abs(int(g.At(a).Height) - int(g.At(b).Height))
}

// The strongest statement about the seam: moved by anything, the world is the same world.
func TestAShiftedWorldIsTheSameWorld(t *testing.T) {
	for _, g := range []*Generator{generator(t, 2, 3, 20), generator(t, 16, 16, 250)} {
		rapid.Check(t, func(t *rapid.T) {
			p := positions(g).Draw(t, "p")
			d := positions(g).Draw(t, "shift")
			shifted := g.Shifted(d.X, d.Y)
			moved := g.grid.Add(p, d.X, d.Y)
			if a, b := g.At(p), shifted.At(moved); a != b {
				t.Fatalf("%v is %v, shifted by %v it is %v", p, a, d, b)
			}
			if a, b := g.Biome(p), shifted.Biome(moved); a != b {
				t.Fatalf("biome %v, shifted %v", a, b)
			}
		})
	}
}

func TestAChunkOfAShiftedWorldHoldsTheSameMetres(t *testing.T) {
	g := generator(t, 1, 1, 15)
	rapid.Check(t, func(t *rapid.T) {
		d := positions(g).Draw(t, "shift")
		shifted := NewMap(g.Shifted(d.X, d.Y), 4)
		plain := NewMap(g, 4)
		p := positions(g).Draw(t, "p")
		if a, b := plain.At(p), shifted.At(g.grid.Add(p, d.X, d.Y)); a != b {
			t.Fatalf("%v is %v, shifted %v", p, a, b)
		}
	})
}

func TestOneMetreAndItsChunkAgree(t *testing.T) {
	g := generator(t, 16, 16, 250)
	rapid.Check(t, func(t *rapid.T) {
		p := positions(g).Draw(t, "p")
		if a, b := g.At(p), NewMap(g, 1).At(p); a != b {
			t.Fatalf("%v alone is %v, in its chunk %v", p, a, b)
		}
	})
}

// Every metre of some mountainous chunks and of some at the seam is judged by its four neighbours, edges included.
func TestOneWalksWhereWaterAndStepsAllow(t *testing.T) {
	g := generator(t, 16, 16, 250)
	m := NewMap(g, 64)
	blocked := 0
	for _, c := range append(steepChunks(g, 3), torus.ChunkPos{}, torus.ChunkPos{X: 3999, Y: 3999}) {
		o := g.grid.ChunkOrigin(c)
		for i := range int64(len(Chunk{})) {
			p := g.grid.Add(o, i%torus.ChunkEdge, i/torus.ChunkEdge)
			got, want := m.At(p), m.At(p).Height >= -WadingDepth
			for _, d := range [][2]int64{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
				n := m.At(g.grid.Add(p, d[0], d[1])).Height
				want = want && abs(int(got.Height)-int(n)) <= MaxStep
			}
			if got.Walkable != want {
				t.Fatalf("%v is %+v, walkable should be %v", p, got, want)
			}
			if !want && got.Height >= 0 {
				blocked++
			}
		}
	}
	if blocked < 20 {
		t.Errorf("only %d metres are too steep, which shows little", blocked)
	}
}

// steepChunks finds chunks with land too steep to walk on.
func steepChunks(g *Generator, n int) []torus.ChunkPos {
	var found []torus.ChunkPos
	for i := int32(0); len(found) < n && i < 4000; i++ {
		c := torus.ChunkPos{X: i * 37 % 4000, Y: i * 101 % 4000}
		if at := g.At(g.grid.ChunkOrigin(c)); !at.Walkable && at.Height > 0 {
			found = append(found, c)
		}
	}
	return found
}

func TestWorldsOfEverySizeHaveLandAndVariety(t *testing.T) {
	for name, g := range map[string]*Generator{
		"128 km": generator(t, 16, 16, 250), "8 km": generator(t, 1, 1, 250), "960 m": generator(t, 2, 2, 15), "480 m": generator(t, 1, 1, 15),
	} {
		const n = 40
		walkable, water, kinds := 0, 0, map[Surface]int{}
		lo, hi := int16(0), int16(0)
		for i := range int64(n * n) {
			c := g.At(torus.Pos{X: i % n * g.grid.SizeX() / n, Y: i / n * g.grid.SizeY() / n})
			kinds[c.Surface]++
			lo, hi = min(lo, c.Height), max(hi, c.Height)
			if c.Walkable {
				walkable++
			}
			if c.Height < 0 {
				water++
			}
		}
		t.Logf("%s: walkable %d%%, water %d%%, heights %d to %d m, %v", name, 100*walkable/n/n, 100*water/n/n, lo, hi, kinds)
		if walkable < n*n/2 || water < n*n/10 || water > n*n*4/10 {
			t.Errorf("%s: walkable %d of %d, water %d", name, walkable, n*n, water)
		}
	}
}

func TestTheNearestWalkablePlace(t *testing.T) {
	g := generator(t, 2, 2, 15)
	m := NewMap(g, 1024)
	rapid.Check(t, func(t *rapid.T) {
		p := positions(g).Draw(t, "p")
		q, ok := m.NearestWalkable(p, 500)
		if !ok || !m.Walkable(q) || q.Z != m.Height(q) {
			t.Fatalf("from %v: %v, %v", p, q, ok)
		}
		if m.Walkable(p) && (q.X != p.X || q.Y != p.Y) {
			t.Fatalf("%v is walkable, got %v", p, q)
		}
	})
}

func TestSeedsAreSecretsAndDecideAll(t *testing.T) {
	grid := generator(t, 1, 1, 15).grid
	if _, err := New(grid, make([]byte, MinSeed-1)); err == nil {
		t.Error("a short seed was taken")
	}
	other, err := New(grid, []byte("another seed of thirty-two bytes"))
	if err != nil {
		t.Fatal(err)
	}
	var a, b Chunk
	generator(t, 1, 1, 15).Chunk(torus.ChunkPos{}, &a)
	other.Chunk(torus.ChunkPos{}, &b)
	if a == b {
		t.Error("two seeds give the same ground")
	}
}

func TestGeneratingAChunkAllocatesNothing(t *testing.T) {
	g := generator(t, 16, 16, 250)
	var c Chunk
	if n := testing.AllocsPerRun(10, func() { g.Chunk(torus.ChunkPos{X: 5, Y: 5}, &c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkChunk(b *testing.B) {
	g := generator(b, 16, 16, 250)
	var c Chunk
	for i := 0; b.Loop(); i++ {
		g.Chunk(torus.ChunkPos{X: int32(i*37) % 4000, Y: int32(i*101) % 4000}, &c)
	}
}

func BenchmarkChunkEncoded(b *testing.B) {
	g := generator(b, 16, 16, 250)
	e := NewEncoder()
	var c Chunk
	size, plain := 0, 0
	n := 0
	for i := 0; b.Loop(); i++ {
		g.Chunk(torus.ChunkPos{X: int32(i*37) % 4000, Y: int32(i*101) % 4000}, &c)
		_, p := e.Encode(&c)
		size += len(p)
		plain += len(e.runs)
		n++
	}
	b.ReportMetric(float64(size)/float64(n), "bytes/chunk")
	b.ReportMetric(float64(plain)/float64(n), "runbytes/chunk")
}

func BenchmarkAt(b *testing.B) {
	g := generator(b, 16, 16, 250)
	for i := int64(0); b.Loop(); i++ {
		g.At(torus.Pos{X: i * 37 % 128000, Y: i * 101 % 128000})
	}
}
