package controllers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/moves"
	"github.com/spatialcells/spatialcells/controllers/placement"
	"github.com/spatialcells/spatialcells/controllers/window"
)

// slowTick is the 99th percentile of a tick above which a node gets no more regions: twice what a tick may take.
const slowTick = 100 * time.Millisecond

// parsedCalendar remembers the maintenance spec that was understood last, or what is wrong with it.
type parsedCalendar struct {
	generation int64
	calendar   *window.Calendar
	err        error
}

// calendar is the maintenance spec, understood.
func (s *scene) calendar() (*window.Calendar, error) {
	known := &s.memory.calendar
	if known.generation == 0 || known.generation != s.world.Generation {
		calendar, err := window.Parse(s.world.Spec.Maintenance)
		*known = parsedCalendar{s.world.Generation, calendar, err}
	}
	return known.calendar, known.err
}

// moveOpening tells whether the move of one region may begin.
func (s *scene) moveOpening(estimate time.Duration) window.Opening {
	if known, asked := s.openings[estimate]; asked {
		return known
	}
	calendar, _ := s.calendar() // one that cannot be read says so
	opening := calendar.At(s.now, v1alpha1.DisruptionBoundaryMoves, estimate)
	if s.openings == nil {
		s.openings = map[time.Duration]window.Opening{}
	}
	s.openings[estimate] = opening
	return opening
}

// movePlan decides about the regions that live nodes hold: which go, which stay, and what the rest waits for.
func (s *scene) movePlan() moves.Plan {
	if s.plan == nil {
		plan := moves.Decide(s.situation())
		s.plan = &plan
	}
	return *s.plan
}

// situation is what a plan of moves rests on. Pure.
func (s *scene) situation() moves.Situation {
	situation := moves.Situation{
		Grid: s.grid, Now: s.now, Regions: s.moveRegions(), Nodes: make([]moves.Node, s.ordinals()),
		Limit: int(s.world.Spec.Handoff.MaxConcurrentRegions), Timeout: s.moveTimeout(),
	}
	for ordinal := range s.ordinals() {
		situation.Nodes[ordinal] = s.moveNode(ordinal)
	}
	opening := s.moveOpening(s.moveEstimate(situation.Regions))
	switch {
	case s.paused():
		situation.Hold = moves.Paused
	case opening.Reason == window.Unreadable:
		situation.Hold = moves.Invalid
	case !opening.Open:
		situation.Hold = moves.Window
	}
	return situation
}

func (s *scene) moveTimeout() time.Duration {
	return time.Duration(max(s.world.Spec.Handoff.RegionTimeoutSeconds, 1)) * time.Second
}

func (s *scene) moveEstimate(regions []moves.Region) time.Duration {
	return moves.Estimate(regions, s.moveTimeout())
}

func (s *scene) moveRegions() []moves.Region {
	wanted := s.assignment.table
	if s.assignment.declared != nil { // while paused the table is what is, and the declaration is what waits
		wanted = s.assignment.declared
	}
	regions := make([]moves.Region, len(s.regions))
	custody := s.memory.custody.of(len(s.regions)).regions
	for i, lease := range s.regions {
		regions[i] = moves.Region{Holder: placement.Nobody, Target: placement.Nobody, Wanted: wanted[i]}
		if lease == nil {
			continue
		}
		regions[i].Target = s.targetNode(lease)
		if t, holder := s.tenureOf(i); t == held {
			regions[i].Holder = holder
			regions[i].Unsettled = custody[i].unsure
			regions[i].Note = moves.ParseNote(lease.Annotations[v1alpha1.AnnotationMove])
		}
		if lease.Spec.AcquireTime != nil {
			regions[i].Taken = lease.Spec.AcquireTime.Time
		}
	}
	return regions
}

func (s *scene) moveNode(ordinal int32) moves.Node {
	node := moves.Node{
		Live:  s.sessionHeld(ordinal) && !s.silent(ordinal),
		Takes: ordinal < s.replicas() && !s.draining(ordinal),
		Ready: s.pods[ordinal] != nil && podReady(s.pods[ordinal]),
	}
	if report := s.zoneNodes[ordinal]; report != nil && report.Status.Session == s.sessionID(ordinal) {
		node.Slow = time.Duration(report.Status.TickP99Microseconds)*time.Microsecond > slowTick
	}
	return node
}

// decided is the Lease of a region as it should be, nil if it is so already.
func (s *scene) decided(index int, want int32) *coordinationv1.Lease {
	lease := s.regions[index]
	t, _ := s.tenureOf(index)
	if t != held {
		return s.settle(lease, t, want)
	}
	plan := s.movePlan()
	if step, found := plan.Steps[index]; found {
		return s.carryOut(lease, step)
	}
	if s.onItsWay(index) {
		return nil
	}
	return s.settle(lease, t, want)
}

// onItsWay tells whether a node was ordered to give a region that it holds to another.
func (s *scene) onItsWay(index int) bool {
	t, holder := s.tenureOf(index)
	target := placement.Nobody
	if lease := s.regions[index]; lease != nil {
		target = s.targetNode(lease)
	}
	return t == held && target >= 0 && target != holder
}

func (s *scene) carryOut(lease *coordinationv1.Lease, step moves.Step) *coordinationv1.Lease {
	update := lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&update.ObjectMeta, v1alpha1.AnnotationTarget, v1alpha1.NodeName(s.world.Name, int(step.Target)))
	delete(update.Annotations, v1alpha1.AnnotationMove)
	if !step.Note.IsZero() {
		update.Annotations[v1alpha1.AnnotationMove] = step.Note.String()
	}
	return update
}

// arrival is the end of a move: another node holds the region.
type arrival struct {
	region   int
	from, to int32
	took     time.Duration
}

// noteArrival takes in that the node to which a region was ordered holds it now.
func (s *scene) noteArrival(index int, former, newest *coordinationv1.Lease) {
	from, to := s.nodeOf(holderOf(former)), s.targetNode(former)
	if from < 0 || to < 0 || to == from || s.nodeOf(holderOf(newest)) != to {
		return
	}
	a := arrival{region: index, from: from, to: to}
	if note := moves.ParseNote(former.Annotations[v1alpha1.AnnotationMove]); !note.IsZero() {
		end := s.now
		if taken := newest.Spec.AcquireTime; taken != nil && taken.After(note.At) {
			end = taken.Time
		}
		a.took = max(end.Sub(note.At), 0)
	}
	s.arrivals = append(s.arrivals, a)
}

// nodeOf is the ordinal of the node of a session, -1 if it is none of this World.
func (s *scene) nodeOf(session string) int32 {
	node, _, err := v1alpha1.ParseSessionID(session)
	if err != nil {
		return -1
	}
	world, ordinal, err := v1alpha1.ParseNodeName(node)
	if err != nil || world != s.world.Name {
		return -1
	}
	return int32(ordinal)
}

// tellSteps counts and tells the moves that have ended, and the steps that were written.
func (s *scene) tellSteps(written map[int]*coordinationv1.Lease) {
	plan := s.movePlan()
	var ordered []string
	takenBack := map[moves.Reason][]string{}
	var first, firstBack int
	for _, i := range slices.Sorted(maps.Keys(plan.Steps)) {
		step := plan.Steps[i]
		if written[i] == nil || s.regions[i] != written[i] {
			continue
		}
		switch step.Kind {
		case moves.Order:
			if len(ordered) == 0 {
				first = i
			}
			ordered = append(ordered, s.wayOf(i, step.From, step.To))
		case moves.TakeBack:
			if len(takenBack) == 0 {
				firstBack = i
			}
			takenBack[step.Why] = append(takenBack[step.Why], s.wayOf(i, step.From, step.To))
			countMove(s.world, string(step.Why))
		case moves.Mend: // nobody's news
		}
	}
	if len(ordered) > 0 {
		s.notify(s.noticeOfRegion(first, notice{reason: EventRegionsOrdered, action: "Order", note: "ordered " + several(ordered)}))
	}
	for _, why := range slices.Sorted(maps.Keys(takenBack)) {
		s.notify(s.noticeOfRegion(firstBack, notice{
			warning: why != moves.NoLongerWanted, reason: EventOrdersTakenBack, action: "TakeBack",
			note: fmt.Sprintf("took back, because %s: %s", s.whyTakenBack(why), several(takenBack[why])),
		}))
	}
	s.tellArrivals()
}

func (s *scene) tellArrivals() {
	var ways []string
	for _, a := range s.arrivals {
		ways = append(ways, s.wayOf(a.region, a.from, a.to))
		countMove(s.world, "Moved")
		timeMove(s.world, a.took)
	}
	if len(ways) > 0 {
		s.notify(s.noticeOfRegion(s.arrivals[0].region, notice{reason: EventRegionsMoved, action: "Observe", note: "moved " + several(ways)}))
	}
	s.arrivals = nil
}

// whyTakenBack says it to people.
func (s *scene) whyTakenBack(why moves.Reason) string {
	switch why {
	case moves.NoLongerWanted:
		return "the assignment names another node now"
	case moves.NodeAway:
		return "the node it was to go to can no longer take it"
	case moves.TimedOut:
		return fmt.Sprintf("it had not gone after %s", s.moveTimeout())
	}
	return string(why)
}

// wayOf names a region and where it goes, e.g. "5,2 from node 1 to node 3".
func (s *scene) wayOf(index int, from, to int32) string {
	return fmt.Sprintf("%s from node %d to node %d", s.regionName(index), from, to)
}

// regionName is "<column>,<row>".
func (s *scene) regionName(index int) string {
	r := s.grid.Region(index)
	return fmt.Sprintf("%d,%d", r.Column, r.Row)
}

// noticeOfRegion relates a notice to the Lease of a region.
func (s *scene) noticeOfRegion(index int, n notice) notice {
	r := s.grid.Region(index)
	n.lease = v1alpha1.RegionLeaseName(s.world.Name, int(r.Column), int(r.Row))
	return n
}

// several names the first of the ways of many regions.
func several(ways []string) string {
	const most = 4
	noun := "region"
	if len(ways) != 1 {
		noun = fmt.Sprintf("%d regions:", len(ways))
	}
	if len(ways) > most {
		return fmt.Sprintf("%s %s and %d more", noun, strings.Join(ways[:most], "; "), len(ways)-most)
	}
	return noun + " " + strings.Join(ways, "; ")
}
