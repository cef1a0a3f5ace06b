package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// bound is what the rounds of a way are held against: where the end of a node is known the median of the rounds, else each
// of them.
func (o *outcome) bound(lease time.Duration) (limit time.Duration, got float64) {
	if o.Silent {
		return lease + slowFailover, slices.Max(o.Rounds)
	}
	return quickFailover, quantile(o.Rounds, .5)
}

// hold holds the outcomes against their bounds.
func (r *drill) hold(outcomes []*outcome) {
	for _, o := range outcomes {
		limit, got := o.bound(r.leaseDuration())
		if got <= limit.Seconds() {
			continue
		}
		what := "half of the rounds took"
		if o.Silent {
			what = "the slowest round took"
		}
		r.fail("%s: %s %.2f s or more until the last region was simulated again, at most %v may pass", o.Name, what, got, limit)
	}
}

// table shows the outcomes.
func (r *drill) table(outcomes []*outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-42s %6s %8s %8s %8s %8s   %s\n", "seconds until regions are simulated again", "rounds", "p50", "p50", "p99", "max", "bound")
	fmt.Fprintf(&b, "%-42s %6s %8s %8s %8s %8s\n", "", "", "rounds", "regions", "regions", "")
	for _, o := range outcomes {
		if len(o.Rounds) == 0 {
			continue
		}
		limit, _ := o.bound(r.leaseDuration())
		of := "p50 of rounds"
		if o.Silent {
			of = fmt.Sprintf("each: lease %v + %v", r.leaseDuration(), slowFailover)
		}
		fmt.Fprintf(&b, "%-42s %6d %8.2f %8.2f %8.2f %8.2f   %.0f (%s)\n", o.Name, len(o.Rounds), quantile(o.Rounds, .5), quantile(o.All, .5), quantile(o.All, .99), slices.Max(o.All), limit.Seconds(), of)
	}
	return b.String()
}

// quantile is the smallest value that the q-th part of all does not exceed.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}
