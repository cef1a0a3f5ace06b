// Package connect says how a store is reached, and what is found there: the zone nodes' driver and the operator use the same
// words for it.
//
//   - Parse reads a URL; Files and Config say with which credentials and whose certificates; Options makes a client of them.
//   - Inspect asks a server what it is and what it promises to keep. It writes nothing.
//   - Identify writes, once, whose store it is.
//
// What a caller may rely on: nothing here waits longer than its context or Config.Timeout, repeats a command, or reads more
// than a bound from a file or a server. No error tells a password.
//
// It may import the Redis client only, and is free of the rest of the node, so that the operator may import it.
package connect
