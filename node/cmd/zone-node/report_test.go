package main

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

func TestAWishToDrainIsAnsweredAndForgottenWithIt(t *testing.T) {
	zn := &v1alpha1.ZoneNode{}
	zn.Spec.DrainReasons = []v1alpha1.DrainReason{v1alpha1.DrainUser}
	answerDrain(zn)
	c := meta.FindStatusCondition(zn.Status.Conditions, v1alpha1.ConditionDrained)
	if c == nil || c.Reason != v1alpha1.ReasonNotActedOn {
		t.Fatalf("condition %+v", c)
	}
	zn.Spec.DrainReasons = nil
	answerDrain(zn)
	if len(zn.Status.Conditions) != 0 {
		t.Errorf("the answer stays without the wish: %+v", zn.Status.Conditions)
	}
}

func TestSlowTicksAreForgottenWithTheReportThatToldThem(t *testing.T) {
	m := newTickMetrics(prometheus.NewRegistry())
	ticks := func(n int, seconds float64) {
		for range n {
			m.step.Observe(seconds)
		}
	}
	if got := m.counts().since(tickCounts{}).p99(); got != 0 {
		t.Errorf("without a tick: %d", got)
	}
	ticks(1000, .2)
	told := m.counts()
	if got := told.since(tickCounts{}).p99(); got != 250_000 {
		t.Errorf("the first report: %d, want the bound above 200 ms", got)
	}
	ticks(100, .001)
	if got := m.counts().since(told).p99(); got != 1000 {
		t.Errorf("after the node has caught up: %d, want 1 ms", got)
	}
	told = m.counts()
	ticks(98, .001)
	ticks(2, 3)
	if got := m.counts().since(told).p99(); got != math.MaxInt32 {
		t.Errorf("two of a hundred beyond the last bucket: %d", got)
	}
	if got := m.counts().since(m.counts()).p99(); got != 0 {
		t.Errorf("no tick since the last report: %d", got)
	}
}
