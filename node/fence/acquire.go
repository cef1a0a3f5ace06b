package fence

import (
	"fmt"
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// observation is how long one version of a Lease was seen, by the observer's own clock. The zero value has seen nothing.
type observation struct {
	uid     types.UID
	version string
	// since is when the first read of this version was answered, last when the newest was.
	since, last time.Duration
}

// see takes in a read that was sent and answered at these boot-time readings, and returns for how long the version has
// been unchanged at least: from the answer of the first read, because the version is at most that old, to the sending of
// this one, because it is at least that new. A gap between reads starts anew: time in which this process did not look does
// not count.
func (o *observation) see(sent, answered time.Duration, lease *coordinationv1.Lease, gap time.Duration) time.Duration {
	known := o.version != "" && o.uid == lease.UID && o.version == lease.ResourceVersion
	if !known || sent-o.last > gap {
		*o = observation{uid: lease.UID, version: lease.ResourceVersion, since: answered, last: answered}
		return 0
	}
	o.last = answered
	return sent - o.since
}

// forget starts the observation anew, after a read that failed.
func (o *observation) forget() { *o = observation{} }

// acquisition decides when a node may take its session Lease.
type acquisition struct {
	world  string
	holder string
	// duration is the least time that another holder's Lease must be seen unchanged.
	duration time.Duration
	// gap is the longest time between two reads of one observation.
	gap  time.Duration
	seen observation
}

// step is what to do with a Lease, and why.
type step struct {
	take   bool
	reason string
}

// decide takes in a read of the session Lease. take means: write this very version now.
func (a *acquisition) decide(sent, answered time.Duration, lease *coordinationv1.Lease) step {
	holder := holderOf(lease)
	switch {
	case lease.Labels[v1alpha1.LabelWorld] != a.world || lease.Labels[v1alpha1.LabelLease] != v1alpha1.LeaseKindSession:
		a.seen.forget()
		return step{reason: "it is not labelled as a session lease of this World; the operator must make it anew"}
	case transitionsOf(lease) == math.MaxInt32:
		a.seen.forget()
		return step{reason: "its incarnation number is exhausted; delete the World and create it anew"}
	case holder == "":
		return step{take: true, reason: "nobody holds it"}
	case holder == a.holder:
		return step{take: true, reason: "the holder is an earlier container of this pod"}
	}
	// Both sides keep the longer promise: the holder's own duration, if that is longer than ours.
	duration := max(a.duration, durationOf(lease))
	unchanged := a.seen.see(sent, answered, lease, a.gap)
	if unchanged >= duration {
		return step{take: true, reason: fmt.Sprintf("holder %s did not renew it for %s", holder, duration)}
	}
	return step{reason: fmt.Sprintf("held by %s, unchanged for %s of %s", holder, unchanged.Round(100*time.Millisecond), duration)}
}
