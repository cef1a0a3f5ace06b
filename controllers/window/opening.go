package window

import (
	"fmt"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// Reason is why something may start, or why it may not.
type Reason string

// The reasons of an Opening.
const (
	// Unconfined: it need not wait for a window.
	Unconfined Reason = "Unconfined"
	// Overridden: an override lets it start at once.
	Overridden Reason = "Overridden"
	// InWindow: a window is open and it fits.
	InWindow Reason = "InWindow"
	// BetweenWindows: no window is open.
	BetweenWindows Reason = "BetweenWindows"
	// Excluded: an exclusion is on.
	Excluded Reason = "Excluded"
	// TooShort: a window is open, and what is left of it is too short.
	TooShort Reason = "TooShort"
	// Unreadable: nobody knows when a window is open.
	Unreadable Reason = "Unreadable"
)

// Opening says whether something may start now, and until or from when.
type Opening struct {
	Open   bool
	Reason Reason
	// Window is the window of From; empty when it is not one window that decides.
	Window string
	// From is when it may start; zero if no opening is in sight that it fits.
	From time.Time
	// Until is when the opening that begins at From closes; zero if no end is in sight.
	Until time.Time
	// Why is the reason of the override that lets it start; empty if none has to.
	Why string

	// by names the exclusion that is on.
	by string
	// powerless says why an override that is there does not.
	powerless string
}

// A search for an opening ends after this many changes between open and closed, or this far ahead: more than a year of
// nights, and more than the years to the rarest day that a window can name.
const (
	farSteps = 1000
	farAhead = 13 * 366 * 24 * time.Hour
)

// At tells whether something that will take about estimate may start now.
func (c *Calendar) At(now time.Time, kind v1alpha1.DisruptionKind, estimate time.Duration) Opening {
	if !c.confines(kind) {
		return Opening{Open: true, Reason: Unconfined, From: now}
	}
	if c.overridden(now) {
		return Opening{Open: true, Reason: Overridden, From: now, Until: c.override.EndTime.Time, Why: c.override.Reason}
	}
	if c.unread {
		return Opening{Reason: Unreadable, powerless: c.powerless()}
	}
	s := search{Calendar: c, courses: make([]course, len(c.windows))}
	for i := range c.windows {
		s.courses[i].recurring = &c.windows[i]
	}
	return s.find(now, estimate)
}

// Window is the opening that is on, or the next one, for whatever is confined. It is Unconfined if nothing can be.
func (c *Calendar) Window(now time.Time) Opening {
	kind := v1alpha1.DisruptionBoundaryMoves
	if c != nil && len(c.confine) > 0 {
		kind = c.confine[0]
	}
	return c.At(now, kind, 0)
}

// segment is what holds from an instant until it changes; the end is zero if it never does.
type segment struct {
	open bool
	name string
	end  time.Time
}

// search is one look through a calendar, from one change between open and closed to the next.
type search struct {
	*Calendar

	courses []course
}

// find looks for the first instant from now on at which an opening is long enough.
func (s *search) find(now time.Time, estimate time.Duration) Opening {
	first := s.segment(now)
	answer := Opening{Reason: InWindow, powerless: s.powerless()}
	switch {
	case !first.open && first.name != "":
		answer.Reason, answer.by = Excluded, first.name
	case !first.open:
		answer.Reason = BetweenWindows
	case !fits(now, first.end, estimate):
		answer.Reason = TooShort
	}
	at, part := now, first
	for range farSteps {
		if part.open && fits(at, part.end, estimate) {
			answer.Open = answer.Reason == InWindow
			answer.Window, answer.From, answer.Until = part.name, at, part.end
			return answer
		}
		if part.end.IsZero() || part.end.Sub(now) > farAhead {
			break
		}
		at = part.end
		part = s.segment(at)
	}
	return answer
}

func (s *search) segment(at time.Time) segment {
	if name, end := s.excludedUntil(at); !end.IsZero() {
		return segment{name: name, end: end}
	}
	stop := s.nextExclusion(at)
	name, end, covered := s.coveredUntil(at, stop)
	if !covered {
		return segment{end: s.nextStart(at)}
	}
	if !stop.IsZero() && (end.IsZero() || stop.Before(end)) {
		end = stop
	}
	return segment{open: true, name: name, end: end}
}

func fits(at, end time.Time, estimate time.Duration) bool {
	return end.IsZero() || !at.Add(estimate).After(end)
}

// String tells a person what holds and until when, as part of a sentence.
func (o Opening) String() string {
	switch o.Reason {
	case Unconfined:
		return "no window is needed"
	case Overridden:
		return fmt.Sprintf("the override %q lifts windows and exclusions until %s", o.Why, stamp(o.Until))
	case InWindow:
		return o.window() + " is open" + until(o.Until)
	case Unreadable:
		return "the windows cannot be read" + o.besides()
	case Excluded:
		return fmt.Sprintf("exclusion %s is on; %s", o.by, o.next()) + o.besides()
	case TooShort:
		return "what is left of the open window is too short; " + o.next() + o.besides()
	case BetweenWindows:
	}
	return "no window is open; " + o.next() + o.besides()
}

// besides names the override that does not help.
func (o Opening) besides() string {
	if o.powerless == "" {
		return ""
	}
	return "; " + o.powerless
}

// next says when it may start.
func (o Opening) next() string {
	if o.From.IsZero() {
		return "no window to come is long enough"
	}
	words := fmt.Sprintf("it may start at %s in %s", stamp(o.From), o.window())
	if !o.Until.IsZero() {
		words += ", which closes at " + stamp(o.Until)
	}
	return words
}

func (o Opening) window() string {
	if o.Window == "" {
		return "the time between exclusions"
	}
	return "window " + o.Window
}

func until(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return " until " + stamp(end)
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
