package controllers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// annotationRevoked, on a session Lease, is "<incarnation> <RFC 3339 time>" of the last revocation. It tells a node that
// died from one that released its session and is expected back.
const annotationRevoked = "spatialcells.io/revoked"

// startAllowance is how long a node that was not revoked may take to come up before live nodes get its regions, on top of
// the redistribution delay.
const startAllowance = 60 * time.Second

// revokeSilentSessions ends the sessions of nodes that are dead. One write takes all regions of a node from it. One that is
// refused keeps no other from being ended.
func (r *WorldReconciler) revokeSilentSessions(ctx context.Context, s *scene) error {
	var errs []error
	for ordinal, lease := range s.sessions {
		if holderOf(lease) == "" {
			continue
		}
		unchanged := s.memory.sessions.Unchanged(ordinal)
		var why string
		switch {
		case provenDead(s.pods[ordinal], lease) || provenDead(r.endings.of(holderOf(lease)), lease):
			why = "its pod has ended"
		case unchanged >= s.patience(lease) && standsIn(lease):
			why = fmt.Sprintf("its lease was lost %s ago, and its node acts no longer", unchanged.Round(time.Second))
		case unchanged >= s.patience(lease):
			why = fmt.Sprintf("it was not renewed for %s", unchanged.Round(time.Second))
		default:
			continue
		}
		if err := r.revoke(ctx, s, ordinal, why); err != nil {
			errs = append(errs, err)
			if !refused(err) {
				break // the API server is away, and each try takes a time-out
			}
		}
	}
	return errors.Join(errs...)
}

// revoke is one compare-and-swap: the Lease is written with the resourceVersion that was observed, so a node that renewed
// meanwhile keeps its session. An answer that says neither yes nor no starts all observations anew.
func (r *WorldReconciler) revoke(ctx context.Context, s *scene, ordinal int32, why string) error {
	lease := s.sessions[ordinal].DeepCopy()
	session := s.sessionID(ordinal)
	lease.Spec.HolderIdentity = new("")
	lease.Spec.RenewTime = new(v1alpha1.LeaseTime(lease.Spec.RenewTime, s.now))
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationRevoked, fmt.Sprintf("%d %s", transitionsOf(lease), s.now.UTC().Format(time.RFC3339)))
	err := r.Update(ctx, lease)
	switch {
	case err == nil:
		s.sessions[ordinal] = lease
		s.notify(noticeRevoked(s.world.Name, ordinal, session, why))
		return nil
	case apierrors.IsConflict(err): // renewed, or revoked before: the next read tells
		s.wake(100 * time.Millisecond)
		return nil
	}
	if !refused(err) {
		s.memory.restart()
	}
	return fmt.Errorf("revoking session %s: %w", session, err)
}

// revokedAt is when the last session of a node was revoked, if that is how it ended.
func revokedAt(lease *coordinationv1.Lease) (time.Time, bool) {
	if lease == nil {
		return time.Time{}, false
	}
	incarnation, at, found := strings.Cut(lease.Annotations[annotationRevoked], " ")
	if !found || holderOf(lease) != "" || incarnation != strconv.Itoa(int(transitionsOf(lease))) {
		return time.Time{}, false
	}
	when, err := time.Parse(time.RFC3339, at)
	return when, err == nil
}

// lostAt is when the regions of a node without a session stop waiting for it. A revoked node is given the redistribution
// delay; one that stopped by itself or is starting is also given time to start.
func (s *scene) lostAt(ordinal int32) time.Time {
	delay := time.Duration(0)
	if seconds := s.world.Spec.Failover.RedistributionDelaySeconds; seconds != nil {
		delay = time.Duration(*seconds) * time.Second
	}
	lease := s.sessions[ordinal]
	if s.sessionLost(ordinal) {
		return s.now.Add(delay)
	}
	if when, revoked := revokedAt(lease); revoked {
		return when.Add(delay)
	}
	since := lease.CreationTimestamp.Time
	if lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(since) {
		since = lease.Spec.RenewTime.Time
	}
	if pod := s.pods[ordinal]; pod != nil && pod.CreationTimestamp.After(since) {
		since = pod.CreationTimestamp.Time
	}
	return since.Add(delay + startAllowance)
}

// expected tells whether the regions of a node wait for it: it has a session, or may come back in time.
func (s *scene) expected(ordinal int32) bool {
	if ordinal < 0 || ordinal >= s.replicas() {
		return false
	}
	if s.sessionHeld(ordinal) {
		return true
	}
	left := s.lostAt(ordinal).Sub(s.now)
	if left > 0 {
		s.wake(left)
	}
	return left > 0
}

// heirs are the nodes that can take regions now.
func (s *scene) heirs() []int32 {
	var live []int32
	for ordinal := range s.replicas() {
		if s.sessionHeld(ordinal) && !s.silent(ordinal) && !s.draining(ordinal) {
			live = append(live, ordinal)
		}
	}
	return live
}

func (s *scene) draining(ordinal int32) bool {
	node := s.zoneNodes[ordinal]
	return node != nil && len(node.Spec.DrainReasons) > 0
}

// targetNode is the ordinal that a region's order names, -1 if it names none.
func (s *scene) targetNode(lease *coordinationv1.Lease) int32 {
	world, ordinal, err := v1alpha1.ParseNodeName(targetOf(lease))
	if err != nil || world != s.world.Name {
		return -1
	}
	return int32(ordinal)
}
