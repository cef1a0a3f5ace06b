package controllers

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

func holderOf(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func transitionsOf(lease *coordinationv1.Lease) int32 {
	if lease == nil || lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

func targetOf(lease *coordinationv1.Lease) string {
	return lease.Annotations[v1alpha1.AnnotationTarget]
}

// standsIn tells whether a session Lease was made in place of a lost one. Nobody writes it before it was seen unchanged for a
// full lease duration.
func standsIn(session *coordinationv1.Lease) bool { return holderOf(session) == v1alpha1.LostHolder }

// sessionLost tells whether nobody can know from its session Lease whether a node has a session. Who held the Lease that was
// lost does not know either while it is stopped or cut off, and acts until its own deadline.
func (s *scene) sessionLost(ordinal int32) bool {
	session := s.sessions[ordinal]
	return session == nil || standsIn(session)
}

// sessionHeld tells whether a node has a session. It says nothing about when it was last renewed.
func (s *scene) sessionHeld(ordinal int32) bool {
	return holderOf(s.sessions[ordinal]) != "" && !s.sessionLost(ordinal)
}

// sessionID is the name of the session that a node has, or had last.
func (s *scene) sessionID(ordinal int32) string {
	return v1alpha1.SessionID(s.world.Name, int(ordinal), transitionsOf(s.sessions[ordinal]))
}

// silent tells whether a held session was not renewed for longer than its node may go on.
func (s *scene) silent(ordinal int32) bool {
	return s.sessionHeld(ordinal) && s.memory.sessions.Unchanged(ordinal) > s.deadline(s.sessions[ordinal])
}

// deadline is how long the node of a session may go on without a renewal. One that started under an earlier spec goes by that,
// and its Lease tells only the duration of it: the deadline may have been as long as the API lets one be for that.
func (s *scene) deadline(session *coordinationv1.Lease) time.Duration {
	wanted := time.Duration(s.world.Spec.Fencing.RenewDeadlineSeconds) * time.Second
	if promised := s.patience(session); promised > s.leaseDuration() {
		return max(wanted, promised*2/3) // see the rules of FencingSpec
	}
	return wanted
}

// tenure is what a region Lease's holder amounts to.
type tenure int

const (
	// free: nobody holds the region.
	free tenure = iota
	// held: by a session that is live, or by one too new to judge.
	held
	// orphaned: by a session that is over. Nobody can come back under it.
	orphaned
)

// tenureOf judges the holder of a region. A session is over if its node's Lease has a later incarnation, or the same one
// and no holder. A session Lease that was lost proves nothing, and neither does the one that stands in for it.
func (s *scene) tenureOf(index int) (tenure, int32) {
	holder := holderOf(s.regions[index])
	if holder == "" {
		return free, -1
	}
	node, incarnation, err := v1alpha1.ParseSessionID(holder)
	if err != nil {
		return orphaned, -1
	}
	world, n, err := v1alpha1.ParseNodeName(node)
	ordinal := int32(n)
	if err != nil || world != s.world.Name {
		return orphaned, -1
	}
	switch current := transitionsOf(s.sessions[ordinal]); {
	case s.sessionLost(ordinal) || incarnation > current:
		return held, ordinal
	case incarnation < current || !s.sessionHeld(ordinal):
		return orphaned, ordinal
	}
	return held, ordinal
}

// heldRegions counts the regions of each node, whether it renews in time or not.
func (s *scene) heldRegions() map[int32]int32 {
	counts := map[int32]int32{}
	for i, lease := range s.regions {
		if lease == nil {
			continue
		}
		if t, ordinal := s.tenureOf(i); t == held && s.sessionHeld(ordinal) {
			counts[ordinal]++
		}
	}
	return counts
}

// ownedRegions counts the regions in which life goes on: a silent node has frozen its own.
func (s *scene) ownedRegions() map[int32]int32 {
	counts := s.heldRegions()
	for ordinal := range counts {
		if s.silent(ordinal) {
			delete(counts, ordinal)
		}
	}
	return counts
}

// provenDead tells whether the pod that holds a session is over for certain, so that nobody needs to wait for the Lease:
// it is this very pod, it will not be started again, and each of its containers ended, with a known exit, after the session
// began. A container that ended in a pod that lives on proves nothing: its successor goes on with the same session Lease.
func provenDead(pod *corev1.Pod, session *coordinationv1.Lease) bool {
	name, uid, err := v1alpha1.ParseHolderIdentity(holderOf(session))
	if err != nil || pod == nil || pod.Name != name || string(pod.UID) != uid || session.Spec.AcquireTime == nil {
		return false
	}
	over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if pod.DeletionTimestamp.IsZero() && !over {
		return false
	}
	for _, status := range pod.Status.ContainerStatuses {
		end := status.State.Terminated
		if end == nil || end.Reason == "ContainerStatusUnknown" || end.FinishedAt.IsZero() ||
			end.FinishedAt.Time.Before(session.Spec.AcquireTime.Time) {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers) && len(pod.Spec.Containers) > 0
}

func podReady(pod *corev1.Pod) bool {
	if pod == nil || !pod.DeletionTimestamp.IsZero() {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
