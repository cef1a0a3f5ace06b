// Package wire holds the contracts that cross a process border, as protocol buffers: client.proto between a game client
// and its gateway, link.proto between two zone nodes, component.proto for what both carry of an entity.
//
// Rules that every message keeps:
//   - No tick number or clock reading crosses a link as an absolute. Values carry their age in ticks.
//   - Positions are canonical metres on the torus; chunks and regions are row-major indices.
//   - Update bytes are encoded once and spliced: the components of a frame are already encoded as the repeated field of
//     an EntityUpdate, so that forwarding them is a copy.
//   - Fields are only added. A reader keeps what it does not know where the value is handed on or stored.
//
// The Go code beside this file is generated; `make generate` renews it and `make verify` checks that it is current.
package wire
