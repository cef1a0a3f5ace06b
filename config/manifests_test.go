package config_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/spatialcells/spatialcells/controllers/policy"
	"github.com/spatialcells/spatialcells/hack/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m) }

// documents reads the objects of one manifest.
func documents(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var objects []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("reading %s: %v", path, err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatalf("reading %s: %v", path, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// manifests are the YAML files of a folder, without kustomize's own.
func manifests(t *testing.T, folder string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".yaml" && entry.Name() != "kustomization.yaml" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	return paths
}

func TestEachManifestIsAccepted(t *testing.T) {
	cfg := envtest.Start(t)
	c := client.WithFieldValidation(envtest.Client(t, cfg), metav1.FieldValidationStrict)
	for _, object := range documents(t, filepath.Join("manager", "namespace.yaml")) {
		if err := apply(t, c, object, text(t, object)); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"rbac", "manager", "admission", "network-policy"} {
		for _, path := range manifests(t, folder) {
			for _, object := range documents(t, path) {
				if err := apply(t, c, object, text(t, object), client.DryRunAll); err != nil {
					t.Errorf("%s: %s %s: %v", path, object.GetKind(), object.GetName(), err)
				}
			}
		}
	}
}

func text(t *testing.T, object *unstructured.Unstructured) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestEachManifestIsInItsKustomization(t *testing.T) {
	for _, folder := range []string{"crd", "rbac", "manager", "admission", "network-policy"} {
		var kustomization struct {
			Resources []string `json:"resources"`
		}
		read(t, filepath.Join(folder, "kustomization.yaml"), &kustomization)
		for _, path := range manifests(t, folder) {
			name, err := filepath.Rel(folder, path)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(kustomization.Resources, name) {
				t.Errorf("%s is not in its kustomization", path)
			}
		}
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
}

// TestEachDefinitionFitsAnAnnotation: kubectl apply keeps the whole object in an annotation of at most 256 KiB.
func TestEachDefinitionFitsAnAnnotation(t *testing.T) {
	const most = 200_000
	paths := manifests(t, filepath.Join("crd", "bases"))
	if len(paths) != 3 {
		t.Errorf("got %d definitions, want 3", len(paths))
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() >= most {
			t.Errorf("%s has %d bytes, want less than %d", path, info.Size(), most)
		}
	}
}

// TestEachDefinitionIsStructural: no default inside list items either, which the operator's comparisons rely on.
func TestEachDefinitionIsStructural(t *testing.T) {
	cfg := envtest.Start(t)
	c := envtest.Client(t, cfg)
	for _, path := range manifests(t, filepath.Join("crd", "bases")) {
		definition := documents(t, path)[0]
		if found := defaultInItems(definition.Object, false); found {
			t.Errorf("%s has a default inside list items", path)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(definition), definition); err != nil {
			t.Fatal(err)
		}
		conditions, _, err := unstructured.NestedSlice(definition.Object, "status", "conditions")
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range conditions {
			if c, ok := condition.(map[string]any); ok && c["type"] == "NonStructuralSchema" && c["status"] == "True" {
				t.Errorf("%s: %v", path, c["message"])
			}
		}
	}
}

func defaultInItems(node any, inItems bool) bool {
	switch n := node.(type) {
	case map[string]any:
		if _, isSchema := n["type"].(string); isSchema && inItems {
			if _, found := n["default"]; found {
				return true
			}
		}
		for key, child := range n {
			if defaultInItems(child, inItems || key == "items") {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(n, func(child any) bool { return defaultInItems(child, inItems) })
	}
	return false
}

func TestTheOperatorRunsUnderTheNameThatThePoliciesKnow(t *testing.T) {
	var deployment appsv1.Deployment
	read(t, filepath.Join("manager", "manager.yaml"), &deployment)
	got := "system:serviceaccount:" + deployment.Namespace + ":" + deployment.Spec.Template.Spec.ServiceAccountName
	if got != policy.OperatorUser {
		t.Errorf("the operator runs as %s, config/admission knows %s", got, policy.OperatorUser)
	}
}

func TestTheOperatorMeetsTheRestrictedStandard(t *testing.T) {
	var deployment appsv1.Deployment
	read(t, filepath.Join("manager", "manager.yaml"), &deployment)
	pod := deployment.Spec.Template.Spec
	if pod.SecurityContext == nil || !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Error("the pod may run as root or without seccomp")
	}
	for _, container := range pod.Containers {
		s := container.SecurityContext
		if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("container %s may gain privileges", container.Name)
		}
	}
}

func TestTheOperatorsRoleHasNoWildcardAndNoWayOut(t *testing.T) {
	var role rbacv1.ClusterRole
	read(t, filepath.Join("rbac", "role.yaml"), &role)
	if len(role.Rules) == 0 {
		t.Fatal("the role is empty")
	}
	for _, rule := range role.Rules {
		if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") {
			t.Errorf("a wildcard in %v", rule)
		}
		for _, verb := range []string{"escalate", "bind", "impersonate"} {
			if slices.Contains(rule.Verbs, verb) {
				t.Errorf("verb %s in %v", verb, rule)
			}
		}
		for _, resource := range rule.Resources {
			if resource == "secrets" && (slices.Contains(rule.Verbs, "list") || slices.Contains(rule.Verbs, "watch")) {
				t.Error("the operator may list all Secrets of the cluster")
			}
			if resource == "leases" && (slices.Contains(rule.Verbs, "patch") || slices.Contains(rule.Verbs, "delete")) {
				t.Error("the operator may patch or delete a single Lease: both steal silently")
			}
			if strings.HasPrefix(resource, "pods/") {
				t.Errorf("the operator may use %s", resource)
			}
		}
	}
}
