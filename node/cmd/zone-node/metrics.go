package main

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spatialcells/spatialcells/node/zone"
)

// tickMetrics are observed by the loop itself.
type tickMetrics struct {
	step    prometheus.Histogram
	refused prometheus.Counter
}

func newTickMetrics(r prometheus.Registerer) *tickMetrics {
	m := &tickMetrics{
		step: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spatialcells_zone_tick_seconds", Help: "Time of one step of the heart.",
			Buckets: []float64{.0001, .00025, .0005, .001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .1, .25, 1},
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spatialcells_zone_reliable_refused_total", Help: "Reliable messages that the link refused: the peer is dead, or does not acknowledge.",
		}),
	}
	r.MustRegister(m.step, m.refused)
	return m
}

// engineCollector shows the counters of the heart.
type engineCollector struct{ node *node }

type engineMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	label []string
	value func(*zone.Stats) float64
}

func counter(name, help string, value func(*zone.Stats) uint64) engineMetric {
	return engineMetric{prometheus.NewDesc("spatialcells_zone_"+name, help, nil, nil), prometheus.CounterValue, nil, func(s *zone.Stats) float64 { return float64(value(s)) }}
}

func gauge(name, help string, value func(*zone.Stats) int) engineMetric {
	return engineMetric{prometheus.NewDesc("spatialcells_zone_"+name, help, nil, nil), prometheus.GaugeValue, nil, func(s *zone.Stats) float64 { return float64(value(s)) }}
}

// labelled makes one metric with one label out of several counters.
func labelled(name, help, label string, values map[string]func(*zone.Stats) uint64) []engineMetric {
	desc := prometheus.NewDesc("spatialcells_zone_"+name, help, []string{label}, nil)
	list := make([]engineMetric, 0, len(values))
	for v, f := range values {
		list = append(list, engineMetric{desc, prometheus.CounterValue, []string{v}, func(s *zone.Stats) float64 { return float64(f(s)) }})
	}
	return list
}

var engineMetrics = slices.Concat([]engineMetric{
	gauge("entities", "Entities owned or frozen here.", func(s *zone.Stats) int { return s.Entities }),
	gauge("players", "Entities here that a session is attached to.", func(s *zone.Stats) int { return s.Players }),
	gauge("clients", "Accounts whose gateway is here.", func(s *zone.Stats) int { return s.Clients }),
	gauge("replicas", "Entities that accounts here observe.", func(s *zone.Stats) int { return s.Replicas }),
	gauge("regions", "Regions held.", func(s *zone.Stats) int { return s.Regions }),
	gauge("regions_recovering", "Regions held and not active yet.", func(s *zone.Stats) int { return s.RegionsRecovering }),
	gauge("outgoing", "Entities offered and not yet durable at their target.", func(s *zone.Stats) int { return s.Outgoing }),
	counter("handoffs_total", "Entities handed over to other nodes, counted at the source.", func(s *zone.Stats) uint64 { return s.Handoffs }),
	counter("handoffs_received_total", "Entities taken from other nodes.", func(s *zone.Stats) uint64 { return s.HandoffsReceived }),
	counter("handoffs_local_total", "Entities that changed their home between two regions of this node.", func(s *zone.Stats) uint64 { return s.HandoffsLocal }),
	counter("handoffs_refused_total", "Offers that the target refused.", func(s *zone.Stats) uint64 { return s.HandoffsRefused }),
	counter("handoffs_reoffered_total", "Offers that were sent again.", func(s *zone.Stats) uint64 { return s.HandoffsReoffered }),
	counter("handoff_conflicts_total", "Copies dropped because the store had a newer one.", func(s *zone.Stats) uint64 { return s.HandoffConflicts }),
	counter("ticks_dropped_total", "Ticks that were missed and not made up for.", func(s *zone.Stats) uint64 { return s.TicksDropped }),
	counter("panics_total", "Times a system failed on an entity, which was left out.", func(s *zone.Stats) uint64 { return s.Panics }),
	counter("malformed_total", "Messages of peers that could not be read.", func(s *zone.Stats) uint64 { return s.Malformed }),
	counter("from_dead_total", "Messages of dead sessions, refused.", func(s *zone.Stats) uint64 { return s.FromDead }),
	counter("updates_encoded_total", "Entity updates encoded, each once for all its observers.", func(s *zone.Stats) uint64 { return s.Encoded }),
	counter("updates_spliced_total", "Copies of encoded updates into the batches of peers and clients.", func(s *zone.Stats) uint64 { return s.Spliced }),
	counter("logins_total", "Fresh logins.", func(s *zone.Stats) uint64 { return s.Logins }),
	counter("resumes_total", "Logins that went on with a session.", func(s *zone.Stats) uint64 { return s.Resumes }),
	counter("displaced_total", "Sessions that a newer login of the account ended.", func(s *zone.Stats) uint64 { return s.Displaced }),
	counter("saves_total", "Records written back.", func(s *zone.Stats) uint64 { return s.Saves }),
	counter("save_conflicts_total", "Saves that the store refused.", func(s *zone.Stats) uint64 { return s.SaveConflicts }),
	counter("store_retries_total", "Store requests asked again.", func(s *zone.Stats) uint64 { return s.StoreRetries }),
	gauge("items_open", "Movements of items that are not ended, and writes of them that the store has not answered.", func(s *zone.Stats) int { return s.ItemsOpen }),
	counter("item_writes_total", "Writes of items sent to the store.", func(s *zone.Stats) uint64 { return s.ItemWrites }),
	counter("item_conflicts_total", "Writes of items refused because the store had other news, which was taken over.", func(s *zone.Stats) uint64 { return s.ItemConflicts }),
	counter("item_movements_total", "Items that came from entities here to another holder.", func(s *zone.Stats) uint64 { return s.Movements }),
	counter("item_movements_refused_total", "Items that went back to entities here.", func(s *zone.Stats) uint64 { return s.MovementsRefused }),
	counter("recovered_total", "Entities brought back from the store.", func(s *zone.Stats) uint64 { return s.Recovered }),
}, labelled("crossings_total", "Handoffs over a special place.", "kind", map[string]func(*zone.Stats) uint64{
	"seam_x": func(s *zone.Stats) uint64 { return s.CrossedSeamX },
	"seam_y": func(s *zone.Stats) uint64 { return s.CrossedSeamY },
	"corner": func(s *zone.Stats) uint64 { return s.CrossedCorner },
}), labelled("region_moves_total", "Live moves of regions: away from here, to here, and those that came to nothing, counted at the owner.", "result", map[string]func(*zone.Stats) uint64{
	"out": func(s *zone.Stats) uint64 { return s.MovesOut }, "in": func(s *zone.Stats) uint64 { return s.MovesIn },
	"aborted": func(s *zone.Stats) uint64 { return s.MovesAborted },
}), labelled("calls_total", "Calls of sessions to entities here, by outcome.", "outcome", map[string]func(*zone.Stats) uint64{
	"done": func(s *zone.Stats) uint64 { return s.CallsDone }, "repeated": func(s *zone.Stats) uint64 { return s.CallsRepeated },
	"gap": func(s *zone.Stats) uint64 { return s.CallsGap }, "wait": func(s *zone.Stats) uint64 { return s.CallsWait },
	"moved": func(s *zone.Stats) uint64 { return s.CallsMoved }, "not_here": func(s *zone.Stats) uint64 { return s.CallsNotHere },
	"foreign": func(s *zone.Stats) uint64 { return s.CallsForeign },
}), labelled("routed_total", "Messages for one account, by where its gateway is.", "where", map[string]func(*zone.Stats) uint64{
	"local": func(s *zone.Stats) uint64 { return s.RoutedLocal }, "remote": func(s *zone.Stats) uint64 { return s.RoutedRemote },
	"nowhere": func(s *zone.Stats) uint64 { return s.RoutedNowhere },
}), labelled("replica_frames_total", "Frames about replicas that did not simply apply.", "why", map[string]func(*zone.Stats) uint64{
	"stale": func(s *zone.Stats) uint64 { return s.ReplicaStale }, "foreign_owner": func(s *zone.Stats) uint64 { return s.ReplicaForeign },
	"held": func(s *zone.Stats) uint64 { return s.ReplicaHeld }, "hold_expired": func(s *zone.Stats) uint64 { return s.ReplicaExpired },
	"malformed": func(s *zone.Stats) uint64 { return s.ReplicaMalformed }, "overflow": func(s *zone.Stats) uint64 { return s.ReplicaOverflow },
}))

var gapDesc = prometheus.NewDesc("spatialcells_zone_handoff_gap_seconds",
	"Time in which nobody simulated an entity on its way: from its freeze to the arrival of Accept, an upper bound.", nil, nil)

var cutDesc = prometheus.NewDesc("spatialcells_zone_region_cut_seconds",
	"Time in which nobody simulated a region on its way to another node: from its freeze until its new owner was known here to act, an upper bound.", nil, nil)

var recoveryDesc = prometheus.NewDesc("spatialcells_zone_region_recovery_seconds",
	"Time from the beginning of a recovery until the region is simulated, of regions with something in them.", nil, nil)

var phaseDesc = prometheus.NewDesc("spatialcells_zone_handoff_phase_seconds",
	"Phases of a handoff after the gap: claim, at the new owner until the store has the entity as its own; durable, at the old owner from Accept until it forgets it.",
	[]string{"phase"}, nil)

// Describe implements prometheus.Collector; the metrics are described by what they collect.
func (c *engineCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- gapDesc
	ch <- cutDesc
	ch <- recoveryDesc
	ch <- phaseDesc
}

// Collect implements prometheus.Collector.
func (c *engineCollector) Collect(ch chan<- prometheus.Metric) {
	snap := c.node.snapshot.Load()
	if snap == nil {
		return
	}
	for _, m := range engineMetrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&snap.stats), m.label...)
	}
	ch <- histogram(gapDesc, &snap.stats.Phases[zone.PhaseGap], func(int) bool { return true })
	ch <- histogram(cutDesc, &snap.stats.Phases[zone.PhaseCut], func(int) bool { return true })
	ch <- histogram(recoveryDesc, &snap.stats.Phases[zone.PhaseRecovery], func(int) bool { return true })
	for _, p := range []zone.Phase{zone.PhaseClaim, zone.PhaseDurable} {
		ch <- histogram(phaseDesc, &snap.stats.Phases[p], coarse, p.String())
	}
}

// coarse keeps the buckets that end at 5, 10, 25, 50, 100, 250, 500 ms and 1 s.
func coarse(bucket int) bool {
	switch bucket + 1 {
	case 1, 2, 5, 10, 20, 50, 100, 200:
		return true
	}
	return false
}

func histogram(desc *prometheus.Desc, counts *[zone.GapBuckets]uint64, keep func(bucket int) bool, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, zone.GapBuckets)
	var count uint64
	var sum float64
	for i, n := range counts {
		count += n
		sum += float64(n) * (float64(i) + .5) * zone.GapBucket.Seconds()
		if i < zone.GapBuckets-1 && keep(i) {
			buckets[float64(i+1)*zone.GapBucket.Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(desc, count, sum, buckets, labels...)
}
