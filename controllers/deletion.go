package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// delete stops the zone nodes, waits until they have saved and are gone, deletes the Leases, and lets the World go. The
// garbage collector takes the rest by its owner references; the seed Secret has none and stays.
func (r *WorldReconciler) delete(ctx context.Context, world *v1alpha1.World) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(world, v1alpha1.Finalizer) {
		r.forget(client.ObjectKeyFromObject(world))
		return ctrl.Result{}, nil
	}
	s, err := r.gather(ctx, world)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.stopNodes(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	left, err := r.podsLeft(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(left) > 0 {
		err := r.revokeSilentSessions(ctx, s)
		return ctrl.Result{RequeueAfter: s.next()}, errors.Join(err, r.reportDeletion(ctx, s, left))
	}
	return ctrl.Result{}, r.letGo(ctx, s)
}

func (r *WorldReconciler) stopNodes(ctx context.Context, s *scene) error {
	if s.statefulSet == nil || replicasOf(s.statefulSet) == 0 {
		return nil
	}
	set := s.statefulSet.DeepCopy()
	set.Spec.Replicas = new(int32(0))
	return wrap(r.Update(ctx, set), "stopping the zone nodes")
}

// podsLeft names the zone nodes' pods that still exist, by the API server's word.
func (r *WorldReconciler) podsLeft(ctx context.Context, s *scene) ([]string, error) {
	list := &corev1.PodList{}
	err := r.Live.List(ctx, list, client.InNamespace(s.world.Namespace), client.MatchingLabels(podLabels(s.world.Name, componentZoneNode)))
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

func (r *WorldReconciler) letGo(ctx context.Context, s *scene) error {
	err := r.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(s.world.Namespace),
		client.MatchingLabels{v1alpha1.LabelWorld: s.world.Name}, client.HasLabels{v1alpha1.LabelLease})
	if err != nil {
		return fmt.Errorf("deleting leases: %w", err)
	}
	world := s.world.DeepCopy()
	controllerutil.RemoveFinalizer(world, v1alpha1.Finalizer)
	err = r.Patch(ctx, world, client.MergeFromWithOptions(s.world, client.MergeFromWithOptimisticLock{}))
	return wrap(client.IgnoreNotFound(err), "removing the finalizer")
}

// reportDeletion says what deletion waits for.
func (r *WorldReconciler) reportDeletion(ctx context.Context, s *scene, left []string) error {
	message := fmt.Sprintf("deleting: waiting for %s to save and stop. A pod whose machine is gone needs `kubectl delete pod --force`.", few(left, "pod"))
	s.verdicts[v1alpha1.ConditionReady] = verdict{false, v1alpha1.ReasonDeleting, message}
	s.verdicts[v1alpha1.ConditionReconciling] = verdict{true, v1alpha1.ReasonDeleting, message}
	return r.writeStatus(ctx, s)
}

// few names the first of many things.
func few(names []string, noun string) string {
	const most = 4
	if len(names) == 1 {
		return noun + " " + names[0]
	}
	if len(names) <= most {
		return fmt.Sprintf("%ss %s", noun, strings.Join(names, ", "))
	}
	return fmt.Sprintf("%ss %s and %d more", noun, strings.Join(names[:most], ", "), len(names)-most)
}
