// Package policy holds the admission policies with which the API server itself refuses wrong writes to Leases. They are the
// second of the fence's three locks: the first is the node that stops itself, the third the store.
//
//   - spatialcells-region-leases: a region changes hands only by its holder, or to a node that the operator named while it
//     is free; its epoch never decreases; orders are the operator's.
//   - spatialcells-session-leases: a node writes its own session under its own pod's uid; each new holder is a new
//     incarnation with an address and a key of its own; the operator only revokes.
//   - spatialcells-foreign-leases: what a zone node may write at all.
//
// A node is known by its bound token: namespace, ServiceAccount, pod name and pod uid. The operator is known by its user
// name, which is why the policies are rendered. Nobody else is let through, a cluster's administrator neither; who must
// act against the policies deletes their bindings first, and is seen to.
//
// Both lease policies match the canary Lease too, so that Prove can show, without touching a World, that each of them is
// enforced. That they exist proves nothing.
//
// It may import api/v1alpha1 and the Kubernetes libraries.
package policy
