package moves

import (
	"time"

	"github.com/spatialcells/spatialcells/controllers/placement"
)

// Reason is why a region waits, or why an order was taken back.
type Reason string

// Why a region that is away is not on its way.
const (
	// Turn: as many regions are on their way as may be.
	Turn Reason = "Turn"
	// Window: no maintenance window is open, or what is left of it is too short.
	Window Reason = "Window"
	// Invalid: the maintenance windows cannot be read.
	Invalid Reason = "Invalid"
	// Paused: the operator does nothing but failover.
	Paused Reason = "Paused"
	// BackingOff: orders to that node were in vain, and it is too early for another one.
	BackingOff Reason = "BackingOff"
	// HolderAway: the node that should have it cannot take it: it does not live, is not ready, or drains.
	HolderAway Reason = "HolderAway"
	// HolderSilent: the node that has it does not renew.
	HolderSilent Reason = "HolderSilent"
	// NoCapacity: the node that should have it falls behind already.
	NoCapacity Reason = "NoCapacity"
)

// Why an order is taken back.
const (
	// NoLongerWanted: the assignment names another node now.
	NoLongerWanted Reason = "NoLongerWanted"
	// TimedOut: the region had not gone after Timeout.
	TimedOut Reason = "TimedOut"
	// NodeAway: the node that it was ordered to can no longer take it.
	NodeAway Reason = "NodeAway"
)

// Region is what is known of one region.
type Region struct {
	// Holder is the node whose session holds it, placement.Nobody if none does.
	Holder int32
	// Target is the node that the order in force names, placement.Nobody if it names none.
	Target int32
	// Wanted is the node that the assignment in force names.
	Wanted int32
	// Taken is when the holder took it, zero if that is not known.
	Taken time.Time
	Note  Note
	// Unsettled: a write on its Lease was sent, and nobody knows what became of it.
	Unsettled bool
}

// ordered tells whether the region is on its way.
func (r Region) ordered() bool { return r.Target >= 0 && r.Target != r.Holder }

// Node is what is known of one node.
type Node struct {
	// Live: it renews its session, so it can give and take.
	Live bool
	// Takes: it is wanted and does not drain, so what is on its way to it may arrive.
	Takes bool
	// Ready: moves to it may begin.
	Ready bool
	// Slow: it falls behind already.
	Slow bool
}

// Situation is all that a decision rests on.
type Situation struct {
	Grid placement.Grid
	// Regions, by index in the grid.
	Regions []Region
	// Nodes, by ordinal. One beyond the end is none.
	Nodes []Node
	Now   time.Time
	// Limit is how many regions may be on their way.
	Limit int
	// Timeout is how long an order stands.
	Timeout time.Duration
	// Hold is why no move may begin now, empty if it may.
	Hold Reason
}

// Kind is what a Step does.
type Kind int

const (
	// Order sends a region on its way.
	Order Kind = iota
	// TakeBack lets it stay with its holder.
	TakeBack
	// Mend leaves the order as it is and writes its note anew: the note could not be read, or it must be settled whether a
	// former write still comes.
	Mend
)

// Step is one write on a region Lease.
type Step struct {
	Kind     Kind
	Region   int
	From, To int32
	// Target is whom the Lease shall name, Note what it shall carry.
	Target int32
	Note   Note
	// Why is why the order is taken back.
	Why Reason
}

// Plan is a decision.
type Plan struct {
	// Steps, by region.
	Steps map[int]Step
	// Moving are the regions that are on their way when the steps are done.
	Moving []int
	// Waiting are those that are away and are not, by what they wait for.
	Waiting map[Reason][]int
	// Next is when an order or a wait is over by itself, zero if none is.
	Next time.Time
}

// Decide makes a plan.
func Decide(s Situation) Plan {
	p := &planner{Situation: s, plan: Plan{Steps: map[int]Step{}, Waiting: map[Reason][]int{}}}
	for i, r := range s.Regions {
		switch {
		case r.Holder < 0: // nobody's to give
		case r.ordered():
			p.taken++
			p.review(i, r)
		default:
			p.consider(i, r)
		}
	}
	p.begin()
	return p.plan
}

type planner struct {
	Situation

	plan Plan
	// taken counts the slots in use.
	taken int
	// ready are the regions that only wait for a slot. Those that have one already are in front: unsettled orders.
	ready, unsettled []int
}

// review decides whether an order stands.
func (p *planner) review(i int, r Region) {
	var why Reason
	node := p.node(r.Target)
	since := r.Note.At
	unknown := r.Note.IsZero() || r.Note.To != r.Target || since.Sub(p.Now) > p.Timeout
	switch {
	case r.Wanted != r.Target && p.Hold != Paused: // an edit while paused waits as a whole
		why = NoLongerWanted
	case !node.Live || !node.Takes:
		why = NodeAway
	case !unknown && p.Now.Sub(since) >= p.Timeout:
		why = TimedOut
	}
	if why != "" {
		p.takeBack(i, r, why)
		return
	}
	if unknown {
		since = p.Now
		p.plan.Steps[i] = Step{Kind: Mend, Region: i, From: r.Holder, To: r.Target, Target: r.Target, Note: Note{To: r.Target, At: since}}
	}
	p.plan.Moving = append(p.plan.Moving, i)
	p.wake(since.Add(p.Timeout))
}

func (p *planner) takeBack(i int, r Region, why Reason) {
	step := Step{Kind: TakeBack, Region: i, From: r.Holder, To: r.Target, Target: r.Holder, Why: why}
	if why != NoLongerWanted {
		step.Note = Note{To: r.Target, At: p.Now, Failures: 1, Why: why}
		if r.Note.To == r.Target {
			step.Note.Failures += r.Note.Failures
		}
		p.wait(i, BackingOff)
		p.wake(step.Note.Retry())
	} else if r.Wanted >= 0 && r.Wanted != r.Holder {
		p.wait(i, Turn)
	}
	p.plan.Steps[i] = step
}

// consider decides what a region that is not on its way waits for, if it should go at all.
func (p *planner) consider(i int, r Region) {
	if r.Unsettled {
		p.taken++ // it may be on its way
	}
	away := r.Wanted >= 0 && r.Wanted != r.Holder
	why := Reason("")
	if away {
		why = p.obstacle(r)
	}
	switch {
	case away && why == "" && r.Unsettled:
		p.unsettled = append(p.unsettled, i)
		return
	case away && why == "":
		p.ready = append(p.ready, i)
		return
	case away:
		p.wait(i, why)
	}
	if r.Unsettled {
		note := r.Note
		note.At = p.Now
		p.plan.Steps[i] = Step{Kind: Mend, Region: i, From: r.Holder, To: r.Wanted, Target: r.Holder, Note: note}
	}
}

// obstacle is what keeps a region where it is, besides slots.
func (p *planner) obstacle(r Region) Reason {
	to := p.node(r.Wanted)
	if r.Note.To == r.Wanted && r.Note.Failures > 0 && p.Now.Before(r.Note.Retry()) {
		p.wake(r.Note.Retry())
		return BackingOff
	}
	switch {
	case !to.Live || !to.Takes || !to.Ready:
		return HolderAway
	case !p.node(r.Holder).Live:
		return HolderSilent
	case to.Slow:
		return NoCapacity
	}
	return p.Hold
}

// begin orders as many regions as there are slots.
func (p *planner) begin() {
	for _, i := range p.unsettled {
		p.order(i)
	}
	if p.taken < p.Limit && len(p.ready) > 0 {
		c := newChooser(p)
		for ; p.taken < p.Limit && len(p.ready) > 0; p.taken++ {
			p.order(c.choose())
		}
	}
	for _, i := range p.ready {
		p.wait(i, Turn)
	}
}

func (p *planner) order(i int) {
	r := p.Regions[i]
	note := Note{To: r.Wanted, At: p.Now}
	if r.Note.To == r.Wanted && !r.Note.IsZero() {
		note.Failures, note.Why = r.Note.Failures, r.Note.Why
	}
	p.plan.Steps[i] = Step{Kind: Order, Region: i, From: r.Holder, To: r.Wanted, Target: r.Wanted, Note: note}
	p.plan.Moving = append(p.plan.Moving, i)
	p.wake(p.Now.Add(p.Timeout))
}

func (p *planner) wait(i int, why Reason) { p.plan.Waiting[why] = append(p.plan.Waiting[why], i) }

func (p *planner) wake(at time.Time) {
	if p.plan.Next.IsZero() || at.Before(p.plan.Next) {
		p.plan.Next = at
	}
}

func (p *planner) node(ordinal int32) Node {
	if ordinal < 0 || int(ordinal) >= len(p.Nodes) {
		return Node{}
	}
	return p.Nodes[ordinal]
}
