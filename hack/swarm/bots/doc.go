// Package bots is a swarm of players over the real client protocol, each of them a continuity oracle.
//
//   - Plan puts bots where a world of several nodes can go wrong: across borders between different owners, across both
//     seams, around and diagonally through corners where four owners meet, in groups, and wandering near all of them.
//     Several bots share each place, so that they see each other.
//   - Swarm logs them in, walks them and makes them talk, and holds what each client sees against what the other bots know
//     of themselves.
//   - Report says what happened: counts for machines and people, and the violations with their context.
//
// # What counts as a violation
//
// What one client can see by itself (client.Violation): hole, double, blink, teleport, repeat, lost. What only several
// know together:
//
//   - invisible: a bot that stands where another one looks is not in its sight. One looks where one has held the chunk and
//     the eight around it for 2 s, over a connection that lives, with a complete set. Grace bounds how long it may last:
//     two ticks (100 ms), the delay of a link (400 ms), and the streaming of a chunk (1 s).
//   - misplaced: it is in sight, but further than Tolerance from where it is, for longer than the same grace.
//   - blink: a bot that is connected and in plain sight is said to have left the world.
//   - said-hole, said-repeat: each bot numbers what it says. Whoever sees it without interruption hears every number once.
//   - twin: two entities for one account.
//   - absent, stalled, unanswered: for 20 s a connected bot has no entity, hears nothing of the world, or gets no result.
//
// Of a crash of its owner:
//
//   - setback: a bot stands more than 5 s of walking behind where it can have been, or where it was more than 5 s before
//     it was heard of last (Swarm.StoreAway adds to that).
//
// Of items (Options.Tinker), which no crash may undo:
//
//   - item-gone: it left an inventory, and its bot had done nothing with it; a login or a resume is no reason.
//   - item-twice: it is in two inventories.
//   - item-undone: an acknowledged input is not so in the inventory, or an item is back that was used up or merged away.
//   - item-denied: an input is refused because an item is not carried which the inventory shows.
//   - item-unanswered: at the end an input about items has no result.
//
// An inventory is held to be wrong once the owner of the entity has spoken of it more than Grace after it should have been
// right. An input whose result is UNAVAILABLE, or was lost with a connection, may have been carried out or not.
// Expectation lists what must be in the store after the run.
//
// Nothing is held against a word that the owner of the seen entity said right before it crashed, as long as it is silent.
// Excused, and counted, is what the world marks: a resync (full set), and an entity whose stream says reset. Faults that
// stop nodes for a time excuse only the last three kinds, see Swarm.Excuse.
//
// May import node/client, node/gateway (to sign development tokens), torus and ecs.
package bots
