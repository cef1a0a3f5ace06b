package policy_test

import (
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/policy"
	"github.com/spatialcells/spatialcells/hack/envtest"
)

const foreign = "a zone node may only update session and region leases of its own World"

func TestNobodyButTheOperatorCreatesLeases(t *testing.T) {
	r := newRoom(t)
	mine := r.node(0)
	for kind, message := range map[string]string{
		v1alpha1.LeaseKindRegion: "only the operator creates region leases", v1alpha1.LeaseKindSession: "only the operator creates session leases",
	} {
		expectRefused(t, r.admin.Create(t.Context(), r.lease("new", kind, "", 1), client.DryRunAll), message)
		if err := mine.Create(t.Context(), r.lease("new", kind, "", 1), client.DryRunAll); err == nil {
			t.Errorf("a node created a %s lease", kind)
		}
		if err := r.operator.Create(t.Context(), r.lease("new", kind, "", 1), client.DryRunAll); err != nil {
			t.Errorf("the operator may not create a %s lease: %v", kind, err)
		}
	}
	plain := r.lease("plain", "", "", 1)
	plain.Labels = nil
	expectRefused(t, mine.Create(t.Context(), plain, client.DryRunAll), foreign)
}

func TestNobodyButTheOperatorDeletesLeases(t *testing.T) {
	r := newRoom(t)
	mine := r.node(0)
	region := r.region(mine.session(1), 9, mine.name)
	session := r.sessionOf(mine, mine.holder(), 1)
	for _, lease := range []*coordinationv1.Lease{region, session} {
		if err := mine.Delete(t.Context(), lease.DeepCopy(), client.DryRunAll); err == nil {
			t.Errorf("its node deleted %s", lease.Name)
		}
		expectRefused(t, r.admin.Delete(t.Context(), lease.DeepCopy(), client.DryRunAll), "deleted by the operator only")
		for _, user := range []string{"system:serviceaccount:kube-system:namespace-controller", "system:serviceaccount:kube-system:generic-garbage-collector"} {
			cleaner := envtest.Client(t, envtest.As(r.cfg, user, "system:masters"))
			if err := cleaner.Delete(t.Context(), lease.DeepCopy(), client.DryRunAll); err != nil {
				t.Errorf("%s may not delete %s: %v", user, lease.Name, err)
			}
		}
	}
	all := []client.DeleteAllOfOption{client.InNamespace(r.namespace), client.MatchingLabels{v1alpha1.LabelWorld: world}}
	if err := r.admin.DeleteAllOf(t.Context(), &coordinationv1.Lease{}, all...); err == nil {
		t.Error("an administrator deleted all leases of a World at once")
	}
	if err := r.operator.DeleteAllOf(t.Context(), &coordinationv1.Lease{}, all...); err != nil {
		t.Errorf("the operator may not delete all leases of a World at once: %v", err)
	}
}

func TestPatchAndApplyStealNothing(t *testing.T) {
	r := newRoom(t)
	mine, other := r.node(0), r.node(1)
	region := r.region(mine.session(4), 9, other.name)
	session := r.sessionOf(mine, mine.holder(), 4)
	theft := []byte(`{"spec":{"holderIdentity":"` + other.session(2) + `","leaseTransitions":10}}`)
	expectRefused(t, other.Patch(t.Context(), region.DeepCopy(), client.RawPatch(types.MergePatchType, theft), client.DryRunAll), onlyHolder)
	theft = []byte(`{"spec":{"holderIdentity":"` + other.holder() + `","leaseTransitions":5}}`)
	expectRefused(t, other.Patch(t.Context(), session.DeepCopy(), client.RawPatch(types.MergePatchType, theft), client.DryRunAll), ownSession)
	applied := []byte(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"` + region.Name + `"},"spec":{"holderIdentity":"` + other.session(2) + `","leaseTransitions":10}}`)
	apply := client.RawPatch(types.ApplyPatchType, applied)
	expectRefused(t, other.Patch(t.Context(), region.DeepCopy(), apply, client.DryRunAll, client.FieldOwner("thief"), client.ForceOwnership), onlyHolder)
	missing := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "missing", Namespace: r.namespace}}
	applied = []byte(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"missing","labels":{"spatialcells.io/lease":"region"}}}`)
	if err := other.Patch(t.Context(), missing, client.RawPatch(types.ApplyPatchType, applied), client.DryRunAll, client.FieldOwner("thief")); err == nil {
		t.Error("a node created a lease by applying it")
	}
}

func TestForeignLeasesAreOutOfANodesReach(t *testing.T) {
	r := newRoom(t)
	mine := r.node(0)
	leader := r.lease("leader-of-something", "", "somebody", 1)
	leader.Labels = nil
	eden := r.lease("eden-r-0-0", v1alpha1.LeaseKindRegion, "", 1)
	eden.Labels[v1alpha1.LabelWorld] = "eden"
	canary := r.lease("genesis-canary", v1alpha1.LeaseKindCanary, "", 1)
	for _, lease := range []*coordinationv1.Lease{r.create(leader), r.create(eden), r.create(canary)} {
		if err := mine.Update(t.Context(), edit(lease, renewed), client.DryRunAll); err == nil {
			t.Errorf("a node wrote %s", lease.Name)
		}
	}
	expectRefused(t, mine.Update(t.Context(), edit(leader, renewed), client.DryRunAll), foreign)
	err := mine.Update(t.Context(), edit(leader, func(l *coordinationv1.Lease) {
		l.Labels = map[string]string{v1alpha1.LabelLease: v1alpha1.LeaseKindRegion, v1alpha1.LabelWorld: world}
	}), client.DryRunAll)
	expectRefused(t, err, "ValidatingAdmissionPolicy")
}

func TestAccountsThatAreNoZoneNodesAreLeftAlone(t *testing.T) {
	r := newRoom(t)
	r.account("time") // "time-zone", and nothing of ours
	role := &rbacv1.Role{}
	if err := r.admin.Get(t.Context(), client.ObjectKey{Namespace: r.namespace, Name: "time-zone"}, role); err != nil {
		t.Fatal(err)
	}
	role.Rules = role.Rules[:1] // leases, no zonenodes
	if err := r.admin.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	lease := r.lease("time-leader", "", "somebody", 1)
	lease.Labels = nil
	mine := r.tokenClient("time-zone", nil)
	if err := mine.Create(t.Context(), lease); err != nil {
		t.Fatalf("its own lease is refused to a foreign ServiceAccount named *-zone: %v", err)
	}
}

func TestTheCanaryTellsWhatIsNotEnforced(t *testing.T) {
	r := newRoom(t)
	canary := r.create(r.lease("genesis-canary", v1alpha1.LeaseKindCanary, "", 1))
	if err := policy.Prove(t.Context(), r.operator, canary); err != nil {
		t.Errorf("enforced policies are not proven: %v", err)
	}
	err := policy.Prove(t.Context(), envtest.Client(t, r.cfg), canary)
	if !errors.Is(err, policy.ErrRightWriteRefused) {
		t.Errorf("policies that know another operator: got %v, want ErrRightWriteRefused", err)
	}
	unmatched := r.lease("no-canary", "", "", 1)
	unmatched.Labels = nil
	err = policy.Prove(t.Context(), r.operator, r.create(unmatched))
	if !errors.Is(err, policy.ErrWrongWriteAccepted) {
		t.Errorf("a lease that no policy matches: got %v, want ErrWrongWriteAccepted", err)
	}
}
