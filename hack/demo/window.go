package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const (
	// windowAhead is how long before it opens the window is declared, at most: it opens at a full minute.
	windowAhead = 3 * time.Minute
	// windowOpen is how long moves may start: an exclusion then cuts the window short. One move at a time, so that not all of a quarter
	// of the regions fit; the first is taken to need 5 s, for nothing is known of any.
	windowOpen = 6 * time.Second
	// windowRest is how long it is looked at what waits then. Moves that have started take a second or so.
	windowRest = 15 * time.Second
	// windowSlack is how late the operator may be told of the time, and how late a look at the Leases.
	windowSlack = 2 * time.Second
	windowName  = "drill"
)

// moveInWindow declares what moveRegions does, and a window that opens later and is too short for all of it.
func (d *demo) moveInWindow(ctx context.Context, f fault) error {
	was, err := d.regions(ctx)
	if err != nil {
		return err
	}
	want := d.quarterMoved(was)
	opens := time.Now().Add(windowAhead).Truncate(time.Minute)
	closes := opens.Add(windowOpen)
	d.say(fmt.Sprintf("fault %v: %d of %d regions are assigned to the next node, one at a time from %s to %s; expected: nothing moves before, the status says until when, what starts finishes, the rest waits",
		f, moved(was, want), len(was), opens.UTC().Format(time.TimeOnly), closes.UTC().Format(time.TimeOnly)))
	if err := errors.Join(d.confine(ctx, opens, closes), d.assign(ctx, want)); err != nil {
		return err
	}
	if err := d.nothingMoves(ctx, was, opens); err != nil {
		return err
	}
	if err := pause(ctx, time.Until(closes.Add(windowSlack))); err != nil {
		return err
	}
	return d.judgeWindow(ctx, f, was, want, closes)
}

// confine declares a window, and that nothing starts in it from an instant on.
func (d *demo) confine(ctx context.Context, opens, closes time.Time) error {
	return d.edit(ctx, "the windows", func(w *v1alpha1.World) {
		at := opens.UTC()
		w.Spec.Handoff.MaxConcurrentRegions = 1
		w.Spec.Maintenance = &v1alpha1.MaintenanceSpec{
			Windows: []v1alpha1.MaintenanceWindow{{
				Name: windowName, Cron: fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()), DurationSeconds: 3600,
			}},
			Exclusions: []v1alpha1.MaintenanceExclusion{{
				Name: "cut-short", StartTime: metav1.NewTime(closes), EndTime: metav1.NewTime(opens.Add(2 * time.Hour)),
			}},
		}
	})
}

// nothingMoves watches until the window opens: no region has an order, and the status says when.
func (d *demo) nothingMoves(ctx context.Context, was []region, opens time.Time) error {
	said := errors.New("nothing was said")
	for time.Now().Before(opens.Add(-pollPeriod)) {
		now, err := d.regions(ctx)
		if err != nil {
			return err
		}
		for i := range now {
			if now[i].epoch != was[i].epoch || now[i].target != now[i].node {
				return fmt.Errorf("region %d is ordered to %s %v before the window opens", i, now[i].target, time.Until(opens).Round(time.Second))
			}
		}
		if said = d.saysUntil(ctx, opens); said != nil && time.Until(opens) < windowAhead/2 {
			return said
		}
		if err := pause(ctx, pollPeriod); err != nil {
			return err
		}
	}
	return said
}

// saysUntil tells what is missing in what the World says about the window that opens at a time.
func (d *demo) saysUntil(ctx context.Context, opens time.Time) error {
	w := &v1alpha1.World{}
	if err := d.site.api.Get(ctx, d.site.key, w); err != nil {
		return fmt.Errorf("reading the World: %w", err)
	}
	if next := w.Status.NextWindow; next == nil || next.StartTime == nil || !next.StartTime.Time.Equal(opens) {
		return fmt.Errorf("status.nextWindow is %+v, and should begin at %s", next, opens.UTC().Format(time.RFC3339))
	}
	c := meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionAssignmentConverged)
	if c == nil || c.Reason != v1alpha1.ReasonWaitingForWindow || !strings.Contains(c.Message, opens.UTC().Format(time.RFC3339)) {
		return fmt.Errorf("condition %s does not say that regions wait until %s: %+v", v1alpha1.ConditionAssignmentConverged, opens.UTC().Format(time.RFC3339), c)
	}
	return nil
}

// judgeWindow looks at what has moved when the window is over, and that it stays so.
func (d *demo) judgeWindow(ctx context.Context, f fault, was []region, want []int, closes time.Time) error {
	then, err := d.regions(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Until(closes.Add(windowRest))); err != nil {
		return err
	}
	now, err := d.regions(ctx)
	if err != nil {
		return err
	}
	all, left := moved(was, want), moved(now, want)
	for i := range now {
		if now[i].epoch != then[i].epoch || now[i].target != now[i].node {
			return fmt.Errorf("region %d is ordered to %s and with %s, long after the window has closed", i, now[i].target, now[i].holder)
		}
	}
	if left == 0 || left == all {
		return fmt.Errorf("%d of %d regions have moved in %v: some should have, and some not", all-left, all, windowOpen)
	}
	next := closes.Add(-windowOpen).AddDate(0, 0, 1)
	if err := d.saysUntil(ctx, next); err != nil {
		return err
	}
	d.say(fmt.Sprintf("fault %v: %d regions have moved, %d wait until %s", f, all-left, left, next.UTC().Format(time.RFC3339)))
	return nil
}
