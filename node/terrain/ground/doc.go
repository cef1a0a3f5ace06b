// Package ground is the shape of the world: for every metre its height, surface, biome and whether one can walk there, as a
// pure function of the world's secret seed and its grid; and the payload in which a chunk of it travels to clients.
//
// It promises:
//   - The same seed and grid give the same ground, on every node and after every restart, for one Version.
//   - The torus has no seam: noise is sampled on the product of two circles, in four dimensions, so the far edge is an edge
//     like any other. A shifted generator gives the shifted ground, exactly.
//   - Generators are immutable and safe for concurrent use. Decode takes any bytes, within MaxPayload.
//   - The seed cannot be had back from a generator or from Hash. (Whoever sees enough ground might fit noise to it; the
//     seeds of other uses are derived apart and stay secret.)
//
// Interpolation is this package's own and rounds alike everywhere; the noise library lets the compiler fuse
// multiplications and additions, so that a processor with fused ones may differ by one metre of height in about one column
// of 10^12.
//
// Pure: no state, clock, IO or goroutine, so the heart may use it. May import torus, api/wire and libraries.
package ground
