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
	accounts map[uint64]*account
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
		m.accounts = make(map[uint64]*account)
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
		master.Blob = nil
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
		m.records[req.Record.Entity] = ownRecord(req.Record)
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

// ownRecord copies a record with its blob.
func ownRecord(r zone.Record) zone.Record {
	r.Blob = bytes.Clone(r.Blob)
	return r
}
