package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/hack/swarm/bots"
	"github.com/spatialcells/spatialcells/node/client"
)

const livePeriod = 2 * time.Second

// line is the live line: what the nodes and the bots say now.
func line(w *watch, nodes []zoneNode, r bots.Report) string {
	sum := w.sum()
	return fmt.Sprintf("players %s | handoffs %.0f (seam x %.0f, seam y %.0f, corner %.0f) | gap p50 %s p99 %s | tick p99 %s | blinks %d | violations %d",
		players(w, nodes), sum.counters[metricHandoffs], crossings(&sum, "seam_x"), crossings(&sum, "seam_y"), crossings(&sum, "corner"),
		quick(sum.quantile(metricGap, .5)), quick(sum.quantile(metricGap, .99)), quick(sum.quantile(metricTick, .99)),
		r.Kinds[client.Blink], r.ViolationCount)
}

// players lists how many players each node simulates; ? where a node has not answered for a while.
func players(w *watch, nodes []zoneNode) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	parts := make([]string, len(nodes))
	for i, n := range nodes {
		parts[i] = "?"
		if time.Since(w.at[n.name]) < 2*livePeriod {
			parts[i] = fmt.Sprintf("%.0f", w.last[n.name].gauges[metricPlayers])
		}
	}
	return strings.Join(parts, " ")
}

func crossings(r *reading, kind string) float64 { return r.counters[metricCrossing+"{"+kind+"}"] }

// quick shows seconds as milliseconds.
func quick(seconds float64) string {
	switch {
	case math.IsNaN(seconds):
		return "-"
	case seconds > 1: // beyond the last bucket
		return ">1s"
	}
	return time.Duration(math.Round(seconds*1e6) * 1e3).String()
}
