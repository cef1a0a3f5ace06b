// Package torus is the geometry of the world: a flat rectangle of whole metres whose east edge meets its west edge and
// whose north edge meets its south edge.
//
// It promises:
//   - Every position, chunk and region it returns is canonical: each coordinate in [0, size).
//   - Every distance and offset is the shortest one over the torus. Offsets are half-open, [-size/2, size/2): of two
//     equally short ways (the antipode) it is always the negative one.
//   - The seam is nowhere: shifting all inputs by a vector shifts all results by it, order included. Box queries, which
//     round to chunks, need a shift by whole chunks for that.
//   - No list it builds holds a chunk twice, however small the world.
//   - Nothing allocates but the Append functions, and those only to grow the slice they were given.
//
// Functions that take a Pos, ChunkPos or RegionPos expect canonical ones; Wrap, WrapChunk and WrapRegion make them. What
// is written is canonicalised, so what is read may be relied upon.
//
// The package is pure: no state, no clock, no randomness. It may import the standard library only.
package torus
