package fence

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// maxFact bounds each name and address that is believed when it is read from a Lease, in bytes.
const maxFact = 512

// regionFacts is what a region Lease says.
type regionFacts struct {
	// index is the region, row by row.
	index  int
	holder string
	epoch  int32
	target string
	stage  string
}

// sessionFacts is what a session Lease says.
type sessionFacts struct {
	node        string
	ordinal     int
	held        bool
	lost        bool // the Lease stands in for one that was lost
	incarnation int32
	address     string
	keyHash     string
	gateway     string
}

// live returns the session that holds the Lease, "" if none does.
func (s sessionFacts) live() string {
	if !s.held {
		return ""
	}
	world, ordinal, err := v1alpha1.ParseNodeName(s.node)
	if err != nil {
		return ""
	}
	return v1alpha1.SessionID(world, ordinal, s.incarnation)
}

// shape bounds which Leases belong to a World: a region Lease lies in its grid, a session Lease has a plausible ordinal.
type shape struct {
	world         string
	columns, rows int
}

// region reads a region Lease. The error says why it is none of this World.
func (s shape) region(lease *coordinationv1.Lease) (regionFacts, error) {
	if err := s.belongs(lease); err != nil {
		return regionFacts{}, err
	}
	column, row, err := v1alpha1.ParseRegionLabel(lease.Labels[v1alpha1.LabelRegion])
	if err != nil {
		return regionFacts{}, fmt.Errorf("reading lease %s: %w", lease.Name, err)
	}
	if column >= s.columns || row >= s.rows || lease.Name != v1alpha1.RegionLeaseName(s.world, column, row) {
		return regionFacts{}, fmt.Errorf("reading lease %s: it is not the lease of a region of a grid of %d x %d", lease.Name, s.columns, s.rows)
	}
	f := regionFacts{index: row*s.columns + column, holder: holderOf(lease), epoch: transitionsOf(lease), target: lease.Annotations[v1alpha1.AnnotationTarget], stage: lease.Annotations[v1alpha1.AnnotationStage]}
	return f, limited(lease.Name, f.holder, f.target, f.stage)
}

// session reads a session Lease. The error says why it is none of this World.
func (s shape) session(lease *coordinationv1.Lease) (sessionFacts, error) {
	if err := s.belongs(lease); err != nil {
		return sessionFacts{}, err
	}
	world, ordinal, err := v1alpha1.ParseNodeName(lease.Name)
	if err != nil || world != s.world || ordinal >= maxOrdinal {
		return sessionFacts{}, fmt.Errorf("reading lease %s: it is not the session of a node of World %s", lease.Name, s.world)
	}
	holder := holderOf(lease)
	lost := holder == v1alpha1.LostHolder
	f := sessionFacts{
		node: lease.Name, ordinal: ordinal, held: holder != "" && !lost, lost: lost, incarnation: transitionsOf(lease),
		address: lease.Annotations[v1alpha1.AnnotationAddress],
		keyHash: lease.Annotations[v1alpha1.AnnotationKeyHash],
		gateway: lease.Annotations[v1alpha1.AnnotationGateway],
	}
	return f, limited(lease.Name, f.address, f.keyHash, f.gateway)
}

// belongs reports whether the Lease is labelled for this World and complete.
func (s shape) belongs(lease *coordinationv1.Lease) error {
	if lease.Labels[v1alpha1.LabelWorld] != s.world {
		return fmt.Errorf("reading lease %s: it belongs to another World", lease.Name)
	}
	if transitionsOf(lease) < 0 {
		return fmt.Errorf("reading lease %s: its leaseTransitions are negative", lease.Name)
	}
	return nil
}

// limited refuses facts that are too long to be meant.
func limited(name string, facts ...string) error {
	for _, fact := range facts {
		if len(fact) > maxFact {
			return fmt.Errorf("reading lease %s: a value of %d bytes, at most %d are allowed", name, len(fact), maxFact)
		}
	}
	return nil
}

// holderOf returns the holder, "" if there is none.
func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// transitionsOf returns the incarnation or epoch, 0 if there is none.
func transitionsOf(lease *coordinationv1.Lease) int32 {
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

// durationOf returns what the holder promised, 0 if nothing.
func durationOf(lease *coordinationv1.Lease) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

// rewritten returns a copy of a Lease that came from the API, with the given holder and transitions and the time of the
// change. Whatever the clock of the machine says, the time goes on, for two reasons. A PUT of what is there already is none: the API
// server keeps the resourceVersion, so nobody would see a renewal by it, and it would settle no write of unknown outcome. And a next
// life must know from when on the ids of those before it are not in use (Session.NotBefore). A stage belongs to the holder that
// was given it.
func rewritten(lease *coordinationv1.Lease, holder string, transitions int32) *coordinationv1.Lease {
	next := lease.DeepCopy()
	now := v1alpha1.LeaseTime(lease.Spec.RenewTime, time.Now())
	next.Spec.RenewTime = &now
	if holder != holderOf(lease) || transitions != transitionsOf(lease) {
		next.Spec.AcquireTime = &now
	}
	if holder != holderOf(lease) {
		delete(next.Annotations, v1alpha1.AnnotationStage)
	}
	next.Spec.HolderIdentity = &holder
	next.Spec.LeaseTransitions = &transitions
	return next
}
