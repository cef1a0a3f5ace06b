package main

import (
	"slices"
	"sync"
	"time"

	"github.com/spatialcells/spatialcells/hack/swarm/bots"
	"github.com/spatialcells/spatialcells/node/client"
)

// pardon is what bots may see for a time because of what was done to the world, and which no mark tells them.
type pardon struct {
	from, until time.Time
	kinds       []client.ViolationKind
	// through is the only gateway whose bots may see it; "": any.
	through string
}

// pardons are those of a run whose bots began at a time. Safe for concurrent use.
type pardons struct {
	began time.Time
	mu    sync.Mutex
	list  []pardon
}

func (p *pardons) add(one pardon) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, one)
}

// lateSights are what a cut between nodes brings about: the delay of the link is as long as the cut, and what is seen over it
// is as old.
var lateSights = []client.ViolationKind{bots.Invisible, bots.Misplaced, bots.SaidHole}

// strayTicks are what clients see whose gateway counts ticks by a clock that jumped while nobody else saw time pass.
var strayTicks = []client.ViolationKind{client.Teleport, bots.Misplaced, bots.Setback}

// forgive takes what is pardoned out of a report, and says how much that was.
func (p *pardons) forgive(r *bots.Report) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := r.Violations[:0:0]
	for _, v := range r.Violations {
		at := p.began.Add(time.Duration(v.After))
		if slices.ContainsFunc(p.list, func(p pardon) bool { return p.covers(&v, at) }) {
			r.ViolationCount--
			if r.Kinds[v.Kind]--; r.Kinds[v.Kind] == 0 {
				delete(r.Kinds, v.Kind)
			}
			continue
		}
		kept = append(kept, v)
	}
	n := len(r.Violations) - len(kept)
	r.Violations = kept
	return n
}

func (p *pardon) covers(v *bots.Violation, at time.Time) bool {
	return !at.Before(p.from) && at.Before(p.until) && slices.Contains(p.kinds, v.Kind) && (p.through == "" || p.through == v.Gateway)
}
