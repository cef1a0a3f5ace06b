package policy

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"
)

// Names of the policies, and of their bindings.
const (
	RegionLeases  = "spatialcells-region-leases"
	SessionLeases = "spatialcells-session-leases"
	ForeignLeases = "spatialcells-foreign-leases"
)

// OperatorUser is the operator's user name as config/manager installs it.
const OperatorUser = "system:serviceaccount:spatialcells-system:spatialcells-operator"

// ManifestHeader is the first line of config/admission/policies.yaml.
const ManifestHeader = "# Generated from controllers/policy for the operator of config/manager. Do not edit.\n"

// maxUser bounds the operator's user name, in bytes.
const maxUser = 512

// cleaners delete what is left when a namespace or an owner goes, with or without accounts of their own.
var cleaners = []string{
	"system:kube-controller-manager",
	"system:serviceaccount:kube-system:namespace-controller",
	"system:serviceaccount:kube-system:generic-garbage-collector",
}

//go:embed leases.yaml.tmpl
var leases string

var leasesTemplate = template.Must(template.New("leases").Option("missingkey=error").Parse(leases))

// Render returns the policies, then their bindings, for an operator of that user name, as a SelfSubjectReview tells it.
func Render(operatorUser string) ([]client.Object, error) {
	text, err := Manifest(operatorUser)
	if err != nil {
		return nil, err
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var objects []client.Object
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the lease policies: %w", err)
		}
		object, err := decode(document)
		if err != nil {
			return nil, fmt.Errorf("decoding the lease policies: %w", err)
		}
		objects = append(objects, object)
	}
}

// Manifest returns what Render does, as YAML documents.
func Manifest(operatorUser string) ([]byte, error) {
	if err := checkUser(operatorUser); err != nil {
		return nil, err
	}
	names := make([]string, len(cleaners))
	for i, name := range cleaners {
		names[i] = literal(name)
	}
	var out bytes.Buffer
	err := leasesTemplate.Execute(&out, map[string]string{
		"Operator": literal(operatorUser),
		"Cleaners": "[" + strings.Join(names, ", ") + "]",
	})
	if err != nil {
		return nil, fmt.Errorf("rendering the lease policies: %w", err)
	}
	return out.Bytes(), nil
}

// checkUser refuses names that no authenticator gives, and those that another user could get by leaving something empty.
func checkUser(user string) error {
	switch {
	case user == "" || user == "system:anonymous":
		return fmt.Errorf("rendering the lease policies: the operator's user name is %q: run it with credentials of its own", user)
	case len(user) > maxUser || !utf8.ValidString(user):
		return fmt.Errorf("rendering the lease policies: the operator's user name is longer than %d bytes or not UTF-8", maxUser)
	case strings.ContainsFunc(user, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("rendering the lease policies: the operator's user name %q has unprintable characters", user)
	}
	return nil
}

// literal is a CEL string literal. CEL knows the escapes that Go uses for printable text.
func literal(s string) string { return strconv.Quote(s) }

func decode(document []byte) (client.Object, error) {
	var kind metav1.TypeMeta
	if err := sigsyaml.Unmarshal(document, &kind); err != nil {
		return nil, err
	}
	var object client.Object
	switch kind.Kind {
	case "ValidatingAdmissionPolicy":
		object = &admissionv1.ValidatingAdmissionPolicy{}
	case "ValidatingAdmissionPolicyBinding":
		object = &admissionv1.ValidatingAdmissionPolicyBinding{}
	default:
		return nil, fmt.Errorf("unexpected kind %q", kind.Kind)
	}
	if err := sigsyaml.UnmarshalStrict(document, object); err != nil {
		return nil, err
	}
	return object, nil
}
