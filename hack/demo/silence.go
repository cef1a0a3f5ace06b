package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// The external checker of invariant 7: it knows the deadlines of all nodes from what the API server recorded, and looks for
// anything that a node did between a deadline and its next renewal.

const (
	// onItsWay is how long after a deadline something may be seen that was begun before it: the node compares its clock right
	// before it writes, and then the kernel, and for the store its queue, take their time.
	onItsWay = 50 * time.Millisecond
	// powerTime is how long before a deadline a node must have been seen to act, or its silence shows nothing.
	powerTime = 10 * time.Second
	// crookedBy is how far a node's own word of the time may be from the API server's before it is not believed: its clock
	// was made to jump.
	crookedBy = time.Second
)

// silence is a time in which a node has to be silent.
type silence struct {
	Node    string `json:"node"`
	Life    int32  `json:"life"`
	address netip.Addr
	from    time.Time
	until   time.Time
	Seconds float64 `json:"seconds"`
	// Before and After count what the node did before its deadline and after.
	Before map[string]int `json:"before"`
	After  map[string]int `json:"after"`
	// Last is when it was last seen to act, in milliseconds after its deadline; negative: before.
	Last float64 `json:"lastMilliseconds"`
	why  string
}

// kindLease is a write of a region Lease, among the kinds of traffic.
const (
	kindLease = "writes of region leases"
	kindStore = "writes of the store"
)

// silences finds the times in which nodes had to be silent: between a deadline and the next renewal. jumps are the times at
// which a node's deadline passed because its clock jumped.
func silences(writes []leaseWrite, renewDeadline time.Duration, jumps map[netip.Addr][]time.Time, end time.Time) []silence {
	byNode := map[netip.Addr][]leaseWrite{}
	for _, w := range writes {
		if w.ofSession() && w.done {
			byNode[w.from] = append(byNode[w.from], w)
		}
	}
	var list []silence
	for address, renewals := range byNode {
		for i, w := range renewals {
			if w.holder == "" { // released, or revoked by the operator
				continue
			}
			next := end
			if i+1 < len(renewals) {
				next = renewals[i+1].received
			}
			if s, ok := w.silence(renewDeadline, jumps[address], next); ok {
				s.address = address
				list = append(list, s)
			}
		}
	}
	slices.SortFunc(list, func(a, b silence) int { return a.from.Compare(b.from) })
	return list
}

// silence is what follows a renewal, if it was not followed by another one in time.
func (w *leaseWrite) silence(renewDeadline time.Duration, jumps []time.Time, next time.Time) (silence, bool) {
	began := w.renewed
	if d := w.received.Sub(began); d < 0 || d > crookedBy {
		began = w.received
	}
	s := silence{Node: w.lease, Life: w.life, from: began.Add(renewDeadline), until: next, why: "not renewed"}
	for _, jump := range jumps {
		if jump.After(w.answered) && jump.Before(s.from) {
			s.from, s.why = jump, "its clock jumped"
		}
	}
	s.Seconds = s.until.Sub(s.from).Seconds()
	return s, s.until.After(s.from.Add(onItsWay))
}

// count puts what was seen into the silences.
func (s *silence) count(kind string, from netip.Addr, at time.Time) {
	if from != s.address || at.After(s.until) {
		return
	}
	if s.Before == nil {
		s.Before, s.After, s.Last = map[string]int{}, map[string]int{}, -powerTime.Seconds()*1e3
	}
	after := at.Sub(s.from)
	switch {
	case after > onItsWay:
		s.After[kind]++
	case after > -powerTime:
		s.Before[kind]++
	default:
		return
	}
	s.Last = max(s.Last, float64(after.Microseconds())/1e3)
}

// broken says what the node did in its silence, or nothing.
func (s *silence) broken() string {
	if len(s.After) == 0 {
		return ""
	}
	return fmt.Sprintf("%s#%d acted after its deadline (%s): %v, the last %.0f ms after it, %.1f s before its next renewal",
		s.Node, s.Life, s.why, s.After, s.Last, s.until.Sub(s.from).Seconds()-s.Last/1e3)
}
