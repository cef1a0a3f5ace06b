// Package simtest runs a cluster in one process: unmodified engines on virtual time, with simulated links, leases, table
// delivery, store and clients. Nothing in it sleeps, and the same steps give the same run.
//
// A Cluster advances by ticks. Each node is stepped at its own phase of a tick; links deliver in order per stream after a
// delay; the store answers after a delay; a client is a client.Model, fed what its gateway sent, so each client is an
// oracle. After every tick the checker looks at all nodes at once: no entity may have two that act for it.
package simtest
