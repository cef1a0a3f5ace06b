package simtest

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Trace is what happened in a run, line by line, for people. The same run gives the same bytes.
type Trace struct {
	c *Cluster
	// Quiet says which transitions are left out: at first those of subscriptions and of calls that go well.
	Quiet func(zone.Point) bool
	// Watch, if there is one, is told of every transition, also of those that are left out.
	Watch func(*Node, zone.Happened)

	b     strings.Builder
	names map[ecs.EntityID]string
}

// Record begins a trace of the cluster.
func (c *Cluster) Record() *Trace {
	c.trace = &Trace{c: c, Quiet: quiet, names: map[ecs.EntityID]string{}}
	return c.trace
}

// quiet is what happens all the time and goes well.
func quiet(p zone.Point) bool {
	switch p {
	case zone.SubscriptionAsked, zone.SubscriptionDone, zone.SubscriptionBurst, zone.SubscriptionReleased, zone.SubscriptionAgain,
		zone.SubscriptionMoved, zone.SubscriptionWaits, zone.CallSent, zone.CallAnswered, zone.CallWait, zone.HandoffUnanswered, zone.CommandAnswered:
		return true
	}
	return false
}

// String is the trace so far.
func (t *Trace) String() string { return t.b.String() }

// Take returns and forgets the trace so far.
func (t *Trace) Take() string {
	s := t.b.String()
	t.b.Reset()
	return s
}

// Hash is a fingerprint of the trace so far.
func (t *Trace) Hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.b.String()))
	return h.Sum64()
}

// say adds a line about the world.
func (c *Cluster) say(format string, args ...any) {
	if t := c.trace; t != nil {
		fmt.Fprintf(&t.b, "%10.3f  %s\n", c.Now().Seconds(), strings.ReplaceAll(fmt.Sprintf(format, args...), World+"-zone-", "node "))
	}
}

// name calls an entity by the order in which the trace met it: ids say little to a reader.
func (t *Trace) name(id ecs.EntityID) string {
	s, known := t.names[id]
	if !known {
		s = fmt.Sprintf("e%d", len(t.names)+1)
		t.names[id] = s
	}
	return s
}

func (t *Trace) happened(n *Node, h zone.Happened) {
	if t == nil {
		return
	}
	if t.Watch != nil {
		t.Watch(n, h)
	}
	if t.Quiet(h.Point) {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v", n.Session(), h.Point)
	if h.Entity != 0 {
		fmt.Fprintf(&b, " %s", t.name(h.Entity))
	}
	if (h.Epoch != zone.Epoch{}) {
		fmt.Fprintf(&b, " @%d.%d", h.Epoch.Recoveries, h.Epoch.Transfers)
	}
	if h.Account != 0 {
		fmt.Fprintf(&b, " account %d", h.Account)
	}
	if h.Number != 0 {
		fmt.Fprintf(&b, " #%d", h.Number)
	}
	if h.Peer != "" {
		fmt.Fprintf(&b, " %s", h.Peer)
	}
	if h.Place != 0 {
		fmt.Fprintf(&b, " place %d", h.Place)
	}
	t.c.say("%s", b.String())
}
