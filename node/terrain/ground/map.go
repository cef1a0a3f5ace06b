package ground

import (
	"github.com/spatialcells/spatialcells/node/terrain/internal/lru"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Map answers questions about single metres from the chunks around them, of which it keeps those used last. It is for one
// goroutine. Answers never depend on what is kept.
type Map struct {
	generator *Generator
	chunks    *lru.Cache[torus.ChunkPos, *Chunk]
}

// NewMap returns a map that keeps at most chunks of 4 KiB each.
func NewMap(g *Generator, chunks int) *Map {
	return &Map{g, lru.New[torus.ChunkPos, *Chunk](max(chunks, 1))}
}

// At returns the ground at a canonical position; z is not looked at.
func (m *Map) At(p torus.Pos) Column {
	pos := m.generator.grid.ChunkOf(p)
	chunk, ok := m.chunks.Get(pos)
	if !ok {
		chunk = new(Chunk)
		m.generator.Chunk(pos, chunk)
		m.chunks.Put(pos, chunk, 1)
	}
	return chunk[p.Y%torus.ChunkEdge*torus.ChunkEdge+p.X%torus.ChunkEdge]
}

// Walkable reports whether one can stand at a canonical position.
func (m *Map) Walkable(p torus.Pos) bool { return m.At(p).Walkable }

// Height is the height of the ground in metres, or of the water's surface above it.
func (m *Map) Height(p torus.Pos) int64 { return max(int64(m.At(p).Height), 0) }

// NearestWalkable returns the walkable position nearest to p by rings (Chebyshev), at most radius metres away, with z on
// the ground.
func (m *Map) NearestWalkable(p torus.Pos, radius int64) (torus.Pos, bool) {
	for ring := int64(0); ring <= radius; ring++ {
		for dy := -ring; dy <= ring; dy++ {
			step := int64(1)
			if dy != -ring && dy != ring {
				step = max(2*ring, 1) // an inner row: only its two ends are on the ring
			}
			for dx := -ring; dx <= ring; dx += step {
				q := m.generator.grid.Add(p, dx, dy)
				if c := m.At(q); c.Walkable {
					q.Z = max(int64(c.Height), 0)
					return q, true
				}
			}
		}
	}
	return torus.Pos{}, false
}
