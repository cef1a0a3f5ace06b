// Package link connects zone nodes: one TCP connection for each pair of live sessions, TLS 1.3 in both directions.
//
// Identity. A node is known by its session. Each incarnation makes a key of its own and announces the hash of it in its
// session Lease; a connection counts as a session only if the other side proves that key. There is no certificate
// authority. Of two sessions the smaller one (as a string) dials.
//
// Two streams share the connection. Replication is lost with the connection: the owner of the handler hears PeerDown and
// starts anew. Reliable messages are handed over exactly once and in order for as long as both sessions live, however
// often the connection breaks between. A message that is too late is held, not dropped; one that does not fit is refused.
//
// The fence is compared with the clock right before each write. A node whose deadline has passed writes nothing at all,
// not even a keepalive, until the deadline of the same session is moved; what it was about to write waits.
//
// No public method blocks on the network. A peer that stops reading costs its own queue and nothing else.
//
// It may import api/wire. It knows nothing of entities, regions or Kubernetes: payloads are opaque bytes.
package link
