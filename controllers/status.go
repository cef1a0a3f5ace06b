package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// report writes the status once, if anything in it changed, then tells people what happened. err is what acting on the
// World ended with; while there is one, the generation is not observed.
func (r *WorldReconciler) report(ctx context.Context, s *scene, err error) error {
	s.judge()
	if err == nil {
		s.world = s.world.DeepCopy()
		s.world.Status.ObservedGeneration = s.world.Generation
	}
	return r.writeStatus(ctx, s)
}

func (r *WorldReconciler) writeStatus(ctx context.Context, s *scene) error {
	before := s.reported
	world := s.world.DeepCopy()
	s.fill(&world.Status)
	measure(world)
	s.thinOutCounts(&world.Status)
	recounted := !equality.Semantic.DeepEqual(s.formerCounts(&world.Status), &world.Status)
	if !equality.Semantic.DeepEqual(before, &world.Status) {
		if err := r.Status().Update(ctx, world); err != nil {
			r.tell(world, s.notices) // they happened, whatever the status says
			return wrap(s.calm(err), "writing the status of World %s", world.Name)
		}
		if recounted {
			s.memory.counted = s.now
		}
	}
	notices := append(s.notices, changes(world.Name, before, &world.Status)...)
	r.tell(world, append(notices, s.maintenanceChanges(before, &world.Status)...))
	return nil
}

// fill computes the status from the scene.
func (s *scene) fill(status *v1alpha1.WorldStatus) {
	owned := s.ownedRegions()
	status.Image = s.image
	status.StoreID = s.storeID
	status.HighestEpoch = s.highestEpoch
	if s.begun() {
		status.HighestEpoch = s.leadHighestEpoch()
	}
	status.ZoneNodes = s.rows(owned)
	status.Players = 0
	for _, row := range status.ZoneNodes {
		status.Players += row.Players
	}
	status.Regions = s.countRegions(owned)
	status.Moves = s.progress()
	status.NextWindow = s.nextWindow()
	status.Nodes = s.countNodes()
	for _, kind := range conditionOrder {
		if v, judged := s.verdicts[kind]; judged {
			meta.SetStatusCondition(&status.Conditions, condition(kind, v, s.world.Generation))
		}
	}
}

// countPeriod is how old the counts of players may get. Players come and go all the time, and a write for each change of a count
// would be one for each report of each node.
const countPeriod = 30 * time.Second

// thinOutCounts leaves the counts of players as they were reported, if nothing else has changed since and they are not old.
func (s *scene) thinOutCounts(status *v1alpha1.WorldStatus) {
	left := s.memory.counted.Add(countPeriod).Sub(s.now)
	if left <= 0 || left > countPeriod { // a wall clock that was put back says nothing
		return
	}
	former := s.formerCounts(status)
	if !equality.Semantic.DeepEqual(s.reported, former) {
		return
	}
	if !equality.Semantic.DeepEqual(former, status) {
		s.wake(left)
	}
	*status = *former
}

// formerCounts is a status with the counts of players that were reported before, as far as there were any.
func (s *scene) formerCounts(status *v1alpha1.WorldStatus) *v1alpha1.WorldStatus {
	former := status.DeepCopy()
	former.Players = s.reported.Players
	for i, row := range s.reported.ZoneNodes {
		if i < len(former.ZoneNodes) && former.ZoneNodes[i].Session == row.Session {
			former.ZoneNodes[i].Players = row.Players
		}
	}
	return former
}

// conditionOrder is the order of the conditions in the status: what people look for comes first.
var conditionOrder = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionAssignmentAccepted, v1alpha1.ConditionRegionsOwned,
	v1alpha1.ConditionAssignmentConverged, v1alpha1.ConditionNodesUpToDate, v1alpha1.ConditionFenceGuarded,
	v1alpha1.ConditionStoreReady, v1alpha1.ConditionRebalancing, v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling,
}

func condition(kind string, v verdict, generation int64) metav1.Condition {
	status := metav1.ConditionFalse
	switch {
	case v.ok:
		status = metav1.ConditionTrue
	case v.reason == v1alpha1.ReasonNotProven:
		status = metav1.ConditionUnknown
	}
	const longest = 1024
	return metav1.Condition{Type: kind, Status: status, Reason: v.reason, Message: cut(v.message, longest), ObservedGeneration: generation}
}

// cut is the beginning of a text, as the API server gives it back: of at most so many bytes, without a torn or a wrong rune.
// Those come back as others than were sent, so that a status with one would differ at every look, and be written for ever.
func cut(text string, longest int) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= longest {
		return text
	}
	for !utf8.RuneStart(text[longest]) {
		longest--
	}
	return text[:longest]
}

func (s *scene) rows(owned map[int32]int32) []v1alpha1.ZoneNodeRow {
	rows := make([]v1alpha1.ZoneNodeRow, 0, s.ordinals())
	for ordinal := range s.ordinals() {
		row := v1alpha1.ZoneNodeRow{Ordinal: ordinal, Regions: owned[ordinal], State: s.stateOf(ordinal)}
		if s.sessionHeld(ordinal) {
			row.Session = s.sessionID(ordinal)
			if node := s.zoneNodes[ordinal]; node != nil && node.Status.Session == row.Session {
				row.Players = node.Status.Players
			}
		}
		if ordinal < s.replicas() || s.pods[ordinal] != nil || row.Session != "" {
			rows = append(rows, row)
		}
	}
	return rows
}

func (s *scene) stateOf(ordinal int32) v1alpha1.ZoneNodeState {
	_, revoked := revokedAt(s.sessions[ordinal])
	switch {
	case s.silent(ordinal):
		return v1alpha1.ZoneNodeSilent
	case s.sessionHeld(ordinal) && s.draining(ordinal):
		return v1alpha1.ZoneNodeDraining
	case s.sessionHeld(ordinal):
		return v1alpha1.ZoneNodeLive
	case revoked:
		return v1alpha1.ZoneNodeRevoked
	case s.pods[ordinal] != nil:
		return v1alpha1.ZoneNodeStarting
	}
	return v1alpha1.ZoneNodeWaiting
}

func (s *scene) countRegions(owned map[int32]int32) v1alpha1.RegionsStatus {
	c := v1alpha1.RegionsStatus{Total: int32(s.grid.Size())}
	for _, n := range owned {
		c.Owned += n
	}
	c.Away = int32(len(s.away()))
	for i := range s.regions {
		if s.onItsWay(i) {
			c.Moving++
		}
	}
	c.Summary = fmt.Sprintf("%d/%d", c.Owned, c.Total)
	return c
}

// away lists the regions that a live session holds though the spec names another node.
func (s *scene) away() []int {
	var regions []int
	for i, lease := range s.regions {
		if lease == nil || s.assignment.declared == nil {
			continue
		}
		if t, holder := s.tenureOf(i); t == held && s.sessionHeld(holder) && holder != s.assignment.declared[i] {
			regions = append(regions, i)
		}
	}
	return regions
}

func (s *scene) countNodes() v1alpha1.NodesStatus {
	c := v1alpha1.NodesStatus{Replicas: int32(len(s.pods))}
	wanted := max(s.replicas(), s.podsWanted()) // looks at every region
	for ordinal, pod := range s.pods {
		if podReady(pod) && ordinal < wanted {
			c.ReadyReplicas++
		}
	}
	c.Selector = labels.SelectorFromSet(podLabels(s.world.Name, componentZoneNode)).String()
	c.Summary = fmt.Sprintf("%d/%d", c.ReadyReplicas, s.replicas())
	return c
}
