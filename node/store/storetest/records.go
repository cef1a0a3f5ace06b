package storetest

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

func createdIsLoaded(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	s.loads(master())
	wild := zone.Record{Entity: 78, Home: there, Resting: true}
	s.do(createRequest(wild), zone.StoreOK)
	s.loads(wild)
}

func createRepeats(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	saved := master()
	saved.Blob = []byte("later")
	s.do(saveRequest(saved), zone.StoreOK)
	s.do(createRequest(master()), zone.StoreOK)
	s.loads(saved)
}

func createForTakenAccount(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	second := master()
	second.Entity, second.Home = 78, there
	for range 2 {
		s.isRecord(s.do(createRequest(second), zone.StoreConflict).Record, master())
	}
	s.do(zone.StoreRequest{Op: zone.StoreLoad, Entity: second.Entity}, zone.StoreMissing)
	s.holds(there, 1)
}

func createOfMovedEntity(_ *testing.T, s subject) {
	moved := master()
	s.do(createRequest(moved), zone.StoreOK)
	moved.Epoch, moved.Home = zone.Epoch{Transfers: 2}, there
	s.do(claimRequest(moved.Entity, master().Epoch, moved.Epoch, moved.Home), zone.StoreOK)
	s.isRecord(s.do(createRequest(master()), zone.StoreConflict).Record, moved)
}

func neverStoredIsMissing(_ *testing.T, s subject) {
	s.do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 5}, zone.StoreMissing)
	s.do(claimRequest(5, zone.Epoch{}, zone.Epoch{Transfers: 1}, here), zone.StoreMissing)
	s.do(saveRequest(zone.Record{Entity: 5, Home: here}), zone.StoreMissing)
	s.holds(here, 1)
}

func claimMoves(_ *testing.T, s subject) {
	resting := master()
	resting.Resting = true
	s.do(createRequest(resting), zone.StoreOK)
	want := master()
	want.Epoch, want.Home = zone.Epoch{Transfers: 4}, there
	s.isRecord(s.do(claimRequest(want.Entity, resting.Epoch, want.Epoch, there), zone.StoreOK).Record, want)
	s.loads(want)
}

func claimRepeats(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	want := master()
	want.Epoch, want.Home = zone.Epoch{Transfers: 2}, there
	claim := claimRequest(want.Entity, master().Epoch, want.Epoch, there)
	s.isRecord(s.do(claim, zone.StoreOK).Record, want)
	// The new owner's logout must outlive a repeat that lands late.
	want.Resting, want.Blob = true, []byte("logged out")
	s.do(saveRequest(want), zone.StoreOK)
	s.isRecord(s.do(claim, zone.StoreOK).Record, want)
	s.loads(want)
}

func claimOfOther(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	for _, expect := range []zone.Epoch{{}, {Transfers: 2}, {Recoveries: 1, Transfers: 1}} {
		claim := claimRequest(77, expect, zone.Epoch{Recoveries: 5}, there)
		s.isRecord(s.do(claim, zone.StoreConflict).Record, master())
	}
	s.loads(master())
}

func claimOnce(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	to := zone.Epoch{Transfers: 2}
	won := s.do(claimRequest(77, master().Epoch, to, here), zone.StoreOK)
	lost := s.do(claimRequest(77, master().Epoch, to, there), zone.StoreConflict)
	s.isRecord(lost.Record, *won.Record)
	s.holds(here, 1, 77)
	s.holds(there, 1)
}

func claimInPlace(_ *testing.T, s subject) {
	resting := master()
	resting.Resting = true
	s.do(createRequest(resting), zone.StoreOK)
	s.isRecord(s.do(claimRequest(77, resting.Epoch, resting.Epoch, here), zone.StoreOK).Record, master())
	s.loads(master())
}

func claimWithoutRise(_ *testing.T, s subject) {
	r := master()
	r.Epoch = zone.Epoch{Recoveries: 2, Transfers: 3}
	s.do(createRequest(r), zone.StoreOK)
	for _, to := range []zone.Epoch{r.Epoch, {Recoveries: 2, Transfers: 2}, {Recoveries: 1, Transfers: 9}} {
		s.isRecord(s.do(claimRequest(77, r.Epoch, to, there), zone.StoreConflict).Record, r)
	}
	s.holds(here, 1, 77)
	s.holds(there, 1)
}

func recoveriesFirst(_ *testing.T, s subject) {
	r := master()
	r.Epoch = zone.Epoch{Transfers: 40}
	s.do(createRequest(r), zone.StoreOK)
	recovered := zone.Epoch{Recoveries: 1}
	s.do(claimRequest(77, r.Epoch, recovered, here), zone.StoreOK)
	s.do(saveRequest(r), zone.StoreConflict)
	r.Epoch = recovered
	s.loads(r)
}

func saveReplaces(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	saved := master()
	saved.Blob, saved.Resting = []byte("second"), true
	s.do(saveRequest(saved), zone.StoreOK)
	s.do(saveRequest(saved), zone.StoreOK)
	s.loads(saved)
	saved.Blob, saved.Resting = nil, false
	s.do(saveRequest(saved), zone.StoreOK)
	s.loads(saved)
	// A save is no claim: it moves nothing, and gives nothing to another account.
	odd := saved
	odd.Home, odd.Account = there, 99
	s.do(saveRequest(odd), zone.StoreOK)
	s.loads(saved)
}

func saveOfOldEpoch(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	s.do(claimRequest(77, master().Epoch, zone.Epoch{Transfers: 2}, there), zone.StoreOK)
	want := master()
	want.Epoch, want.Home = zone.Epoch{Transfers: 2}, there
	stale := master()
	stale.Blob, stale.Resting = []byte("stale"), true
	s.do(saveRequest(stale), zone.StoreConflict)
	stale.Epoch = zone.Epoch{Transfers: 3}
	s.do(saveRequest(stale), zone.StoreConflict)
	s.loads(want)
}

func extremes(_ *testing.T, s subject) {
	r := zone.Record{
		Entity:  math.MaxUint64,
		Epoch:   zone.Epoch{Recoveries: math.MaxUint32, Transfers: math.MaxUint32 - 1},
		Home:    torus.RegionPos{Column: torus.MaxColumns - 1, Row: torus.MaxRows - 1},
		Account: math.MaxUint64 - 1,
		Blob:    bytes.Repeat([]byte{0, 255, '\r', '\n'}, 1<<18),
	}
	s.do(createRequest(r), zone.StoreOK)
	s.loads(r)
	r.Epoch.Transfers = math.MaxUint32
	s.do(claimRequest(r.Entity, zone.Epoch{Recoveries: math.MaxUint32, Transfers: math.MaxUint32 - 1}, r.Epoch, r.Home),
		zone.StoreOK)
	s.do(saveRequest(r), zone.StoreOK)
	s.holds(r.Home, 1<<53-1, r.Entity)
	name := strings.Repeat("n", 512)
	s.do(sessionRequest(r.Account, name, "", name), zone.StoreOK)
	ans := s.do(sessionRequest(r.Account, "other", name, "fresh"), zone.StoreOK)
	if !ans.Resumed || ans.PreviousGateway != name || ans.Record == nil || ans.Record.Entity != r.Entity {
		s.t.Fatalf("resume with long names answers %.200v", ans)
	}
}

func senseless(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	for _, req := range append(senselessWrites(), []zone.StoreRequest{
		{},
		{Op: 200, Entity: 1},
		{Op: zone.StoreLoad},
		{Op: zone.StoreCreate, Record: zone.Record{Home: here}},
		{Op: zone.StoreCreate, Record: zone.Record{Entity: 1, Home: torus.RegionPos{Column: -1}}},
		{Op: zone.StoreSave, Record: zone.Record{Entity: 1, Blob: make([]byte, 1<<20+1)}},
		{Op: zone.StoreLoadRegion, Region: torus.RegionPos{Row: 1 << 20}},
		{Op: zone.StoreLoadRegion, RegionEpoch: 1 << 53},
		sessionRequest(0, "a", "", "b"),
		sessionRequest(1, "", "", "b"),
		sessionRequest(1, "two\nlines", "", "b"),
		sessionRequest(1, "a", "", ""),
		sessionRequest(1, "a", "", strings.Repeat("s", 513)),
	}...) {
		s.do(req, zone.StoreUnavailable)
	}
	s.has(hand, 0, zone.Contents{})
	s.holds(torus.RegionPos{}, 1)
}
