// Package placement decides which zone node should own which region.
//
// It is pure: no clock, no API, no randomness, no dependence on map order. The same declaration gives the same [Table]
// on every machine and after every restart, so nobody has to store the result.
//
// What it promises:
//   - [Plan] under Manual returns exactly what the painted areas say, or a [Refusal] that names the first holes.
//   - [Plan] under Balanced gives every node one contiguous piece of the torus, counts that differ by at most one, and
//     short borders. Areas are pins: they are kept as painted, and the rest is evened out around them, moving as few
//     regions as it can. A pin far from home is an exclave; a pin larger than a fair share makes its node larger.
//   - [Heirs] spreads the regions of lost nodes over live ones: least loaded first, then nearest on the torus.
//
// It may import the standard library only.
package placement
