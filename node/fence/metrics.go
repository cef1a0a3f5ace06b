package fence

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what a zone node reports about its fence. A nil *Metrics reports nothing.
type Metrics struct {
	renewSeconds prometheus.Histogram
	selfFences   prometheus.Counter
	takes        *prometheus.CounterVec
	margin       atomic.Pointer[func() time.Duration]
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		renewSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "spatialcells_lease_renew_duration_seconds",
			Help:    "Time that attempts to renew the session lease took, failed ones included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		selfFences: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spatialcells_self_fences_total",
			Help: "How often the deadline of the session passed, which freezes the node, or the session was lost.",
		}),
		takes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spatialcells_region_takes_total",
			Help: "Attempts to take a region, by result: taken, inherited, conflict, refused, unknown, fenced.",
		}, []string{"result"}),
	}
	margin := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "spatialcells_lease_margin_seconds",
		Help: "Time left until the deadline of the session, 0 when the node is frozen.",
	}, m.marginSeconds)
	registry.MustRegister(m.renewSeconds, m.selfFences, m.takes, margin)
	return m
}

func (m *Metrics) marginSeconds() float64 {
	if margin := m.margin.Load(); margin != nil {
		return (*margin)().Seconds()
	}
	return 0
}

func (m *Metrics) observeMargin(margin func() time.Duration) {
	if m != nil {
		m.margin.Store(&margin)
	}
}

func (m *Metrics) renewTook(d time.Duration) {
	if m != nil {
		m.renewSeconds.Observe(d.Seconds())
	}
}

func (m *Metrics) selfFenced() {
	if m != nil {
		m.selfFences.Inc()
	}
}

func (m *Metrics) took(result string) {
	if m != nil {
		m.takes.WithLabelValues(result).Inc()
	}
}
