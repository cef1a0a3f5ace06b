package leases

import (
	"math"
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/node/partition"
)

// Bounds of fence.Regions, and of what zone-node asks of it.
const (
	maxWrites     = 8
	writeTimeout  = 2 * time.Second
	sweepInterval = 2 * time.Second
	firstBackoff  = 100 * time.Millisecond
	maxBackoff    = 5 * time.Second
	raisePatience = 3 * time.Second
)

// published is the last table, as the process was told.
type published struct {
	any  bool
	rows []partition.Row
	// live is the incarnation of each node that lives, 0 if none does.
	live []int32
}

// failure is why a region is left alone for a while.
type failure struct {
	count int
	until time.Duration // by the process's clock
}

// raise is a wish for a higher epoch, atLeast 0 if there is none.
type raise struct {
	atLeast uint64
	until   time.Duration // by the process's clock
}

// regions is the region side of a process: what fence.Regions is.
type regions struct {
	view     *view
	table    published
	buried   map[int]int32 // the latest incarnation of each node that is known dead
	woken    bool
	busy     []bool // a write is in flight or being settled: never two at once
	writes   int
	failures []failure
	raising  []raise
}

func (p *Process) startRegions() {
	n := p.api.options.Grid.Regions()
	p.regions = regions{
		view: newView(&p.line, p.wake), buried: map[int]int32{},
		busy: make([]bool, n), failures: make([]failure, n), raising: make([]raise, n),
	}
	p.view.enter(p.ordinal, p.first)
	p.view.follow()
	p.after(sweepInterval, p.sweep)
}

// wake lets the process look at everything again, once, however much changed.
func (p *Process) wake() {
	if p.woken {
		return
	}
	p.woken = true
	p.after(0, func() {
		p.woken = false
		p.publish()
		p.takeAll()
		for region := range p.raising {
			p.tryRaise(region, 1)
		}
	})
}

// sweep looks at the regions when nothing changes: a process that was fenced takes up what it left.
func (p *Process) sweep() {
	p.takeAll()
	p.after(sweepInterval, p.sweep)
}

// publish mirrors fence.Regions.publish, and what zone-node does with a table: the peers first, then the owners. The first
// table waits until the Leases name everybody.
func (p *Process) publish() {
	waits := !p.table.any && !p.view.complete() && !p.api.mutant.absenceIsDeath && !p.api.mutant.beginsAtOnce
	if !p.view.synced || waits {
		return
	}
	next := p.snapshot()
	if p.table.any && slices.Equal(next.rows, p.table.rows) && slices.Equal(next.live, p.table.live) {
		return
	}
	before := p.table.live
	p.table = next
	p.setPeers(before, next.live)
	table, err := partition.NewTable(p.api.options.Grid, next.rows)
	if err != nil {
		panic("the region table does not fit its own grid: " + err.Error())
	}
	p.tell(func() { p.ev.Table(table) })
}

// snapshot mirrors fence.ledger.table: a region whose holder is not a live session counts as free.
func (p *Process) snapshot() published {
	a := p.api
	t := published{any: true, rows: make([]partition.Row, len(p.busy)), live: p.view.live()}
	for i := range t.rows {
		l := p.view.leases[a.regionSlot(i)]
		if !l.exists() {
			continue
		}
		row := partition.Row{Owner: partition.Owner{Epoch: uint64(l.transitions)}, Target: a.nodeName(l.target)}
		if l.holder != "" && t.live[l.life.ordinal] == l.life.incarnation {
			row.Session, row.Node, row.Stage = l.holder, a.nodeName(l.life.ordinal), l.stage
		}
		t.rows[i] = row
	}
	return t
}

// setPeers mirrors link.SetPeers: who was live and is missing is dead for good, and its successor is somebody else.
func (p *Process) setPeers(before, live []int32) {
	for ordinal, was := range before {
		if was > p.buried[ordinal] && was != live[ordinal] && (life{ordinal, was}) != p.me {
			p.buried[ordinal] = was
			p.tell(func() { p.ev.Dead(p.api.sessionID(life{ordinal, was})) })
		}
	}
	for ordinal, now := range live {
		was := int32(0)
		if before != nil {
			was = before[ordinal]
		}
		if now != was && now > p.buried[ordinal] && (life{ordinal, now}) != p.me {
			p.tell(func() { p.ev.Live(p.api.sessionID(life{ordinal, now})) })
		}
	}
}

// tell tells the process something, unless it was ended in the event before.
func (p *Process) tell(event func()) {
	if !p.dead {
		event()
	}
}

// action is what a node does with a region Lease by itself.
type action uint8

const (
	leave action = iota
	take
	inherit
)

// decideRegion mirrors fence.decideRegion.
func (p *Process) decideRegion(l lease) action {
	switch {
	case !l.exists() || l.transitions == math.MaxInt32:
		return leave
	case l.holder == "" && l.target == p.ordinal:
		return take
	case l.holder != "" && l.life.ordinal == p.ordinal && l.life.incarnation < p.me.incarnation:
		return inherit
	}
	return leave
}

// takeAll mirrors fence.Regions.takeAll.
func (p *Process) takeAll() {
	if p.passed() || !p.view.synced {
		return
	}
	now := p.clock.Boottime()
	for region := range p.busy {
		l := p.view.leases[p.api.regionSlot(region)]
		what := p.decideRegion(l)
		if what == leave || p.busy[region] || now < p.failures[region].until {
			continue
		}
		if p.writes == maxWrites {
			return
		}
		p.take(region, l, what)
	}
}

// take mirrors fence.Regions.take: the outcome is what the API server shows next.
func (p *Process) take(region int, l lease, what action) {
	l.holder, l.life, l.transitions, l.stage = p.session, p.me, l.transitions+1, ""
	p.write(region, l, func(o outcome) {
		p.settle(region, o)
		switch {
		case o == done && what == inherit:
			p.api.counters.Inherited++
		case o == done:
			p.api.counters.Taken++
		case o == unknown:
			p.api.counters.UnknownTakes++
		}
		p.release(region)
	})
}

// write mirrors fence.Regions.put: it enters the answer, and whatever else happened it reads what became of it. The region
// is busy until release.
func (p *Process) write(region int, next lease, finished func(outcome)) {
	p.busy[region] = true
	p.writes++
	slot := p.api.regionSlot(region)
	p.put(slot, next, writeTimeout, func(got lease, o outcome) {
		if o == done {
			p.view.observe(slot, got)
			finished(o)
			return
		}
		p.get(slot, writeTimeout, func(got lease, read outcome) {
			if read == done {
				p.view.observe(slot, got)
			}
			finished(o)
		})
	})
}

func (p *Process) release(region int) {
	p.busy[region] = false
	p.writes--
	p.wake()
}

// settle mirrors fence.Regions.settle: it counts the failures of a region in a row.
func (p *Process) settle(region int, o outcome) {
	if o == done {
		p.failures[region] = failure{}
		return
	}
	count := p.failures[region].count + 1
	p.failures[region] = failure{count: count, until: p.clock.Boottime() + backoff(count)}
	p.after(backoff(count)*6/5, p.wake) // later than the process's clock may say
}

// backoff mirrors fence.backoff.
func backoff(n int) time.Duration {
	if n > 10 {
		return maxBackoff
	}
	return min(firstBackoff<<(n-1), maxBackoff)
}

// Raise asks for a higher epoch of a region that this process holds, because the store knows a fence as high. It mirrors
// fence.Regions.RaiseEpoch under zone-node's patience: what does not succeed in time is forgotten, the engine asks again.
// The new epoch is in a later table.
func (p *Process) Raise(region int, atLeast uint64) {
	if p.dead || p.session == "" || atLeast >= math.MaxInt32 {
		return
	}
	w := &p.raising[region]
	w.atLeast, w.until = max(w.atLeast, atLeast), p.clock.Boottime()+raisePatience
	p.tryRaise(region, 1)
}

// tryRaise makes the nth attempt.
func (p *Process) tryRaise(region, n int) {
	wish := p.raising[region]
	if wish.atLeast == 0 || p.busy[region] || p.writes == maxWrites {
		return // release comes back to it
	}
	now, l := p.clock.Boottime(), p.view.leases[p.api.regionSlot(region)]
	if now >= wish.until || p.passed() || l.holder != p.session || uint64(l.transitions) >= wish.atLeast {
		p.raising[region] = raise{}
		return
	}
	l.transitions = int32(wish.atLeast)
	p.write(region, l, func(o outcome) {
		if o == done {
			p.api.counters.Raised++
			p.release(region)
			return
		}
		p.after(backoff(n), func() {
			p.release(region)
			p.tryRaise(region, n+1)
		})
	})
}
