package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// +kubebuilder:rbac:groups=spatialcells.io,resources=worlds,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=spatialcells.io,resources=worlds/status,verbs=update
// +kubebuilder:rbac:groups=spatialcells.io,resources=worlds/finalizers,verbs=update
// +kubebuilder:rbac:groups=spatialcells.io,resources=zonenodes,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=spatialcells.io,resources=zonenodes/status,verbs=update;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;deletecollection
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=get;create;update

// WorldReconciler carries out Worlds.
type WorldReconciler struct {
	client.Client
	// Live reads from the API server, past the cache. Decisions about sessions and about absence rest on it.
	Live client.Reader
	// Recorder publishes events.
	Recorder events.EventRecorder
	// Guard installs the admission policies and tells whether they are. Nil means that nobody installs them.
	Guard *Guard
	// DefaultImage is the image of zone nodes of Worlds that name none.
	DefaultImage string
	// Stores is how stores are asked. The zero value asks real ones.
	Stores StoreAccess
	// Boottime reads a clock that never goes back: how long a Lease stood still is measured with it.
	Boottime func() time.Duration
	// Now is the wall clock. Only waiting for a lost node and the times in Leases use it.
	Now func() time.Time

	mu       sync.Mutex
	memories map[types.NamespacedName]*memory
	looks    storeLooks
	endings  endings
}

// Reconcile brings one World one step nearer to its spec.
func (r *WorldReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	world := &v1alpha1.World{}
	if err := r.Get(ctx, req.NamespacedName, world); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading World %s: %w", req.NamespacedName, err)
	}
	if !world.DeletionTimestamp.IsZero() {
		return r.delete(ctx, world)
	}
	s, err := r.gather(ctx, world)
	if err != nil {
		return ctrl.Result{}, err
	}
	err = r.act(ctx, s)
	err = errors.Join(err, r.report(ctx, s, err))
	return ctrl.Result{RequeueAfter: s.next()}, err
}

// act writes the difference between what is and what should be. The order matters: Leases before pods that look for them,
// failover before anything that may fail for the user's sake. Leases that cannot be made hold up no failover: it goes on with
// those that are there.
func (r *WorldReconciler) act(ctx context.Context, s *scene) error {
	s.assignment = s.decideAssignment()
	s.fail(r.revokeSilentSessions(ctx, s))
	if !s.mayBegin() {
		return s.transient()
	}
	complete := r.ensureLeases(ctx, s)
	if !complete && !s.begun() {
		return s.transient()
	}
	s.fail(r.settleRegions(ctx, s))
	s.fail(r.proveFence(ctx, s))
	s.fail(r.holdWorld(ctx, s))
	if complete && !s.paused() && len(s.failures) == 0 {
		r.ensureChildren(ctx, s)
	}
	return s.transient()
}

// SetupWithManager registers the reconciler and what wakes it up.
func (r *WorldReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := indexLeases(mgr); err != nil {
		return err
	}
	r.looks.init()
	byWorld := handler.EnqueueRequestsFromMapFunc(worldOf)
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.World{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&v1alpha1.ZoneNode{}, byWorld, builder.WithPredicates(zoneNodeMatters)).
		Watches(&coordinationv1.Lease{}, byWorld, builder.WithPredicates(leaseMatters)).
		Watches(&corev1.Pod{}, keepsEndings{byWorld, &r.endings}, builder.WithPredicates(podMatters)).
		WatchesRawSource(source.Channel(r.looks.found, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: retries()}).
		Complete(r)
}

// worldOf finds the World of a labelled object.
func worldOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelWorld]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
