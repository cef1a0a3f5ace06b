// Package ecs is the entity store of a node: ids, typed components in sparse sets, queries, deferred changes.
//
// It promises:
//   - A Query leaves out entities marked Ghost or Frozen unless it opts in, so no system can act on what this node does
//     not own. Stores themselves cannot be iterated; queries are the only way to visit entities.
//   - Order is a function of the sequence of operations alone: no map order, no clock, no randomness.
//   - Iterating allocates nothing, and visits each matching entity once.
//   - Nothing is added or removed under a running iteration: that is a broken invariant and panics. Systems defer such
//     changes; Apply makes them in the order in which they were deferred.
//   - Destroy tells the listeners, who tell the observers; Evict tells nobody, for an entity that lives on elsewhere.
//   - A component type that forgot to say how it is handed over does not boot: see Meta and World.Check.
//
// Pointers to components stay valid while entities and components are added, until the next removal (of a component,
// or by Destroy or Evict).
//
// A World is not safe for concurrent use: one tick at a time owns it. The package has no clock and does no IO. It may
// import the standard library only.
package ecs
