// Package game is the bundled game: components, systems and actions, and the example of how to write one.
//
// It stands on the ECS and never sees a node, a link or a gateway: systems act on the entities that queries yield (owned
// here, neither ghost nor frozen), say what changed through Env, and a client's input is a function of its own entity.
// Time is ticks of 50 ms; randomness, where it comes, is counter-based and keyed by entity.
//
// An entity acts on another one only by a command, because that may live on another node: Env.Command sends an order, Obey
// carries it out at the target, Obeyed tells the sender.
//
// Items are moved by the engine (ItemEnv), because none may be lost or doubled: the game says what is to happen, and an input
// about items has no result before it has happened.
//
// Here are movement by paths, stamina, chat in earshot, bestias that follow their master, and items that are dug up, picked up,
// dropped, given, eaten, split and merged. May import torus, ecs, motion, route and api/wire.
package game
