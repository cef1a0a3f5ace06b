package leases

import "time"

// custody is the newest version of a region Lease that an operator saw or wrote: it tells which node may act for the region
// if the Lease is lost. It mirrors controllers.custody.
type custody struct {
	lease
	// unsure: a write on top of this version was sent, and nobody said what became of it.
	unsure bool
}

// doubtDurations is for how many lease durations a lost Lease whose last holder nobody knows is left without an order.
const doubtDurations = 2

// remember takes in a version of a region Lease that was seen or written.
func (o *operator) remember(region int, l lease) {
	if l.exists() && l.version > o.custody[region].version {
		o.custody[region] = custody{lease: l}
	}
}

// unsettled notes that a write on top of a version may have been done or still be.
func (o *operator) unsettled(region int, on lease) {
	if on.version >= o.custody[region].version {
		o.custody[region].unsure = true
	}
}

// remade mirrors scene.remade: a lost region Lease as it is made anew. Only the node that held it last, or had its order,
// may act for it. Whatever session that node has gets it; if it has none, nobody acts; if that is not known, nobody may
// take it until the doubt is over.
func (o *operator) remade(s *scene, region int, epoch int32) lease {
	last := o.custody[region]
	l := lease{transitions: epoch, target: nobody}
	if o.api.mutant.blindRemake {
		l.target = o.api.declared[region]
		return l
	}
	keeper := last.target
	if last.holder != "" {
		keeper = last.life.ordinal
	}
	onItsWay := last.holder != "" && last.target != nobody && last.target != keeper // it may have arrived unseen
	if !last.exists() || last.unsure || keeper == nobody || onItsWay {
		return l
	}
	session := s.sessions[keeper]
	switch {
	case session.taken():
		l.life, l.target = life{keeper, session.transitions}, keeper
	case !session.lost():
		l.target = o.api.declared[region]
	case last.holder != "":
		l.life, l.target = last.life, keeper
	}
	l.holder = o.api.sessionID(l.life)
	return l
}

// unordered tells whether nobody may take a region.
func (l lease) unordered() bool { return l.exists() && l.holder == "" && l.target == nobody }

// watchDoubts mirrors scene.watchDoubts: since when each Lease without an order is seen so, while no session was silent.
func (o *operator) watchDoubts(s *scene, began, ended time.Duration) {
	seen := make([]lease, len(s.regions))
	for region, l := range s.regions {
		if l.unordered() {
			seen[region] = lease{uid: l.uid, version: 1 + o.silences}
		}
	}
	o.doubts.observe(began, ended, maxGap, seen)
	if o.anySilent(s) {
		o.silences++
	}
}

// anySilent mirrors scene.anySilent: whose Lease is lost may be as far behind as who is silent.
func (o *operator) anySilent(s *scene) bool {
	for ordinal, l := range s.sessions {
		if l.lost() || l.taken() && o.seen.unchanged(ordinal) > RenewDeadline {
			return true
		}
	}
	return false
}

// doubtful tells whether somebody may still act for a region whose Lease has no order.
func (o *operator) doubtful(s *scene, region int) bool {
	return s.regions[region].unordered() && !o.api.mutant.doubtless && (o.doubts.unchanged(region) < doubtDurations*LeaseDuration || o.anySilent(s))
}
