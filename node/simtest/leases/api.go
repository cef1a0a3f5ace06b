package leases

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/simtest/timeline"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Options shape a World and who looks after it.
type Options struct {
	Timeline *timeline.Timeline
	// Rand is all the chance there is.
	Rand  *rand.Rand
	World string
	Grid  torus.Grid
	Nodes int
	// Owner is the ordinal that each region is assigned to.
	Owner func(region int) (ordinal int)
	// Operators is how many operators believe that they lead, at least 1.
	Operators int
	// Redistribution is how long the regions of a dead node wait for it before live nodes get them. Default 5 s.
	Redistribution time.Duration
}

// API is the API server with all that talks to it.
type API struct {
	options  Options
	names    []string // of the Leases; a node has the name of its session Lease
	leases   []lease
	version  uint64
	uids     uint64
	sessions map[life]string
	lives    map[life]bool

	// What the World and its children remember: the bound of all epochs and incarnations, the assignment, the pods.
	highest  int32
	declared []int
	moving   []bool // regions that are to be where they are declared, also while another node holds them
	pods     []pod

	views     []*view
	operators []*operator
	processes []*Process // those that run

	cut     []bool
	outage  bool
	weather Weather

	broken   []string
	counters Counters
	mutant   mutant
}

// mutant breaks one rule, for tests of the tests.
type mutant struct {
	deadlineFromAnswer bool // the deadline counts from the answer of a renewal
	hastyRevoke        bool // a session is revoked after half a lease duration
	blindTake          bool // a region is taken whatever its version is
	blindRemake        bool // a lost region is made anew for whom the assignment names
	doubtless          bool // a lost region is ordered though nobody knows who held it
	hastySession       bool // a lost session Lease is made anew at once, and free
	absenceIsDeath     bool // a process takes a session whose Lease is missing for over
	beginsAtOnce       bool // a process that begins does not wait until the Leases name everybody
}

// Counters say how often each thing happened, faults above all: a run that never met a fault shows nothing about it.
type Counters struct {
	Requests, Conflicts                       uint64
	Stuck, Mute, Slow, Refused409, Failed500  uint64
	SentWhileCut, LostInOutage, BrokenWatches uint64
	// LandedLate: writes and reads that took effect after their sender gave up or was dead.
	LandedLate uint64
	// Coalesced: watch events that were seen together with a later one only.
	Coalesced uint64

	// Thawed: sessions that were renewed after their deadline, before anybody else took them. Lost: those that were taken.
	Thawed, Lost uint64
	// WaitedOut: sessions taken from a silent holder by their node's next pod.
	WaitedOut                              uint64
	Taken, Inherited, Raised, UnknownTakes uint64
	// Committed are regions that were handed over, Settled those that were not, after a write that was not answered.
	Committed, Settled uint64

	// Revoked: sessions that were silent; RevokedAtOnce: those whose pod had ended.
	Revoked, RevokedAtOnce, Freed, Ordered, Redistributed uint64
	// Doubted: lost region Leases that were made anew without an order, because nobody knew who held them.
	Deleted, Recreated, Doubted uint64
	// StoodIn: session Leases that were made in place of lost ones.
	StoodIn uint64
	// NumbersReused: sessions with a number that was used before. A correct run has none.
	NumbersReused uint64
}

// Add sums the counters of several runs.
func (c *Counters) Add(other Counters) {
	sum, more := reflect.ValueOf(c).Elem(), reflect.ValueOf(other)
	for i := range sum.NumField() {
		sum.Field(i).SetUint(sum.Field(i).Uint() + more.Field(i).Uint())
	}
}

const (
	// epochStep is by how much highestEpoch is ahead of the epochs in use, as in controllers.
	epochStep = 1000
	// defaultRedistribution is short, so that a run sees much of it.
	defaultRedistribution = 5 * time.Second
)

// New makes a World with all its Leases, as the operator does before any pod may exist, and starts the operators.
func New(o Options) *API {
	if o.Redistribution == 0 {
		o.Redistribution = defaultRedistribution
	}
	n := o.Nodes + o.Grid.Regions()
	a := &API{
		options: o, leases: make([]lease, n), sessions: map[life]string{}, lives: map[life]bool{},
		highest: 1 + epochStep, pods: make([]pod, o.Nodes), cut: make([]bool, o.Nodes),
	}
	for ordinal := range o.Nodes {
		a.names = append(a.names, v1alpha1.NodeName(o.World, ordinal))
		a.create(ordinal, lease{target: nobody})
	}
	for region := range o.Grid.Regions() {
		at := o.Grid.RegionAt(region)
		a.names = append(a.names, v1alpha1.RegionLeaseName(o.World, int(at.Column), int(at.Row)))
		a.declared, a.moving = append(a.declared, o.Owner(region)), append(a.moving, false)
		a.create(a.regionSlot(region), lease{transitions: 1, target: o.Owner(region)})
	}
	for range max(o.Operators, 1) {
		a.operators = append(a.operators, a.startOperator())
	}
	return a
}

func (a *API) now() time.Duration { return a.options.Timeline.Now() }

// nodeName names a node, "" for nobody.
func (a *API) nodeName(ordinal int) string {
	if ordinal == nobody {
		return ""
	}
	return a.names[ordinal]
}

// forget takes a process off the list of those that run.
func (a *API) forget(p *Process) {
	a.processes = slices.DeleteFunc(a.processes, func(q *Process) bool { return q == p })
}

// CutNode cuts a node off from the API server: requests of its processes are lost or get stuck, and land up to seconds later
// if they do; answers do not come; watches are silent, and made anew some time after the cut is mended.
func (a *API) CutNode(ordinal int, cut bool) { a.cut[ordinal] = cut }

// CutOperator does the same to one operator.
func (a *API) CutOperator(i int, cut bool) { a.operators[i].cut = cut }

// RestartOperator kills an operator and starts another, which remembers nothing.
func (a *API) RestartOperator(i int) {
	a.operators[i].dead = true
	a.operators[i] = a.startOperator()
}

// SetOutage takes the API server away from everybody, with all requests under way, or brings it back.
func (a *API) SetOutage(outage bool) { a.outage = outage }

// SetWeather changes what happens to requests and watch events from now on.
func (a *API) SetWeather(w Weather) { a.weather = w }

// DeleteLease deletes a session or region Lease as an administrator can, past the policies. The operator makes it anew.
// It reports whether there was one of that name.
func (a *API) DeleteLease(name string) bool {
	slot := slices.Index(a.names, name)
	if slot < 0 || !a.leases[slot].exists() {
		return false
	}
	a.counters.Deleted++
	a.remove(slot)
	return true
}

// pod is the pod of a node as the API server shows it.
type pod struct {
	uid   string
	over  bool
	ended time.Duration
}

// PodDied reports the end of a node's pod: it is Failed or being deleted, and its container ended with a known exit. The
// operator sees it 0.2 to 3 s later and revokes the session at once if that pod holds it. (A container that ends in a pod
// that lives on is Kill and Start with the same uid, and needs no revoke.) It panics if a process of the pod still runs: the
// kubelet reports what it saw.
func (a *API) PodDied(ordinal int) {
	if a.runs(ordinal, a.pods[ordinal].uid) {
		panic("leases: the pod of " + a.names[ordinal] + " is reported dead while its process runs")
	}
	a.pods[ordinal].over, a.pods[ordinal].ended = true, a.now()
	a.podChanged(ordinal)
}

// runs reports whether a process of a pod runs, stopped or not.
func (a *API) runs(ordinal int, podUID string) bool {
	return slices.ContainsFunc(a.processes, func(p *Process) bool { return p.ordinal == ordinal && p.pod == podUID })
}

// podChanged shows a pod to the operators, late.
func (a *API) podChanged(ordinal int) {
	shown := a.pods[ordinal]
	for _, o := range a.operators {
		o.after(200*time.Millisecond+a.some(2800*time.Millisecond), func() { o.seePod(ordinal, shown) })
	}
}

// Order assigns a region to another node. Only a region that is free moves: one that is held stays with its holder, until
// that is over.
func (a *API) Order(region, ordinal int) {
	a.declared[region] = ordinal
	for _, o := range a.operators {
		o.after(a.some(100*time.Millisecond), o.wake)
	}
}

// Move assigns a region to another node for good: one that is held is ordered away from who holds it, as soon as that node lives.
func (a *API) Move(region, ordinal int) {
	a.moving[region] = true
	a.Order(region, ordinal)
}

// Holder is the session that a region's Lease names, whether that is live or not, and its epoch; 0 if there is no Lease.
func (a *API) Holder(region int) (session string, epoch uint64) {
	l := a.leases[a.regionSlot(region)]
	return l.holder, uint64(l.transitions)
}

// Holding is the session that a node's Lease names, "" if nobody holds it or nobody knows who does.
func (a *API) Holding(ordinal int) (session string) {
	l := a.leases[ordinal]
	if !l.taken() {
		return ""
	}
	return a.sessionID(life{ordinal, l.transitions})
}

// Broken lists the writes that broke a rule of the lease policies, and processes that had two writes of one Lease in flight.
// A correct run has none.
func (a *API) Broken() []string { return a.broken }

// Counters are what happened so far.
func (a *API) Counters() Counters { return a.counters }
