// Package interest knows who observes what, by chunk. A chunk is a static address: it needs no discovery, and the number
// of subscriptions follows the size of a view, never the number of entities.
//
//   - Subscriptions: which observers hold which chunks. One type serves accounts (at their gateway) and nodes (at each
//     holder of the chunk).
//   - Residents: which entities are indexed in which chunk.
//   - View: what one account should hold around its anchor, and how far it has got.
//
// Everything is deterministic: observers and residents are kept in sorted order, nothing depends on map order. Chunks are
// named by torus.Grid.ChunkKey, always of canonical chunks.
//
// May import torus and partition; nothing else of this module.
package interest
