package leases

import "time"

// renewal mirrors fence.renewal and the renewing part of fence.Session.
type renewal struct {
	lease lease // the version to write next
	// verify: the last write was answered without taking effect, so read before writing again.
	verify bool
	rounds int
}

const (
	// maxRounds bounds how often a renewal asks again at once, as in fence.
	maxRounds = 4
	// acquireGap is the longest time between two reads of one observation, as in fence.Session.acquire.
	acquireGap = 3 * RenewPeriod
)

// tryAcquire mirrors fence.Session.tryAcquire and fence.acquisition.decide.
func (p *Process) tryAcquire() {
	sent := p.clock.Boottime()
	p.get(p.ordinal, RenewPeriod, func(l lease, o outcome) {
		if o != done {
			p.seen.forget()
			p.after(RenewPeriod/2, p.tryAcquire)
			return
		}
		free := l.holder == "" || l.holder == p.pod
		if !free && p.seen.see(sent, p.clock.Boottime(), l, acquireGap) < LeaseDuration {
			p.after(RenewPeriod/2, p.tryAcquire)
			return
		}
		if !free {
			p.api.counters.WaitedOut++
		}
		p.claim(l)
	})
}

// claim takes the session Lease as the next incarnation. Whatever became of a claim that failed, the next read decides.
func (p *Process) claim(l lease) {
	start := p.clock.Boottime()
	l.holder, l.transitions = p.pod, l.transitions+1
	p.put(p.ordinal, l, RenewPeriod, func(got lease, o outcome) {
		if o != done {
			p.after(RenewPeriod/2, p.tryAcquire)
			return
		}
		p.me = life{p.ordinal, got.transitions}
		p.session = p.api.sessionID(p.me)
		p.first, p.renewal = got, renewal{lease: got}
		p.extend(start)
		p.after(p.until(start+RenewPeriod), p.renew)
		p.startRegions()
		p.ev.Acquired(p.session, p.me.incarnation)
	})
}

// until is how long it is until a reading of the process's clock.
func (p *Process) until(at time.Duration) time.Duration { return at - p.clock.Boottime() }

// extend moves the deadline for a renewal that was sent at start.
func (p *Process) extend(start time.Duration) {
	if p.api.mutant.deadlineFromAnswer {
		start = p.clock.Boottime()
	}
	fenced := p.deadline > 0 && p.passed()
	p.deadline = max(p.deadline, start+RenewDeadline)
	if fenced && !p.passed() {
		p.api.counters.Thawed++
	}
}

// renew makes one attempt: a write, or as many reads and writes in a row as lost answers need.
func (p *Process) renew() {
	p.renewal.rounds = 0
	p.ask()
}

// ask mirrors fence.renewal.next.
func (p *Process) ask() {
	p.renewal.rounds++
	sent := p.clock.Boottime()
	if p.renewal.verify {
		p.get(p.ordinal, RenewPeriod, func(got lease, o outcome) { p.renewalRead(sent, got, o) })
		return
	}
	p.put(p.ordinal, p.renewal.lease, RenewPeriod, func(got lease, o outcome) { p.renewalWritten(sent, got, o) })
}

// renewalWritten mirrors fence.renewal.answered after a write.
func (p *Process) renewalWritten(sent time.Duration, got lease, o outcome) {
	p.renewal.verify = o == conflict || o == refused
	switch {
	case o == conflict:
		p.again(sent)
	case o != done:
		p.later(sent)
	case !p.tenant(got):
		p.lose()
	default:
		p.renewal.lease = got
		p.extend(sent)
		p.after(p.until(sent+RenewPeriod), p.renew)
	}
}

// renewalRead mirrors fence.renewal.answered after a read: what it adopts extends nothing.
func (p *Process) renewalRead(sent time.Duration, got lease, o outcome) {
	p.renewal.verify = false
	switch {
	case o == conflict:
		p.again(sent)
	case o != done:
		p.later(sent)
	case !p.tenant(got):
		p.lose()
	default:
		p.renewal.lease = got
		p.again(sent)
	}
}

// tenant mirrors fence.tenure.of: the Lease still shows this incarnation of this process.
func (p *Process) tenant(l lease) bool {
	return l.uid == p.first.uid && l.holder == p.pod && l.transitions == p.me.incarnation
}

func (p *Process) again(sent time.Duration) {
	if p.renewal.rounds < maxRounds {
		p.ask()
		return
	}
	p.later(sent)
}

func (p *Process) later(sent time.Duration) {
	p.after(max(p.until(sent+RenewPeriod/2), RenewPeriod/20), p.renew)
}
