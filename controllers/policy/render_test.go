package policy

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

func TestEachPolicyHasABindingThatDenies(t *testing.T) {
	objects, err := Render(OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	policies, bound := map[string]bool{}, map[string]bool{}
	for _, object := range objects {
		switch o := object.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			policies[o.Name] = true
			if *o.Spec.FailurePolicy != admissionv1.Fail {
				t.Errorf("%s lets a write pass when it cannot be judged", o.Name)
			}
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			bound[o.Spec.PolicyName] = len(o.Spec.ValidationActions) == 1 && o.Spec.ValidationActions[0] == admissionv1.Deny
		}
	}
	for _, name := range []string{RegionLeases, SessionLeases, ForeignLeases} {
		if !policies[name] || !bound[name] {
			t.Errorf("policy %s: rendered %t, bound with Deny %t", name, policies[name], bound[name])
		}
	}
	if len(policies) != 3 || len(objects) != 6 {
		t.Errorf("got %d policies in %d objects, want 3 in 6", len(policies), len(objects))
	}
}

func TestPoliciesComeBeforeTheirBindings(t *testing.T) {
	objects, err := Render(OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	bindings := false
	for _, object := range objects {
		_, binding := object.(*admissionv1.ValidatingAdmissionPolicyBinding)
		if bindings && !binding {
			t.Fatalf("policy %s comes after a binding", object.GetName())
		}
		bindings = bindings || binding
	}
}

func TestNamesThatAnybodyCouldHaveAreRefused(t *testing.T) {
	for _, user := range []string{"", "system:anonymous", "a\nb", "a\x00", "\xff", strings.Repeat("a", maxUser+1)} {
		if _, err := Render(user); err == nil {
			t.Errorf("rendered for %q", user)
		}
	}
}

// TestInstalledManifestIsCurrent: config/admission is for clusters in which the operator may not install policies.
func TestInstalledManifestIsCurrent(t *testing.T) {
	want, err := Manifest(OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	want = append([]byte(ManifestHeader), want...)
	path := filepath.Join("..", "..", "config", "admission", "policies.yaml")
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not current: run `make generate`", path)
	}
}

// FuzzOperatorUser: whatever the name, the policies stay the same but for one literal.
func FuzzOperatorUser(f *testing.F) {
	for _, user := range []string{OperatorUser, `a" || true || "`, `a' # b`, "{{ .Operator }}", `back\slash`, "früh  spät", "a: b", "- c", "%s"} {
		f.Add(user)
	}
	f.Fuzz(func(t *testing.T, user string) {
		objects, err := Render(user)
		if err != nil {
			return
		}
		want := "request.userInfo.username == " + literal(user)
		for _, object := range objects {
			policy, ok := object.(*admissionv1.ValidatingAdmissionPolicy)
			if !ok || policy.Name == ForeignLeases {
				continue
			}
			if got := policy.Spec.Variables[0].Expression; got != want {
				t.Fatalf("%s: the operator is %q, want %q", policy.Name, got, want)
			}
		}
		if len(objects) != 6 {
			t.Fatalf("got %d objects, want 6", len(objects))
		}
	})
}
