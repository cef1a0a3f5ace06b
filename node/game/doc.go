// Package game is the bundled game: components, systems and actions, and the example of how to write one.
//
// It stands on the ECS and never sees a node, a link or a gateway: systems act on the entities that queries yield (owned
// here, neither ghost nor frozen), say what changed through Env, and a client's input is a function of its own entity.
// Time is ticks of 50 ms; randomness, where it comes, is counter-based and keyed by entity.
//
// Here are movement by paths, stamina and chat in earshot. May import torus, ecs, motion, route and api/wire.
package game
