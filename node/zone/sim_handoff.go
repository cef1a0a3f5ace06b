package zone

import (
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/ghost"
	"github.com/spatialcells/spatialcells/node/handoff"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// handOver offers every entity that has left its overhang to the holder of the region it stands in, and repeats offers
// whose target did not answer.
func (s *sim) handOver() {
	kept := s.offside[:0]
	slices.Sort(s.offside)
	for _, id := range slices.Compact(s.offside) {
		if s.world.Alive(id) && s.authority.Has(id) && s.outgoing.Get(id) == nil && !s.tryHandOver(id) {
			kept = append(kept, id)
			s.game.Halt(id)
		}
	}
	s.offside = kept
	s.outgoing.Due(s.tick, reach{s}, func(o *handoff.Outgoing, before string) {
		s.stats.HandoffsReoffered++
		s.atEntity(reofferPoint(o.Target, before), o.Entity, o.Epoch, o.Target)
		s.sendOffer(o)
	})
}

// reach tells the book of outgoing entities about sessions.
type reach struct{ s *sim }

func (r reach) Alive(session string) bool  { return r.s.alive(session) }
func (r reach) Linked(session string) bool { return r.s.linked(session) }
func (r reach) Holder(region int) string   { return r.s.liveHolder(region) }

func reofferPoint(target, before string) Point {
	if target == before {
		return HandoffReoffered
	}
	return HandoffPassedOn
}

// liveHolder is the session that holds a region and is not known to be dead.
func (s *sim) liveHolder(region int) string {
	if h := s.table.At(region).Session; h != "" && s.alive(h) {
		return h
	}
	return ""
}

// tryHandOver starts a handoff; true if the entity needs no further look: it is on its way, or back home.
func (s *sim) tryHandOver(id ecs.EntityID) bool {
	if !s.world.Owned(id) || s.tick < s.backOff[id] {
		return false
	}
	a := s.authority.Get(id)
	at, jumps := s.jumps[id]
	if !jumps {
		at = s.game.Position.Get(id).At
	}
	if partition.MayStand(s.grid, s.grid.ChunkOf(at), a.home) {
		if jumps {
			s.land(id, at)
			return true
		}
		s.atEntity(HandoffTurnedBack, id, a.epoch, "")
		s.Moved(id) // it turned round
		return true
	}
	target := s.grid.RegionOf(at)
	index := s.grid.RegionIndex(target)
	switch to := s.liveHolder(index); {
	case to == "":
		return false
	case to == s.self && !s.unsettled(id) && !s.closing(id):
		return s.rehome(id, a, target, at)
	case to == s.self || s.settling(id) || s.closing(id):
		s.atEntity(HandoffLocked, id, a.epoch, to)
		return false
	case !s.answers(to):
		s.atEntity(HandoffUnanswered, id, a.epoch, to)
		return false // not frozen for a peer that may not answer: it stays simulated in the overhang
	default:
		s.offer(id, a, index, to, at)
		return true
	}
}

// rehome is a handoff between two regions of this node: the same steps without the way.
func (s *sim) rehome(id ecs.EntityID, a *authority, target torus.RegionPos, at torus.Pos) bool {
	if r := s.regions[s.grid.RegionIndex(target)]; r == nil || !r.active || r.still() {
		return false
	}
	s.queue(id)
	if _, jumps := s.jumps[id]; jumps {
		s.land(id, at)
	}
	expect, from := a.epoch, a.home
	a.epoch, a.home = a.epoch.Transferred(1), target
	s.index(id, a, s.grid.ChunkKey(s.grid.ChunkOf(at)))
	if sv := s.saving.Get(id); sv != nil {
		sv.claimed, sv.cameFrom, sv.cameAt = false, s.grid.RegionIndex(from), s.tick
		s.claimTransferred(id, expect)
	}
	s.stats.HandoffsLocal++
	s.atEntity(HandoffRehomed, id, a.epoch, "")
	s.countCrossing(from, target)
	return true
}

func (s *sim) offer(id ecs.EntityID, a *authority, target int, to string, at torus.Pos) {
	s.tell(id) // what happened before the freeze is told by this node
	s.world.Frozen.Set(id, ecs.Frozen{})
	source := s.grid.RegionIndex(a.home)
	epoch := a.epoch.Transferred(1)
	_, jumps := s.jumps[id]
	o := &handoff.Outgoing{Entity: id, Epoch: epoch, Region: target, Target: to, Chunk: s.grid.ChunkKey(s.grid.ChunkOf(at)), Jumped: jumps, FrozenAt: s.boot, Offer: &wire.Offer{
		Entity: uint64(id), Epoch: wireEpoch(epoch), Expect: wireEpoch(a.epoch),
		SourceRegion: uint32(source), SourceRegionEpoch: s.table.At(source).Epoch, TargetRegion: uint32(target),
		Components: s.blobsAt(id, at),
	}}
	if jumps {
		s.atEntity(HandoffTeleported, id, epoch, to)
	}
	s.outgoing.Begin(s.tick, o)
	s.atEntity(HandoffOffered, id, epoch, to)
	s.sendOffer(o)
}

func (s *sim) sendOffer(o *handoff.Outgoing) {
	o.Offer.Orphaned, o.Offer.Epoch = o.Orphaned(), wireEpoch(o.Epoch)
	s.send(o.Target, &wire.PeerMessage{Message: &wire.PeerMessage_Offer{Offer: o.Offer}})
}

// offered judges an offer. It is taken only for a region that is held and recovered here, from a source that is not known
// to have lost its own.
func (s *sim) offered(from string, m *wire.Offer) {
	id, epoch := ecs.EntityID(m.Entity), epochOf(m.Epoch)
	var live *ecs.Epoch
	if a := s.authority.Get(id); a != nil {
		live = &a.epoch
	}
	if from == s.self { // the region came to this node while the entity was on its way there
		if o := s.outgoing.Get(id); o != nil && !o.Accepted && live != nil {
			if r := s.regions[m.TargetRegion]; r == nil || !r.active {
				return // asked again when it is due
			}
			s.takeBack(id, o)
			live = nil
		}
		if t, ok := s.known.Tombstone(id); ok && t.Epoch == epoch {
			s.known.Returned(id)
		}
	}
	if o := s.outgoing.Get(id); o != nil && from != s.self && live == nil && !o.Epoch.Less(epoch) && !o.ComesBack(from, epoch) { // kept here, and not older
		s.atEntity(OfferKnown, id, epoch, from)
		s.answerOffer(from, id, epoch, true, "") // and no more: nothing of it need be in the store, and this node may die with it
		return
	}
	switch s.known.Judge(id, from, epoch, live, m.Orphaned) {
	case handoff.AcceptAgain:
		s.atEntity(OfferKnown, id, epoch, from)
		s.acceptAgain(from, id, epoch)
	case handoff.Refuse:
		s.atEntity(OfferBurned, id, epoch, from)
		s.refuse(from, id, epoch, "the epoch is burned or older than what is known")
	case handoff.Take:
		s.take(from, m, id, epoch)
	}
}

func (s *sim) acceptAgain(to string, id ecs.EntityID, epoch ecs.Epoch) {
	s.answerOffer(to, id, epoch, true, "")
	if sv := s.saving.Get(id); sv != nil && !sv.claimed {
		sv.source = to
		return
	}
	s.send(to, &wire.PeerMessage{Message: &wire.PeerMessage_OfferDurable{OfferDurable: &wire.OfferDurable{Entity: uint64(id), Epoch: wireEpoch(epoch)}}})
}

// refuse burns an epoch. What cannot be remembered is not answered: the source asks again.
func (s *sim) refuse(to string, id ecs.EntityID, epoch ecs.Epoch, reason string) {
	if s.known.Burn(s.tick, id, epoch) {
		s.answerOffer(to, id, epoch, false, reason)
	}
}

func (s *sim) answerOffer(to string, id ecs.EntityID, epoch ecs.Epoch, accepted bool, reason string) {
	s.send(to, &wire.PeerMessage{Message: &wire.PeerMessage_OfferAnswer{OfferAnswer: &wire.OfferAnswer{
		Entity: uint64(id), Epoch: wireEpoch(epoch), Accepted: accepted, Reason: reason,
	}}})
}

func (s *sim) take(from string, m *wire.Offer, id ecs.EntityID, epoch ecs.Epoch) {
	source, target := int(m.SourceRegion), int(m.TargetRegion)
	switch {
	case source >= len(s.regions) || target >= len(s.regions):
		s.refuse(from, id, epoch, "a region beyond the grid")
		return
	case s.regions[target] == nil || !s.regions[target].active:
		if m.Orphaned {
			s.leaveOffer(from, id, epoch, target)
			return
		}
		s.atEntity(OfferNoRegion, id, epoch, from)
		s.refuse(from, id, epoch, "the region is not held here, or not recovered yet")
		return
	case s.regions[target].still():
		if !m.Orphaned { // else it comes again, here or where the region goes
			s.atEntity(OfferNoRegion, id, epoch, from)
			s.refuse(from, id, epoch, "the region is on its way to another node")
		}
		return
	case s.sourceLost(from, source, m.SourceRegionEpoch) && !m.Orphaned:
		s.atEntity(OfferLostSource, id, epoch, from)
		s.refuse(from, id, epoch, "the source lost its region")
		return
	}
	if m.Orphaned && durableBlobs(m.Components) {
		s.takeOrphan(from, m, id, epochOf(m.Expect))
		return
	}
	if err := s.compose(id, m.Components); err != nil {
		s.note("offer of entity %v by %s is refused: %v", id, from, err)
		s.refuse(from, id, epoch, err.Error())
		return
	}
	s.received(id, s.regions[target])
	s.atEntity(OfferTaken, id, epoch, from)
	s.adopt(id, epoch, s.grid.RegionAt(target), false)
	if s.durableEntity(id) {
		s.saving.Set(id, saving{stored: s.grid.RegionAt(source), dirty: true, next: s.tick, source: from, takenAt: s.boot, cameFrom: source, cameAt: s.tick})
		s.claimTransferred(id, epochOf(m.Expect))
	}
	s.answerOffer(from, id, epoch, true, "")
	if !s.durableEntity(id) { // not durable: it dies with its node, and the handoff ends here
		s.send(from, &wire.PeerMessage{Message: &wire.PeerMessage_OfferDurable{OfferDurable: &wire.OfferDurable{Entity: uint64(id), Epoch: wireEpoch(epoch)}}})
	}
}

// leaveOffer leaves an orphan to whoever can take it: this node when it has recovered the region, or who has that now.
func (s *sim) leaveOffer(from string, id ecs.EntityID, epoch ecs.Epoch, region int) {
	s.atEntity(OfferLeft, id, epoch, from)
	r, holder := s.regions[region], s.table.At(region).Session
	switch {
	case r != nil:
		r.expect(expected{id: id, offered: true})
	case holder != "" && holder != s.self:
		s.send(from, &wire.PeerMessage{Message: &wire.PeerMessage_OfferAnswer{OfferAnswer: &wire.OfferAnswer{
			Entity: uint64(id), Epoch: wireEpoch(epoch), Released: true,
		}}})
	}
}

// Teleport makes an entity stand elsewhere: at once where its home allows it, else by a handoff whose offer carries the new
// place. Until that is accepted it stays where it is; the observers of the old place hear of it then.
func (s *sim) Teleport(id ecs.EntityID, to torus.Pos) {
	s.jumps[id] = to
	s.offside = append(s.offside, id)
}

// land is the arrival of a teleport on the same node.
func (s *sim) land(id ecs.EntityID, at torus.Pos) {
	delete(s.jumps, id)
	st := s.queue(id)
	st.changed |= 1<<game.NumberPath | 1<<game.NumberPosition
	st.reset = true
	s.game.Position.Get(id).At = at
	s.Moved(id)
	s.dirty(id)
}

// blobsAt encodes an entity as it will be at a place.
func (s *sim) blobsAt(id ecs.EntityID, at torus.Pos) []*wire.ComponentBlob {
	p := s.game.Position.Get(id)
	here := p.At
	p.At = at
	list := s.blobs(id, false)
	p.At = here
	return list
}

// settling reports whether the store has yet to answer what decides about an entity: until then it stays.
func (s *sim) settling(id ecs.EntityID) bool {
	sv := s.saving.Get(id)
	return sv != nil && sv.settling != 0 || s.unsettled(id)
}

// takeBack: the target region came to this node while the entity was frozen for the one before, which may have taken it and
// handed it on. From here it is an orphan like any other, offered by this node to itself.
func (s *sim) takeBack(id ecs.EntityID, o *handoff.Outgoing) {
	s.atEntity(HandoffTakenBack, id, o.Epoch, "")
	o.Accepted, o.AcceptedAt = true, s.boot
	s.evict(id)
}

func (s *sim) offerAnswered(from string, m *wire.OfferAnswer, at time.Duration) {
	id, epoch := ecs.EntityID(m.Entity), epochOf(m.Epoch)
	o := s.outgoing.Get(id)
	if o != nil && m.Released && o.Epoch == epoch && o.Target == from {
		o.Released(s.tick)
		return
	}
	if o == nil || o.Epoch != epoch || o.Accepted {
		return
	}
	if !m.Accepted {
		s.thaw(id, o, m.Reason)
		return
	}
	s.stats.Handoffs++
	s.stats.phase(PhaseGap, max(at, o.FrozenAt)-o.FrozenAt)
	a := s.authority.Get(id)
	s.countCrossing(a.home, s.grid.RegionAt(o.Region))
	s.signOff(from, id, a, o)
	o.Accepted, o.AcceptedAt = true, s.boot
	s.atEntity(HandoffAccepted, id, o.Epoch, from)
	s.evict(id)
}

// signOff is the old owner's last word: observers count the new owner's messages from here.
func (s *sim) signOff(to string, id ecs.EntityID, a *authority, o *handoff.Outgoing) {
	s.broadcastFrame(id, &ghost.Frame{
		Entity: id, Kind: wire.EntityFrame_KIND_TRANSFERRED, Epoch: o.Epoch, Chunk: o.Chunk, Home: uint32(o.Region), To: to,
		Reset: o.Jumped || s.tick-o.FrozenTick > jumpTicks,
	})
	s.atEntity(SignOffSent, id, o.Epoch, to)
	s.known.Bury(s.tick, id, handoff.Tombstone{Epoch: o.Epoch, Region: o.Region, To: to, Chunk: a.chunk, NewChunk: o.Chunk})
}

// jumpTicks is how long an entity may stand frozen before it must be marked: observers walk it on meanwhile, a fifth of a
// metre a tick.
const jumpTicks = 8

// thaw takes a refused entity back, with an epoch above the burned one.
func (s *sim) thaw(id ecs.EntityID, o *handoff.Outgoing, reason string) {
	s.stats.HandoffsRefused++
	s.atEntity(HandoffRefused, id, o.Epoch, o.Target)
	s.outgoing.End(id)
	a := s.authority.Get(id)
	if a == nil {
		return
	}
	s.world.Frozen.Remove(id)
	s.thawed(id, o.FrozenTick)
	expect := a.epoch
	a.epoch = o.Epoch.Transferred(1)
	s.backOff[id] = s.tick + handoff.BackOffTicks
	s.offside = append(s.offside, id)
	if sv := s.saving.Get(id); sv != nil {
		sv.claimed = false
		s.claimTransferred(id, expect)
	}
	s.note("handoff of entity %v to region %v was refused: %s; next try in %v", id, s.grid.RegionAt(o.Region), reason,
		time.Duration(handoff.BackOffTicks)*TickDuration)
}

// frozenSince is the tick since which an entity stands frozen, on its way by itself or with its region.
func (s *sim) frozenSince(id ecs.EntityID) (tick int64, frozen bool) {
	if o := s.outgoing.Get(id); o != nil {
		return o.FrozenTick, true
	}
	if s.still(id) {
		return s.regions[s.grid.RegionIndex(s.authority.Get(id).home)].move.cutTick, true
	}
	return 0, false
}

// thawed tells observers where an entity really is that stood frozen for long, since a tick.
func (s *sim) thawed(id ecs.EntityID, since int64) {
	st := s.queue(id)
	if s.game.Account.Has(id) { // its gateway may have come anew meanwhile, and not know its session
		st.changed |= game.OwnerNumbers
	}
	if s.tick-since > jumpTicks {
		st.changed |= 1<<game.NumberPath | 1<<game.NumberPosition
		st.reset = true
	}
}

func (s *sim) offerDurable(from string, m *wire.OfferDurable) {
	o := s.outgoing.Get(ecs.EntityID(m.Entity))
	if o != nil && o.Heir != "" && o.Heir != from && s.alive(o.Heir) { // who said so is over, and its heir was told that we keep it
		return
	}
	if o != nil && o.Accepted && !epochOf(m.Epoch).Less(o.Epoch) {
		s.atEntity(HandoffDurable, o.Entity, o.Epoch, o.Target)
		s.stats.phase(PhaseDurable, s.boot-o.AcceptedAt)
		s.outgoing.End(o.Entity)
	}
}
