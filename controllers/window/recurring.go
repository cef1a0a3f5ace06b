package window

import (
	"time"

	"github.com/robfig/cron/v3"
)

// recurring is one window: when it opens, by the clock on the wall of a zone, and for how long.
type recurring struct {
	name     string
	schedule cron.Schedule
	zone     *time.Location
	duration time.Duration
}

// around is the last time at or before an instant at which the window opened, if it is still open then, and the first time
// after it at which it opens. Either is zero if there is none.
//
// To walk through a schedule takes time: the longer the rarer the window opens, for it goes day by day; and step by step the
// more often it does. So it looks back a minute first, and farther only if the window opened at all in that time.
func (w *recurring) around(at time.Time) (last, next time.Time) {
	back := min(time.Minute, w.duration)
	if last, next = w.walk(at.Add(-back), at); !last.IsZero() || back == w.duration {
		return last, next
	}
	if first := w.next(at.Add(-w.duration)); first.IsZero() || first.After(at) {
		return time.Time{}, first
	}
	for last.IsZero() {
		back = min(2*back, w.duration)
		last, next = w.walk(at.Add(-back), at)
	}
	return last, next
}

// walk goes from one opening to the next: last is the last one after from and not after to, next the first after to.
func (w *recurring) walk(from, to time.Time) (last, next time.Time) {
	for next = w.next(from); !next.IsZero() && !next.After(to); next = w.next(next) {
		last = next
	}
	return last, next
}

// next is the first time after an instant at which the window opens, zero if there is none.
func (w *recurring) next(after time.Time) time.Time {
	for wall := onTheWall(after, w.zone); ; {
		wall = nextIn(w.schedule, wall)
		if wall.IsZero() {
			return time.Time{}
		}
		// The clock may have shown this time already, before it was put back.
		if at := firstInstant(wall, w.zone); at.After(after) {
			return at
		}
	}
}

// course follows one window through a search: what was found holds until the window opens anew.
type course struct {
	*recurring

	// last and next are those around each instant from since on, until next.
	since, last, next time.Time
}

func (c *course) seek(at time.Time) {
	if !c.since.IsZero() && !at.Before(c.since) && (c.next.IsZero() || at.Before(c.next)) {
		return
	}
	if at.Equal(c.next) { // windows that follow one another: nothing to look back for
		c.last, c.next = at, c.recurring.next(at)
	} else {
		c.last, c.next = c.around(at)
	}
	c.since = at
	if !c.last.IsZero() {
		c.since = c.last
	}
}

// covering is when the window opened that is open at an instant.
func (c *course) covering(at time.Time) (start time.Time, ok bool) {
	c.seek(at)
	return c.last, !c.last.IsZero() && c.last.Add(c.duration).After(at)
}

// onTheWall is what the clock of a zone shows at an instant, as a time in UTC.
func onTheWall(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
}

// firstInstant is the first instant at which the clock of a zone shows a time, or a later one where it skips that.
func firstInstant(wall time.Time, zone *time.Location) time.Time {
	near := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	start, end := near.ZoneBounds()
	var first time.Time
	for _, probe := range []time.Time{start.Add(-1), near, end} { // the offsets that may be in force
		_, offset := probe.In(zone).Zone()
		at := wall.Add(-time.Duration(offset) * time.Second)
		if onTheWall(at, zone).Equal(wall) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	switch {
	case !first.IsZero():
		return first
	case onTheWall(near, zone).After(wall): // skipped, and near is after the gap
		return start.UTC()
	}
	return end.UTC()
}
