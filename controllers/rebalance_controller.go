package controllers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// +kubebuilder:rbac:groups=spatialcells.io,resources=rebalances,verbs=get;list;watch
// +kubebuilder:rbac:groups=spatialcells.io,resources=rebalances/status,verbs=update

// RebalanceReconciler answers every Rebalance: this version makes no proposals and moves no region for one.
type RebalanceReconciler struct {
	Client client.Client
}

// Reconcile says in the Rebalance's condition that it is not acted on. It writes once per generation.
func (r *RebalanceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := &v1alpha1.Rebalance{}
	if err := r.Client.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	changed := meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionProposalReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotActedOn, ObservedGeneration: b.Generation,
		Message: "this version makes no proposals and moves no region for a Rebalance. To move regions, edit spec.assignment of World " +
			b.Spec.WorldName + " while they are free.",
	})
	if !changed && b.Status.ObservedGeneration == b.Generation {
		return ctrl.Result{}, nil
	}
	b.Status.ObservedGeneration = b.Generation
	if err := r.Client.Status().Update(ctx, b); err != nil {
		return ctrl.Result{}, fmt.Errorf("reporting on rebalance %s: %w", req, err)
	}
	return ctrl.Result{}, nil
}

// SetupWithManager watches Rebalances.
func (r *RebalanceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Rebalance{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{RateLimiter: retries()}).
		Complete(r)
}
