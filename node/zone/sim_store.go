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
	// doubtTicks is after how long an entity is saved whose record was claimed, though nothing of it has changed: 10 s. A store that
	// fails over may lose the claim that it has answered just before; then this save finds it out, long before the node that had the
	// entity has forgotten whom it went to.
	doubtTicks = 10 * TicksPerSecond
)

// save writes back changed durable entities. Nobody waits for it but a logout.
func (s *sim) save() {
	budget := savesPerTick
	ecs.Each1(s.savable, s.saving, func(id ecs.EntityID, sv *saving) {
		if sv.doubt(s.tick); budget == 0 || !sv.dirty || !sv.claimed || sv.inFlight || s.tick < sv.next && !s.stopping || !s.world.Owned(id) {
			return
		}
		budget--
		sv.dirty, sv.inFlight, sv.next = false, true, s.tick+saveTicks
		s.stats.Saves++
		record := s.record(id, false)
		s.store(StoreRequest{Op: StoreSave, Record: record}, func(a StoreAnswer) { s.saved(id, record.Epoch, a) })
	})
}

// doubt makes a claim be looked at once, a while after it was made.
func (sv *saving) doubt(tick int64) {
	switch {
	case !sv.claimed:
		sv.doubted = 0
	case sv.doubted == 0:
		sv.doubted = tick + doubtTicks
	case sv.doubted > 0 && tick >= sv.doubted:
		sv.dirty, sv.doubted = true, -1
	}
}

// allSaved reports whether no change waits for the store and no entity for its handoff.
func (s *sim) allSaved() bool {
	saved := len(s.outgoing.All()) == 0 && len(s.pending) == 0
	ecs.Each1(s.savable, s.saving, func(id ecs.EntityID, sv *saving) { saved = saved && !sv.dirty && !sv.inFlight && sv.claimed })
	return saved // and what is being written of items is among the pending
}

func (s *sim) saved(id ecs.EntityID, epoch ecs.Epoch, a StoreAnswer) {
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
		if s.world.Owned(id) && s.authority.Get(id).epoch == epoch { // else it is on its way, or claimed already
			s.reclaim(id)
		}
	}
}

// reclaim: the store has an entity at another epoch than this node, which has claimed it. Either it has lost the claim, and the
// entity is claimed from where its record is, or another node has claimed it since, and this copy is dropped.
func (s *sim) reclaim(id ecs.EntityID) {
	if sv := s.saving.Get(id); sv.claimed {
		sv.claimed = false
		s.claimTransferred(id, s.authority.Get(id).epoch)
	}
}

// doubtClaims: the store has lost a claim that it had answered. What else it lost shows when it is saved, also what does not change.
func (s *sim) doubtClaims() {
	ecs.Each1(s.savable, s.saving, func(_ ecs.EntityID, sv *saving) { sv.dirty = true })
}

// restore puts an entity back into a store that has lost its record: the store kept nothing over its restart, or came
// back from an older copy. This node holds the entity, so what it knows is the truth, unless the account has got another
// master meanwhile.
func (s *sim) restore(id ecs.EntityID) {
	record := s.wholeRecord(id)
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
		case current && a.Record != nil && a.Record.Entity == id && s.older(a.Record, record.Epoch):
			s.claimTransferred(id, a.Record.Epoch) // the node before put it back first
		case current:
			s.atEntity(ClaimLost, id, record.Epoch, "")
			s.stats.HandoffConflicts++
			s.note("the store had lost entity %v, and has another in its place: this copy is dropped", id)
			s.dropCopy(id)
		}
	})
}

// wholeRecord is all that the store keeps of an entity: its items, too.
func (s *sim) wholeRecord(id ecs.EntityID) Record {
	record := s.record(id, false)
	if hd := s.contents.Get(id); hd != nil {
		record.Contents = hd.Contents
	}
	return record
}

// older reports whether a record is an earlier state of an entity that is here at an epoch. Of an earlier life it is only if the
// store has lost the claim of a recovery: then the record has the home that this node had it claimed for, or one that this node
// recovered, and nobody can have brought it back from there since.
func (s *sim) older(r *Record, epoch ecs.Epoch) bool {
	if r.Epoch.Recoveries == epoch.Recoveries || !r.Epoch.Less(epoch) {
		return behind(r.Epoch, epoch)
	}
	sv, home := s.saving.Get(r.Entity), s.regions[s.grid.RegionIndex(r.Home)]
	return sv != nil && sv.stored == r.Home || home != nil && home.active
}

// behind reports whether a record is from earlier in the same life of an entity.
func behind(stored, epoch ecs.Epoch) bool {
	return stored.Recoveries == epoch.Recoveries && stored.Less(epoch)
}

// rest saves a master for good and takes it out of the world; until the store has it, it is frozen. Where the store has lost its
// record, or the claim of it, that is put right first.
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
	s.store(StoreRequest{Op: StoreSave, Record: record}, func(a StoreAnswer) {
		switch {
		case !s.world.Alive(id) || s.authority.Get(id).epoch != record.Epoch:
		case a.Code == StoreOK:
			s.atEntity(SessionRested, id, record.Epoch, "")
			s.world.Destroy(id)
		default:
			s.stayAwake(id)
			s.saved(id, record.Epoch, a)
		}
	})
}

// stayAwake takes back that a master rests: its window is over, so it does as soon as the store has it as this node's.
func (s *sim) stayAwake(id ecs.EntityID) {
	s.world.Frozen.Remove(id)
	s.game.Session.Set(id, game.Session{Lost: resumeWindow})
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
		case ans.Code == StoreConflict && ans.Record != nil && s.older(ans.Record, epoch):
			if expect == epoch {
				s.doubtClaims()
			}
			if current {
				s.atEntity(ClaimBehind, id, epoch, "")
				s.claimTransferred(id, ans.Record.Epoch)
			}
		case ans.Code == StoreMissing && current:
			s.atEntity(ClaimMissing, id, epoch, "")
			s.restore(id)
		case current && s.outgoing.Get(id) != nil: // whom it was offered to may have claimed it, and will say so
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
