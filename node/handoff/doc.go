// Package handoff keeps the books of moving one entity's authority from node to node (node.md, "Handoff of one entity").
//
//	source                                   target
//	freeze E
//	Offer{E, e+1, all components}    ->      Judge: Take, AcceptAgain or Refuse
//	                                 <-      Accept; claims E's record in the store: e -> e+1
//	evict E, sign off Transferred
//	tombstone; the offer is kept     <-      Durable: the offer is dropped
//
// What it promises: an offer is idempotent; a refused epoch is burned, no duplicate of it is ever taken; who had an entity
// and handed it on answers a late offer of it with Accept, because a newer copy exists; an accepted offer is kept until it
// is durable, and is offered to the region's next owner when the target dies before.
//
// Pure: no clock but the tick it is told, no IO. May import torus, ecs and api/wire.
package handoff
