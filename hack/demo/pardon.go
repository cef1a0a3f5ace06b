package main

import (
	"slices"
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

// lateSights are what a cut between nodes brings about: the delay of the link is as long as the cut, and what is seen over it
// is as old.
var lateSights = []client.ViolationKind{bots.Invisible, bots.Misplaced, bots.SaidHole}

// strayTicks are what clients see whose gateway counts ticks by a clock that jumped while nobody else saw time pass.
var strayTicks = []client.ViolationKind{client.Teleport, bots.Misplaced, bots.Setback}

// forgive takes what is pardoned out of a report of bots that began at a time, and says how much that was.
func forgive(r *bots.Report, began time.Time, pardons []pardon) int {
	kept := r.Violations[:0:0]
	for _, v := range r.Violations {
		at := began.Add(time.Duration(v.After))
		if slices.ContainsFunc(pardons, func(p pardon) bool { return p.covers(&v, at) }) {
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
