package moves

import (
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/controllers/placement"
)

// DefaultEstimate is how long the move of one region is expected to take before any was measured: a few hundred megabytes
// of entities and terrain over a link between two machines, and room for a retry of the cut.
const DefaultEstimate = 5 * time.Second

// measured is how many of the last moves an estimate rests on.
const measured = 32

// precision of an estimate: what is finer changes with every move.
const precision = 100 * time.Millisecond

// Estimate is how long the move of one region is expected to take: the mean of the last moves, by their notes and by when
// the regions were taken, in tenths of a second. A region that was taken over, or came back when the World woke, says nothing.
func Estimate(regions []Region, timeout time.Duration) time.Duration {
	type move struct {
		at   time.Time
		took time.Duration
	}
	var done []move
	for _, r := range regions {
		took := r.Taken.Sub(r.Note.At)
		if r.Holder >= 0 && r.Note.To == r.Holder && !r.Note.IsZero() && took > 0 && took <= timeout {
			done = append(done, move{r.Note.At, took})
		}
	}
	if len(done) == 0 {
		return DefaultEstimate
	}
	slices.SortFunc(done, func(a, b move) int { return b.at.Compare(a.at) })
	done = done[:min(len(done), measured)]
	var sum time.Duration
	for _, m := range done {
		sum += m.took
	}
	mean := sum / time.Duration(len(done))
	return max((mean + precision - 1).Truncate(precision), precision)
}

// Cost is what an edit of the assignment would cost.
type Cost struct {
	// Regions is how many regions move.
	Regions int
	// Duration is how long that takes, once it may begin.
	Duration time.Duration
	// BorderBefore and BorderAfter are the lengths of the borders between nodes, in edges of regions.
	BorderBefore, BorderAfter int
}

// CostOf prices the way from who has the regions now to who should have them. A region that nobody has moves nowhere.
// limit is how many move at once, each in the time of estimate. Into which maintenance window all of it fits is what a
// window.Calendar says about something that takes Duration.
func CostOf(g placement.Grid, now, wanted placement.Table, limit int, estimate time.Duration) Cost {
	before := slices.Clone(now)
	c := Cost{BorderAfter: g.Border(wanted)}
	for i := range before {
		switch {
		case before[i] < 0:
			before[i] = wanted[i]
		case wanted[i] != before[i]:
			c.Regions++
		}
	}
	limit = max(limit, 1)
	c.BorderBefore = g.Border(before)
	c.Duration = time.Duration((c.Regions+limit-1)/limit) * estimate
	return c
}
