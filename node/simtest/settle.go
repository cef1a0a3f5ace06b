package simtest

import (
	"fmt"
	"slices"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Settle lets the world come to rest: faults that are going on end as planned, players come back, and after at most
// SettleTicks everybody is in the world, sees everybody in sight, and nothing is kept, owed or lost.
func (r *Run) Settle() error {
	r.say("the world may settle")
	for range r.Plan.SettleTicks {
		if r.settled() == nil {
			return nil
		}
		if err := r.pass(); err != nil {
			return err
		}
	}
	if why := r.settled(); why != nil {
		r.check.broke(0, "the world does not settle: %v", why)
		return r.check.first
	}
	return nil
}

// settled says what is still unsettled.
func (r *Run) settled() error {
	for i := range faultCount {
		if r.faults.going[i] > 0 {
			return fmt.Errorf("%v goes on", i)
		}
	}
	for _, check := range []func() error{r.nodesSettled, r.playersSettled, r.entitiesSettled, r.subscriptionsSettled} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) nodesSettled() error {
	for _, n := range r.Nodes {
		if !n.Acts() || n.paused || n.held != nil {
			return fmt.Errorf("%s does not act", n.Session())
		}
		if st := n.Engine.Stats(); st.Outgoing > 0 || st.RegionsRecovering > 0 || st.CommandsOpen > 0 || st.ItemsOpen > 0 {
			return fmt.Errorf("%s keeps %d offers, recovers %d regions, waits for %d commands and has %d items under way",
				n.Session(), st.Outgoing, st.RegionsRecovering, st.CommandsOpen, st.ItemsOpen)
		}
	}
	for i := range r.Grid.Regions() {
		holder := r.control.holder(i)
		if holder == "" {
			return fmt.Errorf("region %v is free", r.Grid.RegionAt(i))
		}
		for _, n := range r.Nodes {
			if n.table == nil || n.table.At(i).Session != holder {
				return fmt.Errorf("%s does not know that %s holds region %v", n.Session(), holder, r.Grid.RegionAt(i))
			}
		}
	}
	return nil
}

func (r *Run) playersSettled() error {
	for _, cl := range r.Clients {
		if !cl.Open || cl.Own() == nil || !cl.Complete || cl.Unanswered() > 0 {
			var info zone.SessionInfo
			if cl.Node.Engine != nil {
				info, _ = cl.Node.Engine.Session(cl.Account)
			}
			return fmt.Errorf("account %d at %s: open %v, in the world %v, set complete %v, %d inputs unanswered, %+v",
				cl.Account, cl.Node.Session(), cl.Open, cl.Own() != nil, cl.Complete, cl.Unanswered(), info)
		}
		for _, other := range r.Clients {
			if err := r.seesWell(cl, other); err != nil {
				return err
			}
		}
	}
	return nil
}

// reach is how far, in metres, a client may see another from where it is: their gateways are ticks apart.
const reach = 8

func (r *Run) seesWell(cl, other *Client) error {
	if other.Own() == nil {
		return nil
	}
	truth := other.At(other.Own(), other.Tick)
	seen := cl.Entities[other.Own().ID]
	if seen == nil && cl.surrounds(truth) {
		return fmt.Errorf("account %d does not see account %d at %v", cl.Account, other.Account, truth)
	}
	if seen != nil {
		if d := r.Grid.Chebyshev(cl.At(seen, cl.Tick), truth); d > reach {
			return fmt.Errorf("account %d sees account %d %d m from where it is", cl.Account, other.Account, d)
		}
	}
	return nil
}

// entitiesSettled: each durable entity that was ever seen is acted for by one node, whose epoch the store has, or rests in
// the store, or is gone with a store that came back empty or behind.
func (r *Run) entitiesSettled() error {
	for _, t := range r.check.order {
		record, stored := r.Cluster.storage.record(t.id)
		acting := t.tick == r.ticks && t.actor != nil
		switch {
		case t.shows:
		case !acting && r.faults.loss.gone[t.id]:
		case !acting && !stored && r.faults.rewound: // no record is ever deleted: that it was made was lost, and its owner died
		case !stored && !acting:
			return fmt.Errorf("entity %v is lost", t.id)
		case !stored:
			return fmt.Errorf("entity %v, which %s acts for, is not in the store", t.id, t.actor.Session())
		case record.Resting && acting:
			return fmt.Errorf("entity %v rests in the store, and %s acts for it", t.id, t.actor.Session())
		case !record.Resting && !acting:
			return fmt.Errorf("nobody acts for entity %v at home in %v", t.id, record.Home)
		case acting && record.Epoch != t.highest:
			return fmt.Errorf("the store has entity %v at epoch %v, %s acts for it at %v", t.id, record.Epoch, t.actor.Session(), t.highest)
		}
	}
	return nil
}

// subscriptionsSettled: each node knows of the chunks that others observe exactly those that they do.
func (r *Run) subscriptionsSettled() error {
	for _, owner := range r.Nodes {
		for _, observer := range r.Nodes {
			wants, has := observer.Engine.Observes(owner.Session()), owner.Engine.ObservedBy(observer.Session())
			if !slices.Equal(wants, has) {
				return fmt.Errorf("%s observes %d chunks at %s, which counts %d", observer.Session(), len(wants), owner.Session(), len(has))
			}
		}
	}
	return nil
}

func (cl *Client) surrounds(p torus.Pos) bool {
	c := cl.Grid.ChunkOf(p)
	for dy := int32(-2); dy <= 2; dy++ {
		for dx := int32(-2); dx <= 2; dx++ {
			if _, held := cl.Chunks[cl.Grid.AddChunk(c, dx, dy)]; !held {
				return false
			}
		}
	}
	return true
}

// regionLease is the name of a region's Lease.
func regionLease(at torus.RegionPos) string {
	return v1alpha1.RegionLeaseName(World, int(at.Column), int(at.Row))
}
