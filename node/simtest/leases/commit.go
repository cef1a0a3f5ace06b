package leases

import "math"

// commit is a region's Lease on its way to another session.
type commit struct {
	to    string
	life  life
	epoch uint64
	stage string
	sent  bool // a write of it may take effect any time
	done  func(kept bool, reason string)
}

// Commit hands the Lease of a region over to a session, with a stage. It mirrors fence.Regions.Commit: a write whose outcome is not
// known, or that was refused, is settled by another one that names this session again; done is told once it is known for good, and
// whether the region is this session's as before.
func (p *Process) Commit(region int, epoch uint64, to string, stage string, done func(kept bool, reason string)) {
	c := &commit{epoch: epoch, to: to, life: p.api.lifeOf(to), stage: stage, done: done}
	p.tryCommit(region, c, 1)
}

// tryCommit makes the nth attempt.
func (p *Process) tryCommit(region int, c *commit, n int) {
	if p.busy[region] || p.writes == maxWrites {
		p.after(firstBackoff, func() { p.tryCommit(region, c, n) })
		return
	}
	l := p.view.leases[p.api.regionSlot(region)]
	mine := l.holder == p.session
	switch {
	case l.holder == c.to && l.stage == c.stage:
		p.tell(func() { c.done(false, "") })
		return
	case !l.exists() || !mine || uint64(l.transitions) != c.epoch:
		p.tell(func() { c.done(false, "the region is not held any more") })
		return
	case !c.sent && (l.target != c.life.ordinal || l.transitions == math.MaxInt32):
		p.tell(func() { c.done(true, "the order was taken back") })
		return
	case p.passed():
		p.after(firstBackoff, func() { p.tryCommit(region, c, n) })
		return
	}
	settling := c.sent
	if c.sent = true; settling {
		l.stage = ""
	} else {
		l.holder, l.life, l.transitions, l.stage = c.to, c.life, l.transitions+1, c.stage
	}
	p.write(region, l, func(o outcome) {
		if o == done {
			p.release(region)
			if settling {
				p.api.counters.Settled++
			} else {
				p.api.counters.Committed++
			}
			p.tell(func() { c.done(settling, "it was settled") })
			return
		}
		p.after(backoff(n), func() {
			p.release(region)
			p.tryCommit(region, c, n+1)
		})
	})
}

// lifeOf finds whose session that is.
func (a *API) lifeOf(session string) life {
	for l, name := range a.sessions {
		if name == session {
			return l
		}
	}
	return life{nobody, 0}
}
