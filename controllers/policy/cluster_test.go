package policy_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/policy"
	"github.com/spatialcells/spatialcells/hack/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m) }

const world = "genesis"

// room is one namespace with a World's ServiceAccount, its Role, and clients of those who write Leases.
type room struct {
	t         *testing.T
	cfg       *rest.Config
	namespace string
	admin     client.Client
	operator  client.Client
}

var enforced sync.Once

// newRoom makes a room in a cluster that enforces the policies.
func newRoom(t *testing.T) *room {
	t.Helper()
	cfg := envtest.Start(t)
	r := &room{t: t, cfg: cfg, namespace: envtest.Namespace(t, cfg), admin: envtest.Client(t, cfg)}
	r.operator = envtest.Client(t, envtest.As(cfg, policy.OperatorUser, "system:masters", "system:authenticated"))
	r.account(world)
	enforced.Do(func() { r.install() })
	return r
}

// install installs the policies and waits until they are seen to be enforced.
func (r *room) install() {
	r.t.Helper()
	objects, err := policy.Render(policy.OperatorUser)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, object := range objects {
		if err := r.admin.Create(r.t.Context(), object); err != nil {
			r.t.Fatalf("installing %s: %v", object.GetName(), err)
		}
	}
	canary := r.create(r.lease("canary", v1alpha1.LeaseKindCanary, "", 0))
	var last error
	err = wait.PollUntilContextTimeout(r.t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = policy.Prove(ctx, r.operator, canary)
		return last == nil, nil
	})
	if err != nil {
		r.t.Fatalf("the policies are not enforced: %v", errors.Join(err, last))
	}
}

// account makes the ServiceAccount of a World's zone nodes and a Role that allows more than the operator would give, so
// that what refuses a write is the policy.
func (r *room) account(world string) {
	r.t.Helper()
	name := v1alpha1.ServiceAccountName(world)
	meta := metav1.ObjectMeta{Name: name, Namespace: r.namespace}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
			{APIGroups: []string{"spatialcells.io"}, Resources: []string{"zonenodes/status"}, Verbs: []string{"update"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: r.namespace}},
		},
	} {
		if err := r.admin.Create(r.t.Context(), object); err != nil {
			r.t.Fatalf("making the account of %s: %v", world, err)
		}
	}
}

// node is one pod of a zone node and a client with a token bound to it.
type node struct {
	client.Client
	name string
	uid  string
}

func (n *node) holder() string { return v1alpha1.HolderIdentity(n.name, n.uid) }

func (n *node) session(life int) string { return n.name + "#" + strconv.Itoa(life) }

// node makes the pod of a zone node, replacing one of the same name, and takes a real bound token for it.
func (r *room) node(ordinal int) *node {
	r.t.Helper()
	name := v1alpha1.NodeName(world, ordinal)
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.namespace}}
	if err := r.admin.Delete(r.t.Context(), old, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		r.t.Fatalf("deleting pod %s: %v", name, err)
	}
	account := v1alpha1.ServiceAccountName(world)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.namespace},
		Spec: corev1.PodSpec{
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "zone-node", Image: "zone-node"}},
		},
	}
	if err := r.admin.Create(r.t.Context(), pod); err != nil {
		r.t.Fatalf("making pod %s: %v", name, err)
	}
	return &node{Client: r.tokenClient(account, pod), name: name, uid: string(pod.UID)}
}

// tokenClient has a token of the ServiceAccount, bound to the pod unless that is nil.
func (r *room) tokenClient(account string, pod *corev1.Pod) client.Client {
	r.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: r.namespace}}
	if err := r.admin.SubResource("token").Create(r.t.Context(), sa, request); err != nil {
		r.t.Fatalf("requesting a token of %s: %v", account, err)
	}
	cfg := rest.AnonymousClientConfig(r.cfg)
	cfg.BearerToken = request.Status.Token
	return envtest.Client(r.t, cfg)
}

func (r *room) lease(name, kind, holder string, transitions int) *coordinationv1.Lease {
	number := int32(transitions)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: r.namespace,
			Labels: map[string]string{v1alpha1.LabelWorld: world, v1alpha1.LabelLease: kind},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &number},
	}
}

// region is a region Lease that somebody holds at an epoch, and that the target should hold.
func (r *room) region(holder string, epoch int, target string) *coordinationv1.Lease {
	r.t.Helper()
	lease := r.lease(v1alpha1.RegionLeaseName(world, 3, 7), v1alpha1.LeaseKindRegion, holder, epoch)
	lease.Labels[v1alpha1.LabelRegion] = v1alpha1.RegionLabel(3, 7)
	lease.Annotations = map[string]string{v1alpha1.AnnotationTarget: target}
	return r.create(lease)
}

// sessionOf is the session Lease of a node, held by somebody in some life.
func (r *room) sessionOf(n *node, holder string, life int) *coordinationv1.Lease {
	r.t.Helper()
	lease := r.lease(n.name, v1alpha1.LeaseKindSession, holder, life)
	lease.Annotations = identity("first")
	return r.create(lease)
}

func identity(key string) map[string]string {
	return map[string]string{v1alpha1.AnnotationAddress: "10.0.0.1:7777", v1alpha1.AnnotationKeyHash: key, v1alpha1.AnnotationGateway: "10.0.0.1:8080"}
}

// create makes a Lease as the operator, replacing one of the same name.
func (r *room) create(lease *coordinationv1.Lease) *coordinationv1.Lease {
	r.t.Helper()
	if err := client.IgnoreNotFound(r.operator.Delete(r.t.Context(), lease.DeepCopy())); err != nil {
		r.t.Fatalf("deleting lease %s: %v", lease.Name, err)
	}
	if err := r.operator.Create(r.t.Context(), lease); err != nil {
		r.t.Fatalf("creating lease %s: %v", lease.Name, err)
	}
	return lease
}

// edit changes a copy of a Lease.
func edit(lease *coordinationv1.Lease, changes ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	for _, change := range changes {
		change(lease)
	}
	return lease
}

func holder(s string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &s }
}

func transitions(n int32) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = &n }
}

func annotated(key, value string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) {
		if l.Annotations == nil {
			l.Annotations = map[string]string{}
		}
		l.Annotations[key] = value
	}
}

func renewed(l *coordinationv1.Lease) {
	l.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(1_800_000_000, 0)}
}

// expectRefused fails unless the error is a policy's verdict with that message.
func expectRefused(t *testing.T, err error, message string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("the write was accepted, want a refusal with %q", message)
	case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err):
		t.Errorf("got %v, want a policy's refusal with %q", err, message)
	case !contains(err, "ValidatingAdmissionPolicy"), !contains(err, message):
		t.Errorf("got %v, want a policy's refusal with %q", err, message)
	}
}

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}
