package store

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spatialcells/spatialcells/node/zone"
)

// metrics of a driver. Labels have a fixed set of values.
type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	level    *prometheus.GaugeVec
	held     prometheus.Counter
	depth    prometheus.GaugeFunc
}

// newMetrics makes the collectors and registers them if there is a registry.
func newMetrics(reg prometheus.Registerer, depth func() float64) (*metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "spatialcells", Subsystem: "store", Name: name, Help: help}
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts(
			opts("requests_total", "Answered requests by operation and outcome.")), []string{"op", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "spatialcells", Subsystem: "store", Name: "request_seconds",
			Help:    "Time from asking for an operation to its answer, waiting included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"op"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts(opts("refused_total",
			"Requests that were refused by reason: fence (another has the record or the region), moves (the contents were "+
				"written since), unfitting (the change does not fit the contents), late (this process's own deadline had "+
				"passed, nothing was sent), queue (too many wait).")), []string{"reason"}),
		level: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("durability",
			"1 for what a write that was answered OK may rely on: always, waited, everysec, system, none, unknown.")), []string{"level"}),
		held: prometheus.NewCounter(prometheus.CounterOpts(
			opts("held_batches_total", "Batches of requests that had to wait for the fence."))),
		depth: prometheus.NewGaugeFunc(prometheus.GaugeOpts(
			opts("queue_depth", "Requests that wait for a worker.")), depth),
	}
	for _, why := range refusals {
		m.refused.WithLabelValues(string(why)) // so that it is seen before the first one
	}
	if reg == nil {
		return m, nil
	}
	for i, c := range m.collectors() {
		if err := reg.Register(c); err != nil {
			for _, registered := range m.collectors()[:i] {
				reg.Unregister(registered)
			}
			return nil, fmt.Errorf("registering store metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.latency, m.refused, m.level, m.held, m.depth}
}

// unregister lets a later driver of the same process take the names.
func (m *metrics) unregister(reg prometheus.Registerer) {
	if reg == nil {
		return
	}
	for _, c := range m.collectors() {
		reg.Unregister(c)
	}
}

func (m *metrics) answered(a zone.StoreAnswer, took time.Duration) {
	m.requests.WithLabelValues(opName(a.Op), codeName(a.Code)).Inc()
	m.latency.WithLabelValues(opName(a.Op)).Observe(took.Seconds())
}

// refuse counts a refusal; the empty one is none.
func (m *metrics) refuse(why refusal) {
	if why != "" {
		m.refused.WithLabelValues(string(why)).Inc()
	}
}

// durable shows what the server gives.
func (m *metrics) durable(d durability) {
	for _, other := range durabilities {
		m.level.WithLabelValues(other.level).Set(0)
	}
	m.level.WithLabelValues(d.level).Set(1)
}

func opName(op zone.StoreOp) string {
	switch op {
	case zone.StoreClaimSession:
		return "claim_session"
	case zone.StoreCreate:
		return "create"
	case zone.StoreClaim:
		return "claim"
	case zone.StoreSave:
		return "save"
	case zone.StoreLoadRegion:
		return "load_region"
	case zone.StoreLoad:
		return "load"
	case zone.StoreWrite:
		return "write"
	case zone.StorePeek:
		return "peek"
	}
	return "unknown"
}

func codeName(code zone.StoreCode) string {
	switch code {
	case zone.StoreOK:
		return "ok"
	case zone.StoreConflict:
		return "conflict"
	case zone.StoreMissing:
		return "missing"
	}
	return "unavailable"
}
