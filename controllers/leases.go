package controllers

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// epochStep is by how much status.highestEpoch is ahead of the epochs and incarnations in use: large, so that it is seldom
// written.
const epochStep = 1000

// ensureLeases makes the Leases that are missing, before any pod may look for them, and tells whether all are there. What keeps
// one kind from being made keeps no other: each stands between somebody's death and its heirs.
func (r *WorldReconciler) ensureLeases(ctx context.Context, s *scene) bool {
	all := true
	for _, step := range []struct {
		kind   string
		ensure func(context.Context, *scene) error
	}{
		{v1alpha1.LeaseKindRegion, r.ensureRegionLeases},
		{v1alpha1.LeaseKindSession, r.ensureSessionLeases},
		{v1alpha1.LeaseKindCanary, r.ensureCanary},
	} {
		err := step.ensure(ctx, s)
		s.obstruct(step.kind, err)
		all = all && err == nil
		if err != nil && !s.lived() { // a World that has not begun waits as a whole
			return false
		}
	}
	return all
}

func (r *WorldReconciler) ensureCanary(ctx context.Context, s *scene) error {
	m, t := s.memory.making(v1alpha1.LeaseKindCanary), &try{}
	if s.canary != nil {
		*m = making{}
		return nil
	}
	if err := m.standing(s.now, v1alpha1.LeaseKindCanary); err != nil {
		return err
	}
	canary := s.lease(v1alpha1.CanaryLeaseName(s.world.Name), v1alpha1.LeaseKindCanary, 1)
	t.note(r.createLease(ctx, s, canary))
	if t.err == nil {
		s.canary = canary
	}
	return m.note(s, v1alpha1.LeaseKindCanary, 0, t)
}

// ensureRegionLeases makes all region Leases of a new World, or those that were lost: for who held them (see custody), and
// above every epoch that was ever used, so that anybody else is refused by store and peers.
func (r *WorldReconciler) ensureRegionLeases(ctx context.Context, s *scene) error {
	m := s.memory.making(v1alpha1.LeaseKindRegion)
	if !slices.Contains(s.regions, nil) {
		*m = making{}
		return nil
	}
	if err := m.standing(s.now, fmt.Sprint(s.regionsToMake())); err != nil {
		return err
	}
	if err := r.reread(ctx, s); err != nil { // absence in the cache proves nothing
		return err
	}
	missing := s.regionsToMake()
	if len(missing) == 0 {
		*m = making{}
		return nil
	}
	if !s.lived() { // all of them are missing, and may be somebody else's
		first := s.grid.Region(missing[0])
		if err := r.foreignLease(ctx, s, v1alpha1.RegionLeaseName(s.world.Name, int(first.Column), int(first.Row))); err != nil {
			return err
		}
	}
	of := fmt.Sprint(missing)
	epoch, err := r.epochFor(ctx, s, m, of)
	if err != nil {
		return err
	}
	lived, t := s.lived(), r.makeRegionLeases(ctx, s, missing, epoch)
	if t.made > 0 && lived {
		s.notify(noticeLeasesRecreated(t.made, epoch, s.inDoubt(), s.doubtTime()))
	}
	return m.note(s, of, epoch, t)
}

// regionsToMake are the regions without a Lease.
func (s *scene) regionsToMake() []int {
	var missing []int
	for i, lease := range s.regions {
		if lease == nil {
			missing = append(missing, i)
		}
	}
	return missing
}

// makeRegionLeases makes one, then all others at once: what refuses the first refuses them all.
func (r *WorldReconciler) makeRegionLeases(ctx context.Context, s *scene, missing []int, epoch int32) *try {
	t, mu := &try{}, sync.Mutex{}
	wanted := func(i int) *coordinationv1.Lease {
		mu.Lock()
		defer mu.Unlock()
		if t.over() {
			return nil
		}
		return s.remade(i, epoch)
	}
	do := func(ctx context.Context, i int) error {
		lease := wanted(i)
		if lease == nil {
			return nil
		}
		err := r.createLease(ctx, s, lease)
		mu.Lock()
		defer mu.Unlock()
		t.note(err)
		if err != nil {
			s.memory.custody.unsettled(i, nil, err)
			return nil
		}
		s.putRegion(i, lease)
		return nil
	}
	for ; len(missing) > 0 && t.made == 0 && !t.over(); missing = missing[1:] {
		_ = do(ctx, missing[0])
	}
	_ = each(ctx, missing, do)
	return t
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

// raiseHighestEpoch persists a higher bound before anything is made under it, so that no epoch and no incarnation is ever
// given out twice. It returns a number between the former bound and the new one, for whatever is made next.
func (r *WorldReconciler) raiseHighestEpoch(ctx context.Context, s *scene) (int32, error) {
	if s.highestEpoch > math.MaxInt32-2*epochStep {
		return 0, fmt.Errorf("no epoch is left above %d: move what is in the store to another World", s.highestEpoch)
	}
	above := s.highestEpoch + 1
	world := s.world.DeepCopy()
	world.Status.HighestEpoch = above + epochStep
	if err := r.Status().Update(ctx, world); err != nil {
		return 0, fmt.Errorf("raising highestEpoch to %d: %w", above+epochStep, err)
	}
	s.world, s.highestEpoch = world, above+epochStep
	return above, nil
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
	if refused := asRefused("Lease", lease.Name, err); refused != nil {
		return refused
	}
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

// ensureSessionLeases makes the session Leases that are missing. Where a node may have lived before, its lives are counted on
// above every number that was ever used, and the Lease is born held: it stands in for the one that was lost.
//
// Why not free, after a while? Whoever held the lost one acts until its own deadline, and does not know if it is stopped or
// cut off. That nobody saw a Lease for a full duration proves little: it may have been made, taken and lost again between
// two reads. And nobody can take back a creation that was sent and not answered. This very Lease standing unchanged for a
// full duration does prove it, to this operator, which revokes it then, and to the node's next process, which takes it.
func (r *WorldReconciler) ensureSessionLeases(ctx context.Context, s *scene) error {
	m := s.memory.making(v1alpha1.LeaseKindSession)
	missing := s.sessionsToMake()
	of := fmt.Sprint(missing)
	if len(missing) == 0 {
		*m = making{}
		return nil
	}
	if err := m.standing(s.now, of); err != nil {
		return err
	}
	var last int32
	if s.lived() {
		var err error
		if last, err = r.epochFor(ctx, s, m, of); err != nil {
			return err
		}
	}
	return m.note(s, of, last, r.makeSessionLeases(ctx, s, missing, last))
}

func (r *WorldReconciler) makeSessionLeases(ctx context.Context, s *scene, missing []int32, last int32) *try {
	t := &try{}
	for _, ordinal := range missing {
		lease := s.sessionLease(ordinal, last)
		err := r.createLease(ctx, s, lease)
		t.note(err)
		if t.over() {
			break
		}
		if err != nil {
			continue
		}
		s.sessions[ordinal] = lease
		if standsIn(lease) {
			s.notify(noticeSessionLost(s.world.Name, ordinal, s.patience(lease)))
		}
	}
	return t
}

// sessionLease is the session Lease of a node that has none, as it is made.
func (s *scene) sessionLease(ordinal, last int32) *coordinationv1.Lease {
	lease := s.lease(v1alpha1.NodeName(s.world.Name, int(ordinal)), v1alpha1.LeaseKindSession, last)
	lease.Labels[v1alpha1.LabelOrdinal] = strconv.Itoa(int(ordinal))
	if s.mayLive(ordinal) {
		lease.Spec.HolderIdentity = new(v1alpha1.LostHolder)
	}
	return lease
}

// mayLive tells whether a node may have a session that only its lost Lease would show.
func (s *scene) mayLive(ordinal int32) bool {
	return s.lived() && (s.remembered(ordinal) || s.pods[ordinal] != nil)
}

// sessionsToMake are the nodes whose session Lease is missing: those that are wanted, and those that may still live.
func (s *scene) sessionsToMake() []int32 {
	var missing []int32
	for ordinal := range s.ordinals() {
		if s.sessions[ordinal] == nil && (ordinal < s.replicas() || s.mayLive(ordinal)) {
			missing = append(missing, ordinal)
		}
	}
	return missing
}

// remembered tells whether any other object knows of a life of a node.
func (s *scene) remembered(ordinal int32) bool {
	for session := range s.lives {
		if s.nodeOf(session) == ordinal {
			return true
		}
	}
	return false
}

// lives yields the sessions that anything but their own Leases names: a region that cannot be made again counts as it was last.
func (s *scene) lives(yield func(session string) bool) {
	for _, node := range s.zoneNodes {
		if !yield(node.Status.Session) {
			return
		}
	}
	for _, row := range s.reported.ZoneNodes {
		if !yield(row.Session) {
			return
		}
	}
	for _, lease := range s.regions {
		if !yield(holderOf(lease)) {
			return
		}
	}
	for _, last := range s.memory.custody.regions {
		if !yield(holderOf(last.lease)) {
			return
		}
	}
}

// leadHighestEpoch keeps status.highestEpoch well ahead of the epochs and incarnations in use.
func (s *scene) leadHighestEpoch() int32 {
	highest := int32(0)
	for _, lease := range s.regions {
		highest = max(highest, transitionsOf(lease))
	}
	for _, lease := range s.sessions {
		highest = max(highest, transitionsOf(lease))
	}
	if highest+epochStep/2 <= s.highestEpoch || highest > math.MaxInt32-2*epochStep {
		return s.highestEpoch
	}
	return highest + epochStep
}
