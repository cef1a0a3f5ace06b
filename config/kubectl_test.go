package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/hack/envtest"
)

func TestKubectlAppliesTheDefaultInstallation(t *testing.T) {
	cfg := envtest.Start(t)
	kubectl := envtest.Kubectl(t, cfg, "default")
	out, err := kubectl("apply", "--server-side", "--force-conflicts", "-k", "config/default")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"worlds.spatialcells.io", "deployment.apps/spatialcells-operator", "clusterrole.rbac.authorization.k8s.io/spatialcells-operator"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not installed:\n%s", want, out)
		}
	}
	if out, err := kubectl("diff", "--server-side", "--force-conflicts", "-k", "config/default"); err != nil {
		t.Errorf("the installation differs from what was applied: %v\n%s", err, out)
	}
	// Client-side, as people do: the whole object must fit into an annotation.
	if _, err := kubectl("apply", "-k", "config/default", "--dry-run=server"); err != nil {
		t.Error(err)
	}
}

func TestKubectlDiffOfEachSampleIsEmpty(t *testing.T) {
	cfg := envtest.Start(t)
	kubectl := envtest.Kubectl(t, cfg, envtest.Namespace(t, cfg))
	for _, path := range manifests(t, "samples") {
		file := filepath.Join("config", path)
		if _, err := kubectl("apply", "-f", file); err != nil {
			t.Error(err)
			continue
		}
		if out, err := kubectl("diff", "-f", file); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if out, err := kubectl("get", "spatialcells"); err != nil || !strings.Contains(out, "world.spatialcells.io/genesis") || !strings.Contains(out, "REGIONS") {
		t.Errorf("%v\n%s", err, out)
	}
}
