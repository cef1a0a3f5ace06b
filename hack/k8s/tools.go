//go:build tools

// Package k8s pins the Kubernetes and etcd sources that hack/assets builds when no binaries can be downloaded.
// It is a module of its own, so that the requirements of Kubernetes stay out of the product's go.mod.
package k8s

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
