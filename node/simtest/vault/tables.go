package vault

import (
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// tables are what the server holds. Their values are replaced as a whole and never changed in place, so that the one from
// before is what undoes a change.
type tables struct {
	records  map[ecs.EntityID]stored
	fences   map[torus.RegionPos]uint64
	grounds  map[torus.RegionPos]ground
	accounts map[uint64]account
}

func newTables() tables {
	return tables{
		map[ecs.EntityID]stored{}, map[torus.RegionPos]uint64{}, map[torus.RegionPos]ground{}, map[uint64]account{},
	}
}

// stored is what is under the key of an entity.
type stored struct {
	record zone.Record
	exists bool
	// void: there is no record, and must not be any more.
	void bool
	// writer saved last, with the save of this number.
	writer string
	number uint64
	// written is the last write to the contents.
	written uint64
}

// ground is what lies on a region's ground.
type ground struct {
	contents zone.Contents
	written  uint64
}

// account is the directory's entry of an account.
type account struct {
	epoch, login    uint64
	gateway, secret string
	master          ecs.EntityID
	since           time.Duration // master was named
	// claims are the last ones, in the slot of their session epoch.
	claims [store.ClaimHistory]sessionClaim
}

// claimID names a claim of a session over all its tries.
type claimID struct {
	session string
	number  uint64
	secret  string
}

// sessionClaim is a claim that took effect, and what it was answered.
type sessionClaim struct {
	id           claimID
	epoch, login uint64
	resumed      bool
	previous     string
}

// claim returns the account after a claim, and what the claim is answered. A repeat changes nothing.
func (a account) claim(req zone.StoreRequest) (after account, done sessionClaim, changed bool) {
	id := claimID{req.Session, req.ID, req.FreshSecret}
	for _, c := range a.claims {
		if c.epoch != 0 && c.id == id {
			return a, c, false
		}
	}
	a.epoch++
	done = sessionClaim{id: id, epoch: a.epoch, previous: a.gateway}
	if req.Resume != "" && req.Resume == a.secret {
		done.resumed = true
	} else {
		a.login, a.secret = a.epoch, req.FreshSecret
	}
	done.login = a.login
	a.gateway = req.Session
	a.claims[a.epoch%store.ClaimHistory] = done
	return a, done, true
}

// replace sets a value and returns what undoes that.
func replace[K comparable, V any](m map[K]V, k K, v V) (undo func()) {
	before, was := m[k]
	m[k] = v
	return func() {
		if was {
			m[k] = before
		} else {
			delete(m, k)
		}
	}
}

// key names what orders requests, and what decides the slot: an entity, an account or a region.
type key struct {
	kind keyKind
	id   uint64
}

type keyKind uint8

const (
	entityKey keyKind = iota + 1
	accountKey
	regionKey
	// groundKey orders what is about a ground; its slot is that of the region.
	groundKey
)

func keyOfEntity(id ecs.EntityID) key { return key{entityKey, uint64(id)} }

func keyOfRegion(r torus.RegionPos) key {
	return key{regionKey, uint64(uint32(r.Column))<<32 | uint64(uint32(r.Row))}
}

func keyOfHolder(h zone.Holder) key {
	if !h.OnGround() {
		return keyOfEntity(h.Entity)
	}
	return key{groundKey, keyOfRegion(h.Region).id}
}

// keyOf is the key of a whole request: a creation goes by its entity.
func keyOf(req zone.StoreRequest) key {
	switch req.Op {
	case zone.StoreClaimSession:
		return key{accountKey, req.Account}
	case zone.StoreLoadRegion:
		return keyOfRegion(req.Region)
	case zone.StoreLoad:
		return keyOfEntity(req.Entity)
	case zone.StoreWrite, zone.StorePeek:
		return keyOfHolder(req.Holder)
	default:
		return keyOfEntity(req.Record.Entity)
	}
}

// slot spreads keys, also those whose ids differ in their lowest or highest bits only.
func (k key) slot() int {
	if k.kind == groundKey {
		k.kind = regionKey
	}
	x := (k.id ^ uint64(k.kind)<<56) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32) * 0x9e3779b97f4a7c15
	return int((x >> 32) % Slots)
}
