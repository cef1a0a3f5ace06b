package vault

import (
	"bytes"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// creationGrace is how long an account's master may be on its way into the store before another takes its place.
const creationGrace = 10 * time.Second

// step is what one round trip does at the server, all at once and to one slot.
type step struct {
	key    key
	writes bool
	run    func() reply
}

// reply is what a step leads to: another one, or the answer.
type reply struct {
	next   *step
	answer zone.StoreAnswer
	// undo takes back what was changed; nil: nothing was.
	undo func()
}

// first returns the first step of a request that makes sense.
func (v *Vault) first(t *task) *step {
	req := t.req
	switch req.Op {
	case zone.StoreClaimSession:
		return v.claimSession(req)
	case zone.StoreCreate:
		if req.Record.Account != 0 {
			return v.reserve(req, 0, 1)
		}
		return v.create(req)
	case zone.StoreClaim:
		return &step{t.key, true, func() reply { return v.change(req) }}
	case zone.StoreSave:
		return &step{t.key, true, func() reply { return v.save(t) }}
	case zone.StoreLoadRegion:
		return v.raiseFence(req)
	case zone.StoreWrite:
		return &step{t.key, true, func() reply { return v.write(req) }}
	case zone.StorePeek:
		return &step{t.key, false, func() reply { return v.peek(req) }}
	default:
		return &step{t.key, false, func() reply { return v.load(req) }}
	}
}

// claimSession: the account's slot, then a look at its master.
func (v *Vault) claimSession(req zone.StoreRequest) *step {
	return &step{keyOf(req), true, func() reply {
		after, done, changed := v.tables.accounts[req.Account].claim(req)
		ans := answerTo(req, zone.StoreOK)
		ans.SessionEpoch, ans.LoginEpoch = done.epoch, done.login
		ans.Resumed, ans.PreviousGateway = done.resumed, done.previous
		ans.ResumeSecret = after.secret
		r := reply{answer: ans}
		if changed {
			r.undo = replace(v.tables.accounts, req.Account, after)
		}
		if after.master != 0 {
			r.next = v.addMaster(ans, after.master)
		}
		return r
	}}
}

func (v *Vault) addMaster(ans zone.StoreAnswer, master ecs.EntityID) *step {
	return &step{keyOfEntity(master), false, func() reply {
		if s := v.tables.records[master]; s.exists {
			rec := s.record
			rec.Blob, rec.Contents = nil, zone.Contents{}
			ans.Record = &rec
		}
		return reply{answer: ans}
	}}
}

// reserve makes an entity its account's master, in the place of one whose creation was given up (0: of none).
func (v *Vault) reserve(req zone.StoreRequest, givenUp ecs.EntityID, tries int) *step {
	rec := req.Record
	return &step{key{accountKey, rec.Account}, true, func() reply {
		a := v.tables.accounts[rec.Account]
		switch {
		case a.master == rec.Entity:
			return reply{next: v.create(req)}
		case a.master == 0 || a.master == givenUp:
			a.master, a.since = rec.Entity, v.now()
			return reply{next: v.create(req), undo: replace(v.tables.accounts, rec.Account, a)}
		case v.now()-a.since < creationGrace || tries == 0:
			return reply{next: v.answerMaster(req, a.master)}
		}
		return reply{next: v.giveUp(req, a.master, tries-1)}
	}}
}

// answerMaster refuses with the account's master. It may still be on its way: asking again will tell.
func (v *Vault) answerMaster(req zone.StoreRequest, master ecs.EntityID) *step {
	return &step{keyOfEntity(master), false, func() reply {
		s := v.tables.records[master]
		if !s.exists {
			return reply{answer: answerTo(req, zone.StoreUnavailable)}
		}
		return reply{answer: answerWith(req, zone.StoreConflict, s.record)}
	}}
}

// giveUp rules out the creation of a master that did not come for so long, and takes its place.
func (v *Vault) giveUp(req zone.StoreRequest, master ecs.EntityID, tries int) *step {
	return &step{keyOfEntity(master), true, func() reply {
		s := v.tables.records[master]
		switch {
		case s.exists:
			return reply{answer: answerWith(req, zone.StoreConflict, s.record)}
		case s.void:
			return reply{next: v.reserve(req, master, tries)}
		}
		v.counters.GivenUp++
		return reply{next: v.reserve(req, master, tries), undo: replace(v.tables.records, master, stored{void: true})}
	}}
}

func (v *Vault) create(req zone.StoreRequest) *step {
	return &step{keyOf(req), true, func() reply {
		if v.tables.records[req.Record.Entity].void {
			return reply{answer: answerTo(req, zone.StoreConflict)}
		}
		return v.change(req)
	}}
}

// save drops what a later save of the same writer and epoch has overtaken.
func (v *Vault) save(t *task) reply {
	id := t.req.Record.Entity
	before := v.tables.records[id]
	if before.exists && before.record.Epoch == t.req.Record.Epoch &&
		before.writer == t.client.session && before.number > t.number {
		v.counters.StaleSaves++
		return reply{answer: answerTo(t.req, zone.StoreOK)}
	}
	r := v.change(t.req)
	if r.answer.Code == zone.StoreOK {
		after := v.tables.records[id]
		after.writer, after.number = t.client.session, t.number
		v.tables.records[id] = after
		r.undo = func() { v.tables.records[id] = before } // the stamp, too, also where nothing else has changed
	}
	return r
}

// change lets a store.Memory decide that holds nothing but the request's record.
func (v *Vault) change(req zone.StoreRequest) reply {
	id := req.Record.Entity
	before := v.tables.records[id]
	var m store.Memory
	if before.exists {
		m.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: before.record})
	}
	r := reply{answer: m.Do(req)}
	loaded := m.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: id})
	if loaded.Record == nil || before.exists && same(before.record, *loaded.Record) {
		return r
	}
	after := before
	after.record, after.exists = *loaded.Record, true
	r.undo = replace(v.tables.records, id, after)
	return r
}

func same(a, b zone.Record) bool {
	return a.Epoch == b.Epoch && a.Home == b.Home && a.Account == b.Account && a.Resting == b.Resting &&
		bytes.Equal(a.Blob, b.Blob) // no request that is decided so changes contents
}

// raiseFence: the region's slot, then the records that its index names at that moment.
func (v *Vault) raiseFence(req zone.StoreRequest) *step {
	return &step{keyOf(req), true, func() reply {
		switch fence := v.tables.fences[req.Region]; {
		case fence > req.RegionEpoch:
			ans := answerTo(req, zone.StoreConflict)
			ans.RegionEpoch = fence
			return reply{answer: ans}
		case fence == req.RegionEpoch:
			return reply{next: v.readRegion(req)}
		}
		return reply{next: v.readRegion(req), undo: replace(v.tables.fences, req.Region, req.RegionEpoch)}
	}}
}

// readRegion reads the records that are in the region now, and its ground. Those that come into it later are not read.
func (v *Vault) readRegion(req zone.StoreRequest) *step {
	var index []ecs.EntityID
	for id, s := range v.tables.records {
		if s.exists && s.record.Home == req.Region {
			index = append(index, id)
		}
	}
	return &step{keyOf(req), false, func() reply {
		ans := answerTo(req, zone.StoreOK)
		ans.Records = v.recordsOf(req.Region, index)
		ans.Contents = new(store.CloneContents(v.tables.grounds[req.Region].contents))
		return reply{answer: ans}
	}}
}

// recordsOf returns those of some records that are in a region and do not rest.
func (v *Vault) recordsOf(region torus.RegionPos, index []ecs.EntityID) []zone.Record {
	var records []zone.Record
	for _, id := range index {
		if s := v.tables.records[id]; s.exists && s.record.Home == region && !s.record.Resting {
			records = append(records, ownRecord(s.record))
		}
	}
	sortRecords(records)
	return records
}

func (v *Vault) load(req zone.StoreRequest) reply {
	s := v.tables.records[req.Entity]
	if !s.exists {
		return reply{answer: answerTo(req, zone.StoreMissing)}
	}
	return reply{answer: answerWith(req, zone.StoreOK, s.record)}
}

// answerWith is an answer with a copy of a record.
func answerWith(req zone.StoreRequest, code zone.StoreCode, r zone.Record) zone.StoreAnswer {
	ans, rec := answerTo(req, code), ownRecord(r)
	ans.Record = &rec
	return ans
}
