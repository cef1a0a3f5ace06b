// Package terrain makes chunk payloads beside the tick: a driver that takes zone.ChunkRequest and answers with
// zone.ChunkAnswer. What the ground is, and the payload format, are in the package ground below it.
//
// It promises:
//   - Request never blocks. Each accepted request is answered once after it; requests for a chunk that is waiting already
//     share one answer.
//   - A chunk is generated and encoded by one worker at a time, kept encoded while memory allows, and the payload that
//     several answers share is never changed.
//   - The queue, the cache and the workers are bounded; Close ends them.
//
// May import zone (its events), ground and torus; never the engine's inside.
package terrain
