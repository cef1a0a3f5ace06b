package controllers

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/liveness"
)

// What if a region Lease is deleted while its holder lives? The holder acts on until its watch shows it, and no deadline
// bounds how long that takes: its session is renewed all the while. So a lost Lease is made anew for the one node that may
// act for the region, which is the node of its last holder, or, as it may have been taken unseen, of its last order:
//
//   - that node has a session: the Lease is born held by it;
//   - it has none: its sessions are over, nobody acts, and the region is ordered as any free one;
//   - its session Lease is lost too: the Lease is born held by the last holder, until its session is known to be over, see
//     ensureSessionLeases;
//   - this operator does not know (it came after the deletion, the region was on its way from one node to another, or a write
//     of its own was not answered): the Lease is born without an order, so that nobody may take it, and is ordered after doubtDurations lease durations in which this
//     operator read all the time and no session was silent. By then every watch has shown the deletion.

// custody is the newest version of a region Lease that this operator saw or wrote.
type custody struct {
	lease *coordinationv1.Lease
	// unsure: a write on top of this version was sent, and nobody said what became of it.
	unsure bool
}

// doubtDurations is for how many lease durations a region whose last holder nobody knows is left without an order: one in
// which a session that was cut off is found silent, one in which its watch is made anew and catches up.
const doubtDurations = 2

// custodian remembers who may act for each region of one World.
type custodian struct {
	regions []custody
	// doubts watches the Leases without an order, by region. A silence makes each of them look another one.
	doubts   liveness.Observer
	silences int
}

// of sizes the custodian for a grid.
func (c *custodian) of(size int) *custodian {
	if len(c.regions) != size {
		c.regions = make([]custody, size)
	}
	return c
}

// remember takes in a version of a region Lease that was seen or written, and returns the newest one that is known: a cache
// that is behind must not make the operator plan with what it changed itself. former is the version before it, nil if lease
// is none that is new, or the first.
func (c *custodian) remember(index int, lease *coordinationv1.Lease) (newest, former *coordinationv1.Lease) {
	known := c.regions[index].lease
	if known != nil {
		order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, known.ResourceVersion)
		if err == nil && order <= 0 {
			return known, nil
		}
	}
	kept := *lease // a pointer into a list would keep the whole list, one for each region that changed at another time
	c.regions[index] = custody{lease: &kept}
	return lease, known
}

// unsettled takes in a write on top of a version, nil to create the Lease, that failed: unless the API server refused it, it
// may have been done, or may still be.
func (c *custodian) unsettled(index int, on *coordinationv1.Lease, err error) {
	known := &c.regions[index]
	if err != nil && !refused(err) && (on == nil || known.lease == nil || known.lease.ResourceVersion == on.ResourceVersion) {
		known.unsure = true
	}
}

// refused tells whether an error is the API server's word that it did nothing.
func refused(err error) bool {
	var edit *blocked
	if errors.As(err, &edit) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// keeper is the node that may act for a region under the version that is known, -1 if that is not known.
func (s *scene) keeper(index int) int32 {
	last := s.memory.custody.of(len(s.regions)).regions[index]
	if last.lease == nil || last.unsure {
		return -1
	}
	holder, target := s.nodeOf(holderOf(last.lease)), s.targetNode(last.lease)
	switch {
	case holderOf(last.lease) == "":
		return target
	case target >= 0 && target != holder: // it was on its way, and may have arrived unseen
		return -1
	}
	return holder
}

// remade is the Lease of a region that has none, at an epoch above all that were used.
func (s *scene) remade(index int, epoch int32) *coordinationv1.Lease {
	lease := s.regionLease(index, epoch)
	if !s.lived() {
		return lease
	}
	keeper := s.keeper(index)
	last := ""
	if keeper >= 0 {
		last = holderOf(s.memory.custody.regions[index].lease)
	}
	switch {
	case keeper >= 0 && s.sessionHeld(keeper):
		return s.bornHeld(lease, keeper, s.sessionID(keeper))
	case keeper >= 0 && !s.sessionLost(keeper):
		if unordered(lease) { // the assignment names nobody now
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationTarget, v1alpha1.NodeName(s.world.Name, int(keeper)))
		}
		return lease
	case last != "":
		return s.bornHeld(lease, keeper, last)
	}
	delete(lease.Annotations, v1alpha1.AnnotationTarget)
	return lease
}

func (s *scene) bornHeld(lease *coordinationv1.Lease, keeper int32, session string) *coordinationv1.Lease {
	now := new(v1alpha1.LeaseTime(lease.Spec.RenewTime, s.now))
	lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.RenewTime = &session, now, now
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationTarget, v1alpha1.NodeName(s.world.Name, int(keeper)))
	return lease
}

// lived tells whether a node of the World may ever have lived. Of a World that was never begun, or whose beginning was
// interrupted, everything that is missing was never there.
func (s *scene) lived() bool {
	if s.reported.HighestEpoch == 0 {
		return false
	}
	if s.statefulSet != nil || len(s.pods) > 0 {
		return true
	}
	for _, session := range s.sessions {
		if transitionsOf(session) > 0 {
			return true
		}
	}
	for session := range s.lives {
		if s.nodeOf(session) >= 0 {
			return true
		}
	}
	return false
}

// unordered tells whether nobody holds a region and nobody may take it.
func unordered(lease *coordinationv1.Lease) bool {
	return lease != nil && holderOf(lease) == "" && targetOf(lease) == ""
}

// watchDoubts shows the observer every Lease without an order, after a read of the sessions.
func (s *scene) watchDoubts(began, ended time.Duration) {
	c := &s.memory.custody
	seen := map[int32]liveness.Sighting{}
	for i, lease := range s.regions {
		if unordered(lease) {
			seen[int32(i)] = liveness.Sighting{UID: string(lease.UID), ResourceVersion: strconv.Itoa(c.silences)}
		}
	}
	c.doubts.Observe(began, ended, s.maxGap(), seen)
	if s.anySilent() {
		c.silences++
	}
}

// anySilent tells whether a node may be behind: it did not renew in time, or its session Lease is lost.
func (s *scene) anySilent() bool {
	for ordinal, session := range s.sessions {
		if s.silent(ordinal) || standsIn(session) {
			return true
		}
	}
	return false
}

// doubtful tells whether somebody may still act for a region that nobody may take.
func (s *scene) doubtful(index int) bool {
	return unordered(s.regions[index]) && (s.memory.custody.doubts.Unchanged(int32(index)) < s.doubtTime() || s.anySilent())
}

// doubtTime is how long a region stays in doubt: its holder may go by a longer duration than the spec now says.
func (s *scene) doubtTime() time.Duration {
	return doubtDurations * s.longestDuration()
}

// inDoubt counts the regions that are in doubt.
func (s *scene) inDoubt() int {
	n := 0
	for i := range s.regions {
		if s.doubtful(i) {
			n++
		}
	}
	return n
}
