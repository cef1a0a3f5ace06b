package store

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/zone"
)

// realServer is an installed server that a test kills, stops and starts again. It ends with the test.
type realServer struct {
	t      *testing.T
	binary string
	args   []string
	addr   string
	cmd    *exec.Cmd
}

// newRealServer starts an installed server whose file is synced as told; without one in PATH the test is skipped, and
// says so.
func newRealServer(t *testing.T, fsync string) *realServer {
	t.Helper()
	binary, ok := serverBinary()
	if !ok {
		t.Skip("no valkey-server or redis-server in PATH")
	}
	port := strconv.Itoa(freePort(t))
	s := &realServer{t: t, binary: binary, addr: net.JoinHostPort("127.0.0.1", port), args: []string{
		"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--appendonly", "yes", "--appendfsync", fsync, "--save", "",
	}}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *realServer) start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.args[5], "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(s.binary, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the server answers", func() bool { return answersPing(s.addr) })
}

// kill ends the server at once, as the end of its machine does.
func (s *realServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *realServer) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// run carries out a command of an operator.
func (s *realServer) run(args ...any) {
	s.t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.addr})
	defer c.Close()
	if err := c.Do(context.Background(), args...).Err(); err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
}

// numbered is write n of a chain to what an entity has: item n takes the place of item n-1.
func numbered(n uint64) zone.StoreRequest {
	change := held(n)
	if n > 1 {
		change.RemoveItems, change.Ended = []uint64{n - 1}, 1
	}
	return zone.StoreRequest{Op: zone.StoreWrite, Holder: zone.Holder{Entity: 1}, Write: n, Moves: n - 1, Change: change}
}

func TestWhatWasAcknowledgedOutlivesTheServersDeath(t *testing.T) {
	for _, fsync := range []string{"always", "everysec"} {
		t.Run(fsync, func(t *testing.T) {
			server := newRealServer(t, fsync)
			opts := Options{Timeout: 2 * time.Second}
			r, answers := driver(t, server.addr, opts)
			do := func(req zone.StoreRequest) zone.StoreAnswer {
				r.Submit(req)
				return <-answers
			}
			if a := do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)}); a.Code != zone.StoreOK {
				t.Fatalf("answer %+v", a)
			}
			if r.durability.Load().level == durabilityEverySec.level {
				t.Skip(r.Durability())
			}
			var once sync.WaitGroup
			acknowledged := uint64(0)
			deadline := time.Now().Add(patience)
			for n := uint64(1); n <= 6; n++ {
				if n == 4 {
					once.Go(func() {
						<-time.After(5 * time.Millisecond)
						server.kill()
						server.start()
					})
				}
				for {
					a := do(numbered(n))
					if a.Code == zone.StoreOK {
						acknowledged = n
						break
					}
					if a.Code != zone.StoreUnavailable || time.Now().After(deadline) {
						t.Fatalf("write %d is answered %+v after %d were acknowledged", n, a, acknowledged)
					}
				}
			}
			once.Wait()
			server.kill()
			server.start()
			var a zone.StoreAnswer
			eventually(t, "the store is back", func() bool {
				a = do(zone.StoreRequest{Op: zone.StorePeek, Holder: zone.Holder{Entity: 1}})
				return a.Code == zone.StoreOK
			})
			if a.Contents.Moves != acknowledged || len(a.Contents.Items) != 1 || a.Contents.Items[0].Serial != acknowledged {
				t.Errorf("%d writes were acknowledged, there is %+v", acknowledged, a.Contents)
			}
		})
	}
}

// TestAStoreThatRefusesOrIsSilentIsUnavailableAndGoesOn: reads go on where they can.
func TestAStoreThatRefusesOrIsSilentIsUnavailableAndGoesOn(t *testing.T) {
	server := newRealServer(t, "always")
	for name, c := range map[string]struct {
		begin, end func()
		read       zone.StoreCode
	}{
		"slow": {
			func() { server.signal(syscall.SIGSTOP) }, func() { server.signal(syscall.SIGCONT) }, zone.StoreUnavailable,
		},
		"read-only": {
			func() { server.run("REPLICAOF", "127.0.0.1", "1") }, func() { server.run("REPLICAOF", "NO", "ONE") }, zone.StoreOK,
		},
		"full": {
			func() { server.run("CONFIG", "SET", "maxmemory", "1") }, func() { server.run("CONFIG", "SET", "maxmemory", "0") },
			zone.StoreOK,
		},
		"away": {server.kill, server.start, zone.StoreUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			flush(t, server.addr)
			s := client(t, server.addr, Options{Timeout: 500 * time.Millisecond})
			eventually(t, "the entity is there", func() bool {
				return s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)}).Code == zone.StoreOK
			})
			eventually(t, "write 1", func() bool { return s.Do(numbered(1)).Code == zone.StoreOK })
			c.begin()
			ended := false
			defer func() {
				if !ended {
					c.end()
				}
			}()
			for _, req := range []zone.StoreRequest{numbered(2), {Op: zone.StoreSave, Record: record(1)}} {
				if a := s.Do(req); a.Code != zone.StoreUnavailable {
					t.Errorf("operation %d is answered %+v", req.Op, a)
				}
			}
			if a := s.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1}); a.Code != c.read {
				t.Errorf("a read is answered %+v", a)
			}
			c.end()
			ended = true
			eventually(t, "the write is carried out", func() bool { return s.Do(numbered(2)).Code == zone.StoreOK })
			a := s.Do(zone.StoreRequest{Op: zone.StorePeek, Holder: zone.Holder{Entity: 1}})
			if a.Contents == nil || a.Contents.Moves != 2 || a.Contents.Made != 2 || len(a.Contents.Items) != 1 {
				t.Errorf("in the end %+v", a.Contents)
			}
		})
	}
}

func TestAWrongPasswordIsUnavailableUntilItIsRight(t *testing.T) {
	server := newRealServer(t, "always")
	server.run("CONFIG", "SET", "requirepass", "right")
	file := filepath.Join(t.TempDir(), "password")
	answers := make(chan zone.StoreAnswer, 1)
	r, err := New(t.Context(), "redis://"+server.addr, file, func(a zone.StoreAnswer) { answers <- a }, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for password, want := range map[string]zone.StoreCode{"wrong": zone.StoreUnavailable, "": zone.StoreUnavailable} {
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
		r.Submit(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
		if a := <-answers; a.Code != want {
			t.Errorf("with password %q the answer is %+v", password, a)
		}
	}
	if err := os.WriteFile(file, []byte("right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Submit(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
	if a := <-answers; a.Code != zone.StoreOK {
		t.Errorf("with the right one the answer is %+v", a)
	}
}

func TestWritesThatNoReplicaReceivesAreUnavailable(t *testing.T) {
	server := newRealServer(t, "always")
	opts := patient
	opts.Replicas = 1
	s := client(t, server.addr, opts)
	if a := s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)}); a.Code != zone.StoreUnavailable {
		t.Fatalf("without a replica the answer is %+v", a)
	}
	replica := newRealServer(t, "always")
	replica.run("REPLICAOF", "127.0.0.1", server.args[1])
	eventually(t, "a write is acknowledged", func() bool {
		return s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)}).Code == zone.StoreOK
	})
	copied := client(t, replica.addr, patient)
	if a := copied.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1}); a.Code != zone.StoreOK {
		t.Errorf("the replica has %+v", a)
	}
}

// TestWritesInFlightAcrossTheFenceAreAllRefusedAndCounted: a process stops with its writes under way, its region and its
// record are another's when they land.
func TestWritesInFlightAcrossTheFenceAreAllRefusedAndCounted(t *testing.T) {
	addr := embedded(t).Addr()
	if binary, ok := serverBinary(); ok {
		addr = startServer(t, binary)
	}
	region := record(1).Home
	old, answers := driver(t, addr, patient)
	heir := client(t, addr, patient)
	setUp := []zone.StoreRequest{
		{Op: zone.StoreCreate, Record: record(1)}, {Op: zone.StoreLoadRegion, Region: region, RegionEpoch: 1},
	}
	for _, req := range setUp {
		old.Submit(req)
		if a := <-answers; a.Code != zone.StoreOK {
			t.Fatalf("answer %+v", a)
		}
	}
	heir.Do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: region, RegionEpoch: 2})
	heir.Do(zone.StoreRequest{Op: zone.StoreClaim, Record: zone.Record{Entity: 1, Epoch: zone.Epoch{Recoveries: 1}, Home: region}})
	const writes = 100
	for n := range uint64(writes) {
		old.Submit(zone.StoreRequest{
			Op: zone.StoreWrite, Holder: zone.Holder{Region: region}, RegionEpoch: 1, Moves: n, Write: n + 1, Change: lying(n + 1),
		})
		old.Submit(numbered(n + 1))
		old.Submit(zone.StoreRequest{Op: zone.StoreSave, Record: record(1)})
	}
	for range 3 * writes {
		if a := <-answers; a.Code != zone.StoreConflict {
			t.Fatalf("a late write is answered %+v", a)
		}
	}
	if n := testutil.ToFloat64(old.metrics.refused.WithLabelValues("fence")); n != 3*writes {
		t.Errorf("%v of %d refusals are counted", n, 3*writes)
	}
	for _, holder := range []zone.Holder{{Region: region}, {Entity: 1}} {
		if a := heir.Do(zone.StoreRequest{Op: zone.StorePeek, Holder: holder}); a.Contents == nil || a.Contents.Moves != 0 {
			t.Errorf("late writes have made %+v", a.Contents)
		}
	}
}

func TestRefusalsOfTheDriverItselfAreCounted(t *testing.T) {
	var c clock
	opts := c.options()
	opts.HoldFor, opts.Queue, opts.Workers = 10*time.Millisecond, 2, 1
	r, answers := driver(t, embedded(t).Addr(), opts)
	const requests = 50
	for range requests {
		r.Submit(zone.StoreRequest{Op: zone.StoreSave, Record: record(1)})
	}
	for range requests {
		if a := <-answers; a.Code != zone.StoreUnavailable {
			t.Fatalf("answer %+v", a)
		}
	}
	late := testutil.ToFloat64(r.metrics.refused.WithLabelValues("late"))
	full := testutil.ToFloat64(r.metrics.refused.WithLabelValues("queue"))
	if late == 0 || full == 0 || late+full != requests {
		t.Errorf("%v late and %v for want of room, of %d", late, full, requests)
	}
}
