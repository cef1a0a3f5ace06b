package torus

import "testing"

func BenchmarkDistance2(b *testing.B) {
	g := mustGrid(b, 16, 16, 250)
	p, q := Pos{X: 5, Y: 127_999}, Pos{X: 127_990, Y: 3}
	var sink int64
	for b.Loop() {
		sink += g.Distance2(p, q)
	}
	_ = sink
}

func BenchmarkChunksOutside(b *testing.B) {
	g := mustGrid(b, 16, 16, 250)
	c, r := ChunkPos{3999, 1}, RegionPos{0, 0}
	var sink int32
	for b.Loop() {
		sink += g.ChunksOutside(c, r)
	}
	_ = sink
}

// BenchmarkAppendSquare is one player's view: 11 x 11 chunks.
func BenchmarkAppendSquare(b *testing.B) {
	g := mustGrid(b, 16, 16, 250)
	dst := make([]ChunkPos, 0, 121)
	for b.Loop() {
		dst = g.AppendSquare(dst[:0], ChunkPos{3999, 0}, 5)
	}
}

func BenchmarkAppendBoxChunks(b *testing.B) {
	g := mustGrid(b, 16, 16, 250)
	dst := make([]ChunkPos, 0, 121)
	for b.Loop() {
		dst = g.AppendBoxChunks(dst[:0], Pos{X: 10, Y: 127_990}, 64, 64)
	}
}
