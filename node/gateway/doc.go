// Package gateway holds the sockets of players: WebSocket at /play, binary frames, one goroutine that reads and one that
// writes per connection. It is a driver around the heart (node/zone): it turns frames into zone.ClientEvent and
// zone.ClientBytes into frames. Sessions, inputs and sight are the heart's; here are bytes, time and limits.
//
// It promises:
//   - The handler sees a connection only after its token was verified: one Connected, then messages in the order they
//     were sent, then exactly one Closed, all from one goroutine. A message that the handler sees is decoded, within the
//     size, rate and list limits, and free of control characters; positions are not checked here.
//   - Nothing ends in silence. Each end of a connection has one reason, which is counted, and which the client is told in
//     a Disconnected where the socket still takes it (within Limits.Farewell), and as close code 4000 + reason.
//   - What Send was given is written in order, one frame each, and only while the clock is before the fence, which is
//     compared right before each write. What is late is held until the fence moves on; a connection whose backlog or
//     hold exceeds its limit is closed. Answers to Ping, and Disconnected, say nothing of the world and pass the fence.
//   - Send, CloseConn and Kick never block.
//   - Every queue, map and goroutine is bounded by Limits and ends with Shutdown.
//
// What a token must hold, and who may sign it, is in tokens.go; README.md is the protocol for those who write a client.
//
// May import zone (its events), torus and api/wire; never the engine's inside, link or store.
package gateway
