package simtest

import (
	"time"

	"github.com/spatialcells/spatialcells/node/simtest/vault"
)

// storage lets something happen to the store.
func (r *Run) storage(a Action) {
	v, ok := r.Cluster.storage.(*vaultStore)
	if !ok {
		return
	}
	set := func(fn func(bool)) (begin, end func()) { return func() { fn(true) }, func() { fn(false) } }
	switch a.Verb {
	case "storeaway":
		begin, end := set(v.SetAway)
		r.during(faultStoreAway, "store away", a.arg("for"), begin, end)
	case "storecut":
		r.cutStore(r.node(a, "node"), a.arg("for"))
	case "storefull":
		begin, end := set(v.SetFull)
		r.during(faultStoreRefuses, "store full", a.arg("for"), begin, end)
	case "storereadonly":
		begin, end := set(v.SetReadOnly)
		r.during(faultStoreRefuses, "store read-only", a.arg("for"), begin, end)
	case "storeslow":
		r.during(faultStoreSlow, "store slow", a.arg("for"), func() { v.SetSlow(int(a.arg("factor"))) }, func() { v.SetSlow(1) })
	case "storetimeouts":
		r.during(faultStoreTimeouts, "store time-outs", a.arg("for"), func() { v.SetTimeouts(float64(a.arg("percent")) / 100) }, func() { v.SetTimeouts(0) })
	case "failover":
		r.faults.strike(r.Cluster, faultStoreFailover)
		r.say("slot %d of the store fails over", a.arg("slot"))
		v.Failover(int(a.arg("slot")))
	case "failoverall":
		r.faults.strike(r.Cluster, faultStoreFailover)
		r.say("the store fails over")
		v.FailoverAll()
	case "rewind":
		r.rewindStore(v, time.Duration(a.arg("ms"))*time.Millisecond)
	case "storelost":
		r.loseStore(v)
	case "outbid":
		region := r.Grid.RegionAt(int(a.arg("region")) % r.Grid.Regions())
		r.say("the store knows region %v at a higher epoch", region)
		_, epoch := r.control.(*kube).api.Holder(r.Grid.RegionIndex(region))
		v.RaiseFence(region, epoch+uint64(a.arg("by")))
	}
}

// rewindStore lets the store fail over to a copy that was behind.
func (r *Run) rewindStore(v *vaultStore, by time.Duration) {
	r.faults.strike(r.Cluster, faultStoreFailover)
	r.say("the store fails over to a copy that is %v behind", by)
	r.faults.rewound = true
	r.faults.lostWrites += v.Rewind(by)
}

// cutStore takes the store from one node.
func (r *Run) cutStore(n *Node, ticks int64) {
	if n.Engine == nil {
		return
	}
	c := n.store.(*vault.Client)
	r.during(faultStoreAway, "cut of "+n.Session()+" from the store", ticks, func() { c.SetAway(true) }, func() { c.SetAway(false) })
}
