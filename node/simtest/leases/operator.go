package leases

import (
	"slices"
	"time"
)

// operator is one controllers.WorldReconciler that believes to lead, with a cache, a clock and observations of its own. A
// reconcile is a chain of requests; the next begins when it has ended.
type operator struct {
	line
	clock Clock
	// cache shows region Leases, and wakes for what changes hands or orders. Sessions are read from the API server.
	cache *view
	seen  observer
	pods  []pod
	// custody is who may act for each region, by its newest version; doubts watches the Leases of which that is not known.
	custody  []custody
	doubts   observer
	silences uint64 // reconciles that found a session silent

	reconciling, again bool
	failures           int // in a row
	alarm              uint64
	next               time.Duration // the wait before the next reconcile
}

// Bounds of controllers.
const (
	readPeriod = LeaseDuration / 5
	maxGap     = LeaseDuration / 2
	// patience is how long a request may take, see controllers.LimitRequests.
	patience = 5 * time.Second
	// conflictWait is when to look again after a conflict.
	conflictWait = 100 * time.Millisecond
	// firstRetry and maxRetry bound the waits after a reconcile that failed.
	firstRetry = 5 * time.Millisecond
	maxRetry   = 2 * time.Second
	// startAllowance is how long a node that was not revoked may take to come up.
	startAllowance = 60 * time.Second
)

func (a *API) startOperator() *operator {
	rate := 0.9 + 0.2*a.options.Rand.Float64()
	o := &operator{
		line:  line{api: a, ordinal: nobody},
		clock: &DriftClock{Timeline: a.options.Timeline, Offset: time.Hour + a.some(time.Hour), Rate: rate},
		pods:  slices.Clone(a.pods),
		seen:  observer{seen: make([]standing, a.options.Nodes)},

		custody: make([]custody, a.options.Grid.Regions()),
		doubts:  observer{seen: make([]standing, a.options.Grid.Regions())},
	}
	o.cache = newView(&o.line, o.wake)
	o.cache.follow()
	return o
}

// seePod takes in what the cache of pods shows.
func (o *operator) seePod(ordinal int, p pod) {
	o.pods[ordinal] = p
	o.wake()
}

// wake asks for a reconcile now, or right after the present one.
func (o *operator) wake() {
	o.again = true
	if !o.reconciling && o.cache.synced {
		o.sleep(0)
	}
}

// sleep sets the alarm; an earlier one is void.
func (o *operator) sleep(d time.Duration) {
	o.alarm++
	alarm := o.alarm
	o.after(d, func() {
		if alarm == o.alarm && !o.reconciling {
			o.reconcile()
		}
	})
}

// scene is what one reconcile knows.
type scene struct {
	sessions, regions []lease
	highest           int32
}

// reconcile mirrors WorldReconciler.Reconcile: regions from the cache first, then sessions from the API server, so that a
// holder that looks dead in the newer read was dead when it looked like the holder.
func (o *operator) reconcile() {
	o.reconciling, o.again, o.next = true, false, readPeriod
	s := &scene{regions: slices.Clone(o.cache.leases[o.api.options.Nodes:])}
	for region, l := range s.regions {
		o.remember(region, l)
	}
	began := o.clock.Boottime()
	var sessions []lease
	o.request(maxGap, func() (lease, outcome) {
		sessions = slices.Clone(o.api.leases[:o.api.options.Nodes])
		s.highest = o.api.highest
		return lease{}, done
	}, func(_ lease, result outcome) {
		if result != done {
			o.restart()
			o.end(false)
			return
		}
		s.sessions = sessions
		ended := o.clock.Boottime()
		o.seen.observe(began, ended, maxGap, s.sessions)
		o.watchDoubts(s, began, ended)
		o.act(s)
	})
}

// restart starts all observations anew.
func (o *operator) restart() {
	o.seen.restart()
	o.doubts.restart()
}

// act mirrors WorldReconciler.act. Its first failure ends it.
func (o *operator) act(s *scene) {
	inTurn([]step{
		func(then func(bool)) { o.revokeSilent(s, then) },
		func(then func(bool)) { o.ensureRegions(s, then) },
		func(then func(bool)) { o.ensureSessions(s, then) },
		func(then func(bool)) { o.settleRegions(s, then) },
	}, o.end)
}

// end plans the next reconcile.
func (o *operator) end(ok bool) {
	o.reconciling = false
	switch {
	case !ok:
		o.next = min(firstRetry<<min(o.failures, 20), maxRetry)
		o.failures++
	case o.again:
		o.next, o.failures = 0, 0
	default:
		o.failures = 0
	}
	o.sleep(o.next)
}

// soon lets the next reconcile come at the latest after d.
func (o *operator) soon(d time.Duration) { o.next = min(o.next, max(d, 0)) }

// step is a part of a reconcile that says in the end whether the rest may follow.
type step func(then func(ok bool))

// inTurn takes steps one after the other, until one fails.
func inTurn(steps []step, then func(ok bool)) {
	if len(steps) == 0 {
		then(true)
		return
	}
	steps[0](func(ok bool) {
		if !ok {
			then(false)
			return
		}
		inTurn(steps[1:], then)
	})
}

// atOnce takes steps all at once, and waits for all.
func atOnce(steps []step, then func(ok bool)) {
	left, all := len(steps), true
	if left == 0 {
		then(true)
		return
	}
	for _, do := range steps {
		do(func(ok bool) {
			left--
			if all = all && ok; left == 0 {
				then(all)
			}
		})
	}
}

// write is one PUT of a region. A conflict is no failure: somebody was faster, or the cache is behind.
func (o *operator) write(region int, next lease, written func(), then func(bool)) {
	o.request(patience, func() (lease, outcome) {
		got, result := o.api.put(operatorWrites, o.api.regionSlot(region), next)
		if result == done {
			written()
		}
		return got, result
	}, func(got lease, result outcome) {
		switch result {
		case done:
			o.remember(region, got)
		case conflict:
			o.soon(conflictWait)
		default:
			o.unsettled(region, next)
		}
		then(result == done || result == conflict)
	})
}

// revokeSilent mirrors revokeSilentSessions.
func (o *operator) revokeSilent(s *scene, then func(bool)) {
	var steps []step
	for ordinal, l := range s.sessions {
		if l.holder == "" {
			continue
		}
		dead := o.provenDead(ordinal, l)
		due := LeaseDuration
		if o.api.mutant.hastyRevoke {
			due /= 2
		}
		if dead || o.seen.unchanged(ordinal) >= due {
			steps = append(steps, func(then func(bool)) { o.revoke(s, ordinal, dead, then) })
		}
	}
	inTurn(steps, then)
}

// revoke mirrors WorldReconciler.revoke: one compare-and-swap. An answer that says neither yes nor no starts all
// observations anew.
func (o *operator) revoke(s *scene, ordinal int, dead bool, then func(bool)) {
	next := s.sessions[ordinal]
	next.holder, next.revoked, next.revokedAt = "", next.transitions, o.api.now()
	settled := false
	o.request(patience, func() (lease, outcome) {
		got, result := o.api.put(operatorWrites, ordinal, next)
		if result == done && dead {
			o.api.counters.RevokedAtOnce++
		} else if result == done {
			o.api.counters.Revoked++
		}
		return got, result
	}, func(got lease, result outcome) {
		switch result {
		case done:
			s.sessions[ordinal] = got
			settled = true
		case conflict:
			o.soon(conflictWait)
			settled = true
		default:
			o.restart()
		}
		then(settled)
	})
}

// provenDead mirrors provenDead: the very pod that holds the session is over, after the session began. Kubernetes keeps
// that time in whole seconds.
func (o *operator) provenDead(ordinal int, l lease) bool {
	p := o.pods[ordinal]
	return p.over && p.uid == l.holder && p.ended.Truncate(time.Second) >= l.acquired
}
