package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/moves"
	"github.com/spatialcells/spatialcells/controllers/placement"
	"github.com/spatialcells/spatialcells/controllers/window"
)

// progress is how far the regions are on their way to where the spec says; nil when they are there. What was planned, and
// what it was expected to cost, stays as it was reported first, until another edit.
func (s *scene) progress() *v1alpha1.MovesStatus {
	away := int32(len(s.away()))
	if away == 0 {
		return nil
	}
	m := &v1alpha1.MovesStatus{}
	if before := s.reported.Moves; before != nil && s.reported.ObservedGeneration == s.world.Generation {
		m = before.DeepCopy()
	}
	if m.Planned < away { // the spec was edited, or a failover took more away
		cost := s.editCost()
		m.Planned, m.EstimatedSeconds = away, wholeSeconds(cost.Duration)
		m.BorderBefore, m.BorderAfter = int32(cost.BorderBefore), int32(cost.BorderAfter)
	}
	m.Moved = m.Planned - away
	m.BackingOff = int32(len(s.movePlan().Waiting[moves.BackingOff]))
	return m
}

// wholeSeconds rounds up: what takes any time at all takes a second.
func wholeSeconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

// editCost is what it costs to come from what is to what the spec says.
func (s *scene) editCost() moves.Cost {
	holders := make(placement.Table, len(s.regions))
	for i := range s.regions {
		holders[i] = placement.Nobody
		if t, holder := s.tenureOf(i); t == held {
			holders[i] = holder
		}
	}
	estimate := s.moveEstimate(s.moveRegions())
	return moves.CostOf(s.grid, holders, s.assignment.declared, int(s.world.Spec.Handoff.MaxConcurrentRegions), estimate)
}

// nextWindow is the window that is open, or the next one; nil if nothing can have to wait for one.
func (s *scene) nextWindow() *v1alpha1.WindowStatus {
	calendar, _ := s.calendar()
	o := calendar.Window(s.now)
	status := &v1alpha1.WindowStatus{Name: o.Window, EndTime: timeOrNone(o.Until)}
	switch {
	case o.Reason == window.Unconfined, o.Reason == window.Unreadable:
		return nil
	case o.Reason == window.Overridden:
		status.State, status.Reason = v1alpha1.WindowOverridden, o.Why
		s.wakeAt(o.Until)
	case o.Open:
		status.State = v1alpha1.WindowOpen
		s.wakeAt(o.Until)
	default:
		status.State, status.StartTime = v1alpha1.WindowClosed, timeOrNone(o.From)
		s.wakeAt(o.From)
		announced := o.From.Add(-time.Duration(s.announceSeconds()) * time.Second)
		if s.announceSeconds() > 0 && !o.From.IsZero() && s.verdicts[v1alpha1.ConditionAssignmentConverged].reason == v1alpha1.ReasonWaitingForWindow {
			if !s.now.Before(announced) {
				status.State = v1alpha1.WindowAnnounced
			} else {
				s.wakeAt(announced)
			}
		}
	}
	return status
}

func (s *scene) announceSeconds() int32 {
	if s.world.Spec.Maintenance == nil {
		return 0
	}
	return s.world.Spec.Maintenance.AnnounceSeconds
}

func timeOrNone(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// reasonsOfWaiting is what decides the reason of AssignmentConverged while nothing moves, the first before the others.
var reasonsOfWaiting = []struct {
	of     moves.Reason
	reason string
}{
	{moves.Turn, v1alpha1.ReasonMoving},
	{moves.Paused, v1alpha1.ReasonPaused},
	{moves.Window, v1alpha1.ReasonWaitingForWindow},
	{moves.Invalid, v1alpha1.ReasonInvalidMaintenance},
	{moves.BackingOff, v1alpha1.ReasonBackingOff},
	{moves.NoCapacity, v1alpha1.ReasonNoCapacity},
	{moves.HolderSilent, v1alpha1.ReasonHolderSilent},
	{moves.HolderAway, v1alpha1.ReasonHolderAway},
}

// onTheWay says how many regions have moved and what the others wait for.
func (s *scene) onTheWay() verdict {
	plan, m := s.movePlan(), s.progress()
	s.wakeAt(plan.Next)
	v := verdict{reason: v1alpha1.ReasonMoving}
	words := []string{fmt.Sprintf("%d of %d regions moved", m.Moved, m.Planned)}
	moving := s.countRegions(nil).Moving
	if moving > 0 {
		words = append(words, fmt.Sprintf("%d moving", moving))
	}
	decided := moving > 0
	for _, w := range reasonsOfWaiting {
		regions := plan.Waiting[w.of]
		if len(regions) == 0 {
			continue
		}
		if !decided {
			v.reason, decided = w.reason, true
		}
		words = append(words, s.waitInWords(w.of, regions, m))
	}
	v.message = strings.Join(words, ", ")
	if o := s.moveOpening(s.moveEstimate(s.moveRegions())); o.Reason == window.Overridden && !s.paused() {
		v.message += "; " + o.String()
	}
	v.message += "."
	return v
}

// waitInWords says what some regions wait for, and until when.
func (s *scene) waitInWords(why moves.Reason, regions []int, m *v1alpha1.MovesStatus) string {
	n := len(regions)
	switch why {
	case moves.Turn:
		return fmt.Sprintf("%d waiting for a turn", n)
	case moves.Paused:
		return fmt.Sprintf("%d waiting because managementPolicy is Paused", n)
	case moves.Window:
		return fmt.Sprintf("%d waiting: %s", n, s.windowInWords(m))
	case moves.Invalid:
		return fmt.Sprintf("%d waiting because spec.maintenance cannot be read, see Stalled%s", n, s.overrideInVain())
	case moves.BackingOff:
		return fmt.Sprintf("%d waiting after a move in vain: %s", n, s.failureInWords(regions))
	case moves.NoCapacity:
		return fmt.Sprintf("%d waiting because the ticks of %s take more than %s", n, s.ownersOf(regions), slowTick)
	case moves.HolderSilent:
		return fmt.Sprintf("%d waiting for %s, which has them and does not renew", n, s.holdersOf(regions))
	case moves.HolderAway:
		return fmt.Sprintf("%d waiting for %s, which does not live, is not ready or drains", n, s.ownersOf(regions))
	case moves.NoLongerWanted, moves.NodeAway, moves.TimedOut: // why orders are taken back
	}
	return string(why)
}

// overrideInVain says why an override that is there lifts nothing.
func (s *scene) overrideInVain() string {
	_, words, _ := strings.Cut(s.moveOpening(0).String(), ";")
	if words == "" {
		return ""
	}
	return ";" + words
}

// windowInWords says until when regions wait for a window, and whether all of them fit into it.
func (s *scene) windowInWords(m *v1alpha1.MovesStatus) string {
	o := s.moveOpening(s.moveEstimate(s.moveRegions()))
	s.wakeAt(o.From)
	words := o.String()
	if total := time.Duration(m.EstimatedSeconds) * time.Second; !o.From.IsZero() {
		words += fmt.Sprintf("; all %d take about %s", m.Planned, total)
		if !o.Until.IsZero() && o.From.Add(total).After(o.Until) {
			words += ", which is more than the window has: the rest waits for the one after"
		}
	}
	return words
}

// failureInWords says which region is tried again next, and what became of its last order.
func (s *scene) failureInWords(regions []int) string {
	situation := s.moveRegions()
	next := slices.MinFunc(regions, func(a, b int) int {
		return situation[a].Note.Retry().Compare(situation[b].Note.Retry())
	})
	note := situation[next].Note
	if note.Failures == 0 { // it was not written yet
		return s.regionName(next)
	}
	return fmt.Sprintf("%s to node %d, taken back because %s; it is tried again at %s",
		s.regionName(next), note.To, s.whyTakenBack(note.Why), note.Retry().UTC().Format(time.RFC3339))
}

func (s *scene) ownersOf(regions []int) string {
	return s.nodesOf(regions, func(i int) int32 { return s.assignment.declared[i] })
}

func (s *scene) holdersOf(regions []int) string {
	return s.nodesOf(regions, func(i int) int32 { return s.nodeOf(holderOf(s.regions[i])) })
}

func (s *scene) nodesOf(regions []int, node func(int) int32) string {
	of := map[int32]bool{}
	for _, i := range regions {
		of[node(i)] = true
	}
	return few(s.nodesWhere(func(ordinal int32) bool { return of[ordinal] }), "node")
}
