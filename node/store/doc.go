// Package store keeps what is durable: records of entities, the index of each region, and the directory of accounts.
//
// Three things live here:
//   - Memory, a model in this process. It answers at once, is deterministic, and is the definition of what each operation
//     means: the simulated cluster and the tests of the heart use it, and Redis is tested against it.
//   - Redis, the driver for Valkey, Redis and what speaks like them. It turns store requests of the heart into scripts,
//     and their replies into answers.
//   - Serve, a server for development that keeps everything in memory and nothing beyond its own life.
//
// What a caller may rely on:
//   - Every request is answered exactly once. StoreUnavailable means "not known to be done": ask again.
//   - Every operation may be repeated, with the number of the first try, also while that is still under way, and also if it
//     lands after the repeat: neither takes effect twice, and a late save never replaces a newer one.
//   - Requests about one entity, account, region or ground are carried out in the order of Submit. Whoever loads a region
//     waits for the answer before writing to its ground.
//   - A write that is answered StoreOK is as durable as the server can say: see Durability and README.md.
//   - Nothing is written at or after the fence. Writes wait for a renewal for a bounded time.
//   - No crash, at any point, loses a record out of its region: the index of a region may name too many ids, never too few.
//
// What it does not promise: durability beyond what the server's configuration gives. Apply is the pure part of a write to
// contents, the same for every store.
//
// README.md has the keys, for other programs that read them. May import zone for its events, torus and ecs; nothing of
// the node imports it but the command and the simulated cluster.
package store
