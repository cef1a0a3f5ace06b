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
// The programs come from hack/assets. Where they must be built first, that takes a quarter of an hour once: `make test`
// does it before any test's time runs.
//
// It may import controller-runtime, the api packages and hack/assets. Only tests import it.
package envtest
