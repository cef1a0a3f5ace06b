package zone

import (
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

// place says what this node knows of an entity that it was asked for.
type place int

const (
	placeHere place = iota
	placeFrozen
	placeMoved
	placeComing // its home is held here and being recovered, or its record is being fetched
	placeUnknown
)

// locate finds an entity; region is its home as the asker believes, and as it is when it moved.
func (s *sim) locate(id ecs.EntityID, region int) (place, int) {
	if s.world.Alive(id) {
		if s.world.Owned(id) {
			return placeHere, region
		}
		return placeFrozen, region
	}
	if o := s.outgoing.Get(id); o != nil { // given away and not durable yet
		return placeMoved, o.Region
	}
	if t, ok := s.known.Tombstone(id); ok {
		return placeMoved, t.Region
	}
	if region < 0 || region >= len(s.regions) {
		return placeUnknown, 0
	}
	switch r := s.regions[region]; {
	case r == nil && s.table.At(region).Free():
		return placeComing, region
	case r == nil:
		return placeMoved, region
	case !r.active || r.waking[id]:
		return placeComing, region
	}
	return placeUnknown, region
}

// call executes the next input of a session, or says why not. Nothing is queued here.
func (s *sim) call(from string, c *wire.Call) {
	id := ecs.EntityID(c.Entity)
	answer := &wire.CallAnswer{Entity: c.Entity, Account: c.Account, LoginEpoch: c.LoginEpoch, Number: c.Number}
	where, region := s.locate(id, -1)
	switch where {
	case placeHere:
		s.judge(id, c, answer)
	case placeFrozen, placeComing:
		s.stats.CallsWait++
		answer.Code = wire.CallAnswer_CODE_WAIT
	case placeMoved:
		s.stats.CallsMoved++
		answer.Code, answer.Region = wire.CallAnswer_CODE_MOVED, uint32(region)
	default:
		s.stats.CallsNotHere++
		answer.Code = wire.CallAnswer_CODE_NOT_HERE
	}
	if p := callPoints[answer.Code]; p != 0 {
		s.at(Happened{Point: p, Entity: id, Account: c.Account, Number: c.Number, Peer: from})
	}
	s.send(from, &wire.PeerMessage{Message: &wire.PeerMessage_CallAnswer{CallAnswer: answer}})
}

// callPoints are the answers that are transitions; what was executed is reported where it is, and where it was before.
var callPoints = map[wire.CallAnswer_Code]Point{
	wire.CallAnswer_CODE_GAP: CallGap, wire.CallAnswer_CODE_WAIT: CallWait,
	wire.CallAnswer_CODE_MOVED: CallMoved, wire.CallAnswer_CODE_NOT_HERE: CallNotHere, wire.CallAnswer_CODE_STALE_SESSION: CallForeign,
}

func (s *sim) judge(id ecs.EntityID, c *wire.Call, answer *wire.CallAnswer) {
	ses, log := s.game.Session.Get(id), s.game.Calls.Get(id)
	if acc := s.game.Account.Get(id); ses == nil || log == nil || acc == nil || acc.ID != c.Account || c.SessionEpoch != ses.Epoch {
		s.stats.CallsForeign++
		answer.Code = wire.CallAnswer_CODE_STALE_SESSION
		return
	}
	switch log.Judge(c.LoginEpoch, c.Number) {
	case route.Execute:
		in, err := readInput(c.Input)
		if err == nil && game.MovesItems(in) && !s.mayStart(id) {
			s.stats.CallsWait++
			answer.Code = wire.CallAnswer_CODE_WAIT
			return
		}
		s.at(Happened{Point: CallExecuted, Entity: id, Epoch: s.authority.Get(id).epoch, Account: c.Account, Sender: c.LoginEpoch, Number: c.Number})
		s.stats.CallsDone++
		if err == nil && game.MovesItems(in) && c.Life != 0 && c.Life <= s.authority.Get(id).epoch.Recoveries {
			answer.Code, answer.Result = wire.CallAnswer_CODE_DONE, s.forgotten(id, log, c.Number)
			return
		}
		answer.Code, answer.Result = wire.CallAnswer_CODE_DONE, s.execute(id, log, c.Number, in, err)
		if answer.Result == nil { // it will be told
			answer.Code = wire.CallAnswer_CODE_WAIT
		}
	case route.Pending:
		s.stats.CallsWait++
		answer.Code = wire.CallAnswer_CODE_WAIT
	case route.Repeat:
		s.at(Happened{Point: CallRepeated, Entity: id, Account: c.Account, Number: c.Number})
		answer.Code, answer.Result = wire.CallAnswer_CODE_DONE, log.Result(c.Number)
		s.stats.CallsRepeated++
	case route.Gap:
		answer.Code, answer.Want = wire.CallAnswer_CODE_GAP, log.Want()
		s.stats.CallsGap++
	default:
		answer.Code = wire.CallAnswer_CODE_STALE_SESSION
		s.stats.CallsForeign++
	}
}

func readInput(b []byte) (*wire.Input, error) {
	in := &wire.Input{}
	return in, proto.Unmarshal(b, in)
}

// execute carries an input out and returns its result; nil: it waits for one.
func (s *sim) execute(id ecs.EntityID, log *route.Log, number uint64, in *wire.Input, malformed error) []byte {
	res := &wire.InputResult{Code: wire.InputResult_CODE_INVALID, Detail: "the input is malformed"}
	if malformed == nil {
		s.awaited = nil
		res = s.game.Act(id, in)
	}
	s.dirty(id)
	if res == nil {
		w := *s.awaited
		w.Call = number
		log.Wait(w)
		return nil
	}
	res.Number = number
	b := encodeResult(res)
	log.Done(number, b)
	return b
}

// forgotten answers an input about items that an owner was sent which crashed since: what it did with it may be in the store, and
// the log that would say so is not. It is not executed again; the inventory tells.
func (s *sim) forgotten(id ecs.EntityID, log *route.Log, number uint64) []byte {
	b := encodeResult(&wire.InputResult{Number: number, Code: wire.InputResult_CODE_UNAVAILABLE, Detail: "what came of it is not known: its owner crashed"})
	log.Done(number, b)
	s.dirty(id)
	return b
}

func encodeResult(res *wire.InputResult) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(res)
	if err != nil {
		panic("zone: encoding a result: " + err.Error())
	}
	return b
}

// attach binds a session to the account's entity, wakes the entity from the store, or creates it.
func (s *sim) attach(from string, m *wire.Attach) {
	if int64(m.Region) >= int64(len(s.regions)) {
		s.stats.Malformed++
		return
	}
	id := ecs.EntityID(m.Entity)
	if id == 0 {
		id = s.byAccount[m.Account]
	}
	if id == 0 {
		s.attachNew(from, m)
		return
	}
	where, region := s.locate(id, int(m.Region))
	switch where {
	case placeHere:
		s.bind(from, m, id)
	case placeFrozen, placeComing:
		s.answerAttach(from, m, wire.AttachAnswer_CODE_WAIT, id, region)
	case placeMoved:
		s.answerAttach(from, m, wire.AttachAnswer_CODE_MOVED, id, region)
	case placeUnknown:
		s.wake(from, m, id, region)
	}
}

func (s *sim) answerAttach(to string, m *wire.Attach, code wire.AttachAnswer_Code, id ecs.EntityID, region int) *wire.AttachAnswer {
	a := &wire.AttachAnswer{Account: m.Account, SessionEpoch: m.SessionEpoch, Code: code, Entity: uint64(id), Region: uint32(region)}
	s.send(to, &wire.PeerMessage{Message: &wire.PeerMessage_AttachAnswer{AttachAnswer: a}})
	return a
}

// bind is the attach itself. A session that is not newer than the one attached is refused, and told what is known.
func (s *sim) bind(from string, m *wire.Attach, id ecs.EntityID) {
	acc, ses, log := s.game.Account.Get(id), s.game.Session.Get(id), s.game.Calls.Get(id)
	region := s.grid.RegionIndex(s.authority.Get(id).home)
	if acc == nil || acc.ID != m.Account {
		s.answerAttach(from, m, wire.AttachAnswer_CODE_NOT_HERE, id, region)
		return
	}
	if log == nil {
		log = s.game.Calls.Set(id, route.Log{})
	}
	before := log.State()
	last, ok := log.Login(m.LoginEpoch, m.AckedInput)
	s.at(Happened{Point: loginPoint(ok, before, log.State()), Entity: id, Account: m.Account, Number: m.LoginEpoch, Peer: from})
	if !ok || ses != nil && (m.SessionEpoch < ses.Epoch || m.SessionEpoch == ses.Epoch && from != ses.Gateway) {
		a := &wire.AttachAnswer{Account: m.Account, SessionEpoch: m.SessionEpoch, Code: wire.AttachAnswer_CODE_STALE_SESSION, Entity: uint64(id)}
		if ses != nil {
			a.KnownSessionEpoch = ses.Epoch
		}
		s.send(from, &wire.PeerMessage{Message: &wire.PeerMessage_AttachAnswer{AttachAnswer: a}})
		return
	}
	if ses != nil && ses.Gateway != from && ses.Gateway != "" { // its gateway may not have heard of the newer claim
		s.send(ses.Gateway, &wire.PeerMessage{Message: &wire.PeerMessage_Displace{Displace: &wire.Displace{Account: m.Account, SessionEpoch: m.SessionEpoch}}})
	}
	s.game.Session.Set(id, game.Session{Gateway: from, Epoch: m.SessionEpoch})
	a := &wire.AttachAnswer{
		Account: m.Account, SessionEpoch: m.SessionEpoch, Code: wire.AttachAnswer_CODE_OK, Entity: uint64(id), Region: uint32(region), LastInput: last,
		Epoch: wireEpoch(s.authority.Get(id).epoch),
	}
	s.send(from, &wire.PeerMessage{Message: &wire.PeerMessage_AttachAnswer{AttachAnswer: a}})
	s.tell(id) // what is untold belongs to the observers of before
	s.snapshotTo(s.peers[from], id)
	s.queue(id).changed |= game.OwnerNumbers
	if sv := s.saving.Get(id); sv != nil {
		sv.dirty = true
	}
}

// loginPoint says what an attach did to the input log.
func loginPoint(ok bool, before, after route.LogState) Point {
	switch {
	case !ok:
		return LogRefused
	case after.Login > before.Login:
		return LogBegun
	case after.Last > before.Last:
		return LogForwarded
	}
	return LogContinued
}

// attachNew creates the master of an account that has none.
func (s *sim) attachNew(from string, m *wire.Attach) {
	at, ok := game.Canonical(s.grid, m.Spawn.GetX(), m.Spawn.GetY(), m.Spawn.GetZ())
	if !ok {
		s.answerAttach(from, m, wire.AttachAnswer_CODE_NOT_HERE, 0, 0)
		return
	}
	home := s.grid.RegionOf(at)
	index := s.grid.RegionIndex(home)
	r := s.regions[index]
	switch {
	case r == nil && !s.table.At(index).Free():
		s.answerAttach(from, m, wire.AttachAnswer_CODE_MOVED, 0, index)
		return
	case r == nil || !r.active || r.closing() || r.creating[m.Account]:
		s.answerAttach(from, m, wire.AttachAnswer_CODE_WAIT, 0, index)
		return
	}
	id, err := s.ids.Next(s.wall)
	if err != nil {
		s.note("no id for the master of account %d: %v", m.Account, err)
		s.answerAttach(from, m, wire.AttachAnswer_CODE_WAIT, 0, index)
		return
	}
	r.creating[m.Account] = true
	s.store(StoreRequest{Op: StoreCreate, Record: s.newborn(id, m, at, home)}, func(a StoreAnswer) {
		delete(r.creating, m.Account)
		s.born(from, m, id, r, index, a)
	})
}

// newborn composes a master only to encode its record: it enters the world when the store has it.
func (s *sim) newborn(id ecs.EntityID, m *wire.Attach, at torus.Pos, home torus.RegionPos) Record {
	if err := s.world.Create(id); err != nil {
		panic("zone: a fresh id is taken: " + err.Error())
	}
	s.game.SpawnMaster(id, m.Account, m.Name, at)
	s.authority.Set(id, authority{home: home})
	r := s.record(id, false)
	s.world.Evict(id)
	return r
}

func (s *sim) born(from string, m *wire.Attach, id ecs.EntityID, r *region, index int, a StoreAnswer) {
	switch {
	case a.Code == StoreConflict && a.Record != nil: // it has one already: that one is meant
		s.answerAttach(from, m, wire.AttachAnswer_CODE_MOVED, a.Record.Entity, s.grid.RegionIndex(a.Record.Home))
		return
	case s.regions[index] != r || a.Code != StoreOK || s.world.Alive(id):
		s.answerAttach(from, m, wire.AttachAnswer_CODE_WAIT, 0, index)
		return
	}
	if err := s.world.Create(id); err != nil {
		s.answerAttach(from, m, wire.AttachAnswer_CODE_WAIT, 0, index)
		return
	}
	at, _ := game.Canonical(s.grid, m.Spawn.GetX(), m.Spawn.GetY(), m.Spawn.GetZ())
	s.game.SpawnMaster(id, m.Account, m.Name, at)
	s.adopt(id, ecs.Epoch{}, s.grid.RegionAt(index), false)
	s.saving.Set(id, saving{claimed: true, stored: s.grid.RegionAt(index), next: s.tick + saveTicks})
	s.note("master %v of account %d (%s) was created at %v", id, m.Account, m.Name, at)
	s.at(Happened{Point: SessionCreated, Entity: id, Account: m.Account})
	s.bind(from, m, id)
}

// wake brings a resting master back into the world from its record.
func (s *sim) wake(from string, m *wire.Attach, id ecs.EntityID, index int) {
	r := s.regions[index]
	if r.closing() {
		s.answerAttach(from, m, wire.AttachAnswer_CODE_WAIT, id, index)
		return
	}
	r.waking[id] = true
	fail := func(code wire.AttachAnswer_Code, region int) {
		delete(r.waking, id)
		s.answerAttach(from, m, code, id, region)
	}
	s.store(StoreRequest{Op: StoreLoad, Entity: id}, func(a StoreAnswer) {
		switch {
		case a.Code != StoreOK || a.Record == nil:
			fail(wire.AttachAnswer_CODE_NOT_HERE, index)
		case s.grid.RegionIndex(a.Record.Home) != index:
			fail(wire.AttachAnswer_CODE_MOVED, s.grid.RegionIndex(a.Record.Home))
		case s.regions[index] != r || !r.active || s.world.Alive(id) || !a.Record.Resting && !r.overdue(id, s.tick):
			fail(wire.AttachAnswer_CODE_WAIT, index) // what does not rest is on its way here
		default:
			delete(r.missed, id)
			s.claimResting(from, m, r, *a.Record, fail)
		}
	})
}

func (s *sim) claimResting(from string, m *wire.Attach, r *region, rec Record, fail func(wire.AttachAnswer_Code, int)) {
	next := Record{Entity: rec.Entity, Epoch: rec.Epoch.Recovered(), Home: rec.Home}
	s.store(StoreRequest{Op: StoreClaim, Record: next, Expect: rec.Epoch}, func(a StoreAnswer) {
		index := s.grid.RegionIndex(rec.Home)
		if a.Code != StoreOK || a.Record == nil || s.regions[index] != r || !r.active {
			fail(wire.AttachAnswer_CODE_WAIT, index)
			return
		}
		delete(r.waking, rec.Entity)
		s.at(Happened{Point: SessionWoken, Entity: rec.Entity, Account: m.Account})
		if !s.revive(*a.Record, false) {
			s.answerAttach(from, m, wire.AttachAnswer_CODE_NOT_HERE, rec.Entity, index)
			return
		}
		s.bind(from, m, rec.Entity)
	})
}
