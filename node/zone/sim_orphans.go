package zone

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/handoff"
)

// Orphans: an offer whose first target is gone comes to the heir of its region. That target may have taken the entity,
// changed it, handed it on and died, so the snapshot may be all there is, or old. The heir asks the store before it acts: it
// claims the record as a recovery does, so that whatever the dead may still have sent there is older, and takes the
// snapshot only if the record is not newer than the offer.

// durableBlobs reports whether an offered entity is one that the store has a record of.
func durableBlobs(blobs []*wire.ComponentBlob) bool {
	return slices.ContainsFunc(blobs, func(b *wire.ComponentBlob) bool { return b.Component == "account" || b.Component == "bestia" })
}

// bury remembers that an entity is elsewhere at an epoch: an older snapshot of it is known, and not taken. Nobody knows where
// observers have it, who heard of it last from somebody that is dead: each snapshot from here tells them.
func (s *sim) bury(id ecs.EntityID, epoch ecs.Epoch, home int, session string, chunk uint64) {
	if t, known := s.known.Tombstone(id); known && epoch.Less(t.Epoch) {
		return
	}
	s.known.Bury(s.tick, id, handoff.Tombstone{Epoch: epoch, Region: home, To: session, Chunk: handoff.Anywhere, NewChunk: chunk})
}

// buryRecord does so for a record that was found at another home, of which it is not known where it is there.
func (s *sim) buryRecord(r *Record) {
	home := s.grid.RegionIndex(r.Home)
	s.known.Bury(s.tick, r.Entity, handoff.Tombstone{
		Epoch: r.Epoch, Region: home, To: s.table.At(home).Session, Chunk: handoff.Nowhere, NewChunk: s.grid.ChunkKey(s.grid.RegionOrigin(r.Home)),
	})
}

// received: an entity came to a region of this node. What was kept of it here is older.
func (s *sim) received(id ecs.EntityID, r *region) {
	s.outgoing.End(id)
	s.known.Returned(id)
	delete(r.missed, id)
	s.stats.HandoffsReceived++
}

// takeOrphan claims the record of an offered orphan from where it is expected to be. A source that still has its region, or
// at least still speaks, asks again if this comes to nothing.
func (s *sim) takeOrphan(from string, m *wire.Offer, id ecs.EntityID, expect ecs.Epoch) {
	r := s.regions[m.TargetRegion]
	if r.waking[id] || s.sourceLost(from, int(m.SourceRegion), m.SourceRegionEpoch) && !s.answers(from) {
		return
	}
	r.waking[id] = true
	next := Record{Entity: id, Epoch: expect.Recovered(), Home: s.grid.RegionAt(r.index)}
	s.store(StoreRequest{Op: StoreClaim, Record: next, Expect: expect}, func(a StoreAnswer) {
		delete(r.waking, id)
		if !s.acts(r) || s.world.Alive(id) {
			return
		}
		switch {
		case a.Code == StoreOK:
			s.adoptOrphan(from, m, id, next.Epoch, r, a.Record)
		case a.Code == StoreMissing:
			s.createOrphan(from, m, id, next.Epoch, r)
		case a.Record == nil:
		case !epochOf(m.Epoch).Less(a.Record.Epoch): // from where it is; each turn finds it higher, and above the offer it ends
			s.takeOrphan(from, m, id, a.Record.Epoch)
		case a.Record.Home == next.Home && !a.Record.Resting: // the dead had it later than the offer, and this region is ours
			s.claimMissed(r, *a.Record)
		default:
			r.unexpect(id)
			s.buryRecord(a.Record)
			s.acceptAgain(from, id, epochOf(m.Epoch))
		}
	})
}

// adoptOrphan takes the snapshot: the record is ours. The source may forget it at once.
func (s *sim) adoptOrphan(from string, m *wire.Offer, id ecs.EntityID, epoch ecs.Epoch, r *region, rec *Record) {
	if err := s.compose(id, m.Components); err != nil {
		s.note("snapshot of entity %v, kept by %s, cannot be read: %v; it comes back from its record", id, from, err)
		s.answerOffer(from, id, epochOf(m.Epoch), true, "")
		return
	}
	s.atEntity(OfferTaken, id, epoch, from)
	s.received(id, r)
	s.adopt(id, epoch, s.grid.RegionAt(r.index), true)
	s.saving.Set(id, saving{claimed: true, stored: s.grid.RegionAt(r.index), dirty: true, next: s.tick, takenAt: s.boot, cameFrom: int(m.SourceRegion), cameAt: s.tick})
	if rec != nil { // for items the store is the truth
		s.adoptContents(id, rec.Contents)
	}
	s.resume(id)
	s.atEntity(ClaimDurable, id, epoch, from)
	s.acceptAgain(from, id, epochOf(m.Epoch))
}

// createOrphan puts the record back that the store has lost, then takes the snapshot.
func (s *sim) createOrphan(from string, m *wire.Offer, id ecs.EntityID, epoch ecs.Epoch, r *region) {
	s.atEntity(ClaimMissing, id, epoch, from)
	if err := s.compose(id, m.Components); err != nil {
		return
	}
	s.authority.Set(id, authority{epoch: epoch, home: s.grid.RegionAt(r.index)})
	record := s.wholeRecord(id)
	s.world.Evict(id)
	r.waking[id] = true
	s.store(StoreRequest{Op: StoreCreate, Record: record}, func(a StoreAnswer) {
		delete(r.waking, id)
		if a.Code == StoreOK && s.acts(r) && !s.world.Alive(id) {
			s.adoptOrphan(from, m, id, epoch, r, &record)
		}
	})
}
