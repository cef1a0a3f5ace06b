package controllers

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// related keeps what each event is related to.
type related struct {
	events.EventRecorder
	names []string
}

func (r *related) Eventf(_, about runtime.Object, _, reason, _, _ string, _ ...any) {
	name := reason
	if node, ok := about.(*v1alpha1.ZoneNode); ok {
		name += " " + node.Namespace + "/" + node.Name
	}
	r.names = append(r.names, name)
}

// TestEventsOfTwoNodesInOneReconcileAreTwoEvents: a recorder counts events that differ in nothing but their words as one,
// so that the second node's would be lost.
func TestEventsOfTwoNodesInOneReconcileAreTwoEvents(t *testing.T) {
	world := &v1alpha1.World{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "games"}}
	live := []v1alpha1.ZoneNodeRow{{Ordinal: 0, Session: "w-zone-0#1", State: v1alpha1.ZoneNodeLive}, {Ordinal: 1, Session: "w-zone-1#1", State: v1alpha1.ZoneNodeLive}}
	silent := []v1alpha1.ZoneNodeRow{live[0], live[1]}
	silent[0].State, silent[1].State = v1alpha1.ZoneNodeSilent, v1alpha1.ZoneNodeSilent
	notices := changes("w", &v1alpha1.WorldStatus{}, &v1alpha1.WorldStatus{ZoneNodes: live})
	notices = append(notices, changes("w", &v1alpha1.WorldStatus{ZoneNodes: live}, &v1alpha1.WorldStatus{ZoneNodes: silent})...)
	for ordinal := range int32(2) {
		notices = append(notices, noticeRevoked("w", ordinal, "s", "it was not renewed"), noticeFreed("w", ordinal, 3))
	}
	recorder := &related{}
	(&WorldReconciler{Recorder: recorder}).tell(world, notices)
	seen := map[string]bool{}
	for _, name := range recorder.names {
		if seen[name] || !strings.Contains(name, "games/w-zone-") {
			t.Errorf("event %q says nothing of its own node that a recorder can tell apart", name)
		}
		seen[name] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d different events, want 8: %v", len(seen), recorder.names)
	}
}

// TestAnotherRefusalIsToldAnew: the refusal stands, and an edit makes it another one.
func TestAnotherRefusalIsToldAnew(t *testing.T) {
	status := func(generation int64, message string) *v1alpha1.WorldStatus {
		s := &v1alpha1.WorldStatus{}
		for kind, value := range map[string]metav1.ConditionStatus{
			v1alpha1.ConditionAssignmentAccepted: metav1.ConditionFalse, v1alpha1.ConditionStalled: metav1.ConditionTrue, v1alpha1.ConditionReady: metav1.ConditionFalse,
		} {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: kind, Status: value, Message: message, ObservedGeneration: generation})
		}
		return s
	}
	hole := status(1, "a hole")
	for name, test := range map[string]struct {
		after *v1alpha1.WorldStatus
		want  int
	}{
		"nothing changed":              {hole, 0},
		"an edit that changes nothing": {status(2, "a hole"), 0},
		"an edit with another mistake": {status(2, "too many nodes"), 2},
		"other words without any edit": {status(1, "a hole, seen for 3 s"), 0},
	} {
		if got := changes("w", hole, test.after); len(got) != test.want {
			t.Errorf("%s: %d events, want %d: %+v", name, len(got), test.want, got)
		}
	}
}

// TestAnOverrideIsToldOnceWhenItTakesEffect: not once per region, and not where it lifts nothing.
func TestAnOverrideIsToldOnceWhenItTakesEffect(t *testing.T) {
	end := metav1.NewTime(time.Date(2026, 12, 1, 13, 0, 0, 0, time.UTC))
	status := func(state v1alpha1.WindowState, reason string, away int32) *v1alpha1.WorldStatus {
		s := &v1alpha1.WorldStatus{NextWindow: &v1alpha1.WindowStatus{State: state, Reason: reason, EndTime: &end}, Regions: v1alpha1.RegionsStatus{Away: away}}
		if away > 0 {
			s.Moves = &v1alpha1.MovesStatus{Planned: 9}
		}
		return s
	}
	closed, idle, moving := status(v1alpha1.WindowClosed, "", 9), status(v1alpha1.WindowOverridden, "hotfix", 0), status(v1alpha1.WindowOverridden, "hotfix", 9)
	for name, tc := range map[string]struct {
		before, after *v1alpha1.WorldStatus
		want          int
	}{
		"it comes while regions wait":       {closed, moving, 1},
		"an edit comes while it is on":      {idle, moving, 1},
		"a region arrives":                  {moving, status(v1alpha1.WindowOverridden, "hotfix", 8), 0},
		"another one comes":                 {moving, status(v1alpha1.WindowOverridden, "siege", 9), 1},
		"nothing has to move":               {closed, idle, 0},
		"it ends":                           {moving, closed, 0},
		"a World that had no window before": {&v1alpha1.WorldStatus{}, moving, 1},
	} {
		got := overrideChanges(tc.before, tc.after)
		if len(got) != tc.want {
			t.Errorf("%s: %d events, want %d: %+v", name, len(got), tc.want, got)
		}
		for _, n := range got {
			if !strings.Contains(n.note, tc.after.NextWindow.Reason) || !strings.Contains(n.note, "until 2026-12-01T13:00:00Z; 9 regions") {
				t.Errorf("%s: %q", name, n.note)
			}
		}
	}
}

// TestWindowsAreToldOnlyWhereMovesWaitForThem: rollouts may be confined and moves not, and a paused World moves nothing.
func TestWindowsAreToldOnlyWhereMovesWaitForThem(t *testing.T) {
	status := func(state v1alpha1.WindowState) *v1alpha1.WorldStatus {
		return &v1alpha1.WorldStatus{
			NextWindow: &v1alpha1.WindowStatus{Name: "nightly", State: state, EndTime: &metav1.Time{Time: now}}, Moves: &v1alpha1.MovesStatus{Planned: 3},
			Regions: v1alpha1.RegionsStatus{Away: 3},
		}
	}
	rollouts := nightly
	rollouts.Confine = []v1alpha1.DisruptionKind{v1alpha1.DisruptionRollouts}
	overridden := lifted(rollouts, time.Hour)
	paused := away().maintained(nightly)
	paused.world.Spec.ManagementPolicy = v1alpha1.ManagementPaused
	for name, tc := range map[string]struct {
		scene  *scene
		states [2]v1alpha1.WindowState
		want   string
	}{
		"it opens":                         {away().maintained(nightly), [2]v1alpha1.WindowState{v1alpha1.WindowClosed, v1alpha1.WindowOpen}, EventWindowOpened},
		"it closes":                        {away().maintained(nightly), [2]v1alpha1.WindowState{v1alpha1.WindowOpen, v1alpha1.WindowClosed}, EventWindowClosed},
		"one of rollouts opens":            {away().maintained(rollouts), [2]v1alpha1.WindowState{v1alpha1.WindowClosed, v1alpha1.WindowOpen}, ""},
		"one of rollouts closes":           {away().maintained(rollouts), [2]v1alpha1.WindowState{v1alpha1.WindowOpen, v1alpha1.WindowClosed}, ""},
		"one of rollouts is lifted":        {away().maintained(overridden), [2]v1alpha1.WindowState{v1alpha1.WindowClosed, v1alpha1.WindowOverridden}, ""},
		"it opens while nothing may move":  {paused, [2]v1alpha1.WindowState{v1alpha1.WindowClosed, v1alpha1.WindowOpen}, ""},
		"it closes while nothing may move": {paused, [2]v1alpha1.WindowState{v1alpha1.WindowOpen, v1alpha1.WindowClosed}, ""},
		"it is lifted":                     {away().maintained(lifted(nightly, time.Hour)), [2]v1alpha1.WindowState{v1alpha1.WindowClosed, v1alpha1.WindowOverridden}, EventWindowOverridden},
	} {
		got := ""
		for _, n := range tc.scene.maintenanceChanges(status(tc.states[0]), status(tc.states[1])) {
			got += n.reason
		}
		if got != tc.want {
			t.Errorf("%s: told %q, want %q", name, got, tc.want)
		}
	}
}
