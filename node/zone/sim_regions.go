package zone

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/handoff"
	"github.com/spatialcells/spatialcells/node/partition"
)

// Recovery of a region: raise the store's fence and load, ask every live session what it has of the region, load again, as
// claims may have brought something here meanwhile, and activate what nobody has. Others are answered at once and activation comes last, so two recoveries never wait for each other.

const (
	// claimRepeatTicks is after how long an unanswered Claiming is sent again: 2 s.
	claimRepeatTicks = 2 * TicksPerSecond
	// blockedTicks is after how long a recovery reports by whom it is blocked: 5 s.
	blockedTicks = 5 * TicksPerSecond
	// loadRetryTicks is after how long a refused load is tried again, when the lease's epoch was raised meanwhile.
	loadRetryTicks = TicksPerSecond
)

// lostSession is the session of a master whose gateway is not known: it is kept for the resume window.
var lostSession = game.Session{Lost: 1}

// region is one that this node holds.
type region struct {
	index  int
	epoch  uint64
	active bool

	loaded    bool
	fresh     bool // the load was asked for when nobody else could bring anything here any more
	loadAgain int64
	records   []Record
	waiting   []string                // sessions that have not answered Claiming, sorted
	elsewhere map[ecs.EntityID]string // who has it, by their answers
	claims    int                     // records being claimed
	began     int64
	beganAt   time.Duration // boot time
	asked     int64
	reported  bool

	ground holding // what lies in it
	readAt uint64  // the epoch with which the ground is being read
	outbid uint64  // the epoch that the store knows, if it is above this one's and the region is active

	creating map[uint64]bool          // accounts whose master is being stored
	waking   map[ecs.EntityID]bool    // masters that come back from the store
	missed   map[ecs.EntityID]absence // what was asked for, does not rest and is not here

	expected []expected // what another node has and may yet bring here, by entity
	gaveUp   int64      // tick from which it is not expected any more
	hedged   bool       // a snapshot was closed without this region: observers must ask again

	move      *move // it is on its way to another node
	moveAfter int64 // not before this tick
}

// wakePatience is how long a master that does not rest may be on its way before it is brought back from its record: 5 s.
const wakePatience = 5 * TicksPerSecond

// overdue reports whether a master that does not rest was missed for so long that nobody can be bringing it.
func (r *region) overdue(id ecs.EntityID, tick int64) bool {
	a, known := r.missed[id]
	if !known || tick-a.last > wakePatience {
		a.since = tick // it is missed again, or for the first time
	}
	a.last = tick
	r.missed[id] = a
	return tick-a.since > wakePatience
}

// forgetMissed drops what nobody has asked for again, and would be missed for the first time if somebody did.
func (r *region) forgetMissed(tick int64) {
	if tick%wakePatience == 0 {
		maps.DeleteFunc(r.missed, func(_ ecs.EntityID, a absence) bool { return tick-a.last > wakePatience })
	}
}

// absence is from when on an entity is missed, and when it was asked for last, in ticks.
type absence struct{ since, last int64 }

func (s *sim) recover(index int, epoch uint64) {
	r := s.newRegion(index, epoch)
	s.atRegion(RecoveryBegan, index, "")
	for _, session := range s.holders {
		if session != s.self && s.alive(session) {
			r.waiting = append(r.waiting, session)
		}
	}
	for _, session := range s.order { // also who holds nothing that the table knows of may have something
		if p := s.peers[session]; session != s.self && p.up && !slices.Contains(r.waiting, session) {
			r.waiting = append(r.waiting, session)
		}
	}
	slices.Sort(r.waiting)
	s.load(r)
	s.ask(r)
}

func (s *sim) load(r *region) {
	r.loadAgain, r.fresh = 0, len(r.waiting) == 0
	s.store(StoreRequest{Op: StoreLoadRegion, Region: s.grid.RegionAt(r.index), RegionEpoch: r.epoch}, func(a StoreAnswer) {
		if s.regions[r.index] != r {
			return
		}
		if a.Code != StoreOK {
			s.note("region %v at epoch %d is refused by the store, which knows epoch %d; its lease is raised above that", s.grid.RegionAt(r.index), r.epoch, a.RegionEpoch)
			s.out.Raise = append(s.out.Raise, RaiseRequest{Region: r.index, AtLeast: max(a.RegionEpoch, r.epoch) + 1})
			r.loadAgain = s.tick + loadRetryTicks
			s.atRegion(RecoveryOutbid, r.index, "")
			return
		}
		s.follow(r, r.records, a.Records)
		r.loaded, r.records = true, a.Records
		if a.Contents != nil {
			s.adoptInto(&r.ground, *a.Contents)
		}
		s.atRegion(RecoveryLoaded, r.index, "")
	})
}

// ask asks who has not answered. What was sent to who is not linked waits for the link.
func (s *sim) ask(r *region) {
	again := r.asked != 0
	r.asked = s.tick
	for _, session := range r.waiting {
		if again && !s.linked(session) {
			continue
		}
		s.atRegion(RecoveryAsked, r.index, session)
		s.send(session, &wire.PeerMessage{Message: &wire.PeerMessage_Claiming{Claiming: &wire.Claiming{Region: uint32(r.index), RegionEpoch: r.epoch}}})
	}
}

// claiming answers what this node owns, holds frozen or keeps of a region that another one recovers.
func (s *sim) claiming(from string, m *wire.Claiming) {
	if int(m.Region) >= len(s.regions) {
		s.stats.Malformed++
		return
	}
	if r := s.regions[m.Region]; r != nil && r.epoch < m.RegionEpoch { // it is the heir's, and our table is behind
		s.surrender(int(m.Region))
	}
	answer := &wire.ClaimingAnswer{Region: m.Region, RegionEpoch: m.RegionEpoch}
	s.learn(int(m.Region), from, m.RegionEpoch)
	for id := range s.mine.Each {
		s.appendClaimed(answer, id)
	}
	for _, o := range s.outgoing.All() {
		answer.Entities = append(answer.Entities, uint64(o.Entity))
		if epochOf(o.Offer.Expect).Less(o.Epoch) { // it was this node's up to there: an older snapshot is worth nothing
			answer.Owned = append(answer.Owned, &wire.OwnedEntity{Entity: uint64(o.Entity), Epoch: o.Offer.Expect, Home: o.Offer.SourceRegion, Chunk: o.Chunk})
		}
		if o.Region == int(m.Region) {
			o.Recovering(s.tick, from)
			answer.Bringing = append(answer.Bringing, uint64(o.Entity))
		}
	}
	for _, r := range s.regions { // what is expected here is at home here, whoever had it last
		if r == nil {
			continue
		}
		for _, x := range r.expected {
			if x.record.Entity != 0 && r.index != int(m.Region) {
				answer.Owned = append(answer.Owned, &wire.OwnedEntity{Entity: uint64(x.id), Epoch: wireEpoch(x.record.Epoch), Home: uint32(r.index), Chunk: x.chunk})
			}
		}
	}
	slices.Sort(answer.Entities)
	slices.Sort(answer.Bringing)
	slices.SortFunc(answer.Owned, func(a, b *wire.OwnedEntity) int { return cmp.Compare(a.Entity, b.Entity) })
	s.atRegion(ClaimingAnswered, int(m.Region), from)
	s.send(from, &wire.PeerMessage{Message: &wire.PeerMessage_ClaimingAnswer{ClaimingAnswer: answer}})
}

// appendClaimed adds an entity of this node to an answer, if its record may be at home in the region, or observers may have it
// there because who gave it away died before they heard of that. What came from there lately is named in any case: the store may
// have lost the claim.
func (s *sim) appendClaimed(answer *wire.ClaimingAnswer, id ecs.EntityID) {
	a, sv := s.authority.Get(id), s.saving.Get(id)
	stored := sv != nil && !sv.claimed || s.grid.RegionIndex(a.home) == int(answer.Region)
	left := sv != nil && sv.cameAt != 0 && sv.cameFrom == int(answer.Region) && s.tick-sv.cameAt <= handoff.TombstoneTicks
	if stored || left {
		answer.Entities = append(answer.Entities, uint64(id))
	}
	if (stored || left) && s.world.Owned(id) {
		answer.Owned = append(answer.Owned, &wire.OwnedEntity{
			Entity: uint64(id), Epoch: wireEpoch(a.epoch), Home: uint32(s.grid.RegionIndex(a.home)), Chunk: a.chunk,
		})
	}
}

// learned is what a Claiming has told of a region: who recovers it, at which epoch. The table may be behind.
type learned struct {
	session string
	epoch   uint64
}

func (s *sim) learn(region int, session string, epoch uint64) {
	if s.learned[region].epoch < epoch {
		s.learned[region] = learned{session, epoch}
	}
}

// sourceLost reports whether an offer is of a session that has lost the region that the entity came from: its heir
// recovers the entity from the record.
func (s *sim) sourceLost(from string, source int, epoch uint64) bool {
	l, held := s.learned[source], s.table.At(source)
	return epoch < l.epoch && l.session != from || epoch < held.Epoch && held.Session != from && s.regions[source] == nil
}

func (s *sim) claimingAnswered(from string, m *wire.ClaimingAnswer) {
	if int(m.Region) >= len(s.regions) {
		s.stats.Malformed++
		return
	}
	r := s.regions[m.Region]
	if r == nil || r.active || r.epoch != m.RegionEpoch {
		return
	}
	s.atRegion(RecoveryAnswered, r.index, from)
	if i, waits := slices.BinarySearch(r.waiting, from); waits {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
	for _, id := range m.Entities {
		r.elsewhere[ecs.EntityID(id)] = from
	}
	for _, id := range m.Bringing {
		if !s.world.Alive(ecs.EntityID(id)) {
			r.expect(expected{id: ecs.EntityID(id), offered: true, by: from})
		}
	}
	for _, x := range m.Owned {
		if id := ecs.EntityID(x.Entity); !s.world.Owned(id) && int64(x.Home) < int64(len(s.regions)) && s.checkKey(x.Chunk) == nil {
			s.bury(id, epochOf(x.Epoch), int(x.Home), from, x.Chunk)
		}
	}
}

func (s *sim) regionsPeerDead(session string) {
	for _, r := range s.regions {
		if r == nil || r.active {
			continue
		}
		if i, waits := slices.BinarySearch(r.waiting, session); waits {
			s.atRegion(RecoveryExcused, r.index, session)
			r.waiting = slices.Delete(r.waiting, i, i+1)
		}
	}
}

// stepRegions goes on with the recoveries.
func (s *sim) stepRegions() {
	for _, r := range s.regions {
		switch {
		case r == nil:
		case r.active:
			s.await(r)
			r.forgetMissed(s.tick)
		case r.loadAgain != 0 && s.tick >= r.loadAgain:
			s.load(r)
		case r.loaded && len(r.waiting) == 0 && r.claims == 0 && !r.fresh:
			r.loaded = false
			s.load(r)
		case r.loaded && len(r.waiting) == 0 && r.claims == 0:
			s.claimRecords(r)
		default:
			s.waitForRecovery(r)
		}
	}
}

func (s *sim) waitForRecovery(r *region) {
	if len(r.waiting) > 0 && s.tick-r.asked >= claimRepeatTicks {
		s.ask(r)
	}
	if s.tick-r.began > blockedTicks && !r.reported {
		r.reported = true
		s.atRegion(RecoveryBlocked, r.index, "")
		s.note("recovery of region %v is blocked: loaded %v, waiting for the answers of %v", s.grid.RegionAt(r.index), r.loaded, r.waiting)
	}
}

// claimRecords claims what nobody else has, then activates the region. The recoveries of the epoch rise: whatever the
// node before may still send or save is older.
func (s *sim) claimRecords(r *region) {
	records := r.records
	r.records = nil
	for _, rec := range records {
		if by := r.elsewhere[rec.Entity]; by != "" || s.world.Alive(rec.Entity) {
			s.atEntity(RecoverySkipped, rec.Entity, rec.Epoch, "")
			if !s.world.Alive(rec.Entity) {
				r.expect(expected{id: rec.Entity, by: by, chunk: s.recordChunk(&rec), record: Record{Entity: rec.Entity, Epoch: rec.Epoch, Home: rec.Home}})
			}
			continue
		}
		r.claims++
		s.claimRecord(r, rec)
	}
	if r.claims == 0 {
		s.activate(r)
	}
}

// claimRecord claims one of them. A claim of the dead may have landed since the record was read: then it is claimed from where it is.
func (s *sim) claimRecord(r *region, rec Record) {
	next := Record{Entity: rec.Entity, Epoch: rec.Epoch.Recovered(), Home: rec.Home}
	s.store(StoreRequest{Op: StoreClaim, Record: next, Expect: rec.Epoch}, func(a StoreAnswer) {
		if s.regions[r.index] != r {
			return
		}
		late := a.Code == StoreConflict && a.Record != nil && a.Record.Home == rec.Home && !a.Record.Resting && behind(rec.Epoch, a.Record.Epoch)
		if late && !s.world.Alive(rec.Entity) {
			s.claimRecord(r, *a.Record)
			return
		}
		if a.Code == StoreOK && a.Record != nil && !s.world.Alive(a.Record.Entity) {
			if s.revive(*a.Record, true) {
				s.atEntity(RecoveryRevived, a.Record.Entity, a.Record.Epoch, "")
				s.orphan(a.Record.Entity)
			}
		}
		if a.Code == StoreConflict && a.Record != nil {
			s.stray(r, *a.Record)
		}
		if r.claims--; r.claims == 0 {
			s.activate(r)
		}
	})
}

// orphan: nobody is attached to a recovered master; its gateway attaches anew, or it goes to rest after the window.
func (s *sim) orphan(id ecs.EntityID) {
	if s.game.Account.Has(id) {
		s.game.Session.Set(id, lostSession)
	}
}

// activate begins to act for the region. Those who wait for it are answered; those who observed it before ask again.
func (s *sim) activate(r *region) {
	r.active, r.elsewhere, r.gaveUp = true, nil, s.tick+expectTicks
	if n := len(s.homed(s.grid.RegionAt(r.index))); n > 0 {
		s.stats.phase(PhaseRecovery, s.boot-r.beganAt)
		s.note("region %v is recovered with %d entities after %v", s.grid.RegionAt(r.index), n, (s.boot - r.beganAt).Round(time.Millisecond))
	}
	s.atRegion(RecoveryActivated, r.index, "")
	s.adoptGround(r, r.ground.Contents)
	s.again(r)
}

// again lets those who observe a region ask for it anew: what its holder does not confirm is undone.
func (s *sim) again(r *region) {
	at := s.grid.RegionAt(r.index)
	for _, session := range s.order {
		p := s.peers[session]
		var again []uint64
		for _, chunk := range s.nodes.Chunks(session) {
			if s.grid.ChunksOutside(s.grid.ChunkFromKey(chunk), at) <= partition.Hysteresis && !s.owed[burst{session, chunk}] && !s.stages.guests[burst{session, chunk}] {
				again = append(again, chunk)
			}
		}
		if p.up {
			p.batch = appendKeys(p.batch, batchAgain, again)
		}
	}
}

// appendKeys encodes repeated chunk keys, packed.
func appendKeys(dst []byte, num protowire.Number, keys []uint64) []byte {
	if len(keys) == 0 {
		return dst
	}
	size := 0
	for _, k := range keys {
		size += protowire.SizeVarint(k)
	}
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	for _, k := range keys {
		dst = protowire.AppendVarint(dst, k)
	}
	return dst
}
