package torus

import "fmt"

const (
	// ChunkEdge is the edge of a chunk, in metres.
	ChunkEdge = 32
	// SlabHeight is the height of a slab, the unit in which a chunk column is stacked, in metres.
	SlabHeight = 256

	// MaxColumns bounds the region grid along x.
	MaxColumns = 64
	// MaxRows bounds it along y.
	MaxRows = 64
	// MaxRegions bounds both together: there is one Lease per region.
	MaxRegions = 4096

	// MinRegionEdge keeps a region wider than the ghost band on both sides of a chunk (2 x 7 + 1), so that no chunk is
	// ever near more than two regions per axis.
	MinRegionEdge = 15
	// MaxRegionEdge keeps the world below 2^23 metres, so that squared distances fit an int64 with room to spare.
	MaxRegionEdge = 4096
)

// Pos is a position in whole metres, canonical in [0, size) on X and Y. Z is unbounded; sea level is 0.
type Pos struct{ X, Y, Z int64 }

// ChunkPos addresses a chunk column, canonical in [0, ChunksX) and [0, ChunksY).
type ChunkPos struct{ X, Y int32 }

// RegionPos addresses a region, canonical in [0, Columns) and [0, Rows).
type RegionPos struct{ Column, Row int32 }

// String writes the position as "x,y,z".
func (p Pos) String() string { return fmt.Sprintf("%d,%d,%d", p.X, p.Y, p.Z) }

// String writes the chunk as "x,y".
func (c ChunkPos) String() string { return fmt.Sprintf("%d,%d", c.X, c.Y) }

// String writes the region as "column,row".
func (r RegionPos) String() string { return fmt.Sprintf("%d,%d", r.Column, r.Row) }

// Grid is the shape of a world: how many regions, and how large they are. It is a value, comparable with ==; make it with
// NewGrid, the zero Grid is no world.
type Grid struct {
	columns, rows, edge int32
	chunksX, chunksY    int32
	sizeX, sizeY        int64
	regionMetres        int64
}

// NewGrid returns the grid of columns x rows regions of regionEdgeChunks x regionEdgeChunks chunks. The error names the
// number that is out of bounds and the bounds.
func NewGrid(columns, rows, regionEdgeChunks int) (Grid, error) {
	switch {
	case columns < 1 || columns > MaxColumns:
		return Grid{}, fmt.Errorf("grid of %d columns: use 1 to %d", columns, MaxColumns)
	case rows < 1 || rows > MaxRows:
		return Grid{}, fmt.Errorf("grid of %d rows: use 1 to %d", rows, MaxRows)
	case columns*rows > MaxRegions:
		return Grid{}, fmt.Errorf("grid of %d x %d regions: use at most %d", columns, rows, MaxRegions)
	case regionEdgeChunks < MinRegionEdge || regionEdgeChunks > MaxRegionEdge:
		return Grid{}, fmt.Errorf("region edge of %d chunks: use %d to %d", regionEdgeChunks, MinRegionEdge, MaxRegionEdge)
	}
	edge := int32(regionEdgeChunks)
	g := Grid{columns: int32(columns), rows: int32(rows), edge: edge, regionMetres: int64(edge) * ChunkEdge}
	g.chunksX, g.chunksY = g.columns*edge, g.rows*edge
	g.sizeX, g.sizeY = int64(g.chunksX)*ChunkEdge, int64(g.chunksY)*ChunkEdge
	return g, nil
}

// Columns is the number of regions from west to east.
func (g Grid) Columns() int { return int(g.columns) }

// Rows is the number of regions from north to south.
func (g Grid) Rows() int { return int(g.rows) }

// Regions is the number of regions.
func (g Grid) Regions() int { return int(g.columns) * int(g.rows) }

// RegionEdgeChunks is the edge of a region, in chunks.
func (g Grid) RegionEdgeChunks() int { return int(g.edge) }

// SizeX is the way once around the world along x, in metres.
func (g Grid) SizeX() int64 { return g.sizeX }

// SizeY is the way once around the world along y, in metres.
func (g Grid) SizeY() int64 { return g.sizeY }

// ChunksX is the way once around the world along x, in chunks.
func (g Grid) ChunksX() int32 { return g.chunksX }

// ChunksY is the way once around the world along y, in chunks.
func (g Grid) ChunksY() int32 { return g.chunksY }
