package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// What may happen in the middle of the moves: nothing, a zone node is killed, the operator is killed again and again, the API
// server is away for a while.
var amidst = []string{"", "node", "operator", "api"}

const (
	// movesPatience is how long all moves of an edit may take; with trouble in the middle, how long until all is well again.
	movesPatience = 60 * time.Second
	// operatorLife is how long an operator lives that is killed in the middle: long enough to come up and write some orders.
	operatorLife  = 3 * time.Second
	operatorLives = 6
	// apiAway is how long the API server is away.
	apiAway = 5 * time.Second
	// Of the cuts: nobody simulates a region for longer, in the middle and at the 99th percentile. Without trouble.
	cutP50, cutP99 = 60 * time.Millisecond, 150 * time.Millisecond
	// longestTick is how long no step may take while regions move.
	longestTick = 50 * time.Millisecond
)

// region is who has a region, at which epoch, and for which node it is ordered.
type region struct {
	holder string // session
	node   string
	epoch  int32
	target string
}

// moveRegions edits the assignment so that a quarter of all regions is another node's, those in the middle of the crowd first,
// and judges how they get there.
func (d *demo) moveRegions(ctx context.Context, f fault) error {
	was, err := d.regions(ctx)
	if err != nil {
		return err
	}
	want := d.quarterMoved(was)
	d.say(fmt.Sprintf("fault %v: %d of %d regions are assigned to the next node; expected: each moves once, nobody sees more than a pause", f, moved(was, want), len(was)))
	if f.amid != "" {
		d.swarm.Excuse(time.Now().Add(movesPatience))
	}
	d.watch.ask(ctx, d.known())
	before, began := d.watch.sum(), time.Now()
	if err := d.assign(ctx, want); err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- d.trouble(ctx, f) }()
	took, err := d.awaitMoved(ctx, want, began)
	if err = errors.Join(err, <-over); err != nil {
		return err
	}
	return d.judgeMoves(ctx, f, was, want, before, took)
}

// regions are the regions by index, as their Leases say.
func (d *demo) regions(ctx context.Context) ([]region, error) {
	leases, err := d.site.leases(ctx, v1alpha1.LeaseKindRegion)
	if err != nil {
		return nil, err
	}
	list := make([]region, d.grid.Regions())
	for _, l := range leases {
		column, row, err := v1alpha1.ParseRegionLabel(l.Labels[v1alpha1.LabelRegion])
		if err != nil || l.Spec.HolderIdentity == nil || l.Spec.LeaseTransitions == nil {
			continue
		}
		r := region{holder: *l.Spec.HolderIdentity, epoch: *l.Spec.LeaseTransitions, target: l.Annotations[v1alpha1.AnnotationTarget]}
		r.node, _, _ = v1alpha1.ParseSessionID(r.holder)
		list[row*d.grid.Columns()+column] = r
	}
	return list, nil
}

// quarterMoved assigns a quarter of each node's regions to the next one: those nearest to the corner of the map, where the bots are.
func (d *demo) quarterMoved(was []region) []int {
	byNode := map[int][]int{}
	want := make([]int, len(was))
	for i, r := range was {
		_, ordinal, err := v1alpha1.ParseNodeName(r.node)
		if err != nil {
			ordinal = 0
		}
		want[i] = ordinal
		byNode[ordinal] = append(byNode[ordinal], i)
	}
	fromCorner := func(i int) int {
		c, r := i%d.grid.Columns(), i/d.grid.Columns()
		return min(c, d.grid.Columns()-1-c) + min(r, d.grid.Rows()-1-r)
	}
	for ordinal, list := range byNode {
		slices.SortStableFunc(list, func(a, b int) int { return fromCorner(a) - fromCorner(b) })
		for _, i := range list[:len(list)/4] {
			want[i] = (ordinal + 1) % len(d.known())
		}
	}
	return want
}

func moved(was []region, want []int) (n int) {
	for i, r := range was {
		if _, ordinal, err := v1alpha1.ParseNodeName(r.node); err != nil || ordinal != want[i] {
			n++
		}
	}
	return n
}

// assign writes the whole assignment into the World, one area for each region.
func (d *demo) assign(ctx context.Context, want []int) error {
	areas := make([]v1alpha1.Area, len(want))
	for i, ordinal := range want {
		areas[i] = v1alpha1.Area{Ordinal: int32(ordinal), Column: int32(i % d.grid.Columns()), Row: int32(i / d.grid.Columns()), Width: 1, Height: 1}
	}
	return d.edit(ctx, "the assignment", func(w *v1alpha1.World) {
		w.Spec.Assignment = v1alpha1.AssignmentSpec{Policy: v1alpha1.AssignmentManual, Areas: areas}
	})
}

// edit changes the World as a user would; what is for errors.
func (d *demo) edit(ctx context.Context, what string, change func(*v1alpha1.World)) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		w := &v1alpha1.World{}
		if err := d.site.api.Get(ctx, d.site.key, w); err != nil {
			return err //nolint:wrapcheck // RetryOnConflict looks at it
		}
		change(w)
		return d.site.api.Update(ctx, w) //nolint:wrapcheck // RetryOnConflict looks at it
	})
	if err != nil {
		return fmt.Errorf("editing %s of World %s: %w", what, d.site.key.Name, err)
	}
	return nil
}

// trouble does what is to happen in the middle of the moves.
func (d *demo) trouble(ctx context.Context, f fault) error {
	if err := pause(ctx, 1500*time.Millisecond); err != nil {
		return err
	}
	switch f.amid {
	case "node":
		return d.strike(ctx, fault{kind: faultKill, node: 1})
	case "api":
		return d.strike(ctx, fault{kind: faultAPI, length: apiAway})
	case "operator":
		for range operatorLives {
			if err := d.killOperator(ctx); err != nil {
				return err
			}
			if err := pause(ctx, operatorLife); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *demo) killOperator(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := d.site.api.List(ctx, pods, client.MatchingLabels{"app.kubernetes.io/component": "operator"}); err != nil {
		return fmt.Errorf("finding the operator: %w", err)
	}
	for i := range pods.Items {
		if pid, err := d.cluster.PodPID(pods.Items[i].Namespace, pods.Items[i].Name); err == nil {
			return tell(pid, syscall.SIGKILL)
		}
	}
	return nil // it has not come up again since it was killed last
}

// awaitMoved waits until each region is where it should be.
func (d *demo) awaitMoved(ctx context.Context, want []int, began time.Time) (time.Duration, error) {
	missing := "nothing is known"
	for time.Since(began) < movesPatience {
		if err := pause(ctx, pollPeriod); err != nil {
			return 0, err
		}
		now, err := d.regions(ctx)
		if err != nil {
			missing = oneLine(err.Error())
			continue
		}
		n := moved(now, want)
		if n == 0 {
			return time.Since(began), nil
		}
		missing = fmt.Sprintf("%d regions are not where they should be", n)
	}
	return 0, fmt.Errorf("%v after the edit %s", movesPatience, missing)
}

// judgeMoves holds epochs, cuts and ticks to what they should be.
func (d *demo) judgeMoves(ctx context.Context, f fault, was []region, want []int, before reading, took time.Duration) error {
	now, err := d.regions(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil { // what nodes count is shown twice a second
		return err
	}
	d.watch.ask(ctx, d.known())
	sum := d.watch.sum()
	gain := gains(before, sum)
	slow := gain.counts[metricTick] - gain.buckets[metricTick][longestTick.Seconds()]
	p50, p99 := gain.quantile(metricCut, .5), gain.quantile(metricCut, .99)
	d.say(fmt.Sprintf("fault %v: all moved after %.1f s; cut p50 %s, p99 %s of %.0f; %.0f moves came to nothing and were tried again; %.0f of %.0f ticks took over %v",
		f, took.Seconds(), quick(p50), quick(p99), gain.counts[metricCut], gain.counters[metricMoves+"{aborted}"], slow, gain.counts[metricTick], longestTick))
	var bad []error
	for i := range was {
		_, ordinal, _ := v1alpha1.ParseNodeName(was[i].node)
		steps := int32(0)
		if ordinal != want[i] {
			steps = 1
		}
		if got := now[i].epoch - was[i].epoch; got != steps && f.amid != "node" {
			bad = append(bad, fmt.Errorf("the epoch of region %d rose by %d, not %d", i, got, steps))
		}
	}
	if f.amid == "" && (p50 > cutP50.Seconds() || p99 > cutP99.Seconds()) {
		bad = append(bad, fmt.Errorf("the cut takes %s in the middle and %s at the 99th percentile, more than %v and %v", quick(p50), quick(p99), cutP50, cutP99))
	}
	if f.amid == "" && slow > 0 {
		bad = append(bad, fmt.Errorf("%.0f ticks took longer than %v", slow, longestTick))
	}
	if len(bad) > 8 {
		bad = append(bad[:8], fmt.Errorf("and %d more", len(bad)-8))
	}
	return errors.Join(bad...)
}
