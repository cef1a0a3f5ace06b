package simtest

import (
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/zone"
)

// loss is what a store took with it that came back empty. What nodes hold they must put back. Gone with the store is what
// rested in it, what nobody held, and what was held only until the holder died, gave the region up, or found that the
// account has another master by then.
type loss struct {
	run     *Run
	open    []*unsaved                // of which the store knows nothing again yet
	gone    map[ecs.EntityID]bool     // with a store
	masters map[uint64]ecs.EntityID   // made since, by account
	begun   map[begun]bool            // their logins
	at      map[ecs.EntityID]*unsaved // the same as open
}

// unsaved is an entity that a store has lost, and who held it last.
type unsaved struct {
	id      ecs.EntityID
	account uint64
	tick    int
	holder  *Node
	session string
	home    int
}

// begun is a login of a master.
type begun struct {
	master ecs.EntityID
	login  numbering
}

// loseStore lets the store come back empty.
func (r *Run) loseStore(v *vaultStore) {
	r.say("the store comes back empty")
	r.faults.strike(r.Cluster, faultStoreLost)
	v.Forget()
	l := &r.faults.loss
	if l.run == nil {
		*l = loss{run: r, gone: map[ecs.EntityID]bool{}, masters: map[uint64]ecs.EntityID{}, begun: map[begun]bool{}}
	}
	l.open, l.at = l.open[:0], map[ecs.EntityID]*unsaved{}
	for _, t := range r.check.order {
		if !t.shows {
			l.add(t.id)
		}
	}
	for _, n := range r.Nodes {
		if n.Engine != nil {
			n.Engine.EachEntity(func(e zone.Entity) {
				if e.Shows == 0 {
					l.add(e.ID)
				}
			}) // also those of this very tick
		}
	}
	l.look()
}

func (l *loss) add(id ecs.EntityID) {
	if l.at[id] == nil {
		u := &unsaved{id: id, tick: -1}
		l.open, l.at[id] = append(l.open, u), u
	}
}

// look follows what the store does not know: who has it, until the store has it again.
func (l *loss) look() {
	if len(l.open) == 0 {
		return
	}
	for _, n := range l.run.Nodes {
		if n.Engine == nil {
			continue
		}
		n.Engine.EachEntity(func(e zone.Entity) {
			if u := l.at[e.ID]; u != nil {
				u.tick, u.holder, u.session, u.account, u.home = l.run.ticks, n, n.Session(), e.Account, l.run.Grid.RegionIndex(e.Home)
			}
		})
	}
	kept := l.open[:0]
	for _, u := range l.open {
		_, stored := l.run.Cluster.storage.record(u.id)
		switch {
		case stored:
			delete(l.at, u.id)
			continue
		case u.tick != l.run.ticks && l.excused(u):
			l.gone[u.id] = true
		}
		kept = append(kept, u)
	}
	l.open = kept
}

// excused reports whether what nobody has may be gone with the store.
func (l *loss) excused(u *unsaved) bool {
	if u.holder == nil || !u.holder.Running() || u.holder.Session() != u.session || !u.holder.Engine.RegionActive(u.home) {
		return true
	}
	master := l.run.Cluster.storage.(*vaultStore).Master(u.account)
	return u.account != 0 && master != 0 && master != u.id
}

// happened: a directory that lost its accounts counts their sessions from 1 again, so the inputs of a master that is made
// anew may have the numbers that those of the one before had.
func (l *loss) happened(n *Node, h zone.Happened) {
	switch {
	case l.run == nil:
	case h.Point == zone.SessionCreated:
		l.masters[h.Account] = h.Entity
		l.add(h.Entity) // the store may have lost it before it was heard of
	case h.Point == zone.LogBegun && l.masters[h.Account] == h.Entity:
		key := numbering{h.Account, h.Number}
		if b := (begun{h.Entity, key}); !l.begun[b] {
			l.begun[b] = true
			delete(n.c.check.inputs, key)
			delete(n.c.check.says, key)
		}
	}
}

// replaced reports whether a transition is about an input to a master that has another in its place: until its node hears
// of that, the two have one numbering.
func (l *loss) replaced(h zone.Happened) bool {
	master := l.masters[h.Account]
	return master != 0 && h.Entity != master && (h.Point == zone.CallExecuted || h.Point == zone.CallAnswered)
}
