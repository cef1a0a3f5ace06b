// Command zone-node is one zone node: the heart (node/zone) and its drivers in one process.
//
//	zone-node                simulate the regions that the World gives to this pod, and serve players
//	zone-node store          a store for development: Redis protocol, in memory, keeps nothing
//	zone-node token          print a development token for a player
//	zone-node audit          prove that each item in a store is in one place, also while nodes write to it
//	zone-node export         write the world in a store to a file, as of one instant
//	zone-node import         write such a file to an empty store
//
// The last three say how a store is reached by the same flags and environment as a node. They end with 0 if the auditor
// found no fault, with 1 if it did, and with 2 if it could not look. Without any argument it lists its commands.
//
// Here are the flags, the assembly, the tick loop, health and metrics, and the report to the ZoneNode object. The loop is
// the only place where the heart meets the clock: it steps it when a step is due, holds what a step decided if the fence
// passed meanwhile, and hands it to the drivers.
package main
