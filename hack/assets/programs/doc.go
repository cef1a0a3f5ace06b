// Package programs finds the Kubernetes programs that tests, the demo and the local cluster run: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl.
//
// In this order:
//  1. KUBEBUILDER_ASSETS, if that folder holds what is needed;
//  2. the cache, <user cache>/spatialcells/k8s-<version>, if the programs in it are whole and of the version;
//  3. the official releases, each checked against its published SHA-256, unless OFFLINE=1 or the server is out of
//     reach. K8S_BINARIES_URL names another server with the layout of dl.k8s.io, ETCD_BINARIES_URL one with the layout
//     of etcd's releases; by default that is K8S_BINARIES_URL/etcd where K8S_BINARIES_URL is set, else GitHub;
//  4. a build from source of the nested module hack/k8s, for which the Go module proxy is enough.
//
// What it promises: a program appears in the cache whole or not at all; two runs at once do the work once; a wrong
// checksum is an error, never a reason to go on silently; long work says what it does and for how long. It imports the
// standard library only.
package programs
