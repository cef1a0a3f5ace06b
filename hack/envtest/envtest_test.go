package envtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

func TestMain(m *testing.M) { Main(m) }

func TestClusterServesTheProjectsKinds(t *testing.T) {
	cfg := Start(t)
	c := Client(t, cfg)
	var worlds v1alpha1.WorldList
	if err := c.List(t.Context(), &worlds); err != nil {
		t.Fatalf("listing Worlds: %v", err)
	}
}

func TestEachNamespaceIsNew(t *testing.T) {
	cfg := Start(t)
	if first, second := Namespace(t, cfg), Namespace(t, cfg); first == second {
		t.Fatalf("two tests share the namespace %s", first)
	}
}

func TestMissingBinariesNameTheRemedy(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	if err := os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := findBinaries(t, dir)
	if err == nil || !strings.Contains(err.Error(), "unset it") {
		t.Fatalf("got %v, want an error that says what to do", err)
	}
}
