package leases

import "time"

// view is what one process knows of all Leases: a list, and the watch that follows. It mirrors fence.ledger: a version
// never gives way to an older one, so a lagging watch cannot undo what an answered write said.
type view struct {
	line   *line
	leases []lease
	synced bool
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
	return &view{line: l, leases: make([]lease, len(l.api.leases)), changed: changed}
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
	return l.says() != old.says()
}

// observe takes in what an answer showed.
func (v *view) observe(slot int, l lease) {
	if v.enter(slot, l) && v.synced {
		v.changed()
	}
}

// live is the incarnation that holds a session Lease, 0 if none does.
func (v *view) live(ordinal int) int32 {
	if l := v.leases[ordinal]; l.holder != "" {
		return l.transitions
	}
	return 0
}
