package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/window"
)

// judge decides every condition that acting on the World has not decided yet. Messages say what to do and until when, and
// hold no running numbers: a status that changes by itself would be written for ever.
func (s *scene) judge() {
	s.settleVerdict(v1alpha1.ConditionAssignmentAccepted, s.assignmentAccepted)
	s.settleVerdict(v1alpha1.ConditionRegionsOwned, s.regionsOwned)
	s.settleVerdict(v1alpha1.ConditionAssignmentConverged, s.assignmentConverged)
	s.settleVerdict(v1alpha1.ConditionNodesUpToDate, s.nodesUpToDate)
	s.settleVerdict(v1alpha1.ConditionFenceGuarded, func() verdict {
		return s.former(v1alpha1.ConditionFenceGuarded, v1alpha1.ReasonNotProven, "the API server was not tried yet.")
	})
	s.settleVerdict(v1alpha1.ConditionStoreReady, func() verdict {
		return s.former(v1alpha1.ConditionStoreReady, v1alpha1.ReasonProgressing, "the store is not made yet.")
	})
	s.settleVerdict(v1alpha1.ConditionRebalancing, func() verdict {
		return verdict{false, v1alpha1.ReasonIdle, "no region moves for the sake of load."}
	})
	s.settleVerdict(v1alpha1.ConditionStalled, s.stalled)
	s.settleVerdict(v1alpha1.ConditionReady, s.ready)
	s.settleVerdict(v1alpha1.ConditionReconciling, s.reconciling)
}

func (s *scene) settleVerdict(kind string, decide func() verdict) {
	if _, decided := s.verdicts[kind]; !decided {
		s.verdicts[kind] = decide()
	}
}

// former is what was reported before, for what this reconcile did not look at.
func (s *scene) former(kind, reason, message string) verdict {
	if c := meta.FindStatusCondition(s.world.Status.Conditions, kind); c != nil {
		return verdict{c.Status == metav1.ConditionTrue, c.Reason, c.Message}
	}
	return verdict{false, reason, message}
}

func (s *scene) assignmentAccepted() verdict {
	refusal := s.assignment.refusal
	if refusal == nil {
		return verdict{true, v1alpha1.ReasonAccepted, "the assignment can be carried out."}
	}
	tail := " Nothing is started before that."
	if s.begun() {
		tail = " Until then the former assignment stays in force."
	}
	return verdict{false, refusal.Reason, refusal.Message + tail}
}

func (s *scene) regionsOwned() verdict {
	c := s.countRegions(s.ownedRegions())
	unowned := c.Total - c.Owned
	switch {
	case unowned == 0:
		return verdict{true, v1alpha1.ReasonAllOwned, fmt.Sprintf("live sessions hold all %d regions.", c.Total)}
	case s.replicas() == 0:
		return verdict{false, v1alpha1.ReasonHibernated, "nodes.replicas is 0: the World is saved and stopped. Raise it to wake the World."}
	case !s.begun():
		return verdict{false, v1alpha1.ReasonProgressing, "the region leases are not made yet."}
	}
	if v, found := s.lostNodes(); found {
		return v
	}
	if waiting := s.nodesWhere(func(o int32) bool { return o < s.replicas() && !s.sessionHeld(o) }); len(waiting) > 0 {
		return verdict{false, v1alpha1.ReasonWaitingForNodes, fmt.Sprintf(
			"regions wait for %s to start. If that takes long: `kubectl describe pod` and `kubectl logs` say why.", few(waiting, "node"))}
	}
	if s.inDoubt() > 0 {
		return verdict{false, v1alpha1.ReasonRegionsUnowned, fmt.Sprintf(
			"region leases were deleted and nobody knows who held them: nobody may take those regions until every node renewed in time for %s.", s.doubtTime())}
	}
	return verdict{false, v1alpha1.ReasonRegionsUnowned, "live nodes are taking the free regions."}
}

// lostNodes says which nodes fell silent or were revoked, and until when their regions wait for them.
func (s *scene) lostNodes() (verdict, bool) {
	if silent := s.nodesWhere(s.silent); len(silent) > 0 {
		return verdict{false, v1alpha1.ReasonSessionSilent, fmt.Sprintf(
			"%s did not renew in time and stands still; after %s of silence its regions are freed.", few(silent, "node"), s.longestDuration())}, true
	}
	missing := s.nodesWhere(func(o int32) bool { return standsIn(s.sessions[o]) })
	if len(missing) > 0 {
		return verdict{false, v1alpha1.ReasonSessionSilent, fmt.Sprintf(
			"somebody deleted the session lease of %s, which may act on and not know; after %s its regions are freed.", few(missing, "node"), s.longestDuration())}, true
	}
	lost := s.nodesWhere(s.lost)
	if len(lost) == 0 {
		return verdict{}, false
	}
	until := s.now
	for ordinal := range s.ordinals() {
		if at := s.lostAt(ordinal); s.lost(ordinal) && at.After(until) {
			until = at
		}
	}
	if until.After(s.now) {
		return verdict{false, v1alpha1.ReasonSessionRevoked, fmt.Sprintf(
			"lost %s; the regions wait for it until %s, then live nodes take them.", few(lost, "node"), until.UTC().Format(time.RFC3339))}, true
	}
	if len(s.heirs()) == 0 {
		return verdict{false, v1alpha1.ReasonSessionRevoked, fmt.Sprintf("lost %s, and no node lives to take the regions.", few(lost, "node"))}, true
	}
	return verdict{false, v1alpha1.ReasonSessionRevoked, fmt.Sprintf("lost %s; live nodes are taking its regions.", few(lost, "node"))}, true
}

// lost tells whether a node was revoked and anything waits for it. One that was scaled away keeps its session Lease, and the
// word of its last revocation in it, for good.
func (s *scene) lost(ordinal int32) bool {
	return s.stateOf(ordinal) == v1alpha1.ZoneNodeRevoked && (ordinal < s.replicas() || s.concerns(ordinal))
}

// concerns tells whether a region is held by a session of a node, or ordered to it.
func (s *scene) concerns(ordinal int32) bool {
	return slices.ContainsFunc(s.regions, func(lease *coordinationv1.Lease) bool {
		return lease != nil && (s.nodeOf(holderOf(lease)) == ordinal || s.targetNode(lease) == ordinal)
	})
}

func (s *scene) nodesWhere(is func(int32) bool) []string {
	var names []string
	for ordinal := range s.ordinals() {
		if is(ordinal) {
			names = append(names, v1alpha1.NodeName(s.world.Name, int(ordinal)))
		}
	}
	return names
}

func (s *scene) assignmentConverged() verdict {
	away := s.away()
	switch {
	case s.replicas() == 0:
		return verdict{false, v1alpha1.ReasonHibernated, "no node runs."}
	case s.assignment.refusal != nil:
		return verdict{false, s.assignment.refusal.Reason, "the last edit was refused, and no region moves for it: edit the spec as AssignmentAccepted says."}
	case len(away) > 0:
		return s.onTheWay()
	case !s.verdicts[v1alpha1.ConditionRegionsOwned].ok:
		return verdict{false, v1alpha1.ReasonProgressing, "not every region is owned."}
	}
	return verdict{true, v1alpha1.ReasonConverged, "every region is with the node that the assignment names."}
}

func (s *scene) nodesUpToDate() verdict {
	if s.assignment.refusal != nil {
		return verdict{false, s.assignment.refusal.Reason, "the spec is not acted on while its assignment is not accepted: edit it as AssignmentAccepted says."}
	}
	if s.paused() {
		return verdict{false, v1alpha1.ReasonPaused, "managementPolicy is Paused: only failover goes on."}
	}
	if s.statefulSet == nil {
		return verdict{false, v1alpha1.ReasonProgressing, "the zone nodes are being made."}
	}
	if failing := s.failingPods(); len(failing) > 0 {
		return verdict{false, v1alpha1.ReasonPodFailing, strings.Join(failing, "; ") + ". `kubectl describe pod` and `kubectl logs` say more."}
	}
	if kept := s.podsWanted(); kept > s.replicas() {
		return verdict{false, v1alpha1.ReasonScaling, fmt.Sprintf(
			"nodes.replicas is %d, and nodes up to %d still hold regions: they stop when their regions have moved, see AssignmentConverged. Raising nodes.replicas again keeps them.",
			s.replicas(), kept-1)}
	}
	c := s.countNodes()
	if c.Replicas != s.replicas() || c.ReadyReplicas != s.replicas() {
		return verdict{false, v1alpha1.ReasonScaling, "zone nodes are starting or stopping."}
	}
	if old := s.outdatedPods(); len(old) > 0 {
		return verdict{false, v1alpha1.ReasonRolloutNotActedOn, fmt.Sprintf(
			"the former template still runs in %s. This version does not restart nodes by itself: `kubectl delete pod` one at a time, and wait until the World is Ready in between.", few(old, "pod"))}
	}
	return verdict{true, v1alpha1.ReasonUpToDate, "every zone node runs what the spec says."}
}

// outdatedPods are those that the StatefulSet would make differently now.
func (s *scene) outdatedPods() []string {
	set := s.statefulSet
	if set.Status.ObservedGeneration < set.Generation || set.Status.UpdateRevision == "" {
		return nil
	}
	return s.nodesWhere(func(o int32) bool {
		pod := s.pods[o]
		return pod != nil && pod.Labels["controller-revision-hash"] != set.Status.UpdateRevision
	})
}

// failingPods says which pods cannot start, and the kubelet's or scheduler's word for it.
func (s *scene) failingPods() []string {
	var failing []string
	for ordinal := range s.ordinals() {
		pod := s.pods[ordinal]
		if pod == nil || podReady(pod) {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				failing = append(failing, fmt.Sprintf("pod %s cannot be scheduled: %s", pod.Name, c.Message))
			}
		}
		for _, c := range pod.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" && w.Reason != "" {
				failing = append(failing, fmt.Sprintf("pod %s does not start: %s", pod.Name, w.Reason))
			}
		}
	}
	return failing
}

func (s *scene) stalled() verdict {
	if refusal := s.assignment.refusal; refusal != nil {
		return verdict{true, refusal.Reason, refusal.Message}
	}
	if _, err := s.calendar(); err != nil {
		return verdict{true, v1alpha1.ReasonInvalidMaintenance, fmt.Sprintf(
			"spec.maintenance cannot be read, and nothing that waits for a window starts before it is corrected%s: %s.", s.unlessOverridden(), strings.ReplaceAll(err.Error(), "\n", "; "))}
	}
	return verdict{false, v1alpha1.ReasonNotStalled, "nothing waits for an edit."}
}

// unlessOverridden says until when windows that cannot be read are lifted.
func (s *scene) unlessOverridden() string {
	calendar, _ := s.calendar()
	o := calendar.Window(s.now)
	if o.Reason != window.Overridden {
		return ""
	}
	return ", but for now " + o.String()
}

func (s *scene) ready() verdict {
	owned, store, stalled := s.verdicts[v1alpha1.ConditionRegionsOwned], s.verdicts[v1alpha1.ConditionStoreReady], s.verdicts[v1alpha1.ConditionStalled]
	switch {
	case owned.ok && store.ok:
		return verdict{true, v1alpha1.ReasonServing, "every region is owned and the store answers." + s.caveats()}
	case stalled.ok && stalled.reason != v1alpha1.ReasonInvalidMaintenance:
		return verdict{false, stalled.reason, stalled.message}
	case s.replicas() == 0:
		return verdict{false, owned.reason, owned.message}
	case !store.ok:
		return verdict{false, store.reason, store.message}
	}
	return verdict{false, owned.reason, owned.message}
}

// caveats says what makes a World unfit for more than trying out, and what a World that serves does not do.
func (s *scene) caveats() string {
	var words []string
	if s.verdicts[v1alpha1.ConditionStoreReady].reason == v1alpha1.ReasonDevelopmentStore {
		words = append(words, "the store keeps nothing across its own restart")
	}
	if s.developmentTokens() {
		words = append(words, "players' tokens are signed with a development key (Secret "+s.tokenKeysSecretName()+"); name your own in gateway.tokenKeysSecretName")
	}
	caveats := ""
	if store := s.verdicts[v1alpha1.ConditionStoreReady]; store.reason == v1alpha1.ReasonNotDurable {
		caveats = " " + store.message
	}
	if s.assignment.refusal != nil {
		caveats += " The last edit of the spec was refused: see AssignmentAccepted."
	}
	if len(words) > 0 {
		caveats += " For trying out only: " + strings.Join(words, "; ") + "."
	}
	return caveats
}

func (s *scene) reconciling() verdict {
	if s.verdicts[v1alpha1.ConditionStalled].ok {
		return verdict{false, v1alpha1.ReasonConverged, "waiting for an edit, see Stalled."}
	}
	for _, kind := range []string{v1alpha1.ConditionRegionsOwned, v1alpha1.ConditionStoreReady, v1alpha1.ConditionNodesUpToDate, v1alpha1.ConditionAssignmentConverged} {
		v := s.verdicts[kind]
		if kind == v1alpha1.ConditionAssignmentConverged && v.reason != v1alpha1.ReasonMoving && v.reason != v1alpha1.ReasonBackingOff {
			continue // what it waits for is not in the operator's hands
		}
		if v.ok || v.reason == v1alpha1.ReasonHibernated || v.reason == v1alpha1.ReasonPaused ||
			v.reason == v1alpha1.ReasonNotActedOn || v.reason == v1alpha1.ReasonRolloutNotActedOn {
			continue
		}
		return verdict{true, v1alpha1.ReasonProgressing, v.message}
	}
	return verdict{false, v1alpha1.ReasonConverged, "nothing is left to do."}
}
