package policy_test

import (
	"context"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// writer is somebody whose Role lets him do anything with Leases, so that what refuses him is a policy, or, if his token is
// worth nothing any more, the API server itself.
type writer struct {
	name string
	client.Client
	expired bool
}

// stranger is a node of another World in the same namespace, with a real bound token.
func (r *room) stranger() client.Client {
	r.t.Helper()
	r.account("eden")
	account := v1alpha1.ServiceAccountName("eden")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeName("eden", 0), Namespace: r.namespace},
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "zone-node", Image: "zone-node"}}},
	}
	if err := r.admin.Create(r.t.Context(), pod); err != nil {
		r.t.Fatalf("making pod %s: %v", pod.Name, err)
	}
	return r.tokenClient(account, pod)
}

// writers are all who may try, by real tokens but for the operator and the administrator; mine is the node that holds what
// there is to be held.
func (r *room) writers() (mine *node, all []writer) {
	before := r.node(0)
	mine = r.node(0) // the same name, another uid
	return mine, []writer{
		{name: "the operator", Client: r.operator},
		{name: "its node", Client: mine},
		{name: "another node", Client: r.node(1)},
		{name: "the old pod of its node", Client: before, expired: true},
		{name: "a token without a pod", Client: r.tokenClient(v1alpha1.ServiceAccountName(world), nil)},
		{name: "a node of another World", Client: r.stranger()},
		{name: "an administrator", Client: r.admin},
	}
}

// TestWhoMayWriteWhichLease tries each verb on each kind of Lease by each writer. The writes are right but for who makes
// them: a release or a revocation where there is a holder, a renewal where there is none. What else is wrong with a write,
// and what the refusals say, is in the other tests.
func TestWhoMayWriteWhichLease(t *testing.T) {
	r := newRoom(t)
	mine, writers := r.writers()
	plain := func(name string) *coordinationv1.Lease {
		lease := r.lease(name, "", "", 1)
		lease.Labels = nil
		return lease
	}
	only := func(names ...string) []string { return names }
	const operator, its, admin = "the operator", "its node", "an administrator"
	for _, kind := range []struct {
		name                   string
		lease                  *coordinationv1.Lease // exists
		another                *coordinationv1.Lease // does not
		change                 func(*coordinationv1.Lease)
		create, update, remove []string // by whom
	}{
		{
			name: "session", lease: r.sessionOf(mine, mine.holder(), 4), another: r.lease("genesis-zone-9", v1alpha1.LeaseKindSession, "", 0),
			change: holder(""), create: only(operator), update: only(operator, its), remove: only(operator),
		},
		{
			name: "region", lease: r.region(mine.session(4), 9, mine.name), another: r.lease("genesis-r-9-9", v1alpha1.LeaseKindRegion, "", 1),
			change: holder(""), create: only(operator), update: only(operator, its), remove: only(operator),
		},
		{
			name: "canary", lease: r.create(r.lease("genesis-canary", v1alpha1.LeaseKindCanary, "", 1)), another: r.lease("another-canary", v1alpha1.LeaseKindCanary, "", 1),
			change: renewed, create: only(operator), update: only(operator), remove: only(operator),
		},
		{
			name: "foreign", lease: r.create(plain("leader-of-something")), another: plain("leader-of-more"),
			change: renewed, create: only(operator, admin), update: only(operator, admin), remove: only(operator, admin),
		},
	} {
		for _, w := range writers {
			for _, try := range []struct {
				verb    string
				allowed []string
				do      func(context.Context) error
			}{
				{"creates", kind.create, func(ctx context.Context) error { return w.Create(ctx, kind.another.DeepCopy(), client.DryRunAll) }},
				{"updates", kind.update, func(ctx context.Context) error { return w.Update(ctx, edit(kind.lease, kind.change), client.DryRunAll) }},
				{"deletes", kind.remove, func(ctx context.Context) error { return w.Delete(ctx, kind.lease.DeepCopy(), client.DryRunAll) }},
			} {
				t.Run(w.name+" "+try.verb+" a "+kind.name+" lease", func(t *testing.T) {
					switch err := try.do(t.Context()); {
					case slices.Contains(try.allowed, w.name):
						if err != nil {
							t.Errorf("refused: %v", err)
						}
					case w.expired:
						if !apierrors.IsUnauthorized(err) {
							t.Errorf("got %v, want its token to be worth nothing", err)
						}
					default:
						expectRefused(t, err, "ValidatingAdmissionPolicy")
					}
				})
			}
		}
	}
}
