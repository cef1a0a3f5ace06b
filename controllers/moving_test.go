package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/moves"
	"github.com/spatialcells/spatialcells/controllers/placement"
)

// able makes nodes live and ready, and lets two regions move at once.
func (s *scene) able(ordinals ...int32) *scene {
	s.world.Spec.Handoff = v1alpha1.HandoffSpec{MaxConcurrentRegions: 2, RegionTimeoutSeconds: 60}
	for _, ordinal := range ordinals {
		s.session(ordinal, 1, true)
		s.pods[ordinal] = &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	}
	return s
}

// reporting lets a node report the 99th percentile of its ticks, in the life that it says.
func (s *scene) reporting(ordinal int32, session string, p99 time.Duration) *scene {
	s.zoneNodes[ordinal] = &v1alpha1.ZoneNode{Status: v1alpha1.ZoneNodeStatus{Session: session, TickP99Microseconds: int32(p99.Microseconds())}}
	return s
}

func (s *scene) draining1() *scene {
	s.zoneNodes[1] = &v1alpha1.ZoneNode{Spec: v1alpha1.ZoneNodeSpec{DrainReasons: []v1alpha1.DrainReason{v1alpha1.DrainUser}}}
	return s
}

func (s *scene) maintained(m v1alpha1.MaintenanceSpec) *scene {
	s.world.Spec.Maintenance = &m
	return s
}

func (s *scene) noted(index int, note moves.Note) *scene {
	metav1.SetMetaDataAnnotation(&s.regions[index].ObjectMeta, v1alpha1.AnnotationMove, note.String())
	return s
}

// nightly is open from 04:30 to 06:00 UTC; the tests live at noon.
var nightly = v1alpha1.MaintenanceSpec{Windows: []v1alpha1.MaintenanceWindow{{Name: "nightly", Cron: "30 4 * * *", DurationSeconds: 5400}}}

var unreadable = v1alpha1.MaintenanceSpec{Windows: []v1alpha1.MaintenanceWindow{{Name: "x", Cron: "x", DurationSeconds: 60}}}

// lifted is a spec with an override that ends after a time.
func lifted(m v1alpha1.MaintenanceSpec, after time.Duration) v1alpha1.MaintenanceSpec {
	m.Override = &v1alpha1.MaintenanceOverride{ExecutionTime: v1alpha1.ExecutionImmediate, EndTime: metav1.NewTime(now.Add(after)), Reason: "hotfix"}
	return m
}

// away is a World of which node 0 has three regions that belong to node 1, which has one.
func away() *scene {
	return row(2, "w-zone-0#1", "w-zone-0#1", "w-zone-0#1", "w-zone-1#1").ordered(0, 0, 0, 1).declared(1, 1, 1, 1).able(0, 1)
}

func TestWhatIsSaidAboutRegionsThatAreAway(t *testing.T) {
	tiny := nightly
	tiny.Windows = []v1alpha1.MaintenanceWindow{{Name: "tiny", Cron: "30 4 * * *", DurationSeconds: 8}}
	excluded := nightly
	excluded.Exclusions = []v1alpha1.MaintenanceExclusion{{Name: "launch", StartTime: metav1.NewTime(now.Add(-time.Hour)), EndTime: metav1.NewTime(now.Add(24 * time.Hour))}}
	failed := moves.Note{To: 1, At: now.Add(-2 * time.Second), Failures: 2, Why: moves.TimedOut}
	for name, tc := range map[string]struct {
		scene           *scene
		reason, message string
	}{
		"a limit": {away().ordered(1, 1, 0, 1), v1alpha1.ReasonMoving, "0 of 3 regions moved, 2 moving, 1 waiting for a turn."},
		"a closed window": {
			away().maintained(nightly), v1alpha1.ReasonWaitingForWindow,
			"0 of 3 regions moved, 3 waiting: no window is open; it may start at 2026-12-02T04:30:00Z in window nightly, which closes at 2026-12-02T06:00:00Z; all 3 take about 10s.",
		},
		"a window that closed while one moves": {
			away().ordered(1, 0, 0, 1).maintained(nightly), v1alpha1.ReasonMoving,
			"0 of 3 regions moved, 1 moving, 2 waiting: no window is open; it may start at 2026-12-02T04:30:00Z in window nightly",
		},
		"a window that not all fit into": {
			away().maintained(tiny), v1alpha1.ReasonWaitingForWindow,
			"all 3 take about 10s, which is more than the window has: the rest waits for the one after.",
		},
		"an exclusion": {
			away().maintained(excluded), v1alpha1.ReasonWaitingForWindow,
			"3 waiting: exclusion launch is on; it may start at 2026-12-03T04:30:00Z in window nightly",
		},
		"an override": {
			away().maintained(lifted(nightly, time.Hour)), v1alpha1.ReasonMoving,
			`1 waiting for a turn; the override "hotfix" lifts windows and exclusions until 2026-12-01T13:00:00Z.`,
		},
		"an override that is over": {
			away().maintained(lifted(nightly, -time.Hour)), v1alpha1.ReasonWaitingForWindow,
			`closes at 2026-12-02T06:00:00Z; the override "hotfix" lifts nothing any more: its endTime was 2026-12-01T11:00:00Z; all 3 take about 10s.`,
		},
		"an override of a window that cannot be read": {
			away().maintained(lifted(unreadable, time.Hour)), v1alpha1.ReasonMoving, `the override "hotfix" lifts windows and exclusions until`,
		},
		"an override that is over, of a window that cannot be read": {
			away().maintained(lifted(unreadable, -time.Hour)), v1alpha1.ReasonInvalidMaintenance,
			`see Stalled; the override "hotfix" lifts nothing any more: its endTime was 2026-12-01T11:00:00Z.`,
		},
		"a window that cannot be read": {
			away().maintained(unreadable),
			v1alpha1.ReasonInvalidMaintenance, "3 waiting because spec.maintenance cannot be read, see Stalled.",
		},
		"failures": {
			away().noted(0, failed).noted(1, failed).noted(2, moves.Note{To: 1, At: now.Add(-time.Second), Failures: 1, Why: moves.NodeAway}), v1alpha1.ReasonBackingOff,
			"3 waiting after a move in vain: 2,0 to node 1, taken back because the node it was to go to can no longer take it; it is tried again at 2026-12-01T12:00:09Z.",
		},
		"a node that does not live": {away().session(1, 1, false), v1alpha1.ReasonHolderAway, "3 waiting for node w-zone-1, which does not live, is not ready or drains."},
		"a node that drains":        {away().draining1(), v1alpha1.ReasonHolderAway, "3 waiting for node w-zone-1, which does not live, is not ready or drains."},
		"a node that is slow":       {away().reporting(1, "w-zone-1#1", 101*time.Millisecond), v1alpha1.ReasonNoCapacity, "3 waiting because the ticks of node w-zone-1 take more than 100ms."},
	} {
		s := tc.scene
		s.reported.HighestEpoch = 1001
		if s.reported.Moves != nil {
			t.Fatal("a report from nowhere")
		}
		got := s.onTheWay()
		if got.ok || got.reason != tc.reason || !strings.Contains(got.message, tc.message) {
			t.Errorf("%s: got %s, %q; want %s, %q", name, got.reason, got.message, tc.reason, tc.message)
		}
	}
}

func TestWhatANodeReportedInAFormerLifeSaysNothing(t *testing.T) {
	if s := away().reporting(1, "w-zone-1#0", time.Second); s.moveNode(1).Slow {
		t.Error("a node is slow for what its former life reported")
	}
}

func TestProgressCountsFromTheLastEdit(t *testing.T) {
	s := away()
	s.world.Generation, s.reported.ObservedGeneration = 3, 3
	s.reported.Moves = &v1alpha1.MovesStatus{Planned: 8, EstimatedSeconds: 20, BorderBefore: 4, BorderAfter: 2}
	if m := s.progress(); m.Planned != 8 || m.Moved != 5 || m.EstimatedSeconds != 20 || m.BorderBefore != 4 {
		t.Errorf("the edit goes on: %+v", *m)
	}
	s.world.Generation = 4
	if m := s.progress(); m.Planned != 3 || m.Moved != 0 || m.EstimatedSeconds != 10 || m.BorderBefore != 2 || m.BorderAfter != 0 {
		t.Errorf("another edit: %+v", *m)
	}
	s.world.Generation = 3
	s.reported.Moves.Planned = 1
	if m := s.progress(); m.Planned != 3 || m.Moved != 0 {
		t.Errorf("a failover took more away: %+v", *m)
	}
	s.declared(0, 0, 0, 1)
	if m := s.progress(); m != nil {
		t.Errorf("nothing is away: %+v", *m)
	}
}

func TestTheNextWindowInTheStatus(t *testing.T) {
	s := away().maintained(nightly)
	if w := s.nextWindow(); w.State != v1alpha1.WindowClosed || w.Name != "nightly" || !w.StartTime.Equal(&metav1.Time{Time: time.Date(2026, 12, 2, 4, 30, 0, 0, time.UTC)}) {
		t.Errorf("got %+v", *w)
	}
	announcing := nightly
	announcing.AnnounceSeconds = 17 * 3600
	s = away().maintained(announcing)
	if w := s.nextWindow(); w.State != v1alpha1.WindowClosed {
		t.Errorf("announced though nothing waits: %+v", *w)
	}
	s.verdicts[v1alpha1.ConditionAssignmentConverged] = verdict{reason: v1alpha1.ReasonWaitingForWindow}
	if w := s.nextWindow(); w.State != v1alpha1.WindowAnnounced {
		t.Errorf("got %+v", *w)
	}
	for name, m := range map[string]v1alpha1.MaintenanceSpec{"nightly": nightly, "unreadable": unreadable} {
		if w := away().maintained(lifted(m, time.Hour)).nextWindow(); w.State != v1alpha1.WindowOverridden || w.Reason != "hotfix" || w.StartTime != nil {
			t.Errorf("%s, overridden: got %+v", name, *w)
		}
	}
	if w := away().maintained(unreadable).nextWindow(); w != nil {
		t.Errorf("a window that cannot be read is shown: %+v", *w)
	}
	if w := away().nextWindow(); w != nil {
		t.Errorf("a World without windows has one: %+v", *w)
	}
}

func TestANodeStopsOnlyWhenNothingIsOnItsWayToIt(t *testing.T) {
	for name, tc := range map[string]struct {
		scene *scene
		want  int32
	}{
		"it holds a region":           {row(1, "w-zone-0#1", "w-zone-1#1").ordered(0, 1), 2},
		"a region is on its way":      {row(1, "w-zone-0#1", "w-zone-0#1").ordered(0, 1), 2},
		"the order was taken back":    {row(1, "w-zone-0#1", "w-zone-0#1").ordered(0, 0), 1},
		"to a node that there is not": {row(1, "w-zone-0#1", "w-zone-0#1").ordered(0, 5), 1},
	} {
		s := tc.scene.able(0, 1)
		s.statefulSet = &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2))}}
		if got := s.podsWanted(); got != tc.want {
			t.Errorf("%s: %d pods are wanted, want %d", name, got, tc.want)
		}
	}
}

// version gives a region Lease a resourceVersion, a holder and an order.
func version(s *scene, rv, holder string, target int32) *coordinationv1.Lease {
	lease := s.regionLease(0, 5)
	lease.ResourceVersion, lease.Spec.HolderIdentity = rv, &holder
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationTarget, v1alpha1.NodeName("w", int(target)))
	return lease
}

func TestACacheThatIsBehindDoesNotMakeTheOperatorForgetItsOrders(t *testing.T) {
	s := away()
	s.putRegion(0, version(s, "11", "w-zone-0#1", 1)) // written just now
	s.putRegion(0, version(s, "10", "w-zone-0#1", 0)) // from the cache
	if !s.onItsWay(0) {
		t.Fatal("the order is forgotten")
	}
	if plan := s.movePlan(); len(plan.Steps) != 2 { // its note, and one more order: two may move
		t.Errorf("%d steps, want 2: %+v", len(plan.Steps), plan.Steps)
	}
}

func TestAnOrderThatWasNotAnsweredHoldsItsSlot(t *testing.T) {
	s := away()
	s.world.Spec.Handoff.MaxConcurrentRegions = 1
	s.putRegion(2, s.regions[2])
	s.memory.custody.unsettled(2, s.regions[2], fmt.Errorf("writing: %w", context.DeadlineExceeded))
	if plan := s.movePlan(); len(plan.Steps) != 1 || plan.Steps[2].Kind != moves.Order || plan.Steps[2].Target != 1 {
		t.Errorf("steps %+v, want the one that was not answered again", plan.Steps)
	}
}

func TestAnArrivalIsToldOnce(t *testing.T) {
	s := away()
	gone := version(s, "11", "w-zone-0#1", 1)
	metav1.SetMetaDataAnnotation(&gone.ObjectMeta, v1alpha1.AnnotationMove, moves.Note{To: 1, At: now.Add(-3 * time.Second)}.String())
	arrived := version(s, "12", "w-zone-1#1", 1)
	arrived.Spec.AcquireTime = &metav1.MicroTime{Time: now.Add(-time.Second)}
	s.putRegion(0, gone)
	s.putRegion(0, arrived)
	s.putRegion(0, gone) // a cache that is behind
	s.putRegion(0, arrived)
	if len(s.arrivals) != 1 || s.arrivals[0] != (arrival{region: 0, from: 0, to: 1, took: 2 * time.Second}) {
		t.Fatalf("arrivals %+v", s.arrivals)
	}
	s.tellSteps(nil)
	s.tellSteps(nil)
	if len(s.notices) != 1 || s.notices[0].note != "moved region 0,0 from node 0 to node 1" || s.notices[0].lease != "w-r-0-0" {
		t.Errorf("notices %+v", s.notices)
	}
}

func TestATakeoverIsNoArrival(t *testing.T) {
	s := away()
	s.putRegion(0, version(s, "11", "w-zone-0#1", 1))
	s.putRegion(0, version(s, "12", "", 1))
	s.putRegion(0, version(s, "13", "w-zone-1#1", 1))
	if len(s.arrivals) != 0 {
		t.Errorf("arrivals %+v", s.arrivals)
	}
}

func TestWhatIsNotConfinedDoesNotWaitForWindowsThatCannotBeRead(t *testing.T) {
	rollouts := unreadable
	rollouts.Confine = []v1alpha1.DisruptionKind{v1alpha1.DisruptionRollouts}
	s := away().maintained(rollouts)
	if got := s.onTheWay(); got.reason != v1alpha1.ReasonMoving {
		t.Errorf("regions wait: %+v", got)
	}
	if v := s.stalled(); !v.ok || v.reason != v1alpha1.ReasonInvalidMaintenance {
		t.Errorf("nobody is told of the window: %+v", v)
	}
	s = away().maintained(lifted(unreadable, time.Hour))
	if v := s.stalled(); !v.ok || !strings.Contains(v.message, `before it is corrected, but for now the override "hotfix" lifts`) {
		t.Errorf("nobody is told that the override lifts it: %+v", v)
	}
}

func TestARefusedEditIsSaidWherePeopleLook(t *testing.T) {
	s := away()
	s.assignment.refusal = &placement.Refusal{Reason: placement.ReasonNodeWithoutRegions, Message: "x."}
	s.verdicts[v1alpha1.ConditionRegionsOwned], s.verdicts[v1alpha1.ConditionStoreReady] = verdict{ok: true}, verdict{ok: true}
	if v := s.assignmentConverged(); v.ok || !strings.Contains(v.message, "edit the spec as AssignmentAccepted says") {
		t.Errorf("AssignmentConverged: %+v", v)
	}
	if v := s.ready(); !v.ok || !strings.Contains(v.message, "The last edit of the spec was refused: see AssignmentAccepted.") {
		t.Errorf("Ready: %+v", v)
	}
}
