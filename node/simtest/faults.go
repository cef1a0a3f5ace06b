package simtest

import (
	"github.com/spatialcells/spatialcells/node/zone"
)

// Fault is a class of what can happen to a world.
type Fault uint8

// Classes of faults. What is counted under one happened while it was going on, within two seconds after, or in the very step
// at whose end a trigger let it begin.
const (
	faultNone Fault = iota
	faultCut
	faultOneWay
	faultSlow
	faultKilled
	faultCrashed
	faultPaused
	faultStalled
	faultFenced
	faultNodeCut
	faultAPIAway
	faultAPIErrors
	faultWatchLag
	faultLeaseDeleted
	faultStoreAway
	faultStoreRefuses
	faultStoreSlow
	faultStoreTimeouts
	faultStoreFailover
	faultStoreLost
	faultSocket
	faultCount
)

var faultNames = [faultCount]string{
	"calm", "link cut", "one-way cut", "slow link", "node killed", "crash point", "node paused", "paused mid-step", "fenced",
	"node cut from API", "API away", "API errors", "watch lag", "lease deleted", "store away", "store refuses writes", "store slow",
	"store time-outs", "store failover", "store lost", "socket lost",
}

func (f Fault) String() string { return faultNames[f] }

// lingerTicks is for how long a fault still counts after its end.
const lingerTicks = 40

// faults are what is going on, and how often each transition was taken under each class.
type faults struct {
	going      [faultCount]int
	until      [faultCount]int
	triggers   triggers
	loss       loss
	rewound    bool // the store has lost acknowledged writes of its last moments,
	lostWrites int  // so many, as entries
	Count      Coverage
}

func (f *faults) begin(c *Cluster, class Fault) {
	f.going[class]++
	f.until[class] = c.ticks + lingerTicks
}

func (f *faults) end(c *Cluster, class Fault) {
	f.going[class]--
	f.until[class] = c.ticks + lingerTicks
}

// strike is a fault without a duration.
func (f *faults) strike(c *Cluster, class Fault) { f.until[class] = c.ticks + lingerTicks }

// count notes a fault that the cluster itself sees.
func (n *Node) count(class Fault) { n.c.faults.strike(n.c, class) }

// happened sees every transition of a node's engine.
func (n *Node) happened(h zone.Happened) {
	f := &n.c.faults
	calm := true
	for class := faultNone + 1; class < faultCount; class++ {
		if f.going[class] > 0 || f.until[class] > n.c.ticks {
			f.Count[h.Point][class]++
			calm = false
		}
	}
	if calm {
		f.Count[h.Point][faultNone]++
	}
	f.loss.happened(n, h)
	if !f.loss.replaced(h) {
		n.c.check.happened(n, h)
	}
	n.c.trace.happened(n, h)
	f.triggers.happened(n, h)
	if t := n.trap; t != nil && t.point == h.Point && !t.sprung {
		t.after--
		t.sprung = t.after <= 0
	}
}

// trap lets a process die at a transition, when the step that takes it has got rid of some of what it asked for.
type trap struct {
	point  zone.Point
	after  int
	what   parts
	sprung bool
	died   func()
}

// Trap lets a node die in the step that takes a transition for the nth time from now; died is told.
func (c *Cluster) Trap(n *Node, p zone.Point, nth int, what parts, died func()) {
	if n.Engine != nil {
		n.trap = &trap{point: p, after: nth, what: what, died: died}
	}
}

func (n *Node) spring() {
	t := n.trap
	n.c.say("%s dies at %v", n.Session(), t.point)
	n.c.faults.strike(n.c, faultCrashed)
	if n.Acts() {
		n.release(n.held, t.what)
	}
	n.end()
	if t.died != nil {
		t.died()
	}
}
