package link

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label stream.
const (
	streamReplication = "replication"
	streamReliable    = "reliable"
)

// traffic counts the messages of one stream in one direction.
type traffic struct {
	messages, bytes prometheus.Counter
}

func (t traffic) count(size int) {
	t.messages.Inc()
	t.bytes.Add(float64(size))
}

type metrics struct {
	refused   *prometheus.CounterVec
	notQueued *prometheus.CounterVec
	messages  *prometheus.CounterVec
	payload   *prometheus.CounterVec
	written   prometheus.Counter
	lost      prometheus.Counter
	overflows prometheus.Counter
	stale     prometheus.Counter
	repeated  prometheus.Counter
	held      prometheus.Gauge
	roundTrip prometheus.Histogram
	peers     *peerCollector

	replicationIn, replicationOut, reliableIn, reliableOut traffic
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "spatialcells", Subsystem: "link", Name: name, Help: help,
	}, labels)
}

func newMetrics(l *Link) *metrics {
	m := &metrics{
		refused:   counter("refused_total", "Connections refused, by reason, on either side.", "reason"),
		notQueued: counter("reliable_not_queued_total", "Reliable messages refused at the sender.", "reason"),
		messages:  counter("messages_total", "Messages received, or queued to be sent.", "stream", "direction"),
		payload:   counter("payload_bytes_total", "Bytes of messages received, or queued to be sent.", "stream", "direction"),
		written:   counter("written_bytes_total", "Bytes of frames written, before TLS.").WithLabelValues(),
		lost:      counter("lost_total", "Connections that ended and tries to connect that failed.").WithLabelValues(),
		overflows: counter("replication_overflows_total", "Links given up because replication did not fit its queue.").WithLabelValues(),
		stale:     counter("replication_stale_total", "Batches dropped because their stream had ended.").WithLabelValues(),
		repeated:  counter("reliable_repeated_total", "Reliable messages passed over because they had been received.").WithLabelValues(),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "spatialcells", Subsystem: "link", Name: "fence_held",
			Help: "Writers held because the deadline of the session has passed.",
		}),
		roundTrip: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "spatialcells", Subsystem: "link", Name: "round_trip_seconds",
			Help: "Time of a keepalive there and back.", Buckets: prometheus.ExponentialBuckets(0.000_1, 2, 16),
		}),
		peers: newPeerCollector(l),
	}
	m.replicationIn, m.replicationOut = m.traffic(streamReplication, "received"), m.traffic(streamReplication, "sent")
	m.reliableIn, m.reliableOut = m.traffic(streamReliable, "received"), m.traffic(streamReliable, "sent")
	return m
}

func (m *metrics) traffic(stream, direction string) traffic {
	return traffic{m.messages.WithLabelValues(stream, direction), m.payload.WithLabelValues(stream, direction)}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.refused, m.notQueued, m.messages, m.payload, m.written, m.lost, m.overflows, m.stale, m.repeated,
		m.held, m.roundTrip, m.peers,
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for i, c := range m.collectors() {
		if err := r.Register(c); err != nil {
			for _, done := range m.collectors()[:i] {
				r.Unregister(done)
			}
			return err
		}
	}
	return nil
}

func (m *metrics) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.collectors() {
		r.Unregister(c)
	}
}

func queueError(err error) string {
	switch {
	case errors.Is(err, ErrFull):
		return "full"
	case errors.Is(err, ErrTooLarge):
		return "too_large"
	default:
		return "dead"
	}
}

// peerCollector shows the live sessions; a dead one leaves no series behind.
type peerCollector struct {
	link   *Link
	up     *prometheus.Desc
	queued *prometheus.Desc
}

func newPeerCollector(l *Link) *peerCollector {
	return &peerCollector{
		link: l,
		up: prometheus.NewDesc("spatialcells_link_peer_up",
			"1 while the link to this live session stands.", []string{"peer"}, nil),
		queued: prometheus.NewDesc("spatialcells_link_queue_bytes",
			"Bytes waiting for this live session; of the reliable stream, not acknowledged.", []string{"peer", "stream"}, nil),
	}
}

func (c *peerCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.up
	out <- c.queued
}

func (c *peerCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, p := range c.link.all() {
		p.mu.Lock()
		up, replication, reliable := p.out.up, p.out.replicationBytes, p.out.reliableBytes
		p.mu.Unlock()
		isUp := 0.0
		if up {
			isUp = 1
		}
		gauge(c.up, isUp, p.session)
		gauge(c.queued, float64(replication), p.session, streamReplication)
		gauge(c.queued, float64(reliable), p.session, streamReliable)
	}
}
