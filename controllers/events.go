package controllers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
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
}

func (s *scene) notify(n notice) { s.notices = append(s.notices, n) }

func noticeSeedMade(secret string) notice {
	return notice{false, EventSeedMade, "MakeSeed", fmt.Sprintf("made the terrain seed in Secret %s; it outlives the World, delete it by hand", secret)}
}

func noticeDevelopmentTokens(secret string) notice {
	return notice{true, EventDevelopmentTokens, "MakeTokenKey", fmt.Sprintf(
		"made a development key for players' tokens in Secret %s: whoever reads it can sign in as anybody; name your own keys in gateway.tokenKeysSecretName", secret)}
}

func noticeRevoked(world string, ordinal int32, session, why string) notice {
	revocations.WithLabelValues(world).Inc()
	return notice{true, EventSessionRevoked, "Revoke", fmt.Sprintf(
		"lost %s: its session %s was revoked because %s", v1alpha1.NodeName(world, int(ordinal)), session, why)}
}

func noticeFreed(world string, ordinal int32, regions int) notice {
	if ordinal < 0 {
		return notice{true, EventRegionsFreed, "Free", fmt.Sprintf("freed %d regions held by sessions of no node of this World", regions)}
	}
	return notice{false, EventRegionsFreed, "Free", fmt.Sprintf("freed %d regions of a former session of %s", regions, v1alpha1.NodeName(world, int(ordinal)))}
}

func noticeRedistributed(regions int, to string) notice {
	return notice{false, EventRegionsRedistributed, "Redistribute", fmt.Sprintf("%d regions of lost nodes go to %s", regions, to)}
}

func noticeLeasesRecreated(regions int, epoch int32) notice {
	return notice{true, EventLeasesRecreated, "Recreate", fmt.Sprintf("made %d lost region leases again, at epoch %d", regions, epoch)}
}

// tell publishes notices.
func (r *WorldReconciler) tell(world *v1alpha1.World, notices []notice) {
	for _, n := range notices {
		kind := corev1.EventTypeNormal
		if n.warning {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(world, nil, kind, n.reason, n.action, "%s", n.note)
	}
}

// changes tells what a person would want to hear about the step from one status to the next.
func changes(world string, before, after *v1alpha1.WorldStatus) []notice {
	notices := nodeChanges(world, before, after)
	say := func(kind string, onTrue, onFalse notice) {
		was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(after.Conditions, kind)
		if is == nil || was != nil && was.Status == is.Status {
			return
		}
		n := onFalse
		if is.Status == metav1.ConditionTrue {
			n = onTrue
		}
		if n.reason != "" && is.Status != metav1.ConditionUnknown && (was != nil || is.Status == metav1.ConditionTrue || n.warning) {
			n.note = is.Message
			notices = append(notices, n)
		}
	}
	say(v1alpha1.ConditionAssignmentAccepted, notice{}, notice{true, EventAssignmentRefused, "Plan", ""})
	if was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionAssignmentAccepted); was != nil {
		say(v1alpha1.ConditionAssignmentAccepted, notice{false, EventAssignmentAccepted, "Plan", ""}, notice{})
	}
	if wasReady(before) {
		say(v1alpha1.ConditionReady, notice{}, notice{true, EventWorldNotReady, "Observe", ""})
	}
	if before.Regions.Owned < before.Regions.Total && after.Regions.Owned == after.Regions.Total && after.Regions.Away > 0 {
		notices = append(notices, notice{false, EventRegionsTakenOver, "Observe", fmt.Sprintf(
			"every region is owned again; %d are with other nodes than the assignment names", after.Regions.Away)})
	}
	say(v1alpha1.ConditionReady, notice{false, EventWorldReady, "Observe", ""}, notice{})
	say(v1alpha1.ConditionStalled, notice{true, EventNeedsEdit, "Reconcile", ""}, notice{})
	say(v1alpha1.ConditionFenceGuarded, notice{false, EventFenceProven, "Prove", ""}, notice{true, EventFenceNotProven, "Prove", ""})
	return notices
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
			notices = append(notices, notice{true, EventNodeRestarted, "Observe", fmt.Sprintf("%s restarted: session %s follows %s", node, row.Session, was.Session)})
		case row.Session != "" && row.Session != was.Session:
			notices = append(notices, notice{false, EventNodeStarted, "Observe", fmt.Sprintf("%s lives as session %s", node, row.Session)})
		case row.State == v1alpha1.ZoneNodeSilent && was.State != v1alpha1.ZoneNodeSilent:
			notices = append(notices, notice{true, EventNodeSilent, "Observe", fmt.Sprintf("%s did not renew session %s in time; it stands still", node, row.Session)})
		case row.State == v1alpha1.ZoneNodeLive && was.State == v1alpha1.ZoneNodeSilent:
			notices = append(notices, notice{false, EventNodeRecovered, "Observe", fmt.Sprintf("%s renewed session %s and goes on", node, row.Session)})
		}
	}
	return notices
}
