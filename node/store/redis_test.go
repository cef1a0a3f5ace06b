package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

func record(id ecs.EntityID) zone.Record {
	return zone.Record{Entity: id, Home: torus.RegionPos{Column: 1, Row: 2}, Blob: []byte("blob")}
}

func TestOfNodesThatClaimOneEntityExactlyOneWins(t *testing.T) {
	const nodes, rounds = 4, 20
	addr := embedded(t).Addr()
	var stores [nodes]interface {
		Do(zone.StoreRequest) zone.StoreAnswer
	}
	for i := range stores {
		stores[i] = client(t, addr, patient)
	}
	stores[0].Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(5)})
	for round := range uint32(rounds) {
		var wg sync.WaitGroup
		var codes [nodes]zone.StoreCode
		for i, s := range stores {
			wg.Go(func() {
				to := record(5)
				to.Epoch, to.Home = zone.Epoch{Transfers: round + 1}, torus.RegionPos{Column: int32(i)}
				codes[i] = s.Do(zone.StoreRequest{Op: zone.StoreClaim, Record: to, Expect: zone.Epoch{Transfers: round}}).Code
			})
		}
		wg.Wait()
		winner := -1
		for i, code := range codes {
			if code == zone.StoreOK && winner >= 0 || code != zone.StoreOK && code != zone.StoreConflict {
				t.Fatalf("round %d: outcomes %v", round, codes)
			}
			if code == zone.StoreOK {
				winner = i
			}
		}
		for i := range nodes {
			ans := stores[0].Do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: torus.RegionPos{Column: int32(i)}})
			if (len(ans.Records) == 1) != (i == winner) {
				t.Fatalf("round %d: region %d loads %d records, winner is %d", round, i, len(ans.Records), winner)
			}
		}
	}
}

func TestOfCreationsForOneAccountExactlyOneWins(t *testing.T) {
	r, answers := driver(t, embedded(t).Addr(), patient)
	const creations = 50
	create := func(id uint64) {
		rec := record(ecs.EntityID(id))
		rec.Account = 9
		r.Submit(zone.StoreRequest{ID: id, Op: zone.StoreCreate, Record: rec})
	}
	for id := range uint64(creations) {
		create(id + 1)
	}
	var created []uint64
	masters := map[ecs.EntityID]bool{}
	for open := creations; open > 0; open-- {
		switch a := <-answers; {
		case a.Code == zone.StoreOK:
			created = append(created, a.ID)
		case a.Code == zone.StoreConflict && a.Record != nil:
			masters[a.Record.Entity] = true
		case a.Code == zone.StoreUnavailable: // the winner is under way
			open++
			create(a.ID)
		default:
			t.Fatalf("answer %+v", a)
		}
	}
	if len(created) != 1 || len(masters) != 1 || !masters[ecs.EntityID(created[0])] {
		t.Fatalf("entities %d were created, and the others were told of %v", created, masters)
	}
}

func TestRequestsOfOneEntityAreCarriedOutInOrder(t *testing.T) {
	opts := patient
	opts.Queue = 1 << 14 // however the entities fall to the workers
	r, answers := driver(t, embedded(t).Addr(), opts)
	const saves, entities = 100, 8
	for n := range saves {
		for id := range ecs.EntityID(entities) {
			rec := record(id + 1)
			rec.Blob = fmt.Appendf(nil, "%d", n)
			op := zone.StoreSave
			if n == 0 {
				op = zone.StoreCreate
			}
			r.Submit(zone.StoreRequest{Op: op, Record: rec})
			r.Submit(zone.StoreRequest{ID: uint64(n), Op: zone.StoreLoad, Entity: id + 1})
		}
	}
	for range 2 * saves * entities {
		a := <-answers
		if a.Code != zone.StoreOK {
			t.Fatalf("answer %+v", a)
		}
		if a.Op == zone.StoreLoad && string(a.Record.Blob) != fmt.Sprint(a.ID) {
			t.Fatalf("load %d of entity %d saw save %s", a.ID, a.Record.Entity, a.Record.Blob)
		}
	}
}

func TestALargeRegionIsLoadedWhole(t *testing.T) {
	r, answers := driver(t, embedded(t).Addr(), patient)
	const entities = 2*loadChunk + 7
	for id := range ecs.EntityID(entities) {
		r.Submit(zone.StoreRequest{Op: zone.StoreCreate, Record: record(entities - id)})
		<-answers
	}
	r.Submit(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: record(1).Home, RegionEpoch: 1})
	a := <-answers
	if len(a.Records) != entities {
		t.Fatalf("%d records, want %d", len(a.Records), entities)
	}
	for i, rec := range a.Records {
		if rec.Entity != ecs.EntityID(i+1) {
			t.Fatalf("record %d is entity %d", i, rec.Entity)
		}
	}
}

func TestAServerThatForgotTheScriptsLearnsThemAgain(t *testing.T) {
	server := embedded(t)
	s := client(t, server.Addr(), patient)
	for i := range ecs.EntityID(3) {
		if a := s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(i + 1)}); a.Code != zone.StoreOK {
			t.Fatalf("creation %d: %+v", i, a)
		}
		server.Restart()
		if err := scriptFlush(server.Addr()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullQueueAnswersAtOnceAndNeverBlocks(t *testing.T) {
	silent := silentServer(t)
	r, answers := driver(t, silent, Options{Timeout: time.Minute, Queue: 10, Workers: 1, Batch: 1})
	const requests = 100
	for i := range uint64(requests) {
		r.Submit(zone.StoreRequest{ID: i, Op: zone.StoreLoad, Entity: 1})
	}
	// One is under way, five wait in the queue of the one worker (the other five places are for regions).
	refused := len(answers)
	if refused < requests-6 || refused > requests-5 {
		t.Fatalf("%d of %d requests were refused", refused, requests)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if len(answers) != requests {
		t.Fatalf("%d of %d requests were answered after Close", len(answers), requests)
	}
	r.Submit(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1})
	if len(answers) != requests+1 {
		t.Fatal("a request after Close was not answered")
	}
	for range requests + 1 {
		if a := <-answers; a.Code != zone.StoreUnavailable {
			t.Fatalf("answer %+v", a)
		}
	}
}

func TestTheEndOfTheContextEndsTheDriver(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan zone.StoreAnswer, 100)
	r, err := New(ctx, "redis://"+silentServer(t), "", func(a zone.StoreAnswer) { answers <- a }, Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		r.Submit(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1})
	}
	cancel()
	for range 50 {
		if a := <-answers; a.Code != zone.StoreUnavailable {
			t.Fatalf("answer %+v", a)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreThatIsAwayMakesRequestsUnavailableAndComesBack(t *testing.T) {
	server := embedded(t)
	s := client(t, server.Addr(), Options{Timeout: 5 * time.Second})
	if a := s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)}); a.Code != zone.StoreOK {
		t.Fatalf("answer %+v", a)
	}
	server.Close()
	if a := s.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1}); a.Code != zone.StoreUnavailable {
		t.Fatalf("answer while the store is away: %+v", a)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store is used again", func() bool {
		return s.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1}).Code == zone.StoreOK
	})
}

func TestAServerThatDoesNotAnswerTimesOut(t *testing.T) {
	s := client(t, silentServer(t), Options{Timeout: 50 * time.Millisecond})
	if a := s.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1}); a.Code != zone.StoreUnavailable {
		t.Fatalf("answer %+v", a)
	}
}

func TestMetricsCountAnswers(t *testing.T) {
	reg := prometheus.NewRegistry()
	opts := patient
	opts.Registerer = reg
	s := client(t, embedded(t).Addr(), opts)
	s.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1})
	s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
	s.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1})
	err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP spatialcells_store_requests_total Answered requests by operation and outcome.
# TYPE spatialcells_store_requests_total counter
spatialcells_store_requests_total{code="missing",op="load"} 1
spatialcells_store_requests_total{code="ok",op="create"} 1
spatialcells_store_requests_total{code="ok",op="load"} 1
`), "spatialcells_store_requests_total")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), "redis://localhost", "", nil, opts); err == nil {
		t.Fatal("two drivers share the names of metrics")
	}
}

func TestThePasswordIsReadFromTheFileForEachConnection(t *testing.T) {
	server := embedded(t)
	server.RequireAuth("first")
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong\n")
	answers := make(chan zone.StoreAnswer, 1)
	r, err := New(t.Context(), "redis://"+server.Addr()+"/3", file, func(a zone.StoreAnswer) { answers <- a }, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	create := func(id ecs.EntityID) zone.StoreCode {
		r.Submit(zone.StoreRequest{Op: zone.StoreCreate, Record: record(id)})
		return (<-answers).Code
	}
	if code := create(1); code != zone.StoreUnavailable {
		t.Fatalf("outcome %d with a wrong password", code)
	}
	write("first\n")
	if code := create(1); code != zone.StoreOK {
		t.Fatalf("outcome %d with the right password", code)
	}
	if keys := server.DB(3).Keys(); len(keys) != 2 {
		t.Fatalf("database 3 has keys %v", keys)
	}
}

func TestUnusableSettingsAreRefusedWithWhatToDo(t *testing.T) {
	for url, want := range map[string]string{
		"":                        "use memory, redis://",
		"postgres://h":            "use memory, redis://",
		"redis://":                "redis://host:port",
		"redis://:1":              "redis://host:port",
		"redis://u:secret@h:1":    "put it into a file",
		"redis://h:1/x":           "use a number",
		"redis://h:1/70000":       "use a number",
		"redis://h:port/":         "redis://host:port",
		"redis://h\x7f":           "redis://host:port",
		"rediss://u:secret@h:1/0": "put it into a file",
	} {
		_, err := Open(t.Context(), url, "", nil, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that says %q", url, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the password: %v", url, err)
		}
	}
	clock := func() time.Duration { return 0 }
	if _, err := New(t.Context(), "redis://h", "", nil, Options{Now: clock}); err == nil {
		t.Error("a clock without a fence is accepted")
	}
}
