package torus

// ChunkOf returns the chunk that p stands in.
func (g Grid) ChunkOf(p Pos) ChunkPos {
	return ChunkPos{X: int32(p.X / ChunkEdge), Y: int32(p.Y / ChunkEdge)}
}

// WrapChunk returns the canonical chunk at any pair of chunk coordinates.
func (g Grid) WrapChunk(x, y int) ChunkPos {
	return ChunkPos{X: int32(mod(int64(x), int64(g.chunksX))), Y: int32(mod(int64(y), int64(g.chunksY)))}
}

// CanonicalChunk reports whether c is in canonical form, which a chunk read from a wire may not be.
func (g Grid) CanonicalChunk(c ChunkPos) bool {
	return c.X >= 0 && c.X < g.chunksX && c.Y >= 0 && c.Y < g.chunksY
}

// AddChunk returns c moved by dx, dy chunks.
func (g Grid) AddChunk(c ChunkPos, dx, dy int32) ChunkPos {
	return ChunkPos{X: mod(c.X+dx%g.chunksX, g.chunksX), Y: mod(c.Y+dy%g.chunksY, g.chunksY)}
}

// ChunkOrigin returns the position of the chunk's smallest coordinates, at sea level.
func (g Grid) ChunkOrigin(c ChunkPos) Pos {
	return Pos{X: int64(c.X) * ChunkEdge, Y: int64(c.Y) * ChunkEdge}
}

// ChunkDelta returns the shortest way from a to b, in chunks, half-open as Delta.
func (g Grid) ChunkDelta(a, b ChunkPos) (dx, dy int32) {
	return shortest(b.X-a.X, g.chunksX), shortest(b.Y-a.Y, g.chunksY)
}

// ChunkChebyshev is the larger of the two shortest offsets between a and b, in chunks: the radius of the smallest square
// around a that holds b.
func (g Grid) ChunkChebyshev(a, b ChunkPos) int32 {
	dx, dy := g.ChunkDelta(a, b)
	return max(abs(dx), abs(dy))
}

// ChunkKey returns a key unique to the chunk and dense in [0, ChunksX x ChunksY), row by row. The largest grid needs 36
// bits.
func (g Grid) ChunkKey(c ChunkPos) uint64 {
	return uint64(c.Y)*uint64(g.chunksX) + uint64(c.X)
}

// ChunkFromKey is the inverse of ChunkKey; keys beyond the world wrap.
func (g Grid) ChunkFromKey(key uint64) ChunkPos {
	row := key / uint64(g.chunksX)
	return ChunkPos{X: int32(key % uint64(g.chunksX)), Y: int32(row % uint64(g.chunksY))}
}

// AppendSquare appends the chunks within radius chunks of center, each once, nearest first: ring by ring (Chebyshev),
// within a ring row by row from the smallest offsets. A negative radius appends nothing.
func (g Grid) AppendSquare(dst []ChunkPos, center ChunkPos, radius int) []ChunkPos {
	for ring := int32(0); int(ring) <= radius && ring <= max(g.chunksX, g.chunksY)/2; ring++ {
		dst = g.appendRing(dst, center, ring)
	}
	return dst
}

// appendRing appends the chunks at distance ring. Offsets outside the canonical half-open range are other names of chunks
// that are nearer or already there, so leaving them out is what keeps small worlds free of duplicates.
func (g Grid) appendRing(dst []ChunkPos, center ChunkPos, ring int32) []ChunkPos {
	loX, hiX := offsets(ring, g.chunksX)
	loY, hiY := offsets(ring, g.chunksY)
	for dy := loY; dy <= hiY; dy++ {
		step := int32(1)
		if abs(dy) != ring {
			step = 2 * ring // an inner row: only its two ends are on the ring
		}
		for dx := -ring; dx <= hiX; dx += step {
			if dx >= loX {
				dst = append(dst, g.AddChunk(center, dx, dy))
			}
		}
	}
	return dst
}

// offsets returns the canonical offsets, both ends included, that are at most ring away on an axis of size chunks.
func offsets(ring, size int32) (lo, hi int32) {
	return -min(ring, size/2), min(ring, (size-1)/2)
}

// AppendBoxChunks appends the chunks that the box of half-widths halfX and halfY metres around center touches, edges
// included, each once: row by row from the box's smallest coordinates, going on behind the seam. A box wider than the
// world touches each chunk once. Negative half-widths append nothing.
func (g Grid) AppendBoxChunks(dst []ChunkPos, center Pos, halfX, halfY int64) []ChunkPos {
	if halfX < 0 || halfY < 0 {
		return dst
	}
	x0, width := span(center.X, halfX, g.sizeX, g.chunksX)
	y0, height := span(center.Y, halfY, g.sizeY, g.chunksY)
	y := y0
	for range height {
		x := x0
		for range width {
			dst = append(dst, ChunkPos{X: x, Y: y})
			x = next(x, g.chunksX)
		}
		y = next(y, g.chunksY)
	}
	return dst
}

// span returns the first chunk of [center-half, center+half] on one axis, and how many distinct ones follow from it.
func span(center, half, size int64, chunks int32) (first, count int32) {
	half = min(half, size/2)
	lo, hi := floorDiv(center-half, ChunkEdge), floorDiv(center+half, ChunkEdge)
	return int32(mod(lo, int64(chunks))), int32(min(hi-lo+1, int64(chunks)))
}

// next returns the chunk coordinate after v, around the seam.
func next(v, size int32) int32 {
	if v++; v == size {
		return 0
	}
	return v
}
