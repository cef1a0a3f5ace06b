package store

import (
	"bytes"
	"sync"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Memory is a store in this process. Its zero value is empty and ready. It may be used from several goroutines; answers
// share no memory with it.
type Memory struct {
	mu       sync.Mutex
	records  map[ecs.EntityID]zone.Record
	fences   map[torus.RegionPos]uint64
	grounds  map[torus.RegionPos]zone.Contents
	accounts map[uint64]*account
	// written is the last write to the contents of each holder.
	written map[zone.Holder]uint64
}

// account is the directory's entry of one account.
type account struct {
	epoch, login    uint64
	gateway, secret string
	master          ecs.EntityID
	// claims are the last ones, in the slot of their session epoch.
	claims [ClaimHistory]sessionClaim
}

// sessionClaim is a claim that took effect, and what it was answered.
type sessionClaim struct {
	id           string
	epoch, login uint64
	resumed      bool
	previous     string
}

// Do carries out one request. It never answers StoreUnavailable, except to a request that no store can carry out.
func (m *Memory) Do(req zone.StoreRequest) zone.StoreAnswer {
	if checkRequest(req) != nil {
		return answer(req, zone.StoreUnavailable)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records = make(map[ecs.EntityID]zone.Record)
		m.fences = make(map[torus.RegionPos]uint64)
		m.grounds = make(map[torus.RegionPos]zone.Contents)
		m.accounts = make(map[uint64]*account)
		m.written = make(map[zone.Holder]uint64)
	}
	switch req.Op {
	case zone.StoreClaimSession:
		return m.claimSession(req)
	case zone.StoreCreate:
		return m.create(req)
	case zone.StoreClaim:
		return m.claim(req)
	case zone.StoreSave:
		return m.save(req)
	case zone.StoreLoadRegion:
		return m.loadRegion(req)
	case zone.StoreWrite:
		return m.write(req)
	case zone.StorePeek:
		return m.peek(req)
	default:
		return m.load(req)
	}
}

func (m *Memory) claimSession(req zone.StoreRequest) zone.StoreAnswer {
	a := m.account(req.Account)
	done := a.claim(sessionClaimID(req), req)
	ans := answer(req, zone.StoreOK)
	ans.SessionEpoch, ans.LoginEpoch = done.epoch, done.login
	ans.Resumed, ans.PreviousGateway = done.resumed, done.previous
	ans.ResumeSecret = a.secret
	if master, ok := m.records[a.master]; ok {
		master.Blob, master.Contents = nil, zone.Contents{}
		ans.Record = &master
	}
	return ans
}

func (m *Memory) account(id uint64) *account {
	a := m.accounts[id]
	if a == nil {
		a = &account{}
		m.accounts[id] = a
	}
	return a
}

// claim raises the session epoch, unless this very claim has done so before.
func (a *account) claim(id string, req zone.StoreRequest) sessionClaim {
	for _, c := range a.claims {
		if c.id == id {
			return c
		}
	}
	a.epoch++
	done := sessionClaim{id: id, epoch: a.epoch, previous: a.gateway}
	if resume := knownResume(req); resume != "" && resume == a.secret {
		done.resumed = true
	} else {
		a.login, a.secret = a.epoch, req.FreshSecret
	}
	done.login = a.login
	a.gateway = req.Session
	a.claims[a.epoch%ClaimHistory] = done
	return done
}

func (m *Memory) create(req zone.StoreRequest) zone.StoreAnswer {
	if rec := req.Record; rec.Account != 0 {
		a := m.account(rec.Account)
		if a.master != 0 && a.master != rec.Entity {
			return answerWith(req, zone.StoreConflict, ownRecord(m.records[a.master]))
		}
		a.master = rec.Entity
	}
	stored, exists := m.records[req.Record.Entity]
	switch {
	case !exists:
		rec := ownRecord(req.Record)
		sortContents(rec.Contents)
		m.records[rec.Entity] = rec
	case !createdBy(stored, req.Record):
		return answerWith(req, zone.StoreConflict, ownRecord(stored))
	}
	return answer(req, zone.StoreOK)
}

func (m *Memory) claim(req zone.StoreRequest) zone.StoreAnswer {
	stored, ok := m.records[req.Record.Entity]
	switch {
	case !ok:
		return answer(req, zone.StoreMissing)
	case claimTakes(stored, req):
		stored.Epoch, stored.Home, stored.Resting = req.Record.Epoch, req.Record.Home, false
		m.records[stored.Entity] = stored
	case !claimRepeats(stored, req):
		return answerWith(req, zone.StoreConflict, ownRecord(stored))
	}
	return answerWith(req, zone.StoreOK, ownRecord(stored))
}

func (m *Memory) save(req zone.StoreRequest) zone.StoreAnswer {
	stored, ok := m.records[req.Record.Entity]
	switch {
	case !ok:
		return answer(req, zone.StoreMissing)
	case stored.Epoch != req.Record.Epoch:
		return answer(req, zone.StoreConflict)
	}
	stored.Blob, stored.Resting = bytes.Clone(req.Record.Blob), req.Record.Resting
	m.records[stored.Entity] = stored
	return answer(req, zone.StoreOK)
}

func (m *Memory) loadRegion(req zone.StoreRequest) zone.StoreAnswer {
	if m.fences[req.Region] > req.RegionEpoch {
		ans := answer(req, zone.StoreConflict)
		ans.RegionEpoch = m.fences[req.Region]
		return ans
	}
	m.fences[req.Region] = req.RegionEpoch
	ans := answer(req, zone.StoreOK)
	ans.Contents = new(CloneContents(m.grounds[req.Region]))
	for _, r := range m.records {
		if r.Home == req.Region && !r.Resting {
			ans.Records = append(ans.Records, ownRecord(r))
		}
	}
	sortRecords(ans.Records)
	return ans
}

func (m *Memory) load(req zone.StoreRequest) zone.StoreAnswer {
	stored, ok := m.records[req.Entity]
	if !ok {
		return answer(req, zone.StoreMissing)
	}
	return answerWith(req, zone.StoreOK, ownRecord(stored))
}

// write changes the contents of a holder.
func (m *Memory) write(req zone.StoreRequest) zone.StoreAnswer {
	rec, found := m.records[req.Holder.Entity]
	if !found && !req.Holder.OnGround() {
		return answer(req, zone.StoreMissing)
	}
	contents := rec.Contents
	if req.Holder.OnGround() {
		contents = m.grounds[req.Holder.Region]
	}
	switch {
	case m.written[req.Holder] == req.Write:
		return answer(req, zone.StoreOK)
	case !m.mayWrite(req) || contents.Moves != req.Moves || Apply(&contents, req.Change, req.Holder.OnGround()) != nil:
		return m.refuseWrite(req)
	}
	m.written[req.Holder] = req.Write
	if req.Holder.OnGround() {
		m.grounds[req.Holder.Region] = contents
	} else {
		rec.Contents = contents
		m.records[rec.Entity] = rec
	}
	return answer(req, zone.StoreOK)
}

// mayWrite: the writer shows exactly the epoch that is stored.
func (m *Memory) mayWrite(req zone.StoreRequest) bool {
	if req.Holder.OnGround() {
		return m.fences[req.Holder.Region] == req.RegionEpoch
	}
	return m.records[req.Holder.Entity].Epoch == req.Expect
}

// refuseWrite answers with the holder as it is.
func (m *Memory) refuseWrite(req zone.StoreRequest) zone.StoreAnswer {
	if rec := m.records[req.Holder.Entity]; !req.Holder.OnGround() {
		rec.Blob = nil
		return answerWith(req, zone.StoreConflict, ownRecord(rec))
	}
	return m.answerGround(req, zone.StoreConflict)
}

func (m *Memory) answerGround(req zone.StoreRequest, code zone.StoreCode) zone.StoreAnswer {
	ans := answer(req, code)
	ans.RegionEpoch = m.fences[req.Holder.Region]
	ans.Contents = new(CloneContents(m.grounds[req.Holder.Region]))
	return ans
}

func (m *Memory) peek(req zone.StoreRequest) zone.StoreAnswer {
	if req.Holder.OnGround() {
		return m.answerGround(req, zone.StoreOK)
	}
	rec, found := m.records[req.Holder.Entity]
	if !found {
		return answer(req, zone.StoreMissing)
	}
	ans := answer(req, zone.StoreOK)
	ans.Contents = new(CloneContents(rec.Contents))
	return ans
}

// EachHolder yields every holder with its contents, in no order. They are the store's own: yield must not change them,
// nor use the store.
func (m *Memory) EachHolder(yield func(zone.Holder, zone.Contents) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, r := range m.records {
		if !yield(zone.Holder{Entity: id}, r.Contents) {
			return
		}
	}
	for region, c := range m.grounds {
		if !yield(zone.Holder{Region: region}, c) {
			return
		}
	}
}

// Records returns all records in the order of their ids, for those who check the whole world.
func (m *Memory) Records() []zone.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []zone.Record
	for _, r := range m.records {
		all = append(all, ownRecord(r))
	}
	sortRecords(all)
	return all
}

// ownRecord copies a record with its blob and contents.
func ownRecord(r zone.Record) zone.Record {
	r.Blob, r.Contents = bytes.Clone(r.Blob), CloneContents(r.Contents)
	return r
}
