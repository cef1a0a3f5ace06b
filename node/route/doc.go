// Package route gets messages to accounts and inputs to entities: the two bookkeepings of a numbered call.
//
// The sender numbers its calls, keeps them until they are answered, and sends them again; the receiver executes only the
// next number of that sender, remembers the results of the last Window calls, and answers a gap with the number it wants.
// Sender and receiver are a session and an entity, not nodes: both bookkeepings travel with them, so a call takes effect
// once and in order whatever sender and receiver cross meanwhile.
//
//   - Log is the receiver's half; it is a component of the entity and part of its handover codec.
//   - Queue is the sender's half; it is part of the gateway's session.
//
// Pure: no clock, no IO. May import api/wire; nothing else of this module.
package route
