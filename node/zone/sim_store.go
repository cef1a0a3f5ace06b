package zone

import (
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
)

const (
	// saveTicks is how old an unsaved change may be: 5 s.
	saveTicks = 5 * TicksPerSecond
	// savesPerTick bounds what one tick encodes for the store.
	savesPerTick = 64
)

// save writes back changed durable entities. Nobody waits for it but a logout.
func (s *sim) save() {
	budget := savesPerTick
	ecs.Each1(s.savable, s.saving, func(id ecs.EntityID, sv *saving) {
		if budget == 0 || !sv.dirty || !sv.claimed || sv.inFlight || s.tick < sv.next && !s.stopping || !s.world.Owned(id) {
			return
		}
		budget--
		sv.dirty, sv.inFlight, sv.next = false, true, s.tick+saveTicks
		s.stats.Saves++
		s.store(StoreRequest{Op: StoreSave, Record: s.record(id, false)}, func(a StoreAnswer) { s.saved(id, a) })
	})
}

// allSaved reports whether no change waits for the store and no entity for its handoff.
func (s *sim) allSaved() bool {
	saved := len(s.outgoing.All()) == 0 && len(s.pending) == 0
	ecs.Each1(s.savable, s.saving, func(id ecs.EntityID, sv *saving) { saved = saved && !sv.dirty && !sv.inFlight && sv.claimed })
	return saved // and what is being written of items is among the pending
}

func (s *sim) saved(id ecs.EntityID, a StoreAnswer) {
	sv := s.saving.Get(id)
	if sv == nil {
		return
	}
	sv.inFlight = false
	switch a.Code {
	case StoreOK:
	case StoreMissing:
		s.atEntity(ClaimMissing, id, s.authority.Get(id).epoch, "")
		sv.dirty = true
		if sv.claimed { // else a claim under way finds out
			sv.claimed = false
			s.restore(id)
		}
	default:
		s.stats.SaveConflicts++
		sv.dirty = true
	}
}

// restore puts an entity back into a store that has lost its record: the store kept nothing over its restart, or came
// back from an older copy. This node holds the entity, so what it knows is the truth, unless the account has got another
// master meanwhile.
func (s *sim) restore(id ecs.EntityID) {
	record := s.record(id, false)
	if hd := s.contents.Get(id); hd != nil {
		record.Contents = hd.Contents
	}
	settling := s.nextID + 1
	s.saving.Get(id).settling = settling
	s.store(StoreRequest{Op: StoreCreate, Record: record}, func(a StoreAnswer) {
		if sv := s.saving.Get(id); sv != nil && sv.settling == settling {
			sv.settling = 0
		}
		now := s.authority.Get(id)
		current := now != nil && now.epoch == record.Epoch
		switch {
		case a.Code == StoreOK:
			s.note("the store had lost entity %v: it has it again, at epoch %v", id, record.Epoch)
			s.durable(id, record.Epoch, current)
		case current && a.Record != nil && a.Record.Entity == id && behind(a.Record.Epoch, record.Epoch):
			s.claimTransferred(id, a.Record.Epoch) // the node before put it back first
		case current:
			s.stats.HandoffConflicts++
			s.note("the store had lost entity %v, and has another in its place: this copy is dropped", id)
			s.dropCopy(id)
		}
	})
}

// behind reports whether a record is from earlier in the same life of an entity.
func behind(stored, epoch ecs.Epoch) bool {
	return stored.Recoveries == epoch.Recoveries && stored.Less(epoch)
}

// rest saves a master for good and takes it out of the world; until the store has it, it is frozen.
func (s *sim) rest(id ecs.EntityID) {
	sv := s.saving.Get(id)
	if !s.world.Owned(id) || sv == nil || !sv.claimed || sv.inFlight || s.settling(id) || s.closing(id) {
		return // on its way to another node, or not ours to save yet: the next tick tries again
	}
	s.game.Session.Remove(id)
	if path := s.game.Path.Get(id); path != nil && len(path.Waypoints) > 0 {
		path.Waypoints = nil
		s.Changed(id, game.NumberPosition)
		s.Changed(id, game.NumberPath)
		s.tell(id) // it stands from here, however long the store takes
	}
	s.world.Frozen.Set(id, ecs.Frozen{})
	record := s.record(id, true)
	var rested func(a StoreAnswer)
	rested = func(a StoreAnswer) {
		if !s.world.Alive(id) || s.authority.Get(id).epoch != record.Epoch {
			return
		}
		if a.Op == StoreSave && a.Code == StoreMissing { // the store has lost it: put back at rest
			s.store(StoreRequest{Op: StoreCreate, Record: record}, rested)
			return
		}
		if a.Code != StoreOK {
			s.stats.SaveConflicts++
			s.atEntity(ClaimLost, id, record.Epoch, "")
			s.note("master %v rests, but the store has another copy of it (%v): this one is dropped", id, a.Code)
		}
		s.atEntity(SessionRested, id, record.Epoch, "")
		s.world.Destroy(id)
	}
	s.store(StoreRequest{Op: StoreSave, Record: record}, rested)
}

// revive creates an entity from a record that was claimed for this node.
func (s *sim) revive(r Record, reset bool) bool {
	var snap wire.Snapshot
	err := proto.Unmarshal(r.Blob, &snap)
	if err == nil {
		err = s.compose(r.Entity, snap.Components)
	}
	if err != nil {
		s.note("record of entity %v cannot be read: %v; it stays in the store as it is", r.Entity, err)
		return false
	}
	s.outgoing.End(r.Entity) // whatever was kept of it is older
	s.adopt(r.Entity, r.Epoch, r.Home, reset)
	s.saving.Set(r.Entity, saving{claimed: true, stored: r.Home, next: s.tick + saveTicks})
	s.adoptContents(r.Entity, r.Contents)
	s.resume(r.Entity)
	s.stats.Recovered++
	return true
}

// claimTransferred claims the record of an entity that was handed over to this node. Claims of fast crossings may
// overtake each other: a record that is behind within the same recovery is claimed from where it is.
func (s *sim) claimTransferred(id ecs.EntityID, expect ecs.Epoch) {
	a := s.authority.Get(id)
	epoch := a.epoch
	next := Record{Entity: id, Epoch: epoch, Home: a.home}
	s.store(StoreRequest{Op: StoreClaim, Record: next, Expect: expect}, func(ans StoreAnswer) {
		now := s.authority.Get(id)
		current := now != nil && now.epoch == epoch
		switch {
		case ans.Code == StoreOK:
			if current && ans.Record != nil {
				s.adoptContents(id, ans.Record.Contents)
			}
			s.durable(id, epoch, current)
		case ans.Code == StoreConflict && ans.Record != nil && behind(ans.Record.Epoch, epoch):
			if current {
				s.atEntity(ClaimBehind, id, epoch, "")
				s.claimTransferred(id, ans.Record.Epoch)
			}
		case ans.Code == StoreMissing && current:
			s.atEntity(ClaimMissing, id, epoch, "")
			s.restore(id)
		case current:
			s.atEntity(ClaimLost, id, epoch, "")
			s.stats.HandoffConflicts++
			s.note("entity %v at epoch %v is newer in the store: this copy is dropped", id, epoch)
			if ans.Record != nil { // an offer of before may still come
				s.buryRecord(ans.Record)
			}
			s.dropCopy(id)
		}
	})
}

// durable: the store has the entity as ours; who handed it over may forget it.
func (s *sim) durable(id ecs.EntityID, epoch ecs.Epoch, current bool) {
	sv := s.saving.Get(id)
	if !current || sv == nil {
		return
	}
	sv.claimed, sv.stored = true, s.authority.Get(id).home
	s.atEntity(ClaimDurable, id, epoch, sv.source)
	if sv.source != "" {
		s.stats.phase(PhaseClaim, s.boot-sv.takenAt)
		s.send(sv.source, &wire.PeerMessage{Message: &wire.PeerMessage_OfferDurable{OfferDurable: &wire.OfferDurable{Entity: uint64(id), Epoch: wireEpoch(epoch)}}})
		sv.source = ""
	}
}

// dropCopy removes a copy that lost: the newer one speaks for itself.
func (s *sim) dropCopy(id ecs.EntityID) {
	s.outgoing.End(id)
	s.evict(id)
}
