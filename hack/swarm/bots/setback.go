package bots

import (
	"fmt"
	"time"

	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Setback: after a crash of its owner a bot goes on from more than 5 s before.
const Setback client.ViolationKind = "setback"

const (
	// undone is how much of a walk the crash of an owner may undo: the time between two saves.
	undone = 5 * time.Second
	// tickTime is that of the world; walkingSpeed is in metres a second.
	tickTime     = 50 * time.Millisecond
	walkingSpeed = 4
	// longestWalk bounds how far a walk is followed that nothing was heard of, in ticks: 2 min.
	longestWalk = 2400
)

// whereabouts is where a bot was when its owner last spoke of it, and what it still had to walk.
type whereabouts struct {
	known bool
	walk  motion.Walk
	heard time.Time
	// goal is where it leads, since a time.
	goal  torus.Pos
	since time.Time
	// told is what was known then or later: a full set repeats what was heard before, which is no word of the owner.
	told told
}

type told struct {
	appeared, updated uint64 // ticks of its gateway
	marks, resets     int
}

// followed notes what the owner says of the bot's entity. At a mark it holds where the bot is now against where it can have
// been when the owner crashed: somewhere on its walk since the last word of it.
func (b *bot) followed(m *client.Model, own *client.Seen, tick uint64, now time.Time) {
	w, is := &b.whereabouts, told{own.Appeared, own.Updated, own.Marks, own.Resets}
	was := w.told
	marked := was.marks != is.marks || was.appeared != is.appeared
	if w.known && is == was {
		return
	}
	if w.known && marked {
		b.fellBack(m.Grid, m.At(own, tick), now)
		if was.resets != is.resets {
			b.forgot(goalOf(own.Walk), now)
		}
	}
	if was.appeared != is.appeared {
		b.appeared = now
	}
	if w.told = is; w.known && marked && was.resets == is.resets {
		return
	}
	if goal := goalOf(own.Walk); !w.known || goal != w.goal {
		w.goal, w.since = goal, now
	}
	w.known, w.heard, w.walk = true, now, own.Walk
	if own.Updated > own.Since {
		w.walk.Ticks(m.Grid, int(min(own.Updated-own.Since, longestWalk)))
	}
}

// spokeAfter reports whether the owner of the bot's entity has spoken of it more than Grace after a moment, over a stream that
// has no mark and is complete since.
func (b *bot) spokeAfter(moment time.Time) bool {
	if !b.truth.ok || b.complete.IsZero() {
		return false
	}
	for _, t := range []time.Time{b.complete, b.marked, b.appeared} {
		moment = later(moment, t)
	}
	return b.whereabouts.heard.Sub(moment) > Grace
}

// goalOf is where a walk leads.
func goalOf(w motion.Walk) torus.Pos {
	if n := len(w.Waypoints); n > 0 {
		return torus.Pos{X: w.Waypoints[n-1].X, Y: w.Waypoints[n-1].Y}
	}
	return torus.Pos{X: w.At.X, Y: w.At.Y}
}

// forgot holds the walk after a crash against when the bot had set out on the one before it: who turned back walks over the same
// places again, so where it stands does not tell from when that is.
func (b *bot) forgot(goal torus.Pos, now time.Time) {
	w := &b.whereabouts
	back, allowed := w.heard.Sub(w.since), undone+b.swarm.storeAway(w.heard.Add(-undone), now)+Grace
	if goal != w.goal && back > allowed {
		b.swarm.violate(b, nil, Setback, b.truth.entity, fmt.Sprintf("it walks to %v again, and was on its way to %v for %v when it was heard of last; %v may be undone",
			goal, w.goal, back.Round(time.Millisecond), allowed))
	}
}

func (b *bot) fellBack(g torus.Grid, at torus.Pos, now time.Time) {
	w := b.whereabouts
	allowed := int64(Tolerance)
	if !b.left {
		allowed += int64((undone + b.swarm.storeAway(w.heard.Add(-undone), now)).Seconds() * walkingSpeed)
	}
	nearest := int64(1 << 62)
	walk := w.walk
	for range min(int(now.Sub(w.heard)/tickTime)+1, longestWalk) {
		nearest = min(nearest, g.Chebyshev(walk.At, at))
		if nearest <= Tolerance || len(walk.Waypoints) == 0 {
			break
		}
		walk.Ticks(g, 1)
	}
	b.swarm.count.setback = max(b.swarm.count.setback, nearest)
	if nearest > allowed {
		b.swarm.violate(b, nil, Setback, b.truth.entity, fmt.Sprintf("it is at %v, %d m from all places where it can have been since it was at %v %v ago; %d m may be undone",
			at, nearest, w.walk.At, now.Sub(w.heard).Round(time.Millisecond), allowed))
	}
}

// outage is a time in which the store did not save; until is zero while it lasts.
type outage struct{ from, until time.Time }

// StoreAway says that the store is away from now on, until the returned function is called: what is walked meanwhile cannot be
// saved, and may be undone too.
func (s *Swarm) StoreAway() (back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &outage{from: time.Now()}
	s.outages = append(s.outages, o)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		o.until = time.Now()
	}
}

// storeAway is how long the store was away in a time; called with mu held.
func (s *Swarm) storeAway(from, until time.Time) (sum time.Duration) {
	for _, o := range s.outages {
		begin, end := later(o.from, from), o.until
		if end.IsZero() || end.After(until) {
			end = until
		}
		sum += max(end.Sub(begin), 0)
	}
	return sum
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
