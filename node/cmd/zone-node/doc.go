// Command zone-node is one zone node: the heart (node/zone) and its drivers in one process.
//
//	zone-node                simulate the regions that the World gives to this pod, and serve players
//	zone-node store          a store for development: Redis protocol, in memory, keeps nothing
//	zone-node token          print a development token for a player
//
// Here are the flags, the assembly, the tick loop, health and metrics, and the report to the ZoneNode object. The loop is
// the only place where the heart meets the clock: it steps it when a step is due, holds what a step decided if the fence
// passed meanwhile, and hands it to the drivers.
package main
