// Package envtest gives a test a real kube-apiserver with etcd and the project's CRDs. There is no controller-manager,
// no scheduler and no kubelet: what they would do, the test does.
//
//	func TestMain(m *testing.M) { envtest.Main(m) } // one cluster for the package, ended with it
//
//	func TestSomething(t *testing.T) {
//		cfg := envtest.Start(t)           // the cluster's administrator
//		ns := envtest.Namespace(t, cfg)   // a namespace of its own for each test
//	}
//
// Without Main every Start runs a cluster of its own and ends it with the test.
//
// Binaries come from KUBEBUILDER_ASSETS, else from the project's cache, else from `go run ./hack/assets`, which may
// build them for a quarter of an hour and therefore runs only when the test's deadline allows it.
//
// It may import controller-runtime and the api packages. Only tests import it.
package envtest
