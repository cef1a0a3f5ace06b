package storetest

import (
	"reflect"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Store carries out one request and returns its answer.
type Store interface {
	Do(req zone.StoreRequest) zone.StoreAnswer
}

// Factory makes an empty store, and ends it with the test.
type Factory func(t *testing.T) Store

// Run checks everything that a store promises.
func Run(t *testing.T, factory Factory) {
	for _, c := range []struct {
		name  string
		check func(*testing.T, subject)
	}{
		{"a created record is loaded as it was stored", createdIsLoaded},
		{"a repeated creation is answered as the first", createRepeats},
		{"a creation for an account with a master answers that master", createForTakenAccount},
		{"a creation of an entity that has moved on is refused", createOfMovedEntity},
		{"what was never stored is missing", neverStoredIsMissing},
		{"a claim sets epoch and home and wakes the record", claimMoves},
		{"a repeated claim is answered as the first and changes nothing", claimRepeats},
		{"a claim with another epoch than the record's is refused", claimOfOther},
		{"of two claims to different regions one wins", claimOnce},
		{"a claim in place may keep the epoch", claimInPlace},
		{"a claim that moves a record without a newer epoch is refused", claimWithoutRise},
		{"recoveries count before transfers", recoveriesFirst},
		{"a save replaces blob and resting", saveReplaces},
		{"a save of an old epoch is refused", saveOfOldEpoch},
		{"a region loads what has its home there", regionLoads},
		{"what left a region is not loaded there any more, and is again when it is back", regionFollowsClaims},
		{"resting records are not loaded", restingStays},
		{"the fence of a region only rises", fenceRises},
		{"session epochs rise with each claim", sessionEpochsRise},
		{"a resume keeps the login", resumeKeepsLogin},
		{"a wrong resume secret begins a fresh login", wrongResume},
		{"a repeated session claim is answered as the first", sessionRepeats},
		{"a session claimed anew with the same secrets has a newer epoch", sessionClaimedAnew},
		{"a superseded session claim that lands again changes nothing", supersededSession},
		{"a session claim tells the account's master without its blob", sessionTellsMaster},
		{"a write changes contents, which loads answer in order", writeChanges},
		{"an item may be replaced in one write", writeReplaces},
		{"a repeated write is answered as the first and changes nothing", writeRepeats},
		{"a write with another epoch or count of writes is refused", writeOfOther},
		{"a write that adds what is there or removes what is not is refused whole", writeThatDoesNotFit},
		{"an entity has so many items only", heldIsBounded},
		{"a holder has so many entries only", entriesAreBounded},
		{"a ground is written with exactly the epoch that loaded its region", groundIsFenced},
		{"edits of a ground only deepen", groundIsEdited},
		{"a record is created with contents, and keeps them when it is claimed and saved", createdWithContents},
		{"large blobs and numbers are kept whole", extremes},
		{"a request that makes no sense is not done", senseless},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, subject{t, factory(t)}) })
	}
}

// subject is the store under test with what the checks need.
type subject struct {
	t     *testing.T
	store Store
}

// do carries out a request, checks that the answer is to it, and expects an outcome.
func (s subject) do(req zone.StoreRequest, want zone.StoreCode) zone.StoreAnswer {
	s.t.Helper()
	if req.ID == 0 {
		req.ID = 4711
	}
	got := s.store.Do(req)
	if got.ID != req.ID || got.Op != req.Op {
		s.t.Fatalf("answer is to request %d, operation %d; want %d, %d", got.ID, got.Op, req.ID, req.Op)
	}
	if got.Code != want {
		s.t.Fatalf("operation %d: outcome %d, want %d (%+v)", req.Op, got.Code, want, got)
	}
	return got
}

// loads expects that the store has exactly this record.
func (s subject) loads(want zone.Record) {
	s.t.Helper()
	s.isRecord(s.do(zone.StoreRequest{Op: zone.StoreLoad, Entity: want.Entity}, zone.StoreOK).Record, want)
}

func (s subject) isRecord(got *zone.Record, want zone.Record) {
	s.t.Helper()
	if got == nil {
		s.t.Fatalf("no record, want %+v", want)
	}
	if len(got.Blob) == 0 && len(want.Blob) == 0 {
		want.Blob = got.Blob
	}
	if !reflect.DeepEqual(*got, want) {
		s.t.Fatalf("record\n got %.300v\nwant %.300v", *got, want)
	}
}

// holds expects that a region loads these entities, in this order.
func (s subject) holds(region torus.RegionPos, epoch uint64, want ...ecs.EntityID) {
	s.t.Helper()
	ans := s.do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: region, RegionEpoch: epoch}, zone.StoreOK)
	var got []ecs.EntityID
	for _, r := range ans.Records {
		got = append(got, r.Entity)
	}
	if !reflect.DeepEqual(got, want) {
		s.t.Fatalf("region %s holds %v, want %v", region, got, want)
	}
}

func createRequest(r zone.Record) zone.StoreRequest {
	return zone.StoreRequest{Op: zone.StoreCreate, Record: r}
}

func saveRequest(r zone.Record) zone.StoreRequest {
	return zone.StoreRequest{Op: zone.StoreSave, Record: r}
}

func claimRequest(id ecs.EntityID, expect, to zone.Epoch, home torus.RegionPos) zone.StoreRequest {
	return zone.StoreRequest{
		Op: zone.StoreClaim, Expect: expect, Record: zone.Record{Entity: id, Epoch: to, Home: home},
	}
}

func sessionRequest(account uint64, session, resume, fresh string) zone.StoreRequest {
	return zone.StoreRequest{
		Op: zone.StoreClaimSession, Account: account, Session: session, Resume: resume, FreshSecret: fresh,
	}
}

var (
	here  = torus.RegionPos{Column: 3, Row: 1}
	there = torus.RegionPos{Column: 4, Row: 1}
)

// master is a record of an account, at home here.
func master() zone.Record {
	return zone.Record{
		Entity: 77, Epoch: zone.Epoch{Transfers: 1}, Home: here, Account: 12, Blob: []byte("a\x00snapshot\r\n\xff"),
	}
}

// Synchronous makes a store of a driver: submit hands over a request, and answers yields what was delivered. It is for one
// goroutine.
func Synchronous(t *testing.T, submit func(zone.StoreRequest), answers <-chan zone.StoreAnswer) Store {
	return synchronous{t, submit, answers}
}

type synchronous struct {
	t       *testing.T
	submit  func(zone.StoreRequest)
	answers <-chan zone.StoreAnswer
}

// patience is how long an answer may take before the test fails.
const patience = 30 * time.Second

func (s synchronous) Do(req zone.StoreRequest) zone.StoreAnswer {
	s.t.Helper()
	s.submit(req)
	select {
	case a := <-s.answers:
		return a
	case <-time.After(patience):
		s.t.Fatalf("no answer to operation %d within %s", req.Op, patience)
		return zone.StoreAnswer{}
	}
}
