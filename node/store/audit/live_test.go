package audit

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/store/audit/audittest"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/store/storetest"
)

// eachServer runs a test on the embedded server, and on one that is installed.
func eachServer(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("embedded", func(t *testing.T) { test(t, newShelf(t).Addr()) })
	t.Run("installed", func(t *testing.T) { test(t, storetest.NewServer(t).Addr) })
}

// TestNodesThatWriteRaiseNoFalseAlarm: many audits, while items move all the time, records change homes and come into being.
func TestNodesThatWriteRaiseNoFalseAlarm(t *testing.T) {
	eachServer(t, func(t *testing.T, addr string) {
		client, err := Client(connect.Config{URL: "redis://" + addr})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		quiet(t, client)
		var writes atomic.Uint64
		stop := audittest.Run(t, addr, &writes)
		defer stop()
		audits, passes, inUse := 0, 0, 0
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
			before := writes.Load()
			r, err := Run(t.Context(), client, Options{Wait: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Faults {
				t.Errorf("after %d writes: %v", writes.Load()-before, f)
			}
			if t.Failed() {
				return
			}
			audits, passes, inUse = audits+1, passes+r.Passes, max(inUse, r.Busy)
		}
		stop()
		r, err := Run(t.Context(), client, Options{})
		if err != nil || r.Found != 0 || r.Passes != 1 || r.Open != 0 || r.Leftovers != 0 {
			t.Errorf("at rest: %+v, %v", r, err)
		}
		t.Logf("%d audits in %d passes, at most %d holders in use, during %d writes", audits, passes, inUse, writes.Load())
	})
}

// TestAFaultIsFoundWhileNodesWrite: and is found each time.
func TestAFaultIsFoundWhileNodesWrite(t *testing.T) {
	s := newShelf(t)
	var writes atomic.Uint64
	stop := audittest.Run(t, s.Addr(), &writes)
	defer stop()
	s.record(5, "i:77", "1 1").record(6, "i:77", "1 1", "made", "1").record(7, "made", "1")
	for range 5 {
		r := s.audit()
		if r.Found != 2 || r.Faults[0].Kind != Twice || r.Faults[0].Serial != 77 || r.Faults[1].Kind != Lost {
			t.Fatalf("faults %v", r.Faults)
		}
	}
}

// quiet fills a store with records that nobody writes, so that reading all takes some time.
func quiet(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	pipe := client.Pipeline()
	for i := range 2000 {
		id := uint64(1)<<50 + uint64(i)
		pipe.HSet(t.Context(), fmt.Sprintf("{e:%d}", id), "format", "2", "recoveries", "0", "transfers", "0", "column", "9", "row", "9",
			"account", "0", "resting", "1", "blob", "b", "version", "1", "made", "1", "ended", "0", "moves", "0", fmt.Sprintf("i:%d", id), "1 1")
		pipe.HSet(t.Context(), "{r:9,9}:index", id, "0 0")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}
