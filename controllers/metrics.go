package controllers

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// Metrics have no label per region, and at most 64 nodes per World.
var (
	regionsGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spatialcells_regions", Help: "Regions of a World by state: owned, unowned, away (owned by another node than assigned).",
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
)

func init() {
	metrics.Registry.MustRegister(regionsGauge, nodesGauge, playersGauge, conditionGauge, epochGauge, revocations)
}

// zoneNodeStates are the values of the state label of nodesGauge.
var zoneNodeStates = []v1alpha1.ZoneNodeState{
	v1alpha1.ZoneNodeWaiting, v1alpha1.ZoneNodeStarting, v1alpha1.ZoneNodeLive, v1alpha1.ZoneNodeDraining,
	v1alpha1.ZoneNodeSilent, v1alpha1.ZoneNodeRevoked,
}

// measure exports the status.
func measure(world *v1alpha1.World) {
	ns, name, status := world.Namespace, world.Name, &world.Status
	regionsGauge.WithLabelValues(ns, name, "owned").Set(float64(status.Regions.Owned))
	regionsGauge.WithLabelValues(ns, name, "unowned").Set(float64(status.Regions.Total - status.Regions.Owned))
	regionsGauge.WithLabelValues(ns, name, "away").Set(float64(status.Regions.Away))
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

// forgetMetrics drops the gauges of a World that is gone.
func forgetMetrics(key types.NamespacedName) {
	labels := prometheus.Labels{"namespace": key.Namespace, "world": key.Name}
	for _, gauge := range []*prometheus.GaugeVec{regionsGauge, nodesGauge, playersGauge, conditionGauge, epochGauge} {
		gauge.DeletePartialMatch(labels)
	}
}
