// Package vault is the durable store of the simulated cluster, as nasty as a real one, on virtual time.
//
// A request is carried out as the driver of node/store does it: as a chain of round trips, each of which touches one slot
// of the server. A creation names its account's master first, a session claim looks at the master afterwards, a load of a
// region raises the fence and then reads the records. What a round trip does to a record is store.Memory's affair; sessions,
// the master of an account and the order of saves follow the scripts.
//
// A round trip travels to the server, is carried out there all at once, becomes durable, and its reply travels back. Each
// of the three takes a time of its own. Readers see what is not durable yet. A sender that hears nothing for Timeout is
// answered StoreUnavailable; what it sent may land all the same, also much later, also after its process died.
//
// What a caller may rely on, under every fault:
//   - Each request of a live client is answered exactly once, never from within Submit.
//   - A round trip of a write that was replied to is durable: no failover undoes it. Only Forget does.
//   - Requests of one client and key are carried out one after the other, in the order of Submit; one that was answered
//     StoreUnavailable may still land while later ones are carried out. All else is in any order.
//   - The same calls at the same times with the same seed give the same answers at the same times.
//   - Answers and records share no memory with the vault, and the vault none with requests.
//
// It works when something is due, never per tick. May import node/store, node/zone and what they are about, and timeline;
// tests of the node import it, nothing else.
package vault
