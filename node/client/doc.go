// Package client is the Go client of the gateway protocol, used by bots, tests and whoever writes a client.
//
//   - Model is the pure half: it takes what a gateway sends and keeps what a client may know: its own entity, the entities
//     in sight and where they are now, chunks, results. It is an oracle too: whatever no client should ever get (a blink,
//     a double, a teleport, a hole in a sequence, a lost or repeated result) is a Violation.
//   - Client is the socket around a Model: connect, authenticate, resume, send inputs.
//
// May import api/wire, torus, ecs and game/motion.
package client
