package store

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store/storetest"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store { return &Memory{} })
}

func TestLocalDriverKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		answers := make(chan zone.StoreAnswer, 1)
		return storetest.Synchronous(t, Local(&Memory{}, func(a zone.StoreAnswer) { answers <- a }).Submit, answers)
	})
}

func TestRedisKeepsTheContractOnTheEmbeddedServer(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return client(t, embedded(t).Addr(), patient) })
}

// The tests on a real server need one in PATH; the continuous build installs it.
func TestRedisKeepsTheContractOnARealServer(t *testing.T) {
	binary, ok := serverBinary()
	if !ok {
		t.Log("no valkey-server or redis-server in PATH: only the embedded server is tested")
		return
	}
	addr := startServer(t, binary)
	storetest.Run(t, func(t *testing.T) storetest.Store {
		flush(t, addr)
		return client(t, addr, patient)
	})
	t.Run("as the model", func(t *testing.T) { checkAgainstModel(t, addr) })
}

func TestRedisAnswersAsTheModel(t *testing.T) { checkAgainstModel(t, embedded(t).Addr()) }

// checkAgainstModel asks Memory and Redis the same questions, in any order, and compares all answers.
func checkAgainstModel(t *testing.T, addr string) {
	store := client(t, addr, patient)
	rapid.Check(t, func(rt *rapid.T) {
		flush(t, addr)
		model := &Memory{}
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			req := anyRequest(rt)
			req.ID = rapid.Uint64Range(1, 3).Draw(rt, "number")
			want, got := normal(model.Do(req)), normal(store.Do(req))
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("%+v\n got %s\nwant %s", req, show(got), show(want))
			}
		}
	})
}

// normal makes absent and empty blobs equal.
func normal(a zone.StoreAnswer) zone.StoreAnswer {
	if a.Record != nil && len(a.Record.Blob) == 0 {
		a.Record.Blob = nil
	}
	for i := range a.Records {
		if len(a.Records[i].Blob) == 0 {
			a.Records[i].Blob = nil
		}
	}
	return a
}

func show(a zone.StoreAnswer) string {
	if a.Record == nil {
		return fmt.Sprintf("%+v", a)
	}
	rec := *a.Record
	a.Record = nil
	return fmt.Sprintf("%+v with %+v", a, rec)
}

// anyRequest draws from few values, so that requests meet.
func anyRequest(t *rapid.T) zone.StoreRequest {
	region := func(label string) torus.RegionPos {
		return torus.RegionPos{Column: rapid.Int32Range(0, 1).Draw(t, label), Row: rapid.Int32Range(0, 1).Draw(t, label)}
	}
	epoch := func(label string) zone.Epoch {
		return zone.Epoch{Recoveries: rapid.Uint32Range(0, 1).Draw(t, label), Transfers: rapid.Uint32Range(0, 2).Draw(t, label)}
	}
	word := rapid.SampledFrom([]string{"a", "b", "c"})
	entity := ecs.EntityID(rapid.Uint64Range(1, 4).Draw(t, "entity"))
	req := zone.StoreRequest{Op: rapid.SampledFrom([]zone.StoreOp{
		zone.StoreClaimSession, zone.StoreCreate, zone.StoreClaim, zone.StoreSave, zone.StoreLoadRegion, zone.StoreLoad,
	}).Draw(t, "operation")}
	switch req.Op {
	case zone.StoreClaimSession:
		req.Account = rapid.Uint64Range(1, 2).Draw(t, "account")
		req.Session, req.Resume = word.Draw(t, "session"), word.Draw(t, "resume")
		req.FreshSecret = word.Draw(t, "secret")
	case zone.StoreLoadRegion:
		req.Region, req.RegionEpoch = region("region"), rapid.Uint64Range(0, 3).Draw(t, "region epoch")
	case zone.StoreLoad:
		req.Entity = entity
	default:
		req.Expect = epoch("expected")
		req.Record = zone.Record{
			Entity: entity, Epoch: epoch("epoch"), Home: region("home"), Account: uint64(entity) / 2,
			Resting: rapid.Bool().Draw(t, "resting"), Blob: []byte(word.Draw(t, "blob")),
		}
	}
	return req
}
