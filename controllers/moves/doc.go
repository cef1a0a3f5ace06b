// Package moves decides which regions are ordered from one live node to another, and which orders are taken back.
//
// It is pure: no clock, no API, no randomness, no dependence on map order. All that it knows is in a [Situation], which is
// gathered anew for each decision, so a restarted operator goes on where the former one stopped, and an edit in the middle
// of moves is planned from what is.
//
// The order is the annotation target on the region Lease. Its holder carries it out and ends with one write: the other node
// holds the region. Until then the order can be taken back: the target names the holder again. What must outlive the operator
// is in a [Note] beside the order: since when it stands, and how often it was in vain.
//
// What it promises:
//   - At most Limit regions are on their way. A slot that a taken-back order leaves, or that a write left whose outcome
//     nobody knows, is used again only when the next look shows it free.
//   - An order that is still wanted stands, whatever the windows do meanwhile. It is taken back when the assignment names
//     another node, when the other node can no longer take it, or after Timeout.
//   - A region goes from one order to the next over its holder: never from one target to another, and never while its
//     holder does not renew.
//   - After an order in vain the region waits, from 10 s doubling to 10 minutes.
//   - Every region that is away and not on its way waits for a [Reason].
//   - First go regions between nodes that are least busy with moving, then those that border most on what the other node
//     has, so that areas grow along their edges and borders stay short.
//
// A region that no live session holds is not moved: it is failover's.
//
// It may import controllers/placement and the standard library.
package moves
