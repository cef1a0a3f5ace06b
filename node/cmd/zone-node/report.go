package main

import (
	"context"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/zone"
)

const (
	// reportPeriod is the shortest time between two writes of the ZoneNode's status.
	reportPeriod = 10 * time.Second
	// firstReport comes soon, so that a new node is seen.
	firstReport = 2 * time.Second
)

// report writes the ZoneNode's status until ctx ends. Nothing waits for it, and a failure is tried again next time.
func (n *node) report(ctx context.Context, kube *rest.Config) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		n.log.Error("no reports: the API types cannot be registered", "error", err)
		return
	}
	cfg := rest.CopyConfig(kube)
	cfg.Timeout = 5 * time.Second
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	wait, told := firstReport, tickCounts{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = reportPeriod
		if err != nil { // discovery needs the API server, which may be away at the start
			c, err = client.New(cfg, client.Options{Scheme: scheme})
			continue
		}
		if n.clock.Boottime() < n.deadline() {
			told = n.reportOnce(ctx, c, told)
		}
	}
}

// reportOnce writes the status once, and returns the steps that are told by now; told are those of the reports before.
func (n *node) reportOnce(ctx context.Context, c client.Client, told tickCounts) tickCounts {
	snap := n.snapshot.Load()
	if snap == nil {
		return told
	}
	zn := &v1alpha1.ZoneNode{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: n.cfg.namespace, Name: n.cfg.podName}, zn); err != nil {
		n.log.Warn("the ZoneNode cannot be read", "error", err)
		return told
	}
	before, ticks := zn.DeepCopy(), n.ticks.counts()
	n.fill(&zn.Status, snap)
	zn.Status.TickP99Microseconds = ticks.since(told).p99()
	answerDrain(zn)
	zn.Status.ObservedGeneration = zn.Generation
	if err := c.Status().Patch(ctx, zn, client.MergeFrom(before)); err != nil {
		n.log.Warn("the ZoneNode's status cannot be written", "error", err)
		return told
	}
	return ticks
}

func (n *node) fill(st *v1alpha1.ZoneNodeStatus, snap *snapshot) {
	s := &snap.stats
	st.Session, st.Incarnation = n.session.Session(), n.session.Incarnation()
	st.Regions, st.Entities, st.Players = int32(s.Regions), int32(s.Entities), int32(s.Clients)
	st.LeaseMarginMilliseconds = int32(n.session.LeaseMargin(n.clock.Boottime()).Milliseconds())
	st.Handoffs = v1alpha1.HandoffCounters{
		Sent: int64(s.Handoffs), Received: int64(s.HandoffsReceived), Refused: int64(s.HandoffsRefused),
		AuthorityGapP99Microseconds: int32(gapQuantile(s, .99).Microseconds()),
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSessionHeld, Message: "the node simulates and serves players.", ObservedGeneration: st.ObservedGeneration}
	if !n.ready.Load() {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonStopping, "the node saves and gives its regions back."
	}
	meta.SetStatusCondition(&st.Conditions, ready)
}

// answerDrain says what becomes of the wish to drain this node: this version does not act on it.
func answerDrain(zn *v1alpha1.ZoneNode) {
	if len(zn.Spec.DrainReasons) == 0 {
		meta.RemoveStatusCondition(&zn.Status.Conditions, v1alpha1.ConditionDrained)
		return
	}
	meta.SetStatusCondition(&zn.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDrained, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotActedOn, ObservedGeneration: zn.Generation,
		Message: "this version does not move regions that are held, so the node keeps its own. Deleting its pod gives them to other nodes that live, if there are any.",
	})
}

// tickCounts count the steps of some time by how long they took.
type tickCounts struct {
	// bounds of the buckets, in seconds, and how many steps took at most that.
	bounds []float64
	within []uint64
	steps  uint64
}

// counts are those of the whole life of the process.
func (m *tickMetrics) counts() tickCounts {
	var d dto.Metric
	if err := m.step.Write(&d); err != nil {
		return tickCounts{}
	}
	h := d.GetHistogram()
	c := tickCounts{steps: h.GetSampleCount()}
	for _, b := range h.Bucket {
		c.bounds = append(c.bounds, b.GetUpperBound())
		c.within = append(c.within, b.GetCumulativeCount())
	}
	return c
}

// since are the steps that came after earlier counts, which may be none.
func (c tickCounts) since(earlier tickCounts) tickCounts {
	if len(earlier.within) != len(c.within) {
		return c
	}
	fresh := tickCounts{bounds: c.bounds, within: make([]uint64, len(c.within)), steps: c.steps - earlier.steps}
	for i, n := range c.within {
		fresh.within[i] = n - earlier.within[i]
	}
	return fresh
}

// p99 is the bucket bound below which 99 of 100 steps stayed, in microseconds; 0 if there was none.
func (c tickCounts) p99() int32 {
	if c.steps == 0 {
		return 0
	}
	for i, bound := range c.bounds {
		if float64(c.within[i]) >= .99*float64(c.steps) {
			return int32(bound * 1e6)
		}
	}
	return math.MaxInt32
}

// gapQuantile is the upper bound of the bucket that holds the quantile of the authority gap; 0 without handoffs.
func gapQuantile(s *zone.Stats, q float64) time.Duration {
	var total, seen uint64
	for _, n := range s.Phases[zone.PhaseGap] {
		total += n
	}
	for i, n := range s.Phases[zone.PhaseGap] {
		seen += n
		if total > 0 && float64(seen) >= q*float64(total) {
			return time.Duration(i+1) * zone.GapBucket
		}
	}
	return 0
}
