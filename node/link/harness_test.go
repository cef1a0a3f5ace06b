package link

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/spatialcells/spatialcells/api/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for slow machines; nothing waits that long when all is well.
const patience = 30 * time.Second

var started = time.Now()

func boot() time.Duration { return time.Since(started) }

// recorder is a Handler that remembers.
type recorder struct {
	mu          sync.Mutex
	events      []string // "up a#1", "down a#1", "dead a#1"
	streams     map[string]uint64
	replication map[string][][]byte
	reliable    map[string][][]byte
}

func newRecorder() *recorder {
	return &recorder{streams: map[string]uint64{}, replication: map[string][][]byte{}, reliable: map[string][][]byte{}}
}

func (r *recorder) note(event, session string) {
	r.events = append(r.events, event+" "+session)
}

func (r *recorder) PeerUp(session string, stream uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams[session] = stream
	r.note("up", session)
}

func (r *recorder) PeerDown(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("down", session)
}

func (r *recorder) PeerDead(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("dead", session)
}

func (r *recorder) Replication(session string, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replication[session] = append(r.replication[session], b)
}

func (r *recorder) Reliable(session string, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reliable[session] = append(r.reliable[session], b)
}

func (r *recorder) count(event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e == event {
			n++
		}
	}
	return n
}

func (r *recorder) history() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

func (r *recorder) stream(session string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams[session]
}

func (r *recorder) reliableFrom(session string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return texts(r.reliable[session])
}

func (r *recorder) replicationFrom(session string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return texts(r.replication[session])
}

func texts(messages [][]byte) []string {
	all := make([]string, 0, len(messages))
	for _, m := range messages {
		all = append(all, string(m))
	}
	return all
}

// node is a Link with what a test wants to turn on it.
type node struct {
	*Link
	*recorder
	t        *testing.T
	session  string
	identity Identity
	deadline atomic.Int64
	registry *prometheus.Registry
	logs     *logBuffer
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func quickLimits() Limits {
	return Limits{PingInterval: 50 * time.Millisecond, RedialMin: 5 * time.Millisecond, RedialMax: 50 * time.Millisecond}
}

func start(t *testing.T, session string, change ...func(*Config)) *node {
	t.Helper()
	n := &node{
		recorder: newRecorder(), t: t, session: session, registry: prometheus.NewRegistry(), logs: &logBuffer{},
	}
	n.deadline.Store(int64(time.Hour))
	var err error
	if n.identity, err = NewIdentity(); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Session: session, WorldUID: "uid-1", SeedHash: 7, TerrainVersion: 3,
		Codecs:     []*wire.CodecVersion{{Component: "position", MinVersion: 1, MaxVersion: 2}},
		ListenHost: "127.0.0.1", DialFrom: "127.0.0.1",
		Handler: n.recorder, Now: boot,
		Fence:   func() time.Duration { return time.Duration(n.deadline.Load()) },
		Log:     slog.New(slog.NewTextHandler(n.logs, nil)),
		Metrics: n.registry, Limits: quickLimits(),
	}
	for _, c := range change {
		c(&cfg)
	}
	if n.Link, err = New(cfg, n.identity); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func (n *node) lease() Peer {
	return Peer{Session: n.session, Address: n.Addr().String(), KeyHash: n.identity.KeyHash()}
}

func acquaint(nodes ...*node) {
	var all []Peer
	for _, n := range nodes {
		all = append(all, n.lease())
	}
	for _, n := range nodes {
		n.SetPeers(all)
	}
}

func (n *node) awaitUp(session string, times int) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%s sees %s up %d times", n.session, session, times), func() bool {
		return n.count("up "+session) >= times
	})
}

// sendBatch sends replication on the newest stream.
func (n *node) sendBatch(session string, batch []byte) {
	n.SendReplication(session, n.stream(session), batch)
}

func (n *node) metric(name string, labels ...string) float64 {
	n.t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if hasLabels(m, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

func hasLabels(m *dto.Metric, values []string) bool {
	for _, v := range values {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetValue() == v
		}
		if !found {
			return false
		}
	}
	return true
}

func (n *node) awaitRefused(reason Reason) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%s counts a refusal for %s", n.session, reason), func() bool {
		return n.metric("spatialcells_link_refused_total", string(reason)) > 0
	})
}

func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// throughout fails if the fact breaks within d.
func throughout(t *testing.T, d time.Duration, what string, fact func() bool) {
	t.Helper()
	end := time.After(d)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if !fact() {
			t.Fatalf("broken: %s", what)
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

func splitPort(address string) (host string, port int, err error) {
	h, p, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(p)
	return h, port, err
}
