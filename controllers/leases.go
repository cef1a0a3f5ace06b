package controllers

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// epochStep is by how much status.highestEpoch is ahead of the epochs in use: large, so that it is seldom written.
const epochStep = 1000

// ensureLeases makes the Leases that are missing, before any pod may look for them.
func (r *WorldReconciler) ensureLeases(ctx context.Context, s *scene) error {
	if err := r.ensureRegionLeases(ctx, s); err != nil {
		return err
	}
	if err := r.ensureSessionLeases(ctx, s); err != nil {
		return err
	}
	if s.canary != nil {
		return nil
	}
	if err := r.foreignLease(ctx, s, v1alpha1.CanaryLeaseName(s.world.Name)); err != nil {
		return err
	}
	canary := s.lease(v1alpha1.CanaryLeaseName(s.world.Name), v1alpha1.LeaseKindCanary, 1)
	if err := r.createLease(ctx, s, canary); err != nil {
		return err
	}
	s.canary = canary
	return nil
}

// ensureRegionLeases makes all region Leases of a new World, or those that were lost: above every epoch that was ever used,
// so that whoever held one is refused by store and peers.
func (r *WorldReconciler) ensureRegionLeases(ctx context.Context, s *scene) error {
	if !slices.Contains(s.regions, nil) {
		return nil
	}
	if err := r.reread(ctx, s); err != nil { // absence in the cache proves nothing
		return err
	}
	var missing []int
	for i, lease := range s.regions {
		if lease == nil {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	first := s.grid.Region(missing[0])
	if err := r.foreignLease(ctx, s, v1alpha1.RegionLeaseName(s.world.Name, int(first.Column), int(first.Row))); err != nil {
		return err
	}
	lost := s.statefulSet != nil
	epoch := s.highestEpoch + 1
	if err := r.raiseHighestEpoch(ctx, s, epoch+epochStep); err != nil {
		return err
	}
	err := each(ctx, missing, func(ctx context.Context, i int) error {
		lease := s.regionLease(i, epoch)
		if err := r.createLease(ctx, s, lease); err != nil {
			return err
		}
		s.regions[i] = lease
		return nil
	})
	if err == nil && lost {
		s.notify(noticeLeasesRecreated(len(missing), epoch))
	}
	return err
}

// reread fills in region Leases that the cache does not show yet.
func (r *WorldReconciler) reread(ctx context.Context, s *scene) error {
	list := &coordinationv1.LeaseList{}
	err := r.Live.List(ctx, list, client.InNamespace(s.world.Namespace),
		client.MatchingLabels{v1alpha1.LabelWorld: s.world.Name, v1alpha1.LabelLease: v1alpha1.LeaseKindRegion})
	if err != nil {
		return fmt.Errorf("reading region leases: %w", err)
	}
	for i := range list.Items {
		s.addRegion(&list.Items[i])
	}
	return nil
}

// raiseHighestEpoch persists the bound before anything is made under it, so that no epoch is ever given out twice.
func (r *WorldReconciler) raiseHighestEpoch(ctx context.Context, s *scene, to int32) error {
	world := s.world.DeepCopy()
	world.Status.HighestEpoch = to
	if err := r.Status().Update(ctx, world); err != nil {
		return fmt.Errorf("raising highestEpoch to %d: %w", to, err)
	}
	s.world, s.highestEpoch = world, to
	return nil
}

// holdWorld sets the finalizer while regions are or may become held, and takes it off a World that has stopped: then the
// World can go even if the operator is gone.
func (r *WorldReconciler) holdWorld(ctx context.Context, s *scene) error {
	world := s.world.DeepCopy()
	var changed bool
	if s.replicas() > 0 || len(s.pods) > 0 || s.statefulSet != nil && replicasOf(s.statefulSet) > 0 || len(s.heldRegions()) > 0 {
		changed = controllerutil.AddFinalizer(world, v1alpha1.Finalizer)
	} else {
		changed = controllerutil.RemoveFinalizer(world, v1alpha1.Finalizer)
	}
	if !changed {
		return nil
	}
	if err := r.Patch(ctx, world, client.MergeFromWithOptions(s.world, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("setting the finalizer: %w", err)
	}
	s.world = world
	return nil
}

func (s *scene) regionLease(index int, epoch int32) *coordinationv1.Lease {
	region := s.grid.Region(index)
	column, row := int(region.Column), int(region.Row)
	lease := s.lease(v1alpha1.RegionLeaseName(s.world.Name, column, row), v1alpha1.LeaseKindRegion, epoch)
	lease.Labels[v1alpha1.LabelRegion] = v1alpha1.RegionLabel(column, row)
	if owner := s.assignment.table[index]; owner >= 0 {
		lease.Annotations = map[string]string{v1alpha1.AnnotationTarget: v1alpha1.NodeName(s.world.Name, int(owner))}
	}
	return lease
}

// lease is a Lease of the World that nobody holds.
func (s *scene) lease(name, kind string, transitions int32) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Namespace:       s.world.Namespace,
			Labels:          map[string]string{v1alpha1.LabelWorld: s.world.Name, v1alpha1.LabelLease: kind},
			OwnerReferences: []metav1.OwnerReference{s.ownerReference()},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(""), LeaseTransitions: &transitions},
	}
}

// createLease creates a Lease. One of that name that exists is somebody else's, or just not in the cache yet.
func (r *WorldReconciler) createLease(ctx context.Context, s *scene, lease *coordinationv1.Lease) error {
	err := r.Create(ctx, lease)
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err, "creating lease %s", lease.Name)
	}
	found := &coordinationv1.Lease{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(lease), found); err != nil {
		return fmt.Errorf("reading lease %s: %w", lease.Name, err)
	}
	if !s.owns(found) {
		return conflict("Lease", lease.Name)
	}
	*lease = *found
	return nil
}

// foreignLease looks for a Lease that is in the way, before anything is written for the sake of a missing one.
func (r *WorldReconciler) foreignLease(ctx context.Context, s *scene, names ...string) error {
	for _, name := range names {
		found := &coordinationv1.Lease{}
		err := r.Live.Get(ctx, s.key(name), found)
		if err == nil && !s.owns(found) {
			return conflict("Lease", name)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading lease %s: %w", name, err)
		}
	}
	return nil
}

// ensureSessionLeases makes the session Leases that are missing. One that was lost is made again only after it was seen
// missing for a full lease duration: its node may not know yet, and acts until its own deadline.
func (r *WorldReconciler) ensureSessionLeases(ctx context.Context, s *scene) error {
	for ordinal := range s.replicas() {
		if s.sessions[ordinal] != nil {
			continue
		}
		lost := s.lastIncarnation(ordinal) > 0 || s.pods[ordinal] != nil
		if lost && s.memory.sessions.Unchanged(ordinal) < s.leaseDuration() {
			continue
		}
		name := v1alpha1.NodeName(s.world.Name, int(ordinal))
		if err := r.foreignLease(ctx, s, name); err != nil {
			return err
		}
		lease := s.lease(name, v1alpha1.LeaseKindSession, s.lastIncarnation(ordinal))
		lease.Labels[v1alpha1.LabelOrdinal] = strconv.Itoa(int(ordinal))
		if err := r.createLease(ctx, s, lease); err != nil {
			return err
		}
		s.sessions[ordinal] = lease
	}
	return nil
}

// lastIncarnation is the latest life of a node that any other object remembers, 0 if none does.
func (s *scene) lastIncarnation(ordinal int32) int32 {
	var last int32
	node := v1alpha1.NodeName(s.world.Name, int(ordinal))
	remember := func(session string) {
		if name, incarnation, err := v1alpha1.ParseSessionID(session); err == nil && name == node {
			last = max(last, incarnation)
		}
	}
	for _, lease := range s.regions {
		remember(holderOf(lease))
	}
	if zoneNode := s.zoneNodes[ordinal]; zoneNode != nil {
		remember(zoneNode.Status.Session)
	}
	for _, row := range s.world.Status.ZoneNodes {
		if row.Ordinal == ordinal {
			remember(row.Session)
		}
	}
	return last
}

// leadHighestEpoch keeps status.highestEpoch well ahead of the epochs in use.
func (s *scene) leadHighestEpoch() int32 {
	highest := int32(0)
	for _, lease := range s.regions {
		highest = max(highest, transitionsOf(lease))
	}
	if highest+epochStep/2 <= s.highestEpoch || highest > math.MaxInt32-2*epochStep {
		return s.highestEpoch
	}
	return highest + epochStep
}
