package leases

import (
	"slices"
	"time"
)

// ensureRegions mirrors ensureRegionLeases: what is lost is made anew above every epoch that was ever used, for who held it
// last. Absence in the cache proves nothing, so it reads first.
func (o *operator) ensureRegions(s *scene, then func(bool)) {
	a := o.api
	if !slices.ContainsFunc(s.regions, func(l lease) bool { return !l.exists() }) {
		then(true)
		return
	}
	read := make([]lease, len(s.regions))
	o.request(patience, func() (lease, outcome) {
		copy(read, a.leases[a.options.Nodes:])
		return lease{}, done
	}, func(_ lease, result outcome) {
		var missing []int
		for region, l := range read {
			o.remember(region, l)
			if l.exists() {
				s.regions[region] = l
			}
			if !s.regions[region].exists() {
				missing = append(missing, region)
			}
		}
		if result != done || len(missing) == 0 {
			then(result == done)
			return
		}
		o.raise(s, func(above int32) { o.recreate(s, missing, above, then) }, then)
	})
}

// raise mirrors raiseHighestEpoch: it persists the bound of epochs and incarnations before anything is numbered under it.
func (o *operator) raise(s *scene, raised func(above int32), failed func(bool)) {
	a, above := o.api, s.highest+1
	o.request(patience, func() (lease, outcome) {
		if a.highest != s.highest { // another operator was faster
			return lease{}, conflict
		}
		a.highest = above + epochStep
		return lease{}, done
	}, func(_ lease, result outcome) {
		if result != done {
			o.soon(conflictWait)
			failed(false)
			return
		}
		s.highest = above + epochStep
		raised(above)
	})
}

func (o *operator) recreate(s *scene, missing []int, epoch int32, then func(bool)) {
	var steps []step
	for _, region := range missing {
		l := o.remade(s, region, epoch)
		steps = append(steps, func(then func(bool)) {
			o.make(o.api.regionSlot(region), l, func(got lease, result outcome) {
				if result != done {
					o.custody[region].unsure = true
				}
				o.remember(region, got)
				s.regions[region] = got
			}, then)
		})
	}
	atOnce(steps, then)
}

// make mirrors createLease: one that exists is just not in the cache yet.
func (o *operator) make(slot int, l lease, made func(lease, outcome), then func(bool)) {
	o.request(patience, func() (lease, outcome) {
		if got, result := o.api.create(slot, l); result == done {
			o.api.counters.Recreated++
			switch {
			case o.api.isSession(slot):
				o.api.counters.StoodIn++
			case got.unordered():
				o.api.counters.Doubted++
			}
			return got, result
		}
		return o.api.get(slot)
	}, func(got lease, result outcome) {
		made(got, result)
		then(result == done)
	})
}

// ensureSessions mirrors ensureSessionLeases: a lost one is made again at once, above every number that was ever used, but
// held by nobody who could write it. Whoever held the lost one may act until its own deadline, so the session is over when
// this very Lease was seen unchanged for a full lease duration: its operator revokes it, or the node's next process takes it.
func (o *operator) ensureSessions(s *scene, then func(bool)) {
	var missing []int
	for ordinal, l := range s.sessions {
		if !l.exists() {
			missing = append(missing, ordinal)
		}
	}
	if len(missing) == 0 {
		then(true)
		return
	}
	o.raise(s, func(above int32) {
		var steps []step
		for _, ordinal := range missing {
			l := lease{transitions: above, target: nobody, holder: lostHolder}
			if o.api.mutant.hastySession {
				l.holder = ""
			}
			steps = append(steps, func(then func(bool)) {
				o.make(ordinal, l, func(got lease, _ outcome) { s.sessions[ordinal] = got }, then)
			})
		}
		inTurn(steps, then)
	}, then)
}

// tenure is what a region Lease's holder amounts to.
type tenure uint8

const (
	free tenure = iota
	held
	orphaned
)

// tenureOf mirrors scene.tenureOf: a session is over if its node's Lease has a later incarnation, or the same one and no
// holder. A lost session Lease proves nothing.
func (s *scene) tenureOf(l lease) tenure {
	if l.holder == "" {
		return free
	}
	session := s.sessions[l.life.ordinal]
	switch {
	case session.lost() || l.life.incarnation > session.transitions:
		return held
	case l.life.incarnation < session.transitions || session.holder == "":
		return orphaned
	}
	return held
}

// settleRegions mirrors WorldReconciler.settleRegions: it frees every region whose holder is not a live session, and writes
// the orders that differ.
func (o *operator) settleRegions(s *scene, then func(bool)) {
	want := o.targets(s)
	var steps []step
	for region, l := range s.regions {
		t, next, count := s.tenureOf(l), l, &o.api.counters
		if !l.exists() || t != orphaned && (want[region] == nobody || want[region] == l.target) {
			continue
		}
		if want[region] != nobody {
			next.target = want[region]
		}
		if t == orphaned {
			next.holder, next.life = "", life{}
		}
		steps = append(steps, func(then func(bool)) {
			o.write(region, next, func() {
				switch {
				case t == orphaned:
					count.Freed++
				case t == free && next.target != o.api.declared[region]:
					count.Redistributed++
				default:
					count.Ordered++
				}
			}, then)
		})
	}
	o.leadHighestEpoch(s)
	atOnce(steps, then)
}

// leadHighestEpoch mirrors scene.leadHighestEpoch, and the write of status that follows.
func (o *operator) leadHighestEpoch(s *scene) {
	highest := int32(0)
	for _, l := range slices.Concat(s.regions, s.sessions) {
		highest = max(highest, l.transitions)
	}
	if highest+epochStep/2 <= s.highest {
		return
	}
	o.request(patience, func() (lease, outcome) {
		if o.api.highest != s.highest {
			return lease{}, conflict
		}
		o.api.highest = highest + epochStep
		return lease{}, done
	}, func(lease, outcome) {})
}

// targets mirrors scene.targets: a held region stays, unless it is to move to a node that lives; a free one waits for the node that the assignment names as long as
// that may come back, then goes to the heir it was promised, or to a new one.
func (o *operator) targets(s *scene) []int {
	want := slices.Clone(o.api.declared)
	var orphans []int
	for region, l := range s.regions {
		switch t := s.tenureOf(l); {
		case !l.exists():
		case t == held:
			if want[region] = l.life.ordinal; o.api.moving[region] && s.sessions[o.api.declared[region]].taken() {
				want[region] = o.api.declared[region]
			}
		case o.doubtful(s, region):
			want[region] = nobody
		case o.expected(s, want[region]):
		case l.target != nobody && s.sessions[l.target].taken():
			want[region] = l.target
		default:
			want[region] = nobody
			orphans = append(orphans, region)
		}
	}
	o.heirs(s, want, orphans)
	return want
}

// expected mirrors scene.expected: a node has a session, or may come back in time.
func (o *operator) expected(s *scene, ordinal int) bool {
	l := s.sessions[ordinal]
	if l.taken() {
		return true
	}
	left := o.api.options.Redistribution
	if !l.lost() {
		left = lostAt(l, left) - o.api.now()
	}
	if left > 0 {
		o.soon(left)
	}
	return left > 0
}

// lostAt mirrors scene.lostAt.
func lostAt(l lease, delay time.Duration) time.Duration {
	if l.revoked == l.transitions && l.revoked != 0 {
		return l.revokedAt + delay
	}
	return max(l.created, l.renewed) + delay + startAllowance
}

// heirs mirrors placement.Heirs and scene.heirs: the least loaded live node takes the orphan nearest to what it has, until
// none is left. Without a live node an orphan stays ordered as it is.
func (o *operator) heirs(s *scene, want, orphans []int) {
	load := make([]int, len(s.sessions))
	for _, ordinal := range want {
		if ordinal != nobody {
			load[ordinal]++
		}
	}
	for orphans = slices.Clone(orphans); len(orphans) > 0; {
		heir := nobody
		for ordinal, l := range s.sessions {
			if l.taken() && o.seen.unchanged(ordinal) <= RenewDeadline && (heir == nobody || load[ordinal] < load[heir]) {
				heir = ordinal
			}
		}
		if heir == nobody {
			return
		}
		k := o.nearest(want, orphans, heir)
		want[orphans[k]] = heir
		orphans = slices.Delete(orphans, k, k+1)
		load[heir]++
	}
}

// nearest is the place of the orphan nearest to what a node has, the first of equals.
func (o *operator) nearest(want, orphans []int, heir int) int {
	best, shortest := 0, 1<<30
	for k, orphan := range orphans {
		for region, ordinal := range want {
			if d := o.distance(orphan, region); ordinal == heir && d < shortest {
				best, shortest = k, d
			}
		}
	}
	return best
}

// distance counts the regions between two, along both axes, the short way round.
func (o *operator) distance(x, y int) int {
	g := o.api.options.Grid
	p, q := g.RegionAt(x), g.RegionAt(y)
	around := func(d, size int) int {
		d = max(d, -d)
		return min(d, size-d)
	}
	return around(int(p.Column-q.Column), g.Columns()) + around(int(p.Row-q.Row), g.Rows())
}
