package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/liveness"
	"github.com/spatialcells/spatialcells/controllers/moves"
	"github.com/spatialcells/spatialcells/controllers/placement"
	"github.com/spatialcells/spatialcells/controllers/window"
)

// scene is everything one reconcile knows about one World, and what it finds out on the way.
type scene struct {
	world  *v1alpha1.World
	memory *memory
	now    time.Time
	grid   placement.Grid

	// sessions, by ordinal, were read from the API server in this reconcile. Nil where there is no Lease.
	sessions map[int32]*coordinationv1.Lease
	canary   *coordinationv1.Lease
	// regions, by index in the grid, come from the cache and are never changed in place. Nil where there is no Lease.
	regions   []*coordinationv1.Lease
	pods      map[int32]*corev1.Pod
	storePod  *corev1.Pod
	zoneNodes map[int32]*v1alpha1.ZoneNode
	// statefulSet of the zone nodes, nil if there is none or it is somebody else's.
	statefulSet *appsv1.StatefulSet

	assignment assignment
	// openings are what the calendar said about moves, by estimate: it may have far to look.
	openings map[time.Duration]window.Opening
	// plan is what was decided about moves; nil before. arrivals are the moves that were seen to have ended.
	plan         *moves.Plan
	arrivals     []arrival
	image        string
	highestEpoch int32
	// storeID is the id of this World's store, "" before the first one is known.
	storeID string
	store   storeView
	// holdNodes leaves the StatefulSet of the zone nodes as it is: what they need to reach the store is not known.
	holdNodes bool
	// reported is the status as this reconcile found it.
	reported *v1alpha1.WorldStatus
	verdicts map[string]verdict
	notices  []notice
	wakeUps  []time.Duration
	failures []error
}

// verdict is one condition in the making.
type verdict struct {
	ok              bool
	reason, message string
}

// memory is what the operator remembers about a World between reconciles. Losing it costs time, never correctness.
type memory struct {
	// world is whom it is about: another World may have the name of a former one, and no reconcile may have come between.
	world    types.UID
	sessions liveness.Observer
	custody  custodian
	plan     plannedTable
	calendar parsedCalendar
	refused  map[string]refusal
	secrets  map[string]time.Time
	proof    proof
	store    storeMemory
	// terrain is the mark of the seed.
	terrain string
	// makings are what came of tries to make Leases, by kind.
	makings map[string]*making
	// counted is when other counts of players were written last.
	counted time.Time
}

// restart starts every observation anew: a read failed, or a write came back with an unknown outcome.
func (m *memory) restart() {
	m.sessions.Restart()
	m.custody.doubts.Restart()
}

func (r *WorldReconciler) remember(world *v1alpha1.World) *memory {
	key := client.ObjectKeyFromObject(world)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memories == nil {
		r.memories = map[types.NamespacedName]*memory{}
	}
	known := r.memories[key]
	if known != nil && known.world == world.UID {
		return known
	}
	if known != nil {
		forgetMetrics(key)
	}
	r.memories[key] = &memory{world: world.UID, refused: map[string]refusal{}, secrets: map[string]time.Time{}}
	return r.memories[key]
}

func (r *WorldReconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memories, key)
	forgetMetrics(key)
}

// gather reads all that a reconcile decides on. Region Leases are read from the cache before the sessions are read from the
// API server: a holder that looks dead in the newer read was dead when it looked like the holder.
func (r *WorldReconciler) gather(ctx context.Context, world *v1alpha1.World) (*scene, error) {
	s := &scene{
		world:        world,
		memory:       r.remember(world),
		now:          r.Now(),
		grid:         placement.Grid{Columns: world.Spec.Grid.Columns, Rows: world.Spec.Grid.Rows},
		highestEpoch: world.Status.HighestEpoch,
		storeID:      world.Status.StoreID,
		reported:     world.Status.DeepCopy(),
		verdicts:     map[string]verdict{},
	}
	for _, read := range []func(context.Context, *scene) error{
		r.gatherRegions, r.gatherPods, r.gatherZoneNodes, r.gatherStatefulSet, r.gatherSessions,
	} {
		if err := read(ctx, s); err != nil {
			return nil, err
		}
	}
	s.image = s.chooseImage(r.DefaultImage)
	return s, nil
}

func (r *WorldReconciler) gatherRegions(ctx context.Context, s *scene) error {
	list := &coordinationv1.LeaseList{}
	if err := r.List(ctx, list, client.InNamespace(s.world.Namespace), client.MatchingFields{indexRegions: s.world.Name}); err != nil {
		return fmt.Errorf("listing region leases: %w", err)
	}
	s.regions = make([]*coordinationv1.Lease, s.grid.Size())
	s.memory.custody.of(len(s.regions))
	for i := range list.Items {
		s.addRegion(&list.Items[i])
	}
	return nil
}

func (s *scene) addRegion(lease *coordinationv1.Lease) {
	column, row, err := v1alpha1.ParseRegionLabel(lease.Labels[v1alpha1.LabelRegion])
	if err != nil || column >= int(s.grid.Columns) || row >= int(s.grid.Rows) || !s.owns(lease) ||
		lease.Name != v1alpha1.RegionLeaseName(s.world.Name, column, row) {
		return
	}
	s.putRegion(s.grid.Index(int32(column), int32(row)), lease)
}

// putRegion enters a version of a region Lease that was read or written.
func (s *scene) putRegion(index int, lease *coordinationv1.Lease) {
	newest, former := s.memory.custody.of(len(s.regions)).remember(index, lease)
	s.regions[index] = newest
	if former != nil {
		s.noteArrival(index, former, newest)
	}
}

func (r *WorldReconciler) gatherPods(ctx context.Context, s *scene) error {
	list := &corev1.PodList{}
	if err := r.List(ctx, list, client.InNamespace(s.world.Namespace), client.MatchingLabels{v1alpha1.LabelWorld: s.world.Name}); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	s.pods = map[int32]*corev1.Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		world, ordinal, err := v1alpha1.ParseNodeName(pod.Name)
		switch {
		case err == nil && world == s.world.Name:
			s.pods[int32(ordinal)] = pod
		case pod.Name == v1alpha1.StoreName(s.world.Name)+"-0":
			s.storePod = pod
		}
	}
	return nil
}

func (r *WorldReconciler) gatherZoneNodes(ctx context.Context, s *scene) error {
	list := &v1alpha1.ZoneNodeList{}
	if err := r.List(ctx, list, client.InNamespace(s.world.Namespace), client.MatchingLabels{v1alpha1.LabelWorld: s.world.Name}); err != nil {
		return fmt.Errorf("listing zone nodes: %w", err)
	}
	s.zoneNodes = map[int32]*v1alpha1.ZoneNode{}
	for i := range list.Items {
		s.zoneNodes[list.Items[i].Spec.Ordinal] = &list.Items[i]
	}
	return nil
}

func (r *WorldReconciler) gatherStatefulSet(ctx context.Context, s *scene) error {
	set := &appsv1.StatefulSet{}
	err := r.Get(ctx, s.key(v1alpha1.StatefulSetName(s.world.Name)), set)
	if err == nil && s.owns(set) {
		s.statefulSet = set
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the StatefulSet: %w", err)
	}
	return nil
}

// gatherSessions reads the session Leases from the API server and shows them to the observer. Only a read that succeeded
// counts; one that failed starts every observation anew.
func (r *WorldReconciler) gatherSessions(ctx context.Context, s *scene) error {
	ctx, cancel := context.WithTimeout(ctx, s.maxGap())
	defer cancel()
	list := &coordinationv1.LeaseList{}
	began := r.Boottime()
	err := r.Live.List(ctx, list, client.InNamespace(s.world.Namespace), sessionsOf(s.world.Name))
	if err != nil {
		s.memory.restart()
		return fmt.Errorf("reading session leases: %w", err)
	}
	ended := r.Boottime()
	s.sessions = map[int32]*coordinationv1.Lease{}
	for i := range list.Items {
		s.addSession(&list.Items[i])
	}
	s.memory.sessions.Observe(began, ended, s.maxGap(), s.sightings())
	s.watchDoubts(began, ended)
	return nil
}

// sessionsOf selects the session Leases and the canary of a World.
func sessionsOf(world string) client.MatchingLabelsSelector {
	selector, err := labels.Parse(fmt.Sprintf("%s=%s,%s in (%s,%s)", v1alpha1.LabelWorld, world,
		v1alpha1.LabelLease, v1alpha1.LeaseKindSession, v1alpha1.LeaseKindCanary))
	if err != nil {
		panic("a World's name is no label value: " + err.Error()) // CEL keeps it one
	}
	return client.MatchingLabelsSelector{Selector: selector}
}

func (s *scene) addSession(lease *coordinationv1.Lease) {
	if !s.owns(lease) {
		return
	}
	if lease.Name == v1alpha1.CanaryLeaseName(s.world.Name) {
		s.canary = lease
		return
	}
	world, ordinal, err := v1alpha1.ParseNodeName(lease.Name)
	if err == nil && world == s.world.Name && ordinal < v1alpha1.MaxNodes {
		s.sessions[int32(ordinal)] = lease
	}
}

// sightings shows the observer every session Lease there is.
func (s *scene) sightings() map[int32]liveness.Sighting {
	seen := map[int32]liveness.Sighting{}
	for ordinal, lease := range s.sessions {
		seen[ordinal] = liveness.Sighting{UID: string(lease.UID), ResourceVersion: lease.ResourceVersion}
	}
	return seen
}

// ordinals is how many zone nodes exist or are wanted: they are numbered from 0.
func (s *scene) ordinals() int32 {
	n := s.replicas()
	for ordinal := range s.pods {
		n = max(n, ordinal+1)
	}
	for ordinal := range s.sessions {
		n = max(n, ordinal+1)
	}
	return min(n, v1alpha1.MaxNodes)
}

// replicas is what the spec asks for.
func (s *scene) replicas() int32 {
	if s.world.Spec.Nodes.Replicas == nil {
		return 0
	}
	return *s.world.Spec.Nodes.Replicas
}

// leaseDuration is how long a session must be seen unchanged before it is revoked.
func (s *scene) leaseDuration() time.Duration {
	return time.Duration(max(s.world.Spec.Fencing.LeaseDurationSeconds, 1)) * time.Second
}

// patience is how long one session must be seen unchanged: its node may still go by a longer duration than the spec now says.
// What the holder of a lost Lease goes by is not known.
func (s *scene) patience(session *coordinationv1.Lease) time.Duration {
	if standsIn(session) {
		return s.longestDuration()
	}
	if promised := session.Spec.LeaseDurationSeconds; promised != nil {
		return max(s.leaseDuration(), time.Duration(*promised)*time.Second)
	}
	return s.leaseDuration()
}

// longestDuration is the longest lease duration that any node goes by.
func (s *scene) longestDuration() time.Duration {
	longest := s.leaseDuration()
	for _, session := range s.sessions {
		if !standsIn(session) {
			longest = max(longest, s.patience(session))
		}
	}
	return longest
}

// readPeriod is the time between two reads of the session Leases.
func (s *scene) readPeriod() time.Duration { return s.leaseDuration() / 5 }

// maxGap is how far two reads may be apart and still count as watching, and so the time-out of one.
func (s *scene) maxGap() time.Duration { return s.leaseDuration() / 2 }

func (s *scene) paused() bool {
	return s.world.Spec.ManagementPolicy == v1alpha1.ManagementPaused
}

func (s *scene) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.world.Namespace, Name: name}
}

// owns tells the World's own children from objects of somebody else.
func (s *scene) owns(o client.Object) bool {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return ref.UID == s.world.UID
		}
	}
	return false
}

// wake asks for another reconcile after a time.
func (s *scene) wake(after time.Duration) {
	s.wakeUps = append(s.wakeUps, max(after, 10*time.Millisecond))
}

// wakeAt asks for another reconcile at a time, which may be none.
func (s *scene) wakeAt(at time.Time) {
	if !at.IsZero() {
		s.wake(at.Sub(s.now))
	}
}

// next is when the World must be looked at again without anything having happened.
func (s *scene) next() time.Duration {
	next := s.readPeriod()
	for _, after := range s.wakeUps {
		next = min(next, after)
	}
	return next
}

// fail notes an error that another try may cure.
func (s *scene) fail(err error) {
	if err != nil {
		s.failures = append(s.failures, err)
	}
}

// transient is what went wrong for no fault of the spec: worth a retry and a log line.
func (s *scene) transient() error {
	var errs []error
	for _, err := range s.failures {
		errs = append(errs, s.calm(err))
	}
	return errors.Join(errs...)
}

// calm drops conflicts: somebody was faster, or the cache is behind. Looking again soon is all there is to do.
func (s *scene) calm(err error) error {
	if apierrors.IsConflict(err) {
		s.wake(100 * time.Millisecond)
		return nil
	}
	return err
}
