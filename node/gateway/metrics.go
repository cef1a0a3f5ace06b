package gateway

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spatialcells/spatialcells/api/wire"
)

// Ends of a connection that the client brought about itself, so that no Disconnected is sent. They are counted beside
// the reasons of wire.Disconnected.
const (
	endClientClosed   = "CLIENT_CLOSED"
	endConnectionLost = "CONNECTION_LOST"
)

// Causes for which a request never became a connection.
const (
	refusedOrigin    = "origin"
	refusedHandshake = "handshake"
	refusedOverload  = "overload"
	refusedShutdown  = "shutdown"
)

// metrics are the gateway's counters; labels have a fixed set of values, never one that a client chooses.
type metrics struct {
	connections  prometheus.Gauge
	pending      prometheus.Gauge
	ends         *prometheus.CounterVec
	refused      *prometheus.CounterVec
	authFailures *prometheus.CounterVec
	messages     *prometheus.CounterVec
	bytes        *prometheus.CounterVec
	unknownSends prometheus.Counter
	held         prometheus.Counter
}

// newMetrics makes the collectors and registers them if there is a registry.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "spatialcells", Subsystem: "gateway", Name: name, Help: help}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
	}
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts(opts("connections", "Authenticated client connections."))),
		pending:     prometheus.NewGauge(prometheus.GaugeOpts(opts("pending_connections", "Sockets that have not authenticated yet."))),
		ends:        counter("closed_total", "Ended sockets by reason: of Disconnected, or CLIENT_CLOSED, CONNECTION_LOST.", "reason"),
		refused:     counter("refused_total", "Requests that never became a connection, by cause.", "cause"),
		authFailures: counter("auth_failures_total",
			"Refused tokens by cause; clients are only told that the token was refused.", "cause"),
		messages: counter("client_messages_total", "Accepted messages of clients by kind.", "kind"),
		bytes:    counter("bytes_total", "Payload bytes of binary messages by direction (in, out).", "direction"),
		unknownSends: prometheus.NewCounter(prometheus.CounterOpts(
			opts("unknown_connection_total", "Writes and closes for connections that are gone."))),
		held: prometheus.NewCounter(prometheus.CounterOpts(
			opts("held_writes_total", "Writes that had to wait for the fence."))),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.connections, m.pending, m.ends, m.refused, m.authFailures, m.messages, m.bytes, m.unknownSends, m.held,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("registering gateway metrics: %w", err)
		}
	}
	return m, nil
}

// message counts an accepted message.
func (m *metrics) message(env *wire.ClientEnvelope, size int) {
	kind := "logout"
	switch env.GetMessage().(type) {
	case *wire.ClientEnvelope_Authenticate:
		kind = "authenticate"
	case *wire.ClientEnvelope_Ping:
		kind = "ping"
	case *wire.ClientEnvelope_Input:
		kind = "input"
	case *wire.ClientEnvelope_ChunkRequest:
		kind = "chunk_request"
	}
	m.messages.WithLabelValues(kind).Inc()
	m.bytes.WithLabelValues("in").Add(float64(size))
}
