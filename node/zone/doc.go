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
// May import torus, partition, ecs, interest, ghost, handoff, route, game and api/wire; never a driver.
package zone
