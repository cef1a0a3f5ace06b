package controllers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// Metrics have no label per region, and at most 64 nodes per World.
var (
	regionsGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spatialcells_regions", Help: "Regions of a World by state: owned, unowned, away (owned by another node than assigned), moving (on its way from one live node to another).",
	}, []string{"namespace", "world", "state"})
	nodesGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spatialcells_zone_nodes", Help: "Zone nodes of a World by state.",
	}, []string{"namespace", "world", "state"})
	playersGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spatialcells_players", Help: "Players connected, as the zone nodes last reported it.",
	}, []string{"namespace", "world"})
	conditionGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spatialcells_world_condition", Help: "1 while a condition of a World is True.",
	}, []string{"namespace", "world", "condition"})
	epochGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spatialcells_highest_epoch", Help: "Fencing token that no region Lease of the World exceeds.",
	}, []string{"namespace", "world"})
	revocations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spatialcells_session_revocations_total", Help: "Sessions that the operator took back.",
	}, []string{"world"})
	windowGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spatialcells_window_open", Help: "1 while what is confined to maintenance windows may start.",
	}, []string{"namespace", "world"})
	movesCounter = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spatialcells_moves_total", Help: "Orders to move a region by how they ended: Moved, or why they were taken back: NoLongerWanted, NodeAway, TimedOut.",
	}, []string{"namespace", "world", "result"})
	moveDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "spatialcells_move_duration_seconds", Help: "Time from the order to move a region until the other node held it.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
	}, []string{"namespace", "world"})
)

func init() {
	metrics.Registry.MustRegister(regionsGauge, nodesGauge, playersGauge, conditionGauge, epochGauge, revocations, windowGauge, movesCounter, moveDuration)
}

// zoneNodeStates are the values of the state label of nodesGauge.
var zoneNodeStates = []v1alpha1.ZoneNodeState{
	v1alpha1.ZoneNodeWaiting, v1alpha1.ZoneNodeStarting, v1alpha1.ZoneNodeLive, v1alpha1.ZoneNodeDraining,
	v1alpha1.ZoneNodeSilent, v1alpha1.ZoneNodeRevoked,
}

// maintenanceInvalid tells whether nothing that is confined may start because nobody knows when.
func maintenanceInvalid(status *v1alpha1.WorldStatus) bool {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	return c != nil && c.Reason == v1alpha1.ReasonInvalidMaintenance
}

// measure exports the status.
func measure(world *v1alpha1.World) {
	ns, name, status := world.Namespace, world.Name, &world.Status
	regionsGauge.WithLabelValues(ns, name, "owned").Set(float64(status.Regions.Owned))
	regionsGauge.WithLabelValues(ns, name, "unowned").Set(float64(status.Regions.Total - status.Regions.Owned))
	regionsGauge.WithLabelValues(ns, name, "away").Set(float64(status.Regions.Away))
	regionsGauge.WithLabelValues(ns, name, "moving").Set(float64(status.Regions.Moving))
	open := 0.0
	if w := stateOfWindow(status); w == "" && !maintenanceInvalid(status) || w == v1alpha1.WindowOpen || w == v1alpha1.WindowOverridden {
		open = 1
	}
	windowGauge.WithLabelValues(ns, name).Set(open)
	playersGauge.WithLabelValues(ns, name).Set(float64(status.Players))
	epochGauge.WithLabelValues(ns, name).Set(float64(status.HighestEpoch))
	counts := map[v1alpha1.ZoneNodeState]int{}
	for _, row := range status.ZoneNodes {
		counts[row.State]++
	}
	for _, state := range zoneNodeStates {
		nodesGauge.WithLabelValues(ns, name, string(state)).Set(float64(counts[state]))
	}
	for _, kind := range conditionOrder {
		value := 0.0
		if meta.IsStatusConditionTrue(status.Conditions, kind) {
			value = 1
		}
		conditionGauge.WithLabelValues(ns, name, kind).Set(value)
	}
}

func countMove(world *v1alpha1.World, result string) {
	movesCounter.WithLabelValues(world.Namespace, world.Name, result).Inc()
}

func timeMove(world *v1alpha1.World, took time.Duration) {
	moveDuration.WithLabelValues(world.Namespace, world.Name).Observe(took.Seconds())
}

// forgetMetrics drops the metrics of a World that is gone.
func forgetMetrics(key types.NamespacedName) {
	labels := prometheus.Labels{"namespace": key.Namespace, "world": key.Name}
	for _, gauge := range []*prometheus.GaugeVec{regionsGauge, nodesGauge, playersGauge, conditionGauge, epochGauge, windowGauge} {
		gauge.DeletePartialMatch(labels)
	}
	movesCounter.DeletePartialMatch(labels)
	moveDuration.DeletePartialMatch(labels)
}
