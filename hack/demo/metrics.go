package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	metricPlayers  = "spatialcells_zone_players"
	metricClients  = "spatialcells_zone_clients"
	metricHandoffs = "spatialcells_zone_handoffs_total"
	metricRefused  = "spatialcells_zone_handoffs_refused_total"
	metricCrossing = "spatialcells_zone_crossings_total"
	metricGap      = "spatialcells_zone_handoff_gap_seconds"
	metricCut      = "spatialcells_zone_region_cut_seconds"
	metricRecovery = "spatialcells_zone_region_recovery_seconds"
	metricEntities = "spatialcells_zone_entities"
	metricMoves    = "spatialcells_zone_region_moves_total"
	metricTick     = "spatialcells_zone_tick_seconds"

	maxMetrics    = 4 << 20 // bytes of one answer
	scrapePatient = time.Second
)

// reading is what one node said once.
type reading struct {
	gauges   map[string]float64 // gauges by name
	counters map[string]float64 // counters by name, and by name{label value}
	buckets  map[string]map[float64]float64
	counts   map[string]float64 // observations of histograms
}

func newReading() reading {
	return reading{map[string]float64{}, map[string]float64{}, map[string]map[float64]float64{}, map[string]float64{}}
}

// scrape asks a node for its metrics.
func scrape(ctx context.Context, address string) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapePatient)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return reading{}, fmt.Errorf("asking %s for metrics: %w", address, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reading{}, fmt.Errorf("asking %s for metrics: %w", address, err)
	}
	defer res.Body.Close()
	return read(io.LimitReader(res.Body, maxMetrics))
}

// read takes the text format of Prometheus.
func read(r io.Reader) (reading, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return reading{}, fmt.Errorf("reading metrics: %w", err)
	}
	out := newReading()
	for name, f := range families {
		for _, m := range f.Metric {
			out.take(name, m)
		}
	}
	return out, nil
}

func (r *reading) take(name string, m *dto.Metric) {
	switch {
	case m.Gauge != nil:
		r.gauges[name] = m.Gauge.GetValue()
	case m.Counter != nil:
		for _, l := range m.Label {
			r.counters[name+"{"+l.GetValue()+"}"] = m.Counter.GetValue()
		}
		if len(m.Label) == 0 {
			r.counters[name] = m.Counter.GetValue()
		}
	case m.Histogram != nil:
		b := map[float64]float64{}
		for _, bucket := range m.Histogram.Bucket {
			b[bucket.GetUpperBound()] = float64(bucket.GetCumulativeCount())
		}
		r.buckets[name], r.counts[name] = b, float64(m.Histogram.GetSampleCount())
	}
}

// gains is what grew from an earlier reading of the same node. One that fell began anew: the node restarted.
func gains(before, now reading) reading {
	out := newReading()
	restarted := now.counts[metricTick] < before.counts[metricTick]
	since := func(was, is float64) float64 {
		if restarted || is < was {
			return is
		}
		return is - was
	}
	for name, v := range now.counters {
		out.counters[name] = since(before.counters[name], v)
	}
	for name, v := range now.counts {
		out.counts[name] = since(before.counts[name], v)
		b := map[float64]float64{}
		for bound, n := range now.buckets[name] {
			b[bound] = since(before.buckets[name][bound], n)
		}
		out.buckets[name] = b
	}
	return out
}

// add sums what nodes did.
func (r *reading) add(more reading) {
	for name, v := range more.counters {
		r.counters[name] += v
	}
	for name, v := range more.counts {
		r.counts[name] += v
		if r.buckets[name] == nil {
			r.buckets[name] = map[float64]float64{}
		}
		for bound, n := range more.buckets[name] {
			r.buckets[name][bound] += n
		}
	}
}

// quantile is the upper bound of the bucket that holds the q-th part of a histogram's observations: never too good. NaN if
// there are none, +Inf beyond the last bucket.
func (r *reading) quantile(name string, q float64) float64 {
	total := r.counts[name]
	if total == 0 {
		return math.NaN()
	}
	for _, bound := range slices.Sorted(maps.Keys(r.buckets[name])) {
		if r.buckets[name][bound] >= q*total {
			return bound
		}
	}
	return math.Inf(1)
}

// watch follows the metrics of all nodes through their restarts.
type watch struct {
	mu    sync.Mutex
	last  map[string]reading // by node
	done  map[string]*reading
	began map[string]bool
	most  map[string]float64 // the most players a node had
	at    map[string]time.Time
}

func newWatch() *watch {
	return &watch{last: map[string]reading{}, done: map[string]*reading{}, began: map[string]bool{}, most: map[string]float64{}, at: map[string]time.Time{}}
}

// ask reads all nodes at once; a node that does not answer keeps what it said last.
func (w *watch) ask(ctx context.Context, nodes []zoneNode) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if r, err := scrape(ctx, n.http()); err == nil {
				w.note(n.name, r)
			}
		}()
	}
	wg.Wait()
}

// note takes a reading; the first of a node is what it starts from.
func (w *watch) note(node string, r reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began[node] {
		w.done[node].add(gains(w.last[node], r))
	} else {
		first := newReading()
		w.done[node], w.began[node] = &first, true
	}
	w.last[node], w.at[node] = r, time.Now()
	w.most[node] = max(w.most[node], r.gauges[metricPlayers])
}

// gauge is what a node said last.
func (w *watch) gauge(node, name string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[node].gauges[name]
}

// ticks is how many steps each node's present life has made, as far as it said.
func (w *watch) ticks() map[string]float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	ticks := map[string]float64{}
	for node, r := range w.last {
		ticks[node] = r.counts[metricTick]
	}
	return ticks
}

// sum is what all nodes did since the watch began.
func (w *watch) sum() reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := newReading()
	for _, name := range slices.Sorted(maps.Keys(w.done)) {
		out.add(*w.done[name])
	}
	return out
}
