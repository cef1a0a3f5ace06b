package controllers

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/window"
)

// Reasons of the events of a World. README.md of this package says what each means to whoever is on call.
const (
	EventSeedMade             = "SeedMade"
	EventDevelopmentTokens    = "DevelopmentTokens"
	EventNodeStarted          = "NodeStarted"
	EventNodeRestarted        = "NodeRestarted"
	EventNodeSilent           = "NodeSilent"
	EventNodeRecovered        = "NodeRecovered"
	EventSessionRevoked       = "SessionRevoked"
	EventRegionsFreed         = "RegionsFreed"
	EventRegionsRedistributed = "RegionsRedistributed"
	EventRegionsTakenOver     = "RegionsTakenOver"
	EventRegionsOrdered       = "RegionsOrdered"
	EventRegionsMoved         = "RegionsMoved"
	EventOrdersTakenBack      = "OrdersTakenBack"
	EventAssignmentConverged  = "AssignmentConverged"
	EventWaitingForWindow     = "WaitingForWindow"
	EventWindowAnnounced      = "WindowAnnounced"
	EventWindowOpened         = "WindowOpened"
	EventWindowClosed         = "WindowClosed"
	EventWindowOverridden     = "WindowOverridden"
	EventLeasesRecreated      = "LeasesRecreated"
	EventWorldReady           = "WorldReady"
	EventWorldNotReady        = "WorldNotReady"
	EventAssignmentAccepted   = "AssignmentAccepted"
	EventAssignmentRefused    = "AssignmentRefused"
	EventNeedsEdit            = "NeedsEdit"
	EventFenceProven          = "FenceProven"
	EventFenceNotProven       = "FenceNotProven"
)

// notice is an event to be published once the status is written.
type notice struct {
	warning              bool
	reason, action, note string
	// node is the name of the zone node that it is about; empty for the World as a whole. Two events of one reason from one
	// reconcile count as one event seen twice, with the words of the first, unless they are related to different objects.
	node string
	// lease is the name of the region Lease that it is about, for the same reason.
	lease string
	// edit: it is about what the user wrote, and told again when another edit makes it say something else.
	edit bool
}

func (s *scene) notify(n notice) { s.notices = append(s.notices, n) }

func noticeSeedMade(secret string) notice {
	return notice{reason: EventSeedMade, action: "MakeSeed", note: fmt.Sprintf("made the terrain seed in Secret %s; it outlives the World, delete it by hand", secret)}
}

func noticeDevelopmentTokens(secret string) notice {
	return notice{warning: true, reason: EventDevelopmentTokens, action: "MakeTokenKey", note: fmt.Sprintf(
		"made a development key for players' tokens in Secret %s: whoever reads it can sign in as anybody; name your own keys in gateway.tokenKeysSecretName", secret)}
}

func noticeRevoked(world string, ordinal int32, session, why string) notice {
	revocations.WithLabelValues(world).Inc()
	node := v1alpha1.NodeName(world, int(ordinal))
	return notice{warning: true, reason: EventSessionRevoked, action: "Revoke", node: node, note: fmt.Sprintf(
		"lost %s: its session %s was revoked because %s", node, session, why)}
}

func noticeFreed(world string, ordinal int32, regions int) notice {
	if ordinal < 0 {
		return notice{warning: true, reason: EventRegionsFreed, action: "Free", note: fmt.Sprintf("freed %d regions held by sessions of no node of this World", regions)}
	}
	node := v1alpha1.NodeName(world, int(ordinal))
	return notice{reason: EventRegionsFreed, action: "Free", node: node, note: fmt.Sprintf("freed %d regions of a former session of %s", regions, node)}
}

func noticeRedistributed(regions int, to string) notice {
	return notice{reason: EventRegionsRedistributed, action: "Redistribute", note: fmt.Sprintf("%d regions of lost or draining nodes go to %s", regions, to)}
}

func noticeLeasesRecreated(regions int, epoch int32, inDoubt int, wait time.Duration) notice {
	note := fmt.Sprintf("made %d lost region leases again, at epoch %d", regions, epoch)
	if inDoubt > 0 {
		note += fmt.Sprintf("; nobody may take %d of them for %s, because nobody knows who held them", inDoubt, wait)
	}
	return notice{warning: true, reason: EventLeasesRecreated, action: "Recreate", note: note}
}

func noticeSessionLost(world string, ordinal int32, wait time.Duration) notice {
	node := v1alpha1.NodeName(world, int(ordinal))
	return notice{warning: true, reason: EventLeasesRecreated, action: "Recreate", node: node, note: fmt.Sprintf(
		"made the lost session lease of %s again; its node may act on for %s, so nobody gets it before", node, wait)}
}

// tell publishes notices.
func (r *WorldReconciler) tell(world *v1alpha1.World, notices []notice) {
	for _, n := range notices {
		kind := corev1.EventTypeNormal
		if n.warning {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(world, n.related(world), kind, n.reason, n.action, "%s", n.note)
	}
}

// related is the zone node or the region Lease that a notice is about, or nil.
func (n notice) related(world *v1alpha1.World) runtime.Object {
	if n.lease != "" {
		return &coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Name: n.lease, Namespace: world.Namespace},
		}
	}
	if n.node == "" {
		return nil
	}
	return &v1alpha1.ZoneNode{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ZoneNode"},
		ObjectMeta: metav1.ObjectMeta{Name: n.node, Namespace: world.Namespace},
	}
}

// changes tells what a person would want to hear about the step from one status to the next.
func changes(world string, before, after *v1alpha1.WorldStatus) []notice {
	notices := nodeChanges(world, before, after)
	say := func(kind string, onTrue, onFalse notice) {
		was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(after.Conditions, kind)
		n := onFalse
		if is != nil && is.Status == metav1.ConditionTrue {
			n = onTrue
		}
		if is == nil || was != nil && was.Status == is.Status && (!n.edit || was.Message == is.Message || was.ObservedGeneration == is.ObservedGeneration) {
			return
		}
		if n.reason != "" && is.Status != metav1.ConditionUnknown && (was != nil || is.Status == metav1.ConditionTrue || n.warning) {
			n.note = is.Message
			notices = append(notices, n)
		}
	}
	say(v1alpha1.ConditionAssignmentAccepted, notice{}, notice{warning: true, edit: true, reason: EventAssignmentRefused, action: "Plan"})
	if was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionAssignmentAccepted); was != nil {
		say(v1alpha1.ConditionAssignmentAccepted, notice{reason: EventAssignmentAccepted, action: "Plan"}, notice{})
	}
	if wasReady(before) {
		say(v1alpha1.ConditionReady, notice{}, notice{warning: true, reason: EventWorldNotReady, action: "Observe"})
	}
	if before.Regions.Owned < before.Regions.Total && after.Regions.Owned == after.Regions.Total && after.Regions.Away > 0 {
		notices = append(notices, notice{reason: EventRegionsTakenOver, action: "Observe", note: fmt.Sprintf(
			"every region is owned again; %d are with other nodes than the assignment names", after.Regions.Away)})
	}
	say(v1alpha1.ConditionReady, notice{reason: EventWorldReady, action: "Observe"}, notice{})
	say(v1alpha1.ConditionAssignmentConverged, notice{reason: EventAssignmentConverged, action: "Observe"}, notice{})
	say(v1alpha1.ConditionStalled, notice{warning: true, edit: true, reason: EventNeedsEdit, action: "Reconcile"}, notice{})
	say(v1alpha1.ConditionFenceGuarded, notice{reason: EventFenceProven, action: "Prove"}, notice{warning: true, reason: EventFenceNotProven, action: "Prove"})
	return notices
}

// maintenanceChanges tells what windows and overrides do to the moves of regions. While no move would start anyway, and where
// moves are not confined, that is nothing, whatever the windows of other things do.
func (s *scene) maintenanceChanges(before, after *v1alpha1.WorldStatus) []notice {
	if s.paused() {
		return nil
	}
	switch s.moveOpening(0).Reason {
	case window.Unconfined:
		return nil
	case window.Overridden:
		return overrideChanges(before, after)
	}
	return windowChanges(before, after)
}

// windowChanges tells what windows do while something waits for them. Otherwise nobody needs to hear of them.
func windowChanges(before, after *v1alpha1.WorldStatus) []notice {
	var notices []notice
	waiting := func(status *v1alpha1.WorldStatus) string {
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAssignmentConverged)
		if c == nil || c.Reason != v1alpha1.ReasonWaitingForWindow {
			return ""
		}
		return c.Message
	}
	was, is := stateOfWindow(before), stateOfWindow(after)
	if waiting(before) == "" && waiting(after) != "" {
		notices = append(notices, notice{reason: EventWaitingForWindow, action: "Wait", note: waiting(after)})
	}
	if is == was || after.Moves == nil && before.Moves == nil {
		return notices
	}
	closed := is == v1alpha1.WindowClosed && (was == v1alpha1.WindowOpen || was == v1alpha1.WindowOverridden)
	switch {
	case is == v1alpha1.WindowAnnounced:
		notices = append(notices, notice{reason: EventWindowAnnounced, action: "Announce", note: fmt.Sprintf(
			"%s opens at %s: then %d regions start to move", windowName(after), after.NextWindow.StartTime.UTC().Format(time.RFC3339), after.Regions.Away)})
	case is == v1alpha1.WindowOpen && was != "":
		notices = append(notices, notice{reason: EventWindowOpened, action: "Observe", note: fmt.Sprintf("%s is open; %d regions are to move", windowName(after), after.Regions.Away)})
	case closed && after.Moves != nil:
		notices = append(notices, notice{warning: true, reason: EventWindowClosed, action: "Observe", note: fmt.Sprintf("the window closed and %d regions have not moved", after.Regions.Away)})
	}
	return notices
}

// overrideChanges tells that an override lets regions move, once for each override and each time that something has to.
func overrideChanges(before, after *v1alpha1.WorldStatus) []notice {
	if after.Moves == nil || stateOfWindow(after) != v1alpha1.WindowOverridden {
		return nil
	}
	if was := before.NextWindow; before.Moves != nil && stateOfWindow(before) == v1alpha1.WindowOverridden && was.Reason == after.NextWindow.Reason {
		return nil
	}
	return []notice{{reason: EventWindowOverridden, action: "Observe", note: fmt.Sprintf(
		"the override %q lifts windows and exclusions until %s; %d regions are to move",
		after.NextWindow.Reason, after.NextWindow.EndTime.UTC().Format(time.RFC3339), after.Regions.Away)}}
}

// windowName is how people call what is open or opens next.
func windowName(status *v1alpha1.WorldStatus) string {
	if status.NextWindow.Name == "" {
		return "the time between exclusions"
	}
	return "window " + status.NextWindow.Name
}

func stateOfWindow(status *v1alpha1.WorldStatus) v1alpha1.WindowState {
	if status.NextWindow == nil {
		return ""
	}
	return status.NextWindow.State
}

func wasReady(status *v1alpha1.WorldStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady)
}

func nodeChanges(world string, before, after *v1alpha1.WorldStatus) []notice {
	former := map[int32]v1alpha1.ZoneNodeRow{}
	for _, row := range before.ZoneNodes {
		former[row.Ordinal] = row
	}
	var notices []notice
	for _, row := range after.ZoneNodes {
		was, node := former[row.Ordinal], v1alpha1.NodeName(world, int(row.Ordinal))
		switch {
		case row.Session != "" && was.Session != "" && row.Session != was.Session:
			notices = append(notices, notice{warning: true, reason: EventNodeRestarted, action: "Observe", node: node, note: fmt.Sprintf("%s restarted: session %s follows %s", node, row.Session, was.Session)})
		case row.Session != "" && row.Session != was.Session:
			notices = append(notices, notice{reason: EventNodeStarted, action: "Observe", node: node, note: fmt.Sprintf("%s lives as session %s", node, row.Session)})
		case row.State == v1alpha1.ZoneNodeSilent && was.State != v1alpha1.ZoneNodeSilent:
			notices = append(notices, notice{warning: true, reason: EventNodeSilent, action: "Observe", node: node, note: fmt.Sprintf("%s did not renew session %s in time; it stands still", node, row.Session)})
		case row.State == v1alpha1.ZoneNodeLive && was.State == v1alpha1.ZoneNodeSilent:
			notices = append(notices, notice{reason: EventNodeRecovered, action: "Observe", node: node, note: fmt.Sprintf("%s renewed session %s and goes on", node, row.Session)})
		}
	}
	return notices
}
