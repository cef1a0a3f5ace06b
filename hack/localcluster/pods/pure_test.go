package pods

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spatialcells/spatialcells/hack/localcluster/child"
)

func TestExpandFollowsKubernetesRules(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": ""}
	for in, want := range map[string]string{
		"$(A)": "1", "x$(A)y$(A)": "x1y1", "$$(A)": "$(A)", "$(B)": "$(B)", "$(EMPTY)": "", "$A": "$A",
		"$(A": "$(A", "$": "$", "$$": "$", "$()": "$()",
	} {
		if got := expand(in, env); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("$(A)$$(A)$(")
	f.Fuzz(func(t *testing.T, s string) {
		if !strings.Contains(s, "$") && expand(s, nil) != s {
			t.Errorf("%q changed", s)
		}
	})
}

func TestMountPathsAreRewrittenAsWholePaths(t *testing.T) {
	m := mounts{{"/etc/zn", "/v/zn"}, {"/etc/zn/tls/", "/v/tls"}, {"/v", "/nowhere"}}.sorted()
	for in, want := range map[string]string{
		"/etc/zn": "/v/zn", "/etc/zn/seed": "/v/zn/seed", "/etc/zn/tls/key": "/v/tls/key", "--f=/etc/zn/a": "--f=/v/zn/a",
		"/etc/zn,/etc/zn/tls": "/v/zn,/v/tls", "/etc/znx": "/etc/znx", "/my/etc/zn": "/my/etc/zn", "/etc/zn-2": "/etc/zn-2",
		"http://host/etc/zn": "http://host/etc/zn", "": "", "/": "/",
	} {
		if got := m.rewrite(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add("/etc/zn/etc/zn")
	m := mounts{{"/a", "/zz"}, {"/a/b", "/yy"}}.sorted()
	f.Fuzz(func(t *testing.T, s string) {
		if got := m.rewrite(s); !strings.Contains(s, "/a") && got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestAddressesAreUniqueAndComeBackLast(t *testing.T) {
	n := NewAddresses(127, 20)
	a, _ := n.Take("")
	b, _ := n.Take("")
	if a != "127.20.0.1" || b != "127.20.0.2" {
		t.Fatalf("%s, %s", a, b)
	}
	n.Return(a)
	if c, _ := n.Take(""); c != "127.20.0.3" {
		t.Errorf("a just returned address is used again at once: %s", c)
	}
	if again, _ := n.Take(a); again != a {
		t.Errorf("a pod that continues got %s, not its %s", again, a)
	}
	for _, wrong := range []string{b, "10.0.0.1", "127.20.255.1", "nonsense"} {
		if got, err := n.Take(wrong); err != nil || got == wrong {
			t.Errorf("%s was handed out: %v", wrong, err)
		}
	}
}

func TestAddressesEndWithAnError(t *testing.T) {
	n := NewAddresses(127, 20)
	seen := map[string]bool{}
	for range hostsPerBlock * podBlocks {
		a, err := n.Take("")
		if err != nil || seen[a] {
			t.Fatalf("%s: %v", a, err)
		}
		seen[a] = true
	}
	if a, err := n.Take(""); err == nil {
		t.Errorf("one more: %s", a)
	}
}

func TestSwapDirReplacesAllAtOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(files map[string]file) bool {
		t.Helper()
		changed, err := swapDir(dir, files)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	write(map[string]file{"a": {[]byte("1"), 0o600}, "sub/b": {[]byte("2"), 0o600}})
	old, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
	if err != nil {
		t.Fatal(err)
	}
	if write(map[string]file{"a": {[]byte("1"), 0o600}, "sub/b": {[]byte("2"), 0o600}}) {
		t.Error("equal content was written again")
	}
	if !write(map[string]file{"a": {[]byte("3"), 0o600}}) {
		t.Error("a change was not noticed")
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(raw) != "3" {
		t.Errorf("a: %q, %v", raw, err)
	}
	for _, gone := range []string{filepath.Join(dir, "sub"), old} {
		if _, err := os.Lstat(gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	for _, evil := range []string{"../x", "/x", "..data", "a/../../x"} {
		if _, err := swapDir(dir, map[string]file{evil: {}}); err == nil {
			t.Errorf("path %q was taken", evil)
		}
	}
}

func TestTallyNeedsAnswersInARow(t *testing.T) {
	up := tally{success: 2, failure: 3, decided: true} // as for readiness: down until proven
	var changes []int
	for i, ok := range []bool{true, false, true, true, true, false, false, true, false, false, false, false} {
		if up.count(ok) {
			changes = append(changes, i)
		}
	}
	if len(changes) != 2 || changes[0] != 3 || changes[1] != 10 {
		t.Errorf("opinion changed at %v, want at 3 and 10", changes)
	}
	live := tally{success: 1, failure: 1}
	if !live.count(false) {
		t.Error("a first failure is no opinion")
	}
}

func basePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u", Labels: map[string]string{"k": "v"}},
		Spec:       corev1.PodSpec{NodeName: "m", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func TestUnsupportedPodsAreRefusedInWords(t *testing.T) {
	if why := unsupported(basePod()); why != "" {
		t.Errorf("a plain pod: %s", why)
	}
	for want, change := range map[string]func(*corev1.PodSpec){
		"one container":   func(s *corev1.PodSpec) { s.Containers = append(s.Containers, s.Containers[0]) },
		"init containers": func(s *corev1.PodSpec) { s.InitContainers = s.Containers },
		"hostNetwork":     func(s *corev1.PodSpec) { s.HostNetwork = true },
		"grpc": func(s *corev1.PodSpec) {
			s.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}}
		},
		"postStart": func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
		},
	} {
		o := basePod()
		change(&o.Spec)
		if why := unsupported(o); !strings.Contains(why, want) {
			t.Errorf("%s: %q", want, why)
		}
	}
}

func rendered(t *testing.T, s *status, o *corev1.Pod) corev1.PodStatus {
	t.Helper()
	raw, err := s.patch(o)
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Metadata struct{ UID string }
		Status   corev1.PodStatus
	}
	if err := json.Unmarshal(raw, &out); err != nil || out.Metadata.UID != string(o.UID) {
		t.Fatalf("%s: %v", raw, err)
	}
	return out.Status
}

func conditionOf(s corev1.PodStatus, t corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range s.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}

func TestStatusTellsTheStoryOfAContainer(t *testing.T) {
	o := basePod()
	o.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
	var s status
	s.begin(o)
	s.setAddresses("127.20.0.1", "127.20.255.1")
	s.running(o, 42)
	st := rendered(t, &s, o)
	if st.Phase != corev1.PodRunning || !st.ContainerStatuses[0].Ready || conditionOf(st, corev1.PodReady) != corev1.ConditionFalse {
		t.Errorf("running behind a closed gate: %+v", st)
	}
	o.Status.Conditions = []corev1.PodCondition{{Type: "gate", Status: corev1.ConditionTrue}}
	if st = rendered(t, &s, o); conditionOf(st, corev1.PodReady) != corev1.ConditionTrue {
		t.Errorf("the gate is open: %+v", st.Conditions)
	}
	if conditionOf(st, "gate") != "" {
		t.Error("the patch carries a condition that belongs to somebody else")
	}
	s.exited(child.Exit{Code: 137, Signal: 9, At: time.Now()})
	s.crashed(time.Second)
	st = rendered(t, &s, o)
	c := st.ContainerStatuses[0]
	if c.RestartCount != 1 || c.State.Waiting.Reason != "CrashLoopBackOff" || c.LastTerminationState.Terminated.ExitCode != 137 || conditionOf(st, corev1.PodReady) != corev1.ConditionFalse {
		t.Errorf("after a crash: %+v", c)
	}
	s.end(child.Exit{Code: 137})
	c = rendered(t, &s, o).ContainerStatuses[0]
	if c.State.Terminated == nil || c.RestartCount != 0 {
		t.Errorf("ended while waiting to restart: %+v", c)
	}
}

func TestStatusContinuesAfterTheRuntimeDied(t *testing.T) {
	o := basePod()
	o.Status.ContainerStatuses = []corev1.ContainerStatus{{
		ContainerID: "process://u-4-7", RestartCount: 4, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	var s status
	s.begin(o)
	c := rendered(t, &s, o).ContainerStatuses[0]
	if c.RestartCount != 5 || c.LastTerminationState.Terminated == nil {
		t.Errorf("%+v", c)
	}
}

func TestOnlyAnUnreachableAPIAllowsReuse(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "seed")
	if unreachable(gone) || unreachable(errors.New("env X: no such field")) {
		t.Error("an answer counts as none")
	}
	if !unreachable(&url.Error{Op: "Get", Err: errors.New("connection refused")}) || !unreachable(context.DeadlineExceeded) {
		t.Error("no answer counts as one")
	}
}

func TestFieldsAndResources(t *testing.T) {
	o := basePod()
	o.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	p := &pod{obj: o, ip: "127.20.0.9"}
	p.live.Store(o)
	for path, want := range map[string]string{"metadata.name": "p", "metadata.labels['k']": "v", "status.podIP": "127.20.0.9", "metadata.labels": `k="v"`} {
		if got, err := p.field(path); err != nil || got != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := p.field("spec.secret"); err == nil {
		t.Error("an unknown field is no error")
	}
	for _, c := range []struct {
		ref  corev1.ResourceFieldSelector
		want string
	}{
		{corev1.ResourceFieldSelector{Resource: "limits.cpu"}, "2"},
		{corev1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: resource.MustParse("1m")}, "1500"},
		{corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}, "64"},
		{corev1.ResourceFieldSelector{Resource: "requests.cpu"}, "0"},
	} {
		if got, err := p.resource(&c.ref); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.ref.Resource, got, err)
		}
	}
}
