package leases

import "time"

// Weather is what happens to requests and watches, of everybody and by chance. The zero value is calm.
type Weather struct {
	// Stuck, Mute, Refuse409 and Fail500 are shares of all requests, 0 to 1. A stuck one is never answered and lands up to
	// 30 s later; a mute one takes effect and is never answered; a spurious 409 changes nothing; a 500 does or does not.
	Stuck, Mute, Refuse409, Fail500 float64
	// Slow is the share of requests that take up to 4 s, half of it for the answer: some are answered in time.
	Slow float64
	// Lag is how late a watch event may be. Events stay in order, and some come together.
	Lag time.Duration
}

const (
	// mostStuck is how long a stuck request may take to land.
	mostStuck = 30 * time.Second
	// mostSlow is how long a slow one takes.
	mostSlow = 4 * time.Second
	// mostLatency is how long a request or an answer takes in calm weather.
	mostLatency = 5 * time.Millisecond
)

// line is the connection of one process, or operator, to the API server, and what may happen to the process itself.
type line struct {
	api *API
	// ordinal is nobody for an operator.
	ordinal           int
	cut, paused, dead bool
	// waiting is what would have run in the process while it was stopped.
	waiting []func()
}

// run runs fn in the process: now, when it goes on, or never.
func (l *line) run(fn func()) {
	switch {
	case l.dead:
	case l.paused:
		l.waiting = append(l.waiting, fn)
	default:
		fn()
	}
}

// after runs fn in the process after a while.
func (l *line) after(d time.Duration, fn func()) {
	l.api.options.Timeline.After(d, func() { l.run(fn) })
}

// resume lets a stopped process go on. Timers that expired and answers that came meanwhile are found in any order.
func (l *line) resume() {
	if !l.paused {
		return
	}
	l.paused = false
	waiting := l.waiting
	l.waiting = nil
	l.api.options.Rand.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
	for _, fn := range waiting {
		l.after(0, fn)
	}
}

// reaches reports whether bytes pass between the process and the API server.
func (l *line) reaches() bool {
	return !l.api.outage && !l.cut && (l.ordinal == nobody || !l.api.cut[l.ordinal])
}

// fate is what happens to one request.
type fate struct {
	before, after time.Duration
	lost          bool // it never lands
	barred        outcome
	fail          bool // it takes effect, and the answer is a server error
	mute          bool
}

// fated draws the fate of a request that is sent now.
func (a *API) fated(l *line) fate {
	w := a.weather
	f := fate{before: a.some(mostLatency), after: a.some(mostLatency)}
	switch {
	case a.outage:
		a.counters.LostInOutage++
		f.lost = true
	case !l.reaches():
		f.lost, f.mute, f.before = a.chance(0.5), true, RenewPeriod/2+a.some(5*time.Second)
		a.counters.SentWhileCut++
	case a.chance(w.Stuck):
		a.counters.Stuck++
		f.before, f.mute = a.some(mostStuck), true
	case a.chance(w.Mute):
		a.counters.Mute++
		f.mute = true
	case a.chance(w.Slow):
		a.counters.Slow++
		f.before, f.after = a.some(mostSlow/2), a.some(mostSlow/2)
	case a.chance(w.Refuse409):
		a.counters.Refused409++
		f.barred = conflict
	case a.chance(w.Fail500):
		a.counters.Failed500++
		f.fail = a.chance(0.5)
		if !f.fail {
			f.barred = unknown
		}
	}
	return f
}

// request sends a request. apply runs in the API server when it lands, if it does, whatever became of the sender by then;
// answered runs once in the process, with unknown after the time-out.
func (l *line) request(timeout time.Duration, apply func() (lease, outcome), answered func(lease, outcome)) {
	a := l.api
	a.counters.Requests++
	settled := false
	settle := func(got lease, o outcome) {
		if !settled {
			settled = true
			answered(got, o)
		}
	}
	f := a.fated(l)
	l.after(timeout, func() { settle(lease{}, unknown) })
	if f.lost && a.outage { // the connection is refused, as a rule at once
		if a.chance(0.7) {
			l.after(f.before, func() { settle(lease{}, unknown) })
		}
		return
	}
	if f.lost {
		return
	}
	a.options.Timeline.After(f.before, func() {
		got, o := lease{}, f.barred
		switch {
		case a.outage:
			a.counters.LostInOutage++
			return
		case o == 0:
			got, o = apply()
			if o == done && (settled || l.dead) {
				a.counters.LandedLate++
			}
		}
		if f.fail {
			got, o = lease{}, unknown
		}
		if f.mute {
			return
		}
		a.options.Timeline.After(f.after, func() {
			if l.reaches() {
				l.run(func() { settle(got, o) })
			}
		})
	})
}

// some draws a duration from 0 to most.
func (a *API) some(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(a.options.Rand.Int64N(int64(most)))
}

// chance draws whether something of that probability happens; what cannot happen costs no draw.
func (a *API) chance(p float64) bool { return p > 0 && a.options.Rand.Float64() < p }
