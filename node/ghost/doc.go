// Package ghost holds render ghosts: replicas of entities as their last public messages, encoded. A replica is no entity
// of the ECS: nothing decodes it, no system sees it, and forwarding it to a client is a copy of bytes.
//
// The store decides which owner's messages count:
//
//   - A frame with an older entity epoch than the replica's is dropped.
//   - Frames of a new owner are held until the old owner signed off (Transferred), at most HoldTicks, or until the old
//     owner's session is dead. So no client sees the new owner's state before the old owner's last, and nothing twice.
//   - A transfer never makes an entity vanish.
//   - When an owner dies its replicas stay, until the next holder's snapshot says otherwise and nobody else claims them for
//     HoldTicks. The store may still have at another home what the dead had moved: so the owner of the home before must have
//     spoken since, and somebody for every home that the dead owner spoke for.
//   - What was never sent, or lost with a stream that broke, is marked: the next update carries Reset.
//   - What is gone stays gone: news of an older epoch, on a slower stream, do not bring it back.
//
// It keeps, per replica and tick, which components changed and which events happened, so that each update is encoded once
// for all clients of this gateway.
//
// May import ecs, interest and api/wire; nothing else of this module.
package ghost
