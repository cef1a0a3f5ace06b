package store

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/zone"
)

// What a recovery asks of the store: a region of so many records, each of about 1 KiB and with ten items.
const (
	regionRecords = 2000
	recordItems   = 10
	recordBytes   = 1000
)

// fillRegion creates the records of a region, in any order.
func fillRegion(tb testing.TB, submit func(zone.StoreRequest), answers <-chan zone.StoreAnswer) {
	tb.Helper()
	for id := range ecs.EntityID(regionRecords) {
		rec := record(id + 1)
		rec.Blob = bytes.Repeat([]byte{byte(id), 'b'}, recordBytes/2)
		for i := range uint64(recordItems) {
			rec.Contents.Items = append(rec.Contents.Items, held(uint64(id)*recordItems + i + 1).AddItems[0])
		}
		submit(zone.StoreRequest{Op: zone.StoreCreate, Record: rec})
	}
	for range regionRecords {
		if a := <-answers; a.Code != zone.StoreOK {
			tb.Fatalf("answer %+v", a)
		}
	}
}

// claimAll claims what was loaded, as the engine of a new owner does: at once.
func claimAll(tb testing.TB, records []zone.Record, submit func(zone.StoreRequest), answers <-chan zone.StoreAnswer) {
	tb.Helper()
	for _, r := range records {
		to := zone.Record{Entity: r.Entity, Epoch: zone.Epoch{Recoveries: r.Epoch.Recoveries + 1}, Home: r.Home}
		submit(zone.StoreRequest{Op: zone.StoreClaim, Expect: r.Epoch, Record: to})
	}
	for range records {
		if a := <-answers; a.Code != zone.StoreOK || len(a.Record.Contents.Items) != recordItems {
			tb.Fatalf("answer %+v", a)
		}
	}
}

// plainReads reads the same hashes with nothing around it: what the server and the connection take at least.
func plainReads(tb testing.TB, c *redis.Client) {
	tb.Helper()
	pipe := c.Pipeline()
	for id := range ecs.EntityID(regionRecords) {
		pipe.Do(context.Background(), "HGETALL", entityKey(id+1))
	}
	if _, err := pipe.Exec(context.Background()); err != nil {
		tb.Fatal(err)
	}
}

// TestALargeRegionIsRecoveredInAFewTimesWhatItsPlainReadsTake bounds by a ratio, because machines differ.
func TestALargeRegionIsRecoveredInAFewTimesWhatItsPlainReadsTake(t *testing.T) {
	server := newRealServer(t, "always")
	r, answers := driver(t, server.addr, patient)
	fillRegion(t, r.Submit, answers)
	c := redis.NewClient(&redis.Options{Addr: server.addr, Protocol: 2})
	defer c.Close()
	best := [3]time.Duration{time.Hour, time.Hour, time.Hour} // plain reads, load, claims
	for epoch := range uint64(5) {
		took := func(i int, from time.Time) { best[i] = min(best[i], time.Since(from)) }
		from := time.Now()
		plainReads(t, c)
		took(0, from)
		from = time.Now()
		r.Submit(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: record(1).Home, RegionEpoch: epoch + 1})
		a := <-answers
		if len(a.Records) != regionRecords || len(a.Records[7].Contents.Items) != recordItems {
			t.Fatalf("%d records are loaded", len(a.Records))
		}
		took(1, from)
		from = time.Now()
		claimAll(t, a.Records, r.Submit, answers)
		took(2, from)
	}
	ratio := func(i int) float64 { return float64(best[i]) / float64(best[0]) }
	t.Logf("plain reads %v; load %v (x%.1f), claims %v (x%.1f), together %v", best[0], best[1], ratio(1), best[2], ratio(2), best[1]+best[2])
	if ratio(1) > 8 || ratio(2) > 30 {
		t.Errorf("a load takes x%.1f of plain reads, claims x%.1f", ratio(1), ratio(2))
	}
}
