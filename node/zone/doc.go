// Package zone is the IO-free heart of a zone node: a deterministic state machine that is stepped.
//
//	Step(Inbox) -> Outbox
//
// It has no goroutine, no clock, no socket, no global random source and no dependence on map order. Drivers around it
// (link, gateway, fence, store, terrain) turn bytes into inbox events and outbox events into bytes; it knows their events
// (events.go), never their code. Therefore a cluster of engines runs in one process on virtual time.
//
// An engine has two halves that only talk in link messages, also on one node, where the messages go round by a loopback:
//
//   - the simulation (sim*.go) owns entities: it runs the game, answers subscriptions of nodes, hands entities over;
//   - the gateway half (gate*.go) serves accounts: it holds replicas of all that its accounts observe, local entities
//     included, turns them into one batch per client and tick, and forwards the clients' numbered inputs to the owner.
//
// So there is one code path: to the simulation every player and every observer is remote.
//
// Items (items.go, sim_items.go, sim_movements.go) are the store's before they are anybody's: what an entity carries and what
// lies in a region is in memory as the store has it, and changes when a write is answered. A movement is take, put, clear; the
// input that began it is answered at the end. For items the store is the truth also where it has lost its last writes: what is
// here is then replaced by what is there, because a copy rewritten from memory could be a second one. For all else of an entity
// the node that holds it is the truth, and puts it back, or claims it again if the store has it from before. Whoever takes
// items in remembers which (sim_item_memory.go), as long as they may come again; while it can remember no more, they wait. A
// dig is carried out by the owner of the ground, and what comes to light lies there, so both are one write; an item lies in the
// region of its place, not in the home of who dropped it.
//
// Regions move from node to node with all that is at home in them (sim_moves.go, sim_stages.go). What arrives is to its new owner what
// an accepted offer is, and what was given is to its old one what was handed over: kept until the store has it as the other's, claimed,
// signed off, and found by whoever recovers the region. So a move adds three things to the handoff: the stage, the cut and the commit.
// Decisions where the design left room: nothing is moved that somebody else has to settle first (the region drains until nothing is on
// its way out, in flight to the store, or expected), so tombstones, burned epochs and kept copies stay with the old owner, who lives;
// a stage is decoded when it is activated, which takes less than a tick for two thousand entities; the new owner tells the old one that
// it acts, which may be faster than the API server; and Between takes in what a region stands still for, without a tick.
//
// A recovery (sim_regions.go, sim_expected.go, sim_strays.go) asks every session that may hold something, also one whose Lease is gone for
// the moment; brings back what nobody has; and leaves open, rather than denies, what somebody may yet bring. Between two recoveries a
// late claim of the dead may take a record from the one's region to the other's: who finds it gone tells the holder of its home.
//
// May import torus, partition, ecs, interest, ghost, handoff, route, game and api/wire; never a driver.
package zone
