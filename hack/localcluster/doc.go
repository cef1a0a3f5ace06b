// Package localcluster brings up a real Kubernetes control plane on this computer, with pods as processes.
//
// etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the official programs (see hack/assets), each
// supervised; keys are made on the spot, RBAC is on. The process runtime (package pods) plays the kubelets, package
// services plays kube-proxy, package volumes the storage. No root, no container engine, no network but loopback.
//
// What it promises:
//   - Up returns a cluster that takes work, or an error that says what to do, with nothing left running;
//   - nothing outlives the process that called Up, even when that is killed (package child);
//   - a second Up on the same folder continues the same cluster: API objects, keys, tokens and volumes are kept, and
//     pods start again as after a reboot;
//   - clusters on one computer do not meet: each has a lane of loopback addresses of its own.
//
// It is Linux only. It may import hack/assets and the packages below it; nothing of the product.
package localcluster
