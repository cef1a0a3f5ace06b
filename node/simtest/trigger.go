package simtest

import (
	"slices"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/zone"
)

// triggers let faults begin when a transition is taken, aimed at what it is about. The transition counts as met under the
// class: the fault strikes in the step that took it. A process that dies or stops in its middle does so before anything of
// that step is released, or when part of it is; all else begins when the step is over,
// while what it released is on its way.
type triggers struct {
	run   *Run
	armed [zonePoints][]*trigger
}

// trigger waits for the nth time from now that a transition is taken.
type trigger struct {
	nth   int64
	node  int64 // -1: by any node
	class Fault
	peer  bool // it strikes the peer that the transition is about, if there is one
	ticks int64
	much  int64 // how bad it is: a share, a factor, or what a dying process gets rid of
}

// when arms a trigger.
func (r *Run) when(a Action) {
	p := zone.Point(a.arg("point"))
	t := &r.faults.triggers
	t.run = r
	t.armed[p] = append(t.armed[p], &trigger{
		nth: a.arg("nth"), node: a.arg("node"), class: Fault(a.arg("do")), peer: a.arg("peer") != 0, ticks: a.arg("for"), much: a.arg("much"),
	})
}

func (t *triggers) happened(n *Node, h zone.Happened) {
	waiting := t.armed[h.Point]
	if len(waiting) == 0 {
		return
	}
	t.armed[h.Point] = slices.DeleteFunc(waiting, func(w *trigger) bool {
		if w.node >= 0 && int(w.node)%len(n.c.Nodes) != n.Ordinal {
			return false
		}
		w.nth--
		return w.nth <= 0 && t.strike(w, n, h)
	})
}

// strike begins a trigger's fault; false if there is nothing to strike at now.
func (t *triggers) strike(w *trigger, n *Node, h zone.Happened) bool {
	a, ok := t.run.aim(w, n, h)
	if !ok {
		return false
	}
	n.c.faults.Count[h.Point][w.class]++
	n.c.say("%v at %v of %s", w.class, h.Point, n.Session())
	switch {
	case w.class == faultCrashed:
		t.run.Do(a)
		n.trap.sprung = true
	case (w.class == faultStalled || w.class == faultFenced) && t.run.node(a, "node") == n:
		t.run.Do(a)
	default:
		n.c.At(n.c.Now(), func() { t.run.Do(a) })
	}
	return true
}

// aim composes the action that lets a fault begin around a transition.
func (r *Run) aim(w *trigger, n *Node, h zone.Happened) (a Action, ok bool) {
	peer := r.peerOf(n, h)
	at := n
	if w.peer && peer != nil && peer.Engine != nil {
		at = peer
	}
	act := func(verb string, args ...int64) (Action, bool) { return Action{Verb: verb, Args: args}, true }
	self := int64(at.Ordinal)
	switch w.class {
	case faultCut, faultOneWay, faultSlow:
		return r.aimLink(w, n, peer)
	case faultKilled:
		return act("kill", self, w.ticks, w.much%2)
	case faultCrashed:
		return act("crash", int64(n.Ordinal), int64(h.Point), 1, w.much, w.ticks, w.much%2)
	case faultPaused:
		return act("pause", self, w.ticks)
	case faultStalled:
		return act("stall", self, w.ticks)
	case faultFenced:
		return act("outlive", self, w.ticks%40)
	case faultLeaseDeleted:
		switch region := r.regionOf(at, h); {
		case region < 0 || w.much%2 != 0 && !w.peer:
		case w.much == forgetting:
			return act("forget", int64(region))
		default:
			return act("deleteregion", int64(region))
		}
		return act("deletelease", self)
	case faultSocket:
		if cl := r.playerOf(n, h); cl != nil {
			return act("drop", int64(cl.Account))
		}
		return a, false
	}
	return r.aimAtAll(w, self)
}

// forgetting is how bad the loss of a region Lease is of which the operators know nothing any more.
const forgetting = 64

// aimLink is for what happens to the link between two nodes.
func (r *Run) aimLink(w *trigger, n, peer *Node) (a Action, ok bool) {
	if peer == nil || peer.Engine == nil {
		return a, false
	}
	x, y := int64(n.Ordinal), int64(peer.Ordinal)
	if w.peer {
		x, y = y, x
	}
	switch w.class {
	case faultCut:
		return Action{Verb: "cut", Args: []int64{x, y, w.ticks}}, true
	case faultOneWay:
		return Action{Verb: "oneway", Args: []int64{x, y, w.ticks}}, true
	default:
		return Action{Verb: "slow", Args: []int64{x, y, 3 + w.much%10, w.ticks}}, true
	}
}

// aimAtAll is for what happens to the API and to the store.
func (r *Run) aimAtAll(w *trigger, node int64) (a Action, ok bool) {
	percent := 1 + w.much%40
	switch w.class {
	case faultNodeCut:
		a = Action{Verb: "cutapi", Args: []int64{node, w.ticks}}
	case faultAPIAway:
		a = Action{Verb: "outage", Args: []int64{w.ticks}}
	case faultAPIErrors:
		a = Action{Verb: "apierrors", Args: []int64{percent, w.ticks}}
	case faultWatchLag:
		a = Action{Verb: "lag", Args: []int64{100 * percent, w.ticks}}
	case faultStoreAway:
		a = Action{Verb: "storeaway", Args: []int64{w.ticks}}
	case faultStoreRefuses:
		a = Action{Verb: []string{"storefull", "storereadonly"}[w.much%2], Args: []int64{w.ticks}}
	case faultStoreSlow:
		a = Action{Verb: "storeslow", Args: []int64{2 + percent/2, w.ticks}}
	case faultStoreTimeouts:
		a = Action{Verb: "storetimeouts", Args: []int64{percent, w.ticks}}
	case faultStoreFailover:
		a = Action{Verb: "failoverall"}
	case faultStoreLost:
		a = Action{Verb: "storelost"}
	default:
		return a, false
	}
	return a, true
}

// peerOf is the node that a transition is about besides its own, else the next one that runs; nil in a world of one.
func (r *Run) peerOf(n *Node, h zone.Happened) *Node {
	for _, other := range r.Nodes {
		if other != n && other.Engine != nil && other.Session() == h.Peer {
			return other
		}
	}
	for i := range r.Nodes {
		if other := r.Nodes[(n.Ordinal+1+i)%len(r.Nodes)]; other != n && other.Engine != nil {
			return other
		}
	}
	return nil
}

// regionOf is the region that a transition is about, else one that the node holds; -1 if there is none.
func (r *Run) regionOf(n *Node, h zone.Happened) int {
	switch h.Point {
	case zone.MoveBegan, zone.MoveDraining, zone.MoveCut, zone.MoveStaged, zone.MoveCommitted, zone.MoveAborted, zone.StagePrepared,
		zone.StageCompleted, zone.StageActivated, zone.StageDropped, zone.RecoveryBegan, zone.RecoveryOutbid, zone.RecoveryLoaded, zone.RecoveryAsked, zone.RecoveryAnswered, zone.RecoveryExcused,
		zone.RecoveryBlocked, zone.RecoveryActivated, zone.RegionSurrendered, zone.ClaimingAnswered:
		return int(h.Place)
	}
	for i := range r.Grid.Regions() {
		if r.control.holder(i) == n.Session() {
			return i
		}
	}
	return -1
}

// playerOf is the connected player whom a transition is about, else one of those connected to the node, else any.
func (r *Run) playerOf(n *Node, h zone.Happened) (found *Client) {
	for _, cl := range r.Clients {
		switch {
		case !cl.Open:
		case cl.Account == h.Account || h.Entity != 0 && cl.Welcome != nil && ecs.EntityID(cl.Welcome.Entity) == h.Entity:
			return cl
		case found == nil || found.Node != n && cl.Node == n:
			found = cl
		}
	}
	return found
}
