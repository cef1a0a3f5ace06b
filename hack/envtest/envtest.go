package envtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// startTimeout and stopTimeout bound the control plane on a machine that is busy compiling.
const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// shared is the cluster of a package whose TestMain calls Main.
var shared struct {
	sync.Mutex
	inUse bool
	env   *crenvtest.Environment
	cfg   *rest.Config
}

// Main runs the tests of a package and ends the cluster that they shared. Call it from TestMain.
func Main(m *testing.M) {
	shared.Lock()
	shared.inUse = true
	shared.Unlock()
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the test cluster:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Start returns the administrator's configuration of a running cluster that has the project's CRDs. It is the package's
// shared cluster under Main, else one of this test's own.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.inUse {
		env, cfg := boot(t)
		t.Cleanup(func() {
			if err := env.Stop(); err != nil {
				t.Errorf("stopping the test cluster: %v", err)
			}
		})
		return rest.CopyConfig(cfg)
	}
	if shared.env == nil {
		shared.env, shared.cfg = boot(t)
	}
	return rest.CopyConfig(shared.cfg)
}

// Scheme knows the types of Kubernetes and of this project.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatalf("building the scheme: %v", err)
		}
	}
	return scheme
}

// Client is an uncached client with Scheme.
func Client(t testing.TB, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: Scheme(t)})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return c
}

// Namespace makes a namespace for one test. It is not deleted: nothing here would finish its deletion.
func Namespace(t testing.TB, cfg *rest.Config) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := Client(t, cfg).Create(context.Background(), ns); err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	return ns.Name
}

// As is cfg acting as another user, by impersonation.
func As(cfg *rest.Config, user string, groups ...string) *rest.Config {
	as := rest.CopyConfig(cfg)
	as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return as
}

func boot(t testing.TB) (*crenvtest.Environment, *rest.Config) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	binaries, err := findBinaries(t)
	if err != nil {
		t.Fatal(err)
	}
	env := &crenvtest.Environment{
		BinaryAssetsDirectory:    binaries,
		CRDDirectoryPaths:        []string{filepath.Join(root, "config", "crd", "bases")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  stopTimeout,
	}
	cfg, err := env.Start()
	if err != nil {
		t.Fatalf("starting a test cluster with the binaries in %s: %v", binaries, err)
	}
	cfg.QPS, cfg.Burst = -1, 0
	return env, cfg
}

func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.env == nil {
		return nil
	}
	err := shared.env.Stop()
	shared.env, shared.cfg = nil, nil
	return err
}
