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

// covering is the last time at or before an instant at which the window opened, if it is still open then.
func (w *recurring) covering(at time.Time) (start time.Time, ok bool) {
	for back := min(time.Minute, w.duration); ; back = min(2*back, w.duration) {
		for next, more := w.next(at.Add(-back)); more && !next.After(at); next, more = w.next(next) {
			start, ok = next, true
		}
		if ok || back == w.duration {
			return start, ok
		}
	}
}

// next is the first time after an instant at which the window opens. There is none if the schedule says nothing for years.
func (w *recurring) next(after time.Time) (time.Time, bool) {
	for wall := onTheWall(after, w.zone); ; {
		wall = w.schedule.Next(wall)
		if wall.IsZero() {
			return time.Time{}, false
		}
		// The clock may have shown this time already, before it was put back.
		if at := firstInstant(wall, w.zone); at.After(after) {
			return at, true
		}
	}
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
