// Package simtest runs a whole cluster in one process on virtual time: unmodified engines, with simulated links, leases and
// operators, region tables, a store and players. Nothing in it sleeps, nothing depends on the machine, and a seed gives the
// same run to the byte.
//
// What it is made of:
//
//   - Cluster is the world: nodes (node.go does what the loop of a zone node does), links with two streams (network.go),
//     players (player.go; each is a client.Model, and so an oracle).
//   - Around a Nasty cluster, package leases is the API server with its watches, the fences of the nodes and the operators;
//     package vault is the store. Both fail in all the ways that real ones do. Without Nasty, sessions and tables are given
//     at once and the store always answers: for scripts and tests that make their own faults.
//   - Plan is a run before it happens: Generate draws one from a 64-bit seed, Try carries it out, Shrink cuts one that
//     breaks something down to the few actions that matter.
//   - The checker (check.go, blink.go, check_items.go) looks at all nodes, the store and all players after every tick and at every transition that an
//     engine reports, and asserts the invariants of the design by their numbers:
//     1 one writer; 2 one copy carries the highest epoch, nothing is given away that nobody took, and each item
//     is in one place; 3 inputs and commands
//     are executed once and in order, and what is acknowledged was executed; 4 the players' oracles: no blink, double,
//     teleport, hole or repeat that is not marked; 5 what a player sees is what is there; 7 a node makes no step, and
//     releases none, after its deadline. Invariant 6, that the seam is nowhere, is the metamorphic test's: one scene on many
//     cuts and shifts of a world gives one trace. In the end the world must settle: everybody in it, everything in the
//     store, no offer kept, no subscription leaked (that is "liveness").
//   - Coverage counts each transition of each protocol under each class of faults; a soak that missed one fails.
//   - mutants/ holds deliberate defects, testdata/ the protocol scripts.
//
// How to use it: see README.md. It may import all of node/; nothing but tests and tools imports it.
package simtest
