// Package client is the Go client of the gateway protocol, used by bots, tests and whoever writes a client.
//
//   - Model is the pure half: it takes what a gateway sends and keeps what a client may know: its own entity, the entities
//     in sight and where they are now, chunks, results. It is an oracle too: whatever no client should ever get (a blink,
//     a double, a teleport, a hole in a sequence, a lost or repeated result) is a Violation.
//   - Client is the socket around a Model. It authenticates, pings, asks for announced chunks, numbers inputs and keeps
//     them until their result is known. A lost connection is resumed at the next gateway: what was held is said, what was
//     unanswered is sent again from the number that the gateway wants. Where the world refuses the resume it is a fresh
//     login, and the client says so. What ends a session for good ends the client (Done, Err).
//
// Walking and words that were acknowledged within 5 s before the owner of the entity crashes may be undone, which the Model
// marks (Seen.Marks). Items are never undone: items.go says what the result of an input about them means.
//
// A Client has two goroutines while it is connected and none after it has ended. What it keeps is bounded: 16 unanswered
// inputs, and in the Model the lists that wait to be taken. To hear of every change set Options.OnMessage; to wait for one
// use Wait; to look use Do.
//
// May import api/wire, torus, ecs and game/motion.
package client
