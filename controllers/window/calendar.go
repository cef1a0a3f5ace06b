package window

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // the operator's image has nothing but the operator in it

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// Calendar is a maintenance spec, understood. Nil confines nothing.
type Calendar struct {
	// unread: not every window was understood, so nobody knows when something may start.
	unread     bool
	windows    []recurring
	exclusions []exclusion // by start
	confine    []v1alpha1.DisruptionKind
	override   *v1alpha1.MaintenanceOverride
}

// exclusion is a time without planned disruptions, from start to just before end.
type exclusion struct {
	name       string
	start, end time.Time
}

// leapYear begins a year in which every day that ever comes does.
var leapYear = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Parse understands a maintenance spec; nil is a spec that confines nothing. An error names every window that cannot be
// read, and says what to write instead. The calendar that comes with it lets nothing start that is confined, but for an
// override: that says until when, whatever the windows say.
func Parse(spec *v1alpha1.MaintenanceSpec) (*Calendar, error) {
	if spec == nil {
		return nil, nil //nolint:nilnil // no spec, and nothing wrong with it
	}
	c := &Calendar{confine: spec.Confine, override: spec.Override}
	var errs []error
	for _, w := range spec.Windows {
		window, err := parseWindow(w)
		if err != nil {
			errs = append(errs, fmt.Errorf("window %s: %w", w.Name, err))
			continue
		}
		c.windows = append(c.windows, window)
	}
	for _, e := range spec.Exclusions {
		c.exclusions = append(c.exclusions, exclusion{e.Name, e.StartTime.Time, e.EndTime.Time})
	}
	slices.SortStableFunc(c.exclusions, func(a, b exclusion) int { return a.start.Compare(b.start) })
	c.unread = len(errs) > 0
	return c, errors.Join(errs...)
}

func parseWindow(w v1alpha1.MaintenanceWindow) (recurring, error) {
	schedule, err := parseCron(w.Cron)
	if err != nil {
		return recurring{}, fmt.Errorf("cron %q cannot be read (%w): write minute, hour, day of the month, month and day of the week, e.g. \"30 4 * * *\"", w.Cron, err)
	}
	zone := cmp.Or(w.TimeZone, "UTC")
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return recurring{}, fmt.Errorf("timeZone %q is unknown: use a name of the IANA time zone database, e.g. Europe/Berlin", zone)
	}
	if nextIn(schedule, leapYear).IsZero() {
		return recurring{}, fmt.Errorf("cron %q names a day that never comes: correct the day of the month or the month", w.Cron)
	}
	return recurring{w.Name, schedule, location, time.Duration(w.DurationSeconds) * time.Second}, nil
}

// confines tells whether something waits for a window.
func (c *Calendar) confines(kind v1alpha1.DisruptionKind) bool {
	if c == nil || len(c.windows) == 0 && len(c.exclusions) == 0 && !c.unread {
		return false
	}
	return len(c.confine) == 0 || slices.Contains(c.confine, kind)
}

// overridden tells whether the override is in force.
func (c *Calendar) overridden(now time.Time) bool {
	return c.override != nil && c.override.ExecutionTime == v1alpha1.ExecutionImmediate && now.Before(c.override.EndTime.Time)
}

// powerless says why an override that is there lifts nothing; empty if there is none.
func (c *Calendar) powerless() string {
	switch {
	case c.override == nil:
		return ""
	case c.override.ExecutionTime != v1alpha1.ExecutionImmediate:
		return fmt.Sprintf("the override %q lifts nothing: its executionTime is %s", c.override.Reason, c.override.ExecutionTime)
	}
	return fmt.Sprintf("the override %q lifts nothing any more: its endTime was %s", c.override.Reason, stamp(c.override.EndTime.Time))
}

// excludedUntil is when the exclusions that cover an instant, or follow one another from it on, end; zero if none does.
func (c *Calendar) excludedUntil(at time.Time) (name string, end time.Time) {
	for _, e := range c.exclusions { // by start, so one pass is enough
		reached := at
		if !end.IsZero() {
			reached = end
		}
		if !e.start.After(reached) && e.end.After(reached) {
			name, end = cmp.Or(name, e.name), e.end
		}
	}
	return name, end
}

// nextExclusion is when the next exclusion after an instant begins; zero if none does.
func (c *Calendar) nextExclusion(at time.Time) time.Time {
	for _, e := range c.exclusions {
		if e.start.After(at) {
			return e.start
		}
	}
	return time.Time{}
}

// sight is how far ahead the end of an opening is looked for: longer than any window, so that only windows that follow one
// another reach it.
const sight = 15 * 24 * time.Hour

// coveredUntil is when the windows that cover an instant, or follow one another from it on, end, and which of them was
// first. The end is zero if none is in sight; one at or after limit, which may be zero, is not looked beyond.
func (s *search) coveredUntil(at, limit time.Time) (name string, end time.Time, covered bool) {
	if len(s.courses) == 0 {
		return "", time.Time{}, true
	}
	var first time.Time
	for i := range s.courses {
		if start, ok := s.courses[i].covering(at); ok && (!covered || start.Before(first)) {
			name, first, covered = s.courses[i].name, start, true
		}
	}
	if !covered {
		return "", time.Time{}, false
	}
	for end = at; ; {
		var grown bool
		end, grown = s.grow(end)
		switch {
		case !grown, !limit.IsZero() && !end.Before(limit):
			return name, end, true
		case end.Sub(at) > sight:
			return name, time.Time{}, true
		}
	}
}

// grow moves the end of an opening on by the windows that are open then.
func (s *search) grow(end time.Time) (later time.Time, grown bool) {
	for i := range s.courses {
		if start, ok := s.courses[i].covering(end); ok {
			end, grown = start.Add(s.courses[i].duration), true
		}
	}
	return end, grown
}

// nextStart is when the next window after an instant opens; zero if none does.
func (s *search) nextStart(at time.Time) (next time.Time) {
	for i := range s.courses {
		s.courses[i].seek(at)
		if start := s.courses[i].next; !start.IsZero() && (next.IsZero() || start.Before(next)) {
			next = start
		}
	}
	return next
}
