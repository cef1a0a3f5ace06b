package torus

// RegionOf returns the region that p stands in.
func (g Grid) RegionOf(p Pos) RegionPos {
	return RegionPos{Column: int32(p.X / g.regionMetres), Row: int32(p.Y / g.regionMetres)}
}

// RegionOfChunk returns the region that c is part of.
func (g Grid) RegionOfChunk(c ChunkPos) RegionPos {
	return RegionPos{Column: c.X / g.edge, Row: c.Y / g.edge}
}

// WrapRegion returns the canonical region at any pair of region coordinates.
func (g Grid) WrapRegion(column, row int) RegionPos {
	return RegionPos{Column: int32(mod(int64(column), int64(g.columns))), Row: int32(mod(int64(row), int64(g.rows)))}
}

// CanonicalRegion reports whether r is in canonical form, which a region read from a wire may not be.
func (g Grid) CanonicalRegion(r RegionPos) bool {
	return r.Column >= 0 && r.Column < g.columns && r.Row >= 0 && r.Row < g.rows
}

// RegionIndex numbers the regions densely in [0, Regions), row by row.
func (g Grid) RegionIndex(r RegionPos) int { return int(r.Row)*int(g.columns) + int(r.Column) }

// RegionIndexOf is RegionIndex(RegionOf(p)): two divisions.
func (g Grid) RegionIndexOf(p Pos) int {
	return int(p.Y/g.regionMetres)*int(g.columns) + int(p.X/g.regionMetres)
}

// RegionAt is the inverse of RegionIndex.
func (g Grid) RegionAt(index int) RegionPos {
	return RegionPos{Column: int32(index % int(g.columns)), Row: int32(index / int(g.columns))}
}

// RegionOrigin returns the chunk of the region's smallest coordinates.
func (g Grid) RegionOrigin(r RegionPos) ChunkPos {
	return ChunkPos{X: r.Column * g.edge, Y: r.Row * g.edge}
}

// ChunksOutside returns how many chunks c lies outside region r, by Chebyshev distance over the torus: 0 inside, 1 in the
// overhang, 2 and more beyond it.
func (g Grid) ChunksOutside(c ChunkPos, r RegionPos) int32 {
	return max(
		outside(c.X-r.Column*g.edge, g.edge, g.chunksX),
		outside(c.Y-r.Row*g.edge, g.edge, g.chunksY),
	)
}

// outside returns the distance of an offset from [0, edge) on a circle of size chunks.
func outside(offset, edge, size int32) int32 {
	if offset = mod(offset, size); offset < edge {
		return 0
	}
	return min(offset-edge+1, size-offset)
}

// ChunksInside returns how many chunks c lies inside region r, counted from the nearest chunk that is not of r: 1 in the
// outermost ring of r, 0 if c is outside. Where r spans a whole axis (a grid of one column or row) it has no border
// there; a 1 x 1 world has none at all, and each chunk is as deep as the region is wide.
func (g Grid) ChunksInside(c ChunkPos, r RegionPos) int32 {
	return min(
		inside(c.X-r.Column*g.edge, g.edge, g.chunksX),
		inside(c.Y-r.Row*g.edge, g.edge, g.chunksY),
	)
}

// inside returns the distance of an offset from the outside of [0, edge) on a circle of size chunks.
func inside(offset, edge, size int32) int32 {
	switch offset = mod(offset, size); {
	case offset >= edge:
		return 0
	case edge == size:
		return edge
	}
	return min(offset+1, edge-offset)
}
