// Package handoff keeps the books of moving one entity's authority from node to node.
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
// is durable.
//
// The target dies before Durable: the offer is passed on to the region's heir, as an orphan. The target may have taken the
// entity, changed it, handed it on and died, so the snapshot may be all there is, or old. An heir that is not ready says
// nothing (a Refuse would let the source act again, beside whoever has it); one that is ready claims the record in the store
// first, as a recovery does, at an epoch above everything that the dead may still have sent there, and takes the snapshot
// only if the record is not newer than the offer.
//
// The source dies: its region's heir asks every live session what it has (Claiming). The answers name what is owned, at
// which epoch, and what is frozen or kept; who answered refuses older offers of the dead source from then on, and counts a
// Durable only of the heir that asked.
//
// Pure: no clock but the tick it is told, no IO. May import torus, ecs and api/wire.
package handoff
