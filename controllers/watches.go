package controllers

import (
	"context"
	"fmt"
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// indexRegions finds the region Leases of a World without looking at the others.
const indexRegions = "spatialcells.io/regions-of"

func indexLeases(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &coordinationv1.Lease{}, indexRegions, func(o client.Object) []string {
		if o.GetLabels()[v1alpha1.LabelLease] != v1alpha1.LeaseKindRegion {
			return nil
		}
		return []string{o.GetLabels()[v1alpha1.LabelWorld]}
	})
	if err != nil {
		return fmt.Errorf("indexing region leases: %w", err)
	}
	return nil
}

// CacheOptions restricts the cache to what belongs to Worlds.
func CacheOptions() cache.Options {
	ours := cache.ByObject{Label: labelled(v1alpha1.LabelWorld)}
	leases := cache.ByObject{Label: labelled(v1alpha1.LabelLease), UnsafeDisableDeepCopy: new(true)}
	byObject := map[client.Object]cache.ByObject{&coordinationv1.Lease{}: leases, &corev1.Pod{}: ours}
	for _, kind := range childKinds() {
		byObject[kind] = ours
	}
	return cache.Options{ByObject: byObject}
}

// ClientOptions keeps reads of Secrets out of the cache: the operator needs few of them, and may not list them.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}
}

func labelled(key string) labels.Selector {
	exists, err := labels.NewRequirement(key, selection.Exists, nil)
	if err != nil {
		panic("a constant label key is invalid: " + err.Error())
	}
	return labels.NewSelector().Add(*exists)
}

// leaseMatters lets through what changes hands or orders. Renewals, most of all writes, are read by the observer instead.
var leaseMatters = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*coordinationv1.Lease)
	after, alsoOk := e.ObjectNew.(*coordinationv1.Lease)
	return !ok || !alsoOk || holderOf(before) != holderOf(after) || transitionsOf(before) != transitionsOf(after) ||
		!maps.Equal(before.Annotations, after.Annotations) || !maps.Equal(before.Labels, after.Labels)
}}

// podMatters lets through what tells whether a pod lives, is ready or is current.
var podMatters = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Pod)
	after, alsoOk := e.ObjectNew.(*corev1.Pod)
	return !ok || !alsoOk || before.Status.Phase != after.Status.Phase || podReady(before) != podReady(after) ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Status.ContainerStatuses, after.Status.ContainerStatuses)
}}

// zoneNodeMatters lets through what the World's status repeats.
var zoneNodeMatters = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.ZoneNode)
	after, alsoOk := e.ObjectNew.(*v1alpha1.ZoneNode)
	return !ok || !alsoOk || before.Generation != after.Generation ||
		before.Status.Session != after.Status.Session || before.Status.Players != after.Status.Players
}}
