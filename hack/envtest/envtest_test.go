package envtest

import (
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

func TestKubectlActsAsTheConfiguration(t *testing.T) {
	cfg := Start(t)
	namespace := Namespace(t, cfg)
	out, err := Kubectl(t, cfg, namespace)("config", "view", "--minify", "-o", "jsonpath={..namespace}")
	if err != nil || out != namespace {
		t.Errorf("got namespace %q, %v, want %q", out, err, namespace)
	}
	if _, err := Kubectl(t, As(cfg, "nobody"), namespace)("get", "worlds"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a user without rights lists Worlds: %v", err)
	}
}
