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
	// trailLength is how many places of its walk a bot remembers: half a minute of walking and more.
	trailLength = 256
)

// whereabouts is what the owner of a bot last said of it: where it was, and what it still had to walk.
type whereabouts struct {
	known bool
	heard time.Time
	// walk is where it was when the newest word was said. That may be long before it was heard: a gateway that stands still
	// makes words wait.
	walk motion.Walk
	said time.Time
	// trail is where it was, the last place last.
	trail []footprint
	// told is what was known then or later: a full set repeats what was heard before, which is no word of the owner.
	told told
}

// footprint is when a bot left a place.
type footprint struct {
	at   torus.Pos
	when time.Time
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
	if !marked {
		w.passed(m.At(own, tick), now)
	}
	if w.known && is == was {
		return
	}
	if w.known && marked {
		b.fellBack(m.Grid, m.At(own, tick), now)
		if was.resets != is.resets {
			b.forgot(m.Grid, m.At(own, tick), now)
			w.trail = w.trail[:0]
		}
	}
	if was.appeared != is.appeared {
		b.appeared = now
	}
	if w.told = is; w.known && marked && was.resets == is.resets {
		return
	}
	w.known, w.heard, w.walk, w.said = true, now, own.Walk, now
	if tick > own.Dated {
		w.said = now.Add(-time.Duration(min(tick-own.Dated, longestWalk)) * tickTime)
	}
	if own.Dated > own.Since {
		w.walk.Ticks(m.Grid, int(min(own.Dated-own.Since, longestWalk)))
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

// forgot holds where a bot stands after a crash against when it was there: who walks around a corner or back has not come far
// in 5 s. Places where it can have come since it was heard of last count as now.
func (b *bot) forgot(g torus.Grid, at torus.Pos, now time.Time) {
	w := &b.whereabouts
	walk := w.walk
	for range min(int(now.Sub(w.said)/tickTime)+1, longestWalk) {
		if g.Chebyshev(walk.At, at) <= client.Slack {
			return
		}
		walk.Ticks(g, 1)
	}
	back := time.Duration(-1)
	for _, p := range w.trail {
		if !p.when.After(w.said) && g.Chebyshev(p.at, at) <= client.Slack {
			back = w.said.Sub(p.when) // the last time counts
		}
	}
	b.swarm.count.undone = max(b.swarm.count.undone, back)
	if allowed := undone + b.swarm.storeAway(w.said.Add(-undone), now) + Grace; back > allowed {
		b.swarm.violate(b, nil, Setback, b.truth.entity, fmt.Sprintf("it is at %v, where it was %v before the last word of it, which is from %v ago; %v may be undone",
			at, back.Round(time.Millisecond), now.Sub(w.said).Round(time.Millisecond), allowed))
	}
}

// passed notes where the bot is.
func (w *whereabouts) passed(at torus.Pos, now time.Time) {
	if n := len(w.trail); n > 0 && w.trail[n-1].at == at {
		w.trail[n-1].when = now
		return
	}
	w.trail = append(w.trail, footprint{at, now})
	if len(w.trail) > trailLength {
		w.trail = append(w.trail[:0], w.trail[trailLength/2:]...)
	}
}

func (b *bot) fellBack(g torus.Grid, at torus.Pos, now time.Time) {
	w := b.whereabouts
	allowed := int64(Tolerance)
	if !b.left {
		allowed += int64((undone + b.swarm.storeAway(w.said.Add(-undone), now)).Seconds() * walkingSpeed)
	}
	nearest := int64(1 << 62)
	walk := w.walk
	for range min(int(now.Sub(w.said)/tickTime)+1, longestWalk) {
		nearest = min(nearest, g.Chebyshev(walk.At, at))
		if nearest <= Tolerance || len(walk.Waypoints) == 0 {
			break
		}
		walk.Ticks(g, 1)
	}
	b.swarm.count.setback = max(b.swarm.count.setback, nearest)
	if nearest > allowed {
		b.swarm.violate(b, nil, Setback, b.truth.entity, fmt.Sprintf("it is at %v, %d m from all places where it can have been since it was at %v %v ago; %d m may be undone",
			at, nearest, w.walk.At, now.Sub(w.said).Round(time.Millisecond), allowed))
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
