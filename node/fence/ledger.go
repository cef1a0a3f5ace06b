package fence

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// ledger is the newest version of each Lease of the World that the API server showed, by watch, list, read or answered
// write. A version never gives way to an older one, so a lagging watch cannot undo what an answered write said, nor a late
// answer bring back what was deleted since. It is the store of the reflector that watches. Bounded: one entry per region of
// the grid and per plausible ordinal.
type ledger struct {
	shape   shape
	changed func()              // called, without the lock, when a fact changed
	foreign func(string, error) // called for a Lease that is not of this World's shape

	mu       sync.Mutex
	synced   bool
	listed   string // the version of the newest list: what it did not show did not exist then
	regions  []regionEntry
	sessions map[int]sessionEntry
}

type regionEntry struct {
	lease *coordinationv1.Lease // nil: unknown or missing
	gone  string                // the version of its deletion, "" if none was seen
	regionFacts
}

type sessionEntry struct {
	lease *coordinationv1.Lease
	gone  string
	sessionFacts
	// former is what was known of the session before its Lease was lost.
	former sessionFacts
}

// standing is what is known of the node's session. A lost Lease says nothing: whoever held it may act until its own deadline
// and does not know, if it is stopped or cut off. So it counts as live until its Lease is another's or nobody's.
func (e sessionEntry) standing() sessionFacts {
	if e.lease == nil || e.lost {
		return e.former
	}
	return e.sessionFacts
}

var _ cache.ReflectorStore = (*ledger)(nil)

func newLedger(s shape, changed func(), foreign func(string, error)) *ledger {
	return &ledger{
		shape: s, changed: changed, foreign: foreign,
		regions:  make([]regionEntry, s.columns*s.rows),
		sessions: map[int]sessionEntry{},
	}
}

// observe takes in a Lease that the API server showed; the ledger shares it and nobody changes it.
func (l *ledger) observe(lease *coordinationv1.Lease) {
	l.mu.Lock()
	changed, err := l.enter(lease)
	changed = changed && l.synced
	l.mu.Unlock()
	if err != nil {
		l.foreign(lease.Name, err)
	}
	if changed {
		l.changed()
	}
}

// enter enters a Lease, unless a newer version of it is known, and reports whether a fact changed.
func (l *ledger) enter(lease *coordinationv1.Lease) (changed bool, err error) {
	switch kind := lease.Labels[v1alpha1.LabelLease]; kind {
	case v1alpha1.LeaseKindRegion:
		facts, err := l.shape.region(lease)
		if err != nil {
			return false, err
		}
		old := l.regions[facts.index]
		if !l.news(lease, old.lease, old.gone) {
			return false, nil
		}
		l.regions[facts.index] = regionEntry{lease: lease, regionFacts: facts}
		l.heed(facts)
		return old.lease == nil || old.regionFacts != facts, nil
	case v1alpha1.LeaseKindSession:
		facts, err := l.shape.session(lease)
		if err != nil {
			return false, err
		}
		old := l.sessions[facts.ordinal]
		if !l.news(lease, old.lease, old.gone) {
			return false, nil
		}
		l.sessions[facts.ordinal] = sessionEntry{lease: lease, sessionFacts: facts, former: old.standing()}
		return old.lease == nil || old.sessionFacts != facts, nil
	default:
		return false, fmt.Errorf("reading lease %s: unknown kind %q", lease.Name, kind)
	}
}

// news reports whether lease is a later version than what is known of it: than the version known, or, if there is none, than
// its deletion and than the list that did not show it.
func (l *ledger) news(lease, known *coordinationv1.Lease, gone string) bool {
	if known != nil {
		return newer(lease, known.ResourceVersion)
	}
	return newer(lease, gone) && newer(lease, l.listed)
}

// newer reports whether lease is later than version. Versions of one API server are comparable; if these are not, or if
// there is no version, lease counts as later.
func newer(lease *coordinationv1.Lease, version string) bool {
	order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, version)
	return err != nil || order > 0
}

// newest returns the later of two versions; if they are not comparable, the second.
func newest(version, other string) string {
	if order, err := resourceversion.CompareResourceVersion(version, other); err == nil && order > 0 {
		return version
	}
	return other
}

// notAfter reports whether known is at most as late as version. Versions that are not comparable count as so.
func notAfter(known *coordinationv1.Lease, version string) bool {
	order, err := resourceversion.CompareResourceVersion(known.ResourceVersion, version)
	return err != nil || order <= 0
}

// Add implements cache.ReflectorStore.
func (l *ledger) Add(obj any) error { return l.withLease(obj, l.observe) }

// Update implements cache.ReflectorStore.
func (l *ledger) Update(obj any) error { return l.withLease(obj, l.observe) }

// Delete implements cache.ReflectorStore. The object carries the version of its deletion.
func (l *ledger) Delete(obj any) error {
	return l.withLease(obj, func(gone *coordinationv1.Lease) {
		l.mu.Lock()
		l.drop(gone.ResourceVersion, func(name string) bool { return name == gone.Name })
		l.mu.Unlock()
		l.changed()
	})
}

// Replace implements cache.ReflectorStore: a list as of version.
func (l *ledger) Replace(list []any, version string) error {
	present := make(map[string]bool, len(list))
	var errs []error
	for _, obj := range list {
		errs = append(errs, l.withLease(obj, func(lease *coordinationv1.Lease) {
			present[lease.Name] = true
			l.observe(lease)
		}))
	}
	l.mu.Lock()
	l.drop(version, func(name string) bool { return !present[name] })
	l.synced, l.listed = true, newest(l.listed, version)
	l.mu.Unlock()
	l.changed()
	return errors.Join(errs...)
}

// Resync implements cache.ReflectorStore.
func (l *ledger) Resync() error { return nil }

func (l *ledger) withLease(obj any, do func(*coordinationv1.Lease)) error {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return fmt.Errorf("watching leases: got a %T", obj)
	}
	do(lease)
	return nil
}

// drop forgets the Leases of those names that are not later than version, but not that they were gone then.
func (l *ledger) drop(version string, gone func(name string) bool) {
	for i := range l.regions {
		if lease := l.regions[i].lease; lease != nil && gone(lease.Name) && notAfter(lease, version) {
			l.regions[i] = regionEntry{gone: version}
		}
	}
	for ordinal, s := range l.sessions {
		if s.lease != nil && gone(s.lease.Name) && notAfter(s.lease, version) {
			l.sessions[ordinal] = sessionEntry{gone: version, former: s.standing()}
		}
	}
	for i := range l.regions {
		l.heed(l.regions[i].regionFacts)
	}
}

// heed takes whom a region Lease names for live if its node's session Lease is lost, unless that session is known to be
// over: nothing else names it to who never saw its Lease. Where it is remains unknown.
func (l *ledger) heed(r regionFacts) {
	node, incarnation, err := v1alpha1.ParseSessionID(r.holder)
	if err != nil {
		return
	}
	ordinal := l.ordinalOf(node)
	if ordinal < 0 {
		return
	}
	e := l.sessions[ordinal]
	silent := e.lease == nil || e.lost
	if silent && (e.former.node == "" || e.former.incarnation < incarnation) {
		e.former = sessionFacts{node: node, ordinal: ordinal, held: true, incarnation: incarnation}
		l.sessions[ordinal] = e
	}
}

// unnamed says why the Leases may not name everybody who acts, "" if they do. A process that begins waits for that: it knows
// nobody from before, and whom it does not know it cannot ask what became of what it takes.
//
// A session is named by its Lease, or, if that is lost, by the regions that it holds (see heed). So no region Lease may be
// missing, or in doubt: made again by an operator that did not know who held it, without a holder and without an order. And
// each node that there must be has its session Lease, be it one that stands in for a lost one: the nodes up to the last that
// has a session, holds a region or has one ordered for it, because a World's nodes are numbered without a gap.
func (l *ledger) unnamed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.synced {
		return "the leases were not listed yet"
	}
	last := -1
	for _, r := range l.regions {
		switch {
		case r.lease == nil:
			return "the lease of a region is missing"
		case r.holder == "" && r.target == "":
			return "nobody knows who held lease " + r.lease.Name + " before it was lost"
		}
		last = max(last, l.ordinalOf(r.holder), l.ordinalOf(r.target))
	}
	for ordinal, s := range l.sessions {
		if s.lease != nil && (s.held || s.lost) {
			last = max(last, ordinal)
		}
	}
	for ordinal := range last + 1 {
		if l.sessions[ordinal].lease == nil {
			return "lease " + v1alpha1.NodeName(l.shape.world, ordinal) + " is missing"
		}
	}
	return ""
}

// ordinalOf is the node of this World that a session or a node name means, -1 if none.
func (l *ledger) ordinalOf(name string) int {
	if node, _, err := v1alpha1.ParseSessionID(name); err == nil {
		name = node
	}
	world, ordinal, err := v1alpha1.ParseNodeName(name)
	if err != nil || world != l.shape.world || ordinal >= maxOrdinal {
		return -1
	}
	return ordinal
}

// region returns what is known of a region; its lease is nil if it has none.
func (l *ledger) region(index int) regionEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.regions[index]
}

// wanted returns the regions for which decide has something to do.
func (l *ledger) wanted(decide func(regionFacts) bool) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.synced {
		return nil
	}
	var indices []int
	for i := range l.regions {
		if l.regions[i].lease != nil && decide(l.regions[i].regionFacts) {
			indices = append(indices, i)
		}
	}
	return indices
}

// table builds the table, nil before the first list. A region whose holder is not a live session counts as free.
func (l *ledger) table() *Table {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.synced {
		return nil
	}
	t := &Table{Regions: make([]Row, len(l.regions))}
	nodes := make(map[string]string, len(l.sessions))
	for _, ordinal := range slices.Sorted(maps.Keys(l.sessions)) {
		s := l.sessions[ordinal].standing()
		session := s.live()
		if session == "" {
			continue
		}
		nodes[session] = s.node
		t.Sessions = append(t.Sessions, PeerInfo{Session: session, Node: s.node, Address: s.address, KeyHash: s.keyHash, Gateway: s.gateway})
	}
	for i, r := range l.regions {
		row := Row{Epoch: uint64(r.epoch), Target: r.target}
		if node, live := nodes[r.holder]; live {
			row.Session, row.Node, row.Stage = r.holder, node, r.stage
		}
		t.Regions[i] = row
	}
	return t
}
