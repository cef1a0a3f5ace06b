package store

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/zone"
)

// syncing makes the embedded server one whose append-only file can be waited for: synced says how many have it.
func syncing(t *testing.T, m *miniredis.Miniredis, synced *atomic.Int64) (waits *atomic.Int64) {
	t.Helper()
	waits = &atomic.Int64{}
	err := m.Server().Register("WAITAOF", func(c *server.Peer, _ string, args []string) {
		n := 1
		if args[2] != "1" { // not the greeting
			waits.Add(1)
			n = int(synced.Load())
		}
		c.WriteLen(2)
		c.WriteInt(n)
		c.WriteInt(0)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Server().Register("CONFIG", func(c *server.Peer, _ string, _ []string) {
		c.WriteStrings([]string{"appendfsync", "everysec"})
	}); err != nil {
		t.Fatal(err)
	}
	return waits
}

func TestAWriteIsAnsweredWhenItIsDurableAndAReadAtOnce(t *testing.T) {
	embedded := embedded(t)
	var synced atomic.Int64
	waits := syncing(t, embedded, &synced)
	reg := prometheus.NewRegistry()
	opts := patient
	opts.Registerer = reg
	r, answers := driver(t, embedded.Addr(), opts)
	do := func(req zone.StoreRequest) zone.StoreCode {
		r.Submit(req)
		return (<-answers).Code
	}
	// The first connection tells, and the first batch may be sent before it is made.
	do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1})
	create := zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)}
	write := zone.StoreRequest{Op: zone.StoreWrite, Holder: zone.Holder{Entity: 1}, Write: 1, Change: held(9)}
	for _, req := range []zone.StoreRequest{create, write} {
		for range 2 {
			if code := do(req); code != zone.StoreUnavailable {
				t.Fatalf("operation %d is answered %d before it is durable", req.Op, code)
			}
		}
		synced.Store(1)
		if code := do(req); code != zone.StoreOK { // the repeat of what is there already is waited for as well
			t.Fatalf("operation %d is answered %d", req.Op, code)
		}
		synced.Store(0)
	}
	before := waits.Load()
	if code := do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1}); code != zone.StoreOK || waits.Load() != before {
		t.Errorf("a read is answered %d after %d waits", code, waits.Load()-before)
	}
	for want, n := range []int64{0, 1} {
		synced.Store(n)
		if _, err := r.UseToken(t.Context(), "token", time.Minute); (err == nil) != (want == 1) {
			t.Errorf("with %d files synced the use of a token is %v", n, err)
		}
	}
	if before != 6 {
		t.Errorf("%d waits for 6 writes", before)
	}
	if !strings.HasPrefix(r.Durability(), "waited: ") {
		t.Errorf("durability is %q", r.Durability())
	}
	if n := testutil.ToFloat64(r.metrics.level.WithLabelValues("waited")); n != 1 {
		t.Errorf("the metric is %v", n)
	}
}

func TestWhatAServerGivesIsToldFromWhatItAllowsToAsk(t *testing.T) {
	none := errors.New("NOPERM this user has no permissions")
	unknown := errors.New("ERR unknown command 'WAITAOF'")
	on, off := "# Persistence\r\naof_enabled:1\r\n", "# Persistence\r\naof_enabled:0\r\n"
	is := func(fsync string) any { return []any{"appendfsync", fsync} }
	for name, c := range map[string]struct {
		info    any
		config  any
		waitErr error
		want    durability
	}{
		"always":                         {on, is("always"), nil, durabilityAlways},
		"always, old server":             {on, is("always"), unknown, durabilityAlways},
		"every second":                   {on, is("everysec"), nil, durabilityWaited},
		"every second, old server":       {on, is("everysec"), unknown, durabilityEverySec},
		"whenever":                       {on, is("no"), nil, durabilitySystem},
		"no file":                        {off, is("always"), nil, durabilityNone},
		"no file, only the wait says so": {none, none, errors.New("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled"), durabilityNone},
		"only the wait is allowed":       {none, none, nil, durabilityWaited},
		"only INFO is allowed":           {on, none, none, durabilityEverySec},
		"nothing is allowed":             {none, none, none, durabilityUnknown},
	} {
		cmd := func(v any) *redis.Cmd {
			if err, is := v.(error); is {
				return redis.NewCmdResult(nil, err)
			}
			return redis.NewCmdResult(v, nil)
		}
		if got := durabilityOf(cmd(c.info), cmd(c.config), redis.NewCmdResult([]any{int64(0), int64(0)}, c.waitErr)); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
