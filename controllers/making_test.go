package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// unmade is an API server that makes no Lease, and has none but those of somebody else.
type unmade struct {
	statusClient
	create  map[string]error // what it says, by the name of the Lease; "" for all others
	foreign string
	created []string
	updated []string
}

func (u *unmade) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	u.created = append(u.created, o.GetName())
	if err, named := u.create[o.GetName()]; named {
		return err
	}
	return u.create[""]
}

func (u *unmade) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	u.updated = append(u.updated, o.GetName())
	return nil
}

func (u *unmade) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return nil
}

func (u *unmade) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (u *unmade) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if key.Name == u.foreign {
		return nil // it has no owner
	}
	return apierrors.NewNotFound(leaseResource, key.Name)
}

func newUnmade(err error) *unmade {
	return &unmade{statusClient: statusClient{writes: &statusWrites{}}, create: map[string]error{"": err}}
}

func (u *unmade) reconciler() *WorldReconciler {
	return &WorldReconciler{Client: u, Live: u, Guard: &Guard{}, Recorder: &related{}}
}

// broken is a World of two nodes, of which node 1 is over and has a region, and one region has lost its Lease.
func broken() *scene {
	s := row(2, "w-zone-0#1", "w-zone-1#1", "-").session(0, 1, true).session(1, 1, false).declared(0, 1, 1)
	metav1.SetMetaDataAnnotation(&s.regions[0].ObjectMeta, v1alpha1.AnnotationTarget, "w-zone-0")
	s.pods[0] = &corev1.Pod{}
	s.memory.plan = plannedTable{table: s.assignment.table}
	s.world.Status.HighestEpoch, s.highestEpoch = 1001, 1001
	return s.ran()
}

// again is the same World some time later, after the former reconcile.
func (s *scene) again(after time.Duration) *scene {
	next := broken()
	next.memory, next.now = s.memory, s.now.Add(after)
	next.highestEpoch, next.world.Status.HighestEpoch, next.reported.HighestEpoch = s.highestEpoch, s.highestEpoch, s.highestEpoch
	return next
}

var (
	overQuota = apierrors.NewForbidden(leaseResource, "w-r-2-0", errors.New("exceeded quota: leases"))
	hookFails = apierrors.NewInternalError(errors.New("failed calling webhook"))
	occupied  = apierrors.NewAlreadyExists(leaseResource, "w-r-2-0")
)

func TestALeaseThatCannotBeMadeHoldsUpNoFailover(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		reason string
		fails  bool
	}{
		"refused":                {overQuota, v1alpha1.ReasonRefused, false},
		"somebody else's":        {occupied, v1alpha1.ReasonNameConflict, false},
		"a webhook that is away": {hookFails, "", true},
		"no answer":              {context.DeadlineExceeded, "", true},
	} {
		u := newUnmade(nil)
		u.create["w-r-2-0"] = tc.err
		u.foreign = "w-r-2-0"
		s := broken()
		err := u.reconciler().act(t.Context(), s)
		if got := strings.Join(u.updated, " "); got != "w-r-1-0" {
			t.Errorf("%s: wrote %q, want the region of the node that is over", name, got)
		}
		if v := s.verdicts[v1alpha1.ConditionStalled]; v.reason != tc.reason || (err != nil) != tc.fails {
			t.Errorf("%s: Stalled %+v, failed with %v", name, v, err)
		}
	}
}

func TestARegionThatCannotBeMadeKeepsNoSessionFromBeingMade(t *testing.T) {
	u := newUnmade(nil)
	u.create["w-r-2-0"] = overQuota
	s := broken()
	delete(s.sessions, 0)
	if err := u.reconciler().act(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if !standsIn(s.sessions[0]) {
		t.Errorf("nothing stands in for the lost session: made %v", u.created)
	}
}

func TestTriesInVainCostFewEpochsAndWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		err           error
		raises, tries int // within ten minutes of a reconcile each two seconds
	}{
		"refused":         {overQuota, 1, 20},
		"no answer":       {context.DeadlineExceeded, 10, 10},
		"a webhook fails": {hookFails, 10, 10},
	} {
		u := newUnmade(tc.err)
		r := u.reconciler()
		s := broken()
		s.canary = s.lease("w-canary", v1alpha1.LeaseKindCanary, 1)
		for range 300 {
			if err := r.ensureRegionLeases(t.Context(), s); err == nil {
				t.Fatalf("%s: made", name)
			}
			s = s.again(2 * time.Second)
		}
		if u.writes.n > tc.raises || len(u.created) > tc.tries || len(u.created) < 5 {
			t.Errorf("%s: raised %d times in %d tries, want at most %d in %d", name, u.writes.n, len(u.created), tc.raises, tc.tries)
		}
	}
}

func TestAnEpochIsUsedAgainOnlyIfNothingWasMadeUnderIt(t *testing.T) {
	const epoch = 1002
	for name, tc := range map[string]struct {
		change func(s *scene)
		err    error
		again  bool
	}{
		"refused":                        {func(*scene) {}, overQuota, true},
		"it may have been made":          {func(*scene) {}, hookFails, false},
		"somebody raised the bound":      {func(s *scene) { s.highestEpoch += 500 }, overQuota, false},
		"another one is missing as well": {func(s *scene) { s.regions[1] = nil }, overQuota, false},
	} {
		u := newUnmade(tc.err)
		r := u.reconciler()
		s := broken()
		_ = r.ensureRegionLeases(t.Context(), s)
		s = s.again(time.Hour)
		tc.change(s)
		u.create[""] = nil
		if err := r.ensureRegionLeases(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := transitionsOf(s.regions[2]); (got == epoch) != tc.again || got < epoch {
			t.Errorf("%s: made at epoch %d", name, got)
		}
	}
}

func TestWhatLastsIsNamed(t *testing.T) {
	u := newUnmade(hookFails)
	r := u.reconciler()
	s := broken()
	for range 3 {
		s = s.again(time.Hour)
		_ = r.act(t.Context(), s)
	}
	if v := s.verdicts[v1alpha1.ConditionNodesUpToDate]; v.ok || !strings.Contains(v.message, "failed calling webhook") {
		t.Errorf("NodesUpToDate: %+v", v)
	}
}

func TestARevocationThatIsRefusedKeepsNoOtherFromBeingDone(t *testing.T) {
	u := newUnmade(nil)
	s := row(3, "w-zone-0#1", "w-zone-1#1", "w-zone-2#1").session(0, 1, true).session(1, 1, true).session(2, 1, true).declared(0, 1, 2).ran()
	s.canary = s.lease("w-canary", v1alpha1.LeaseKindCanary, 1)
	s.watched(20 * time.Second)
	r := &WorldReconciler{Client: refusingUpdate{u, "w-zone-1"}, Live: u, Recorder: &related{}}
	if err := r.revokeSilentSessions(t.Context(), s); err == nil {
		t.Error("nobody hears of what was refused")
	}
	if holderOf(s.sessions[0]) != "" || holderOf(s.sessions[2]) != "" || holderOf(s.sessions[1]) == "" {
		t.Errorf("revoked %v", u.updated)
	}
}

// refusingUpdate refuses to write one object.
type refusingUpdate struct {
	*unmade
	name string
}

func (r refusingUpdate) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if o.GetName() == r.name {
		return apierrors.NewForbidden(leaseResource, r.name, errors.New("a policy"))
	}
	return r.unmade.Update(ctx, o, opts...)
}
