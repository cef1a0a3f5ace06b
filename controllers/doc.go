// Package controllers is the operator: it turns a World into Leases, zone nodes and the orders they follow, and keeps it
// alive when nodes die.
//
// One reconciler per World, level-based: it gathers what is (scene), decides with pure functions what should be (targets,
// moves, replicas, whom to revoke), writes the difference, and reports once at the end. Nothing in it waits, and nothing but the
// observations of Leases lives in memory, so a restarted operator continues where the former one stopped.
//
// What it promises:
//   - A session is revoked only by a compare-and-swap on a Lease that this process itself watched standing still for a full
//     lease duration, or whose pod is proven dead.
//   - It never patches or applies a Lease: every write is a PUT of an object that came from the API server, so a changed
//     order and a node's commit cannot both win.
//   - It never writes the spec of a World, never restarts a zone node because the operator was upgraded, and a converged or
//     parked World costs no write.
//   - A declaration that cannot be carried out leaves the running World as it was.
//   - A region that a live node holds is ordered elsewhere only when the assignment says so and a window is open, never more
//     of them at once than the spec allows, and failover waits for none of that.
//
// One file per duty: children (what a World is made of), template (the pod), secrets, store, leases, assignment, failover,
// moving (live moves: which, is decided in controllers/moves, and when, in controllers/window), progress (what is said about
// them), guard (the admission policies), store (storelook asks it beside the reconciles, storeverdict judges), deletion, status,
// events, metrics.
//
// It may import api/v1alpha1, controllers/placement, moves, window, liveness and policy, and the Kubernetes
// libraries; of node/ only what is pure, and node/store/connect: how a store is reached.
package controllers
