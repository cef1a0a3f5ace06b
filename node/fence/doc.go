// Package fence is the node side of the fence: it says whether this process may act at all (its session), and for which
// regions of the world (the region table).
//
// # The session
//
// One Lease per zone node, created by the operator before the pod may exist and never deleted while the World exists.
// Its holder is one pod ("<pod>_<uid>"), its leaseTransitions count the lives of the node. A life, "<node>#<number>", is
// the session; it holds regions, and peers find and trust it by the annotations that its first write puts there.
//
// A node takes its Lease
//
//   - at once if nobody holds it, or if the holder is its own pod: a container starts only after its predecessor ended;
//   - else after it saw (uid, resourceVersion) unchanged for the full lease duration. Only time between answered reads
//     counts, on the node's own boot-time clock; a failed read or a gap starts the observation anew. The holder's deadline
//     is shorter than the lease duration, so it is silent by then, whatever its clock says about the date.
//
// Each take is a new incarnation, also when the outcome of an earlier take is unknown: no number is ever used twice. A Lease
// that was lost is made again above every number that was ever given out (status.highestEpoch, raised before).
//
// It then renews each period. The deadline is one atomic number (Deadline): the boot-time reading from before the renewal
// was sent, plus the renew deadline. Nothing but an answered renewal moves it forward. Every commit point (start of a
// tick, outbox, store command, link frame, lease write) compares its own reading of the clock with it; a flag that another
// goroutine sets would be stale after a pause of the process.
//
// Past its deadline a node is frozen, not dead: it goes on renewing. If a renewal succeeds, nobody took over, because a
// renewal only ever writes the version that this incarnation wrote last, so the node thaws in place. A conflict leads to a
// read: the same incarnation and holder means that an answer was lost, its version is adopted and renewed at once (the read
// itself extends nothing); anything else means that the session is lost, for good, and the process must end. Refusals,
// missing objects, server errors and time-outs are unknown: they extend nothing and shorten nothing.
//
// On a graceful stop the order is: stop the simulation, Regions.Release, Session.Release. Releasing a session revokes its
// deadline first, so nothing can be committed after it.
//
// # The regions
//
// One Lease per region, never renewed, written only when it changes hands. Holder = session, leaseTransitions = region
// epoch, annotation target = the node that should hold it (the operator's order). Regions watches them, and the session
// Leases beside them, and publishes immutable tables of what the API confirmed. A region whose holder is not a live
// session counts as free in the table; only the operator may empty it. A session outlives a lost Lease, one that is deleted
// or made again with the holder "lost": it counts as live until that Lease is another's or nobody's, because its process may
// act until its own deadline. Who never saw that Lease knows the session by the regions that name it.
//
// The first table of a process waits until the Leases name everybody who acts, since it asks those for what was theirs before
// it begins: no region Lease is missing or in doubt (without a holder and without an order), and no session Lease is missing
// up to that of the last node that has a session, a region or an order. Meanwhile it takes regions, but acts for none. A node
// of a higher number that holds no region, and whose session Lease is deleted, is the one that goes unmissed.
//
// A node takes a region that is free and whose target it is, and whatever an earlier incarnation of itself still holds,
// each time with epoch + 1. It does so by comparing resource versions: a write whose outcome is unknown is neither assumed
// nor forgotten, the next watch event or read shows what became of it, and the next write settles it.
//
// # Rules for every write
//
// Only a PUT of an object that came from the API, with its uid and resourceVersion. A PUT without a uid re-creates a
// deleted Lease with its old epoch; a patch or an apply takes it from whoever holds it. The interfaces of this package have
// no other verb. Renewals have a client, a transport and a connection of their own, so that they never queue behind
// anything.
//
// # Layout
//
// decide.go and acquire.go hold the decisions, pure and tested as tables; session.go and regions.go are the drivers around
// them. May import api/v1alpha1, client-go and the Prometheus client; nothing else of the node.
package fence
