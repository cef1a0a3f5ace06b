package zone

import (
	"testing"

	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// TestWhatStandsBeyondItsOverhangIsIndexedWhereItIsNearest: a record may bring an entity back there. In a small world the
// way to the origin of its home may lead round it.
func TestWhatStandsBeyondItsOverhangIsIndexedWhereItIsNearest(t *testing.T) {
	for _, size := range []struct{ columns, rows int }{{1, 1}, {2, 1}, {2, 3}, {4, 2}} {
		g, err := torus.NewGrid(size.columns, size.rows, 15)
		if err != nil {
			t.Fatal(err)
		}
		s := &sim{Engine: &Engine{grid: g}}
		for x := range g.ChunksX() {
			for y := range g.ChunksY() {
				c := torus.ChunkPos{X: x, Y: y}
				for i := range g.Regions() {
					home := g.RegionAt(i)
					got := g.ChunkFromKey(s.indexChunk(torus.Pos{X: int64(x) * 32, Y: int64(y) * 32}, home))
					away := max(g.ChunksOutside(c, home)-partition.Hysteresis, 0)
					if !partition.MayStand(g, got, home) || g.ChunkChebyshev(c, got) != away {
						t.Fatalf("%v: chunk %v of home %v is indexed in %v, it is %d away from the overhang", size, c, home, got, away)
					}
				}
			}
		}
	}
}
