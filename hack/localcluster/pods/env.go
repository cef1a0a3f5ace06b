package pods

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const serviceAccountMount = "/var/run/secrets/kubernetes.io/serviceaccount"

// environment builds the variables of a container: envFrom, then env, where a later one may refer to an earlier one.
// Mount paths in the values are rewritten.
func (p *pod) environment(ctx context.Context, m mounts) (map[string]string, error) {
	c := &p.obj.Spec.Containers[0]
	env := map[string]string{}
	for i := range c.EnvFrom {
		if err := p.envFrom(ctx, &c.EnvFrom[i], env); err != nil {
			return nil, err
		}
	}
	for i := range c.Env {
		e := &c.Env[i]
		val := expand(e.Value, env)
		if e.ValueFrom != nil {
			var found bool
			var err error
			if val, found, err = p.valueFrom(ctx, e.ValueFrom); err != nil {
				return nil, fmt.Errorf("env %s: %w", e.Name, err)
			}
			if !found {
				continue
			}
		}
		env[e.Name] = val
	}
	for k, v := range env {
		env[k] = m.rewrite(v)
	}
	return env, p.inject(env, m)
}

// inject adds what stands in for the missing namespaces and for the image.
func (p *pod) inject(env map[string]string, m mounts) error {
	defaults := map[string]string{
		"PATH":        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":        p.dir,
		"HOSTNAME":    p.obj.Name,
		"LISTEN_HOST": p.ip,
	}
	if sa, ok := m.find(serviceAccountMount); ok {
		file := filepath.Join(p.dir, "kubeconfig")
		if err := os.WriteFile(file, []byte(p.kubeconfig(filepath.Join(sa, "token"))), 0o600); err != nil {
			return fmt.Errorf("writing the pod's kubeconfig: %w", err)
		}
		defaults["KUBECONFIG"] = file
	}
	for k, v := range defaults {
		if _, set := env[k]; !set {
			env[k] = v
		}
	}
	return nil
}

func (p *pod) kubeconfig(tokenFile string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: pod
contexts:
- name: pod
  context: {cluster: local, user: pod, namespace: %q}
clusters:
- name: local
  cluster: {server: %q, certificate-authority: %q}
users:
- name: pod
  user: {tokenFile: %q}
`, p.obj.Namespace, p.rt.cfg.Server, p.rt.cfg.CAFile, tokenFile)
}

func (p *pod) envFrom(ctx context.Context, from *corev1.EnvFromSource, env map[string]string) error {
	var data map[string][]byte
	var err error
	switch {
	case from.SecretRef != nil:
		data, err = p.data(ctx, "secret", from.SecretRef.Name, from.SecretRef.Optional)
	case from.ConfigMapRef != nil:
		data, err = p.data(ctx, "configmap", from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	}
	for k, v := range data {
		env[from.Prefix+k] = string(v)
	}
	return err
}

func (p *pod) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (val string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		val, err = p.field(from.FieldRef.FieldPath)
		return val, true, err
	case from.ResourceFieldRef != nil:
		val, err = p.resource(from.ResourceFieldRef)
		return val, true, err
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		return p.key(ctx, "secret", r.Name, r.Key, r.Optional)
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		return p.key(ctx, "configmap", r.Name, r.Key, r.Optional)
	}
	return "", false, fmt.Errorf("the process runtime knows no such source")
}

func (p *pod) key(ctx context.Context, kind, name, key string, optional *bool) (string, bool, error) {
	data, err := p.data(ctx, kind, name, optional)
	if err != nil {
		return "", false, err
	}
	v, ok := data[key]
	if !ok && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("%s %s has no key %q", kind, name, key)
	}
	return string(v), ok, nil
}

// data reads a secret or configMap of the pod's namespace; a missing one is nil when optional.
func (p *pod) data(ctx context.Context, kind, name string, optional *bool) (map[string][]byte, error) {
	core := p.rt.cfg.Client.CoreV1()
	var data map[string][]byte
	var err error
	if kind == "secret" {
		var s *corev1.Secret
		if s, err = core.Secrets(p.obj.Namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			data = s.Data
		}
	} else {
		var cm *corev1.ConfigMap
		if cm, err = core.ConfigMaps(p.obj.Namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			data = make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
			for k, v := range cm.Data {
				data[k] = []byte(v)
			}
			maps.Copy(data, cm.BinaryData)
		}
	}
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	return data, err
}

// field resolves a field of the downward API.
func (p *pod) field(path string) (string, error) {
	o := p.latest()
	switch path {
	case "metadata.name":
		return o.Name, nil
	case "metadata.namespace":
		return o.Namespace, nil
	case "metadata.uid":
		return string(o.UID), nil
	case "metadata.labels":
		return pairs(o.Labels), nil
	case "metadata.annotations":
		return pairs(o.Annotations), nil
	case "spec.nodeName":
		return o.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return o.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return p.ip, nil
	case "status.hostIP", "status.hostIPs":
		return p.hostIP, nil
	}
	for prefix, from := range map[string]map[string]string{"metadata.labels['": o.Labels, "metadata.annotations['": o.Annotations} {
		if key, ok := strings.CutPrefix(path, prefix); ok && strings.HasSuffix(key, "']") {
			return from[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", fmt.Errorf("the process runtime knows no field %s", path)
}

// pairs renders labels or annotations as the downward API does: sorted lines of key="value".
func pairs(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for k, v := range m {
		lines = append(lines, k+"="+strconv.Quote(v))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// resource resolves limits.cpu and the like; without a limit the machine's own capacity counts.
func (p *pod) resource(ref *corev1.ResourceFieldSelector) (string, error) {
	list, name, ok := strings.Cut(ref.Resource, ".")
	res := p.obj.Spec.Containers[0].Resources
	from := res.Limits
	if list == "requests" {
		from = res.Requests
	} else if list != "limits" {
		ok = false
	}
	if !ok {
		return "", fmt.Errorf("the process runtime knows no resource %s", ref.Resource)
	}
	q, set := from[corev1.ResourceName(name)]
	if !set && list == "limits" {
		q = capacity()[corev1.ResourceName(name)]
	}
	div := ref.Divisor
	if div.IsZero() {
		div = resource.MustParse("1")
	}
	if name == "cpu" {
		return strconv.FormatInt(int64(math.Ceil(float64(q.MilliValue())/float64(div.MilliValue()))), 10), nil
	}
	return strconv.FormatInt(int64(math.Ceil(float64(q.Value())/float64(div.Value()))), 10), nil
}

// list renders an environment for exec, sorted so that it is the same each time.
func list(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
