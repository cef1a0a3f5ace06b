package leases

import (
	"slices"
	"time"
)

// view is what one process knows of all Leases: a list, and the watch that follows. It mirrors fence.ledger: a version
// never gives way to an older one, so a lagging watch cannot undo what an answered write said.
type view struct {
	line   *line
	leases []lease
	synced bool
	// lives is, by ordinal, which incarnation is live as far as is known, 0 if none is. known is the latest that was heard of,
	// live or over.
	lives, known []int32
	// changed runs in the process when a fact changed.
	changed func()

	queue []sighting
	armed bool
	lists int // failed in a row
}

// sighting is one watch event on its way.
type sighting struct {
	slot int
	due  time.Duration
	lease
}

const (
	// firstRewatch and maxRewatch bound the waits before a broken watch is made anew, as in fence.Regions.
	firstRewatch = 200 * time.Millisecond
	maxRewatch   = 2 * time.Second
	// listTimeout is when a dead connection is noticed by its keep-alive probes, see fence.NewClients.
	listTimeout = 11 * time.Second
)

func newView(l *line, changed func()) *view {
	nodes := l.api.options.Nodes
	return &view{line: l, leases: make([]lease, len(l.api.leases)), lives: make([]int32, nodes), known: make([]int32, nodes), changed: changed}
}

// follow lists and then watches. The list is as late as a watch event may be.
func (v *view) follow() {
	a := v.line.api
	v.line.request(listTimeout, func() (lease, outcome) { return lease{}, done }, func(_ lease, o outcome) {
		if o != done {
			v.lists++
			v.line.after(min(firstRewatch<<min(v.lists-1, 8), maxRewatch), v.follow)
			return
		}
		due := a.now() + a.some(a.weather.Lag)
		for slot, l := range a.leases {
			if !l.exists() {
				l.version = a.version
			}
			v.queue = append(v.queue, sighting{slot, due, l})
		}
		a.views = append(a.views, v)
		v.arm()
	})
}

// tell puts a change on the way to every watch.
func (a *API) tell(slot int, l lease) {
	live := a.views[:0]
	for _, v := range a.views {
		if v.line.dead {
			continue
		}
		live = append(live, v)
		v.expect(slot, l)
	}
	clear(a.views[len(live):])
	a.views = live
}

// expect lets an event come late, never before the one before it, and often together with it.
func (v *view) expect(slot int, l lease) {
	a := v.line.api
	due := a.now() + a.some(mostLatency) + a.some(a.weather.Lag)
	if n := len(v.queue); n > 0 {
		last := v.queue[n-1].due
		if due = max(due, last); due > last && last >= a.now() && a.chance(0.5) {
			due = last
		}
	}
	v.queue = append(v.queue, sighting{slot, due, l})
	v.arm()
}

// arm waits for the next event.
func (v *view) arm() {
	if v.armed || len(v.queue) == 0 {
		return
	}
	v.armed = true
	v.line.after(v.queue[0].due-v.line.api.now(), v.deliver)
}

// deliver takes in what is due, as one change. A watch that is cut off is made anew some time after it can be, and shows
// all it missed at once.
func (v *view) deliver() {
	a := v.line.api
	if !v.line.reaches() {
		a.counters.BrokenWatches++
		v.line.after(firstRewatch+a.some(maxRewatch-firstRewatch), v.deliver)
		return
	}
	v.armed = false
	n, changed := 0, !v.synced
	for n < len(v.queue) && v.queue[n].due <= a.now() {
		changed = v.enter(v.queue[n].slot, v.queue[n].lease) || changed
		n++
	}
	if n > 1 && v.synced {
		a.counters.Coalesced += uint64(n - 1)
	}
	v.synced = true
	v.queue = append(v.queue[:0], v.queue[n:]...)
	v.arm()
	if changed {
		v.changed()
	}
}

// enter mirrors fence.ledger.enter and Delete: it reports whether a fact changed. Of what is deleted the version is kept, so
// an older one that comes later does not count.
func (v *view) enter(slot int, l lease) bool {
	old := v.leases[slot]
	if l.version <= old.version {
		return false
	}
	v.leases[slot] = l
	if v.line.api.isSession(slot) && !l.lost() {
		v.lives[slot], v.known[slot] = 0, l.transitions
		if l.taken() {
			v.lives[slot] = l.transitions
		}
	}
	v.heed()
	return l.says() != old.says()
}

// heed mirrors fence.ledger.heed: who never saw the Lease of a session that is lost takes whom a region Lease names for live,
// unless that session is known to be over.
func (v *view) heed() {
	for _, l := range v.leases[len(v.lives):] {
		ordinal, incarnation := l.life.ordinal, l.life.incarnation
		if l.holder != "" && v.leases[ordinal].lost() && incarnation > v.known[ordinal] {
			v.lives[ordinal], v.known[ordinal] = incarnation, incarnation
		}
	}
}

// live is which incarnation of each node is live, 0 if none is. A lost session Lease says nothing: whoever held it may act
// until its own deadline and does not know, if it is stopped or cut off. So it counts as live until its Lease is another's
// or nobody's.
func (v *view) live() []int32 {
	live := slices.Clone(v.lives)
	if v.line.api.mutant.absenceIsDeath {
		for ordinal := range live {
			if v.leases[ordinal].lost() {
				live[ordinal] = 0
			}
		}
	}
	return live
}

// complete mirrors fence.ledger.unnamed: it tells whether the Leases name everybody who may act. A process that begins waits
// for that: whom they do not name it cannot ask.
func (v *view) complete() bool {
	last := nobody
	for _, l := range v.leases[len(v.lives):] {
		if !l.exists() || l.unordered() {
			return false
		}
		last = max(last, l.target)
		if l.holder != "" {
			last = max(last, l.life.ordinal)
		}
	}
	for ordinal, l := range v.leases[:len(v.lives)] {
		if l.exists() && l.holder != "" {
			last = max(last, ordinal)
		}
	}
	return !slices.ContainsFunc(v.leases[:last+1], func(l lease) bool { return !l.exists() })
}

// observe takes in what an answer showed.
func (v *view) observe(slot int, l lease) {
	if v.enter(slot, l) && v.synced {
		v.changed()
	}
}
