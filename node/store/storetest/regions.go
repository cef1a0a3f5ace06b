package storetest

import (
	"testing"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

func regionLoads(_ *testing.T, s subject) {
	for _, id := range []ecs.EntityID{9, 100, 77} {
		r := master()
		r.Entity, r.Account = id, uint64(id)
		s.do(createRequest(r), zone.StoreOK)
	}
	other := master()
	other.Entity, other.Account, other.Home = 50, 50, torus.RegionPos{Column: 31}
	s.do(createRequest(other), zone.StoreOK)
	s.holds(here, 3, 9, 77, 100)
	ans := s.do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: here, RegionEpoch: 3}, zone.StoreOK)
	want := master()
	want.Account = 77
	s.isRecord(&ans.Records[1], want)
	// 31,0 and 3,10 must not share a key.
	s.holds(torus.RegionPos{Column: 3, Row: 10}, 1)
	s.holds(other.Home, 1, 50)
}

func regionFollowsClaims(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	homes := []torus.RegionPos{here, there}
	epoch := master().Epoch
	for i := 1; i <= 5; i++ {
		next := epoch.Transferred(1)
		s.do(claimRequest(77, epoch, next, homes[i%2]), zone.StoreOK)
		epoch = next
		for range 2 {
			s.holds(homes[i%2], 1, 77)
			s.holds(homes[1-i%2], 1)
		}
	}
	// A claim that lost leaves nothing behind that a load would find.
	s.do(claimRequest(77, master().Epoch, zone.Epoch{Transfers: 99}, here), zone.StoreConflict)
	s.holds(here, 1)
	s.holds(there, 1, 77)
}

func restingStays(_ *testing.T, s subject) {
	r := master()
	r.Resting = true
	s.do(createRequest(r), zone.StoreOK)
	s.holds(here, 1)
	s.loads(r)
	epoch := zone.Epoch{Transfers: 2}
	s.do(claimRequest(77, r.Epoch, epoch, here), zone.StoreOK)
	s.holds(here, 1, 77)
	r.Epoch = epoch
	s.do(saveRequest(r), zone.StoreOK)
	s.holds(here, 1)
	r.Resting = false
	s.do(saveRequest(r), zone.StoreOK)
	s.holds(here, 1, 77)
}

func fenceRises(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	load := func(region torus.RegionPos, epoch uint64, want zone.StoreCode) {
		s.t.Helper()
		ans := s.do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: region, RegionEpoch: epoch}, want)
		if want != zone.StoreOK && len(ans.Records) != 0 {
			s.t.Fatalf("a refused load answers %d records", len(ans.Records))
		}
		if want == zone.StoreConflict && ans.RegionEpoch <= epoch {
			s.t.Fatalf("a load at epoch %d is refused by a fence of %d", epoch, ans.RegionEpoch)
		}
	}
	load(here, 9, zone.StoreOK)
	load(here, 9, zone.StoreOK)
	load(here, 8, zone.StoreConflict)
	load(here, 10, zone.StoreOK)
	load(here, 9, zone.StoreConflict)
	load(here, 10, zone.StoreOK)
	load(there, 1, zone.StoreOK)
}
