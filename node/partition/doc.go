// Package partition says who owns which part of the world: the region grid with the owner of each region (Table), the
// bands around region borders, and the painting of areas onto the grid.
//
// It promises:
//   - A Table never changes. With returns another one; readers keep theirs until they take the next, between two ticks.
//   - The owner of a position is two integer divisions and one slice load away, and asking allocates nothing.
//   - An entity's owner is the holder of its home region, so whoever knows the home asks Holder, never Owner.
//   - All answers follow the torus: a node can be its own neighbour, and one peer can border it on two sides.
//
// It does not know Leases, links or entities. Both the operator and the node use it. The package is pure; it may import
// torus and the standard library only.
package partition
