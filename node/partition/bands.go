package partition

import "github.com/spatialcells/spatialcells/node/torus"

// Bands around a region's border, in chunks. They follow from each other:
const (
	// Hysteresis is the depth of the overhang: how far outside its home region an entity may stand. It keeps one that paces
	// along a border from being handed over at each step.
	Hysteresis = 1

	// InteractionRange is the longest distance at which one entity acts on another, in metres. One chunk: what is longer
	// needs a deeper band, and so a wider ghost band.
	InteractionRange = 32

	// Interaction is the depth, to both sides of a border, in which entities of two homes can reach each other: the one
	// stands up to Hysteresis outside its region, and its reach goes on from there. Simulation ghosts exist in it.
	Interaction = Hysteresis + (InteractionRange+torus.ChunkEdge-1)/torus.ChunkEdge

	// ViewRadius is the radius of the square that a client sees around its anchor chunk: 11 x 11 chunks.
	ViewRadius = 5

	// ReleaseMargin is how much farther the anchor must go before a chunk is released, against flapping at the edge.
	ReleaseMargin = 1

	// InteractionMargin is how far outside its region an anchor may stand, by the overhang.
	InteractionMargin = Hysteresis

	// Ghost is the depth of the band outside a region whose chunks its holder may subscribe to at others: all that a client
	// anchored in the region or its overhang can still hold.
	Ghost = ViewRadius + ReleaseMargin + InteractionMargin
)

// A chunk grown by the widest band must touch at most two regions per axis; this does not compile if it could touch three.
const _ = uint(torus.MinRegionEdge - (2*Ghost + 1))

// Within reports whether c lies in region r or at most band chunks outside it.
func Within(g torus.Grid, c torus.ChunkPos, r torus.RegionPos, band int32) bool {
	return g.ChunksOutside(c, r) <= band
}

// InBand reports whether c lies outside region r, but at most band chunks.
func InBand(g torus.Grid, c torus.ChunkPos, r torus.RegionPos, band int32) bool {
	n := g.ChunksOutside(c, r)
	return n > 0 && n <= band
}

// InsideBand reports whether c lies in region r, at most band chunks from its border: the outermost ring of chunks is 1
// deep.
func InsideBand(g torus.Grid, c torus.ChunkPos, r torus.RegionPos, band int32) bool {
	n := g.ChunksInside(c, r)
	return n > 0 && n <= band && g.Regions() > 1
}

// NearBorder reports whether c lies within band chunks of the border of region r, on either side of it.
func NearBorder(g torus.Grid, c torus.ChunkPos, r torus.RegionPos, band int32) bool {
	return InBand(g, c, r, band) || InsideBand(g, c, r, band)
}

// MayStand reports whether an entity at home in region r may stand in chunk c: in the region or its overhang. Where it
// may not, its handoff is due.
func MayStand(g torus.Grid, c torus.ChunkPos, home torus.RegionPos) bool {
	return Within(g, c, home, Hysteresis)
}

// AppendRegionsTouched appends the regions that chunk c grown by grow chunks touches, each once, row by row from the
// smallest offsets. A negative grow counts as 0.
func AppendRegionsTouched(dst []torus.RegionPos, g torus.Grid, c torus.ChunkPos, grow int32) []torus.RegionPos {
	column, columns := touched(c.X, grow, g.RegionEdgeChunks(), g.Columns())
	row, rows := touched(c.Y, grow, g.RegionEdgeChunks(), g.Rows())
	for y := range rows {
		for x := range columns {
			dst = append(dst, g.WrapRegion(column+x, row+y))
		}
	}
	return dst
}

// touched returns, on one axis, the first region that [v-grow, v+grow] touches, not wrapped, and how many distinct ones
// follow from it.
func touched(v, grow int32, edge, regions int) (first, count int) {
	grow = max(grow, 0)
	lo, hi := int(v)-int(grow), int(v)+int(grow)
	first = (lo - (edge - 1)) / edge // floor for lo < 0
	if lo >= 0 {
		first = lo / edge
	}
	return first, min(hi/edge-first+1, regions)
}
