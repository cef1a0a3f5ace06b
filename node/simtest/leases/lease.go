package leases

import (
	"fmt"
	"time"
)

// life is one incarnation of a node; the zero value is nobody.
type life struct {
	ordinal     int
	incarnation int32
}

// lease is a session or a region Lease. The zero value is one that does not exist.
type lease struct {
	uid, version uint64
	// holder is the pod uid on a session Lease, or lostHolder, and the session on a region Lease, "" if nobody holds it.
	holder string
	// life is who holder is, on a region Lease.
	life        life
	transitions int32
	// target is the node that a region is ordered for, nobody if none.
	target int
	// stage is what the holder was given a region with, if it came by a move.
	stage string

	created, renewed, acquired time.Duration
	// revoked is the incarnation that the operator revoked last, at revokedAt.
	revoked   int32
	revokedAt time.Duration
}

// nobody is no ordinal.
const nobody = -1

func (l lease) exists() bool { return l.uid != 0 }

// lostHolder mirrors v1alpha1.LostHolder: it holds a session Lease that an operator made in place of a lost one, until
// that was seen to stand still for a full lease duration. No pod has this uid.
const lostHolder = "lost"

// lost mirrors scene.sessionLost: nobody can know from this session Lease who lives.
func (l lease) lost() bool { return !l.exists() || l.holder == lostHolder }

// taken mirrors scene.sessionHeld: a process took this session Lease.
func (l lease) taken() bool { return l.holder != "" && !l.lost() }

// says leaves out what changes with each renewal.
func (l lease) says() lease {
	l.version, l.renewed = 0, 0
	return l
}

// Leases are numbered: the sessions by ordinal, then the regions.

func (a *API) regionSlot(region int) int { return a.options.Nodes + region }

func (a *API) isSession(slot int) bool { return slot < a.options.Nodes }

// outcome is what an answer says about a request, as in node/fence.
type outcome uint8

const (
	// done: the request took effect.
	done outcome = iota + 1
	// conflict: it did not, the object is another version by now, or so it says.
	conflict
	// refused: the server answered and did nothing; here, the object does not exist.
	refused
	// unknown: it took effect, or will, or will not.
	unknown
)

// get is what a GET answers.
func (a *API) get(slot int) (lease, outcome) {
	if l := a.leases[slot]; l.exists() {
		return l, done
	}
	return lease{}, refused
}

// writer is who writes: an ordinal and a pod, or the operator.
type writer struct {
	ordinal int
	pod     string
}

var operatorWrites = writer{ordinal: nobody}

// put is a PUT of an object that came from the API: it takes effect only on the very version it was made from.
func (a *API) put(by writer, slot int, next lease) (lease, outcome) {
	old := a.leases[slot]
	blind := a.mutant.blindTake && by != operatorWrites && !a.isSession(slot)
	if !old.exists() || (old.uid != next.uid || old.version != next.version) && !blind {
		a.counters.Conflicts++
		return lease{}, conflict
	}
	a.judge(by, slot, old, next)
	next.uid, next.created = old.uid, old.created
	return a.store(slot, next), done
}

// store enters a new version and tells the watches what changed.
func (a *API) store(slot int, next lease) lease {
	old := a.leases[slot]
	a.version++
	next.version, next.renewed = a.version, a.now()
	if next.holder != old.holder || next.transitions != old.transitions {
		next.acquired = a.now()
	}
	if a.isSession(slot) && next.transitions != old.transitions && next.taken() {
		a.born(life{slot, next.transitions})
	}
	a.leases[slot] = next
	if next.says() != old.says() {
		a.tell(slot, next)
	}
	return next
}

// born counts the sessions whose number was used before: possible only after a deleted session Lease was made anew.
func (a *API) born(l life) {
	if a.lives[l] {
		a.counters.NumbersReused++
	}
	a.lives[l] = true
}

// create makes a Lease that does not exist; one that does is left alone.
func (a *API) create(slot int, l lease) (lease, outcome) {
	if a.leases[slot].exists() {
		a.counters.Conflicts++
		return lease{}, conflict
	}
	a.uids++
	l.uid, l.created = a.uids, a.now()
	return a.store(slot, l), done
}

// remove deletes a Lease whoever holds it.
func (a *API) remove(slot int) {
	a.leases[slot] = lease{}
	a.version++
	a.tell(slot, lease{version: a.version})
}

// judge notes which rules of the lease policies (controllers/policy) a write breaks. It does not refuse it: the fence must
// hold without the policies.
func (a *API) judge(by writer, slot int, old, next lease) {
	note := func(rule string) {
		a.broken = append(a.broken, fmt.Sprintf("%v: %s by node %d: holder %q -> %q, transitions %d -> %d: %s",
			a.now(), a.names[slot], by.ordinal, old.holder, next.holder, old.transitions, next.transitions, rule))
	}
	sameHolder, sameNumber := next.holder == old.holder, next.transitions == old.transitions
	if next.transitions < old.transitions {
		note("transitions must not decrease")
	}
	if !sameHolder && next.holder != "" && next.transitions != old.transitions+1 {
		note("a new holder must raise transitions by exactly one")
	}
	if by == operatorWrites && (!sameNumber || !sameHolder && next.holder != "") {
		note("the operator only revokes, frees and orders")
	}
	if by == operatorWrites {
		return
	}
	switch {
	case a.isSession(slot):
		if slot != by.ordinal || next.holder != by.pod {
			note("a node writes only its own session")
		}
		if !sameNumber && next.transitions != old.transitions+1 {
			note("an incarnation follows the one before")
		}
	case next.target != old.target:
		note("only the operator orders")
	case old.holder == "" && old.target != by.ordinal:
		note("only the node that its target names may take a region")
	case old.holder != "" && old.life.ordinal != by.ordinal:
		note("only its holder may write a region")
	}
}
