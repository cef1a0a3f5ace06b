// Package leases is the Kubernetes side of the simulated cluster on virtual time: an API server that keeps the session and
// region Leases of one World, what node/fence does in each node process, and the operators that revoke sessions, free
// regions and say who should take them.
//
// It is a model: it decides as node/fence and controllers decide, and each decision names the function it mirrors. It has
// no goroutine and no clock but the timeline; the same seed and the same calls give the same run. Nothing happens per tick:
// a renewal is a few events, a region that stays where it is costs nothing.
//
// The API is as bad as a real one may be. A request may be lost, be answered with a conflict or a server error that says
// nothing, take effect without an answer, or land long after its sender gave up and even after its sender's death. Watches
// lag and show several changes at once; a broken watch is made anew. Two operators may both believe that they lead. What a
// process may rely on is what the real one relies on: a PUT names uid and resourceVersion, and time is what its own clock
// measured.
//
// # What it leaves out
//
// Timers fire after virtual time, whatever the rate of the process's clock: only readings of the clock count, as in
// node/fence. There is no migration of held regions and no graceful release. The rest of a World (pods, status, admission)
// is modelled only as far as leases depend on it.
//
// It may import api/v1alpha1 (for names), node/torus, node/partition, node/simtest/timeline and the standard library.
package leases
