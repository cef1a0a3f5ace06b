package config_test

import (
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/hack/envtest"
)

// TestSamplesApplyAndThenDifferInNothing: in the order of their numbers, so that the edits of one World are edits here too.
func TestSamplesApplyAndThenDifferInNothing(t *testing.T) {
	cfg := envtest.Start(t)
	c := client.WithFieldValidation(envtest.Client(t, cfg), metav1.FieldValidationStrict)
	namespace := envtest.Namespace(t, cfg)
	samples := manifests(t, "samples")
	if len(samples) < 10 {
		t.Fatalf("got %d samples", len(samples))
	}
	for _, path := range samples {
		for _, object := range documents(t, path) {
			object.SetNamespace(namespace)
			declared := text(t, object)
			if err := apply(t, c, object, declared); err != nil {
				t.Errorf("applying %s: %v", path, err)
				continue
			}
			if again := apply(t, c, object.DeepCopy(), declared, client.DryRunAll); again != nil {
				t.Errorf("applying %s again: %v", path, again)
			}
			expectNoDifference(t, c, path, object, declared)
		}
	}
}

func apply(t *testing.T, c client.Client, object *unstructured.Unstructured, declared []byte, opts ...client.PatchOption) error {
	t.Helper()
	return c.Patch(t.Context(), object, client.RawPatch(types.ApplyPatchType, declared), append(opts, client.FieldOwner("samples"), client.ForceOwnership)...)
}

// expectNoDifference does what kubectl diff does: a dry run of the declared object, compared with the live one.
func expectNoDifference(t *testing.T, c client.Client, path string, object *unstructured.Unstructured, declared []byte) {
	t.Helper()
	live := object.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), live); err != nil {
		t.Fatal(err)
	}
	merged := live.DeepCopy()
	if err := c.Patch(t.Context(), merged, client.RawPatch(types.MergePatchType, declared), client.DryRunAll); err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	if got, want := comparableText(t, merged), comparableText(t, live); got != want {
		t.Errorf("%s differs after it was applied:\n got %s\nlive %s", path, got, want)
	}
}

func comparableText(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	return string(text(t, object))
}

func TestOneSampleHasEveryField(t *testing.T) {
	definition := documents(t, filepath.Join("crd", "bases", "spatialcells.io_worlds.yaml"))[0]
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		t.Fatalf("got %d versions, %v", len(versions), err)
	}
	version, ok := versions[0].(map[string]any)
	if !ok {
		t.Fatal("a version is no object")
	}
	sample := documents(t, filepath.Join("samples", "8-every-field.yaml"))[0]
	// Areas are in the samples before; a store is one of two.
	elsewhere := []string{"assignment.areas", "store.external"}
	for _, parent := range []string{"", "grid", "nodes", "assignment", "fencing", "failover", "handoff", "maintenance", "gateway", "store"} {
		at := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}
		have := []string{"spec"}
		if parent != "" {
			at, have = append(at, parent, "properties"), append(have, parent)
		}
		fields, found, err := unstructured.NestedMap(version, at...)
		if err != nil || !found {
			t.Fatalf("the schema has no %v: %v", at, err)
		}
		shown, _, err := unstructured.NestedMap(sample.Object, have...)
		if err != nil {
			t.Fatal(err)
		}
		for field := range fields {
			if _, ok := shown[field]; !ok && !slices.Contains(elsewhere, parent+"."+field) {
				t.Errorf("spec.%s.%s is in no sample", parent, field)
			}
		}
	}
}
