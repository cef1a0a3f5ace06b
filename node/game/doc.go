// Package game is the bundled game: components, systems and actions, and the example of how to write one.
//
// It stands on the ECS and never sees a node, a link or a gateway: systems act on the entities that queries yield (owned
// here, neither ghost nor frozen), say what changed through Env, and a client's input is a function of its own entity.
// Time is ticks of 50 ms; randomness, where it comes, is counter-based and keyed by entity.
//
// An entity acts on another one only by a command, because that may live on another node: Env.Command sends an order, Obey
// carries it out at the target, Obeyed tells the sender.
//
// Here are movement by paths, stamina, chat in earshot, and bestias that follow their master. May import torus, ecs, motion, route and api/wire.
package game
