package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spatialcells/spatialcells/node/zone"
)

// stuck is after how long without a step a node that may act is taken for dead by its liveness probe.
const stuck = 20 * time.Second

// httpServer serves health, metrics and load. They speak of this process only: a slow API server must not restart nodes.
type httpServer struct{ server *http.Server }

func (n *node) serveHTTP() (*httpServer, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(n.cfg.listenHost, strconv.Itoa(n.cfg.httpPort)))
	if err != nil {
		return nil, fmt.Errorf("opening health and metrics: %w; choose another --http-port", err)
	}
	n.metrics.MustRegister(&engineCollector{n})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", n.healthz)
	mux.HandleFunc("GET /readyz", n.readyz)
	mux.HandleFunc("GET /load", n.load)
	s := &httpServer{&http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 8 << 10}}
	go func() { _ = s.server.Serve(l) }() // ends with close
	return s, nil
}

func (s *httpServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.server.Shutdown(ctx)
}

// healthz fails when a node that may act makes no steps: its loop is stuck.
func (n *node) healthz(w http.ResponseWriter, _ *http.Request) {
	s := n.snapshot.Load()
	now := n.clock.Boottime()
	if s != nil && now < n.deadline() && now-s.at > stuck {
		http.Error(w, fmt.Sprintf("no step for %v", now-s.at), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (n *node) readyz(w http.ResponseWriter, _ *http.Request) {
	if !n.ready.Load() {
		http.Error(w, "not in service: starting or stopping", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// load lists what each region costs, for the operator.
func (n *node) load(w http.ResponseWriter, _ *http.Request) {
	s := n.snapshot.Load()
	if s == nil {
		http.Error(w, "no step was made yet", http.StatusServiceUnavailable)
		return
	}
	b, err := json.Marshal(struct {
		Session string            `json:"session"`
		Columns int               `json:"columns"`
		Regions []zone.RegionLoad `json:"regions"`
	}{n.session.Session(), n.cfg.columns, s.regions})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n'))
}
