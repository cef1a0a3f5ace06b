package store

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// listen serves connections until the test ends, each in a goroutine of its own.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			running.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return l.Addr().String()
}

// silentServer accepts and reads, and never answers.
func silentServer(t *testing.T) string {
	return listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}

// forgetfulProxy passes everything on to a server, but breaks the connection instead of passing a reply while lose is
// set: what was asked is done, and nobody hears of it.
func forgetfulProxy(t *testing.T, server string, lose *atomic.Bool) string {
	return listen(t, func(c net.Conn) {
		up, err := net.Dial("tcp", server)
		if err != nil {
			_ = c.Close()
			return
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = io.Copy(up, c)
			_ = up.Close()
		})
		replies := bufio.NewReader(up)
		buf := make([]byte, 4096)
		for {
			n, err := replies.Read(buf)
			// The greeting of a new connection is answered by an error or a map, scripts by arrays, unknown scripts by NOSCRIPT.
			if err != nil || lose.Load() && buf[0] == '*' {
				break
			}
			if _, err := c.Write(buf[:n]); err != nil {
				break
			}
		}
		_ = c.Close()
		wg.Wait()
	})
}

func TestAnOperationWhoseAnswerWasLostIsRepeatedWithoutASecondEffect(t *testing.T) {
	server := embedded(t)
	var lose atomic.Bool
	s := client(t, forgetfulProxy(t, server.Addr(), &lose), patient)
	direct := client(t, server.Addr(), patient)
	model := &Memory{}

	rec := record(7)
	rec.Account = 3
	moved := rec
	moved.Epoch, moved.Home = zone.Epoch{Transfers: 1}, torus.RegionPos{Column: 9}
	saved := moved
	saved.Blob, saved.Resting = []byte("saved"), true
	for _, req := range []zone.StoreRequest{
		{Op: zone.StoreClaimSession, Account: 3, Session: "a#1", FreshSecret: "s1"},
		{Op: zone.StoreCreate, Record: rec},
		{Op: zone.StoreClaimSession, Account: 3, Session: "b#1", Resume: "s1", FreshSecret: "s2"},
		{Op: zone.StoreLoadRegion, Region: rec.Home, RegionEpoch: 4},
		{Op: zone.StoreClaim, Record: moved},
		{Op: zone.StoreSave, Record: saved},
		{Op: zone.StoreWrite, Holder: zone.Holder{Entity: 7}, Expect: moved.Epoch, Write: 5, Change: held(1)},
		{Op: zone.StoreWrite, Holder: zone.Holder{Region: rec.Home}, RegionEpoch: 4, Write: 6, Change: lying(2)},
	} {
		want := show(normal(model.Do(req)))
		// Operations of several steps get one step further with each lost reply, since what is done is done.
		lose.Store(true)
		for range 3 {
			if a := s.Do(req); a.Code != zone.StoreUnavailable {
				t.Fatalf("%+v: answer %+v through a proxy that passes none", req, a)
			}
		}
		lose.Store(false)
		for range 2 {
			if got := show(normal(s.Do(req))); got != want {
				t.Fatalf("%+v\n got %s\nwant %s", req, got, want)
			}
		}
	}
	for _, req := range []zone.StoreRequest{
		{Op: zone.StoreLoad, Entity: 7}, {Op: zone.StorePeek, Holder: zone.Holder{Region: rec.Home}},
	} {
		if got, want := show(normal(direct.Do(req))), show(normal(model.Do(req))); got != want {
			t.Fatalf("in the end\n got %s\nwant %s", got, want)
		}
	}
}

// runner carries out single steps against a server, the way a worker does, so that a test can stop between them.
type runner struct {
	t     *testing.T
	redis *Redis
}

func newRunner(t *testing.T, server *miniredis.Miniredis) runner {
	r, _ := driver(t, server.Addr(), patient)
	return runner{t, r}
}

// step carries out one step and returns what follows.
func (r runner) step(s *step) outcome {
	r.t.Helper()
	results := make([]result, len(s.calls))
	l := r.redis.lane()
	l.send(s.calls, results)
	if err := l.close(); err != nil {
		r.t.Fatal(err)
	}
	replies := make([]any, len(results))
	for i, res := range results {
		if res.err != nil {
			r.t.Fatal(res.err)
		}
		replies[i] = res.reply
	}
	out := s.then(replies)
	if out.err != nil {
		r.t.Fatal(out.err)
	}
	return out
}

// to carries out so many steps of a request and returns the rest.
func (r runner) to(req zone.StoreRequest, steps int) *step {
	s := first(req, stamp{"w", 1})
	for range steps {
		if s == nil {
			break
		}
		s = r.step(s).next
	}
	return s
}

func (r runner) finish(s *step) (ans zone.StoreAnswer) {
	for s != nil {
		out := r.step(s)
		if s = out.next; out.answer != nil {
			ans = *out.answer
		}
	}
	return ans
}

func (r runner) do(req zone.StoreRequest) zone.StoreAnswer {
	return r.finish(first(req, stamp{"w", 1}))
}

func (r runner) holds(region torus.RegionPos) []zone.Record {
	return r.do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: region, RegionEpoch: 1}).Records
}

func claimOf(id ecs.EntityID, from, to uint32, home torus.RegionPos) zone.StoreRequest {
	return zone.StoreRequest{
		Op: zone.StoreClaim, Expect: zone.Epoch{Transfers: from},
		Record: zone.Record{Entity: id, Epoch: zone.Epoch{Transfers: to}, Home: home},
	}
}

func TestACrashBetweenTheStepsOfAClaimLosesNoRecord(t *testing.T) {
	for crash := range 4 {
		r := newRunner(t, embedded(t))
		old, home := record(1).Home, torus.RegionPos{Column: 7}
		r.do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
		r.to(claimOf(1, 0, 1, home), crash)
		for range 2 { // the second load finds what the first one tidied
			if n := len(r.holds(old)) + len(r.holds(home)); n != 1 {
				t.Fatalf("crash after step %d: the record is in %d regions", crash, n)
			}
		}
		// Whoever repeats the claim gets it, and the record is where it belongs.
		if ans := r.do(claimOf(1, 0, 1, home)); ans.Code != zone.StoreOK || len(r.holds(home)) != 1 {
			t.Fatalf("crash after step %d: repeat answers %+v", crash, ans)
		}
	}
}

func TestAnEntityThatComesBackIsNotTakenOutByTheLateTidyingOfItsLeave(t *testing.T) {
	r := newRunner(t, embedded(t))
	a, b := record(1).Home, torus.RegionPos{Column: 7}
	r.do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
	late := r.to(claimOf(1, 0, 1, b), 2)
	if late == nil {
		t.Fatal("the claim had nothing to tidy")
	}
	r.do(claimOf(1, 1, 2, a))
	r.finish(late)
	if len(r.holds(a)) != 1 || len(r.holds(b)) != 0 {
		t.Fatal("the entity is not where it came back to")
	}
}

func TestALoadInTheMiddleOfAClaimDoesNotDropTheEntryOfTheClaim(t *testing.T) {
	server := embedded(t)
	r := newRunner(t, server)
	a, b := record(1).Home, torus.RegionPos{Column: 7}
	r.do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
	rest := r.to(claimOf(1, 0, 1, b), 1)
	if len(r.holds(b)) != 0 || len(r.holds(a)) != 1 {
		t.Fatal("a claim that is not done has moved the record")
	}
	r.finish(rest)
	if len(r.holds(b)) != 1 || len(r.holds(a)) != 0 {
		t.Fatal("the record is not where it was claimed to")
	}
}

func TestLeftoversInAnIndexAreDroppedByTheNextLoad(t *testing.T) {
	server := embedded(t)
	r := newRunner(t, server)
	old := record(1).Home
	r.do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
	r.to(claimOf(1, 0, 1, torus.RegionPos{Column: 7}), 2)
	if !server.Exists(indexKey(old)) {
		t.Fatal("the claim has tidied before its time")
	}
	r.holds(old)
	if server.Exists(indexKey(old)) {
		t.Fatal("the entry is still there")
	}
}

func TestACrashBetweenTheStepsOfACreationLeavesTheAccountUsable(t *testing.T) {
	for crash := range 4 {
		server := embedded(t)
		r := newRunner(t, server)
		now := time.Unix(1_700_000_000, 0)
		server.SetTime(now)
		lost, fresh := record(1), record(2)
		lost.Account, fresh.Account = 8, 8
		rest := r.to(zone.StoreRequest{Op: zone.StoreCreate, Record: lost}, crash)
		server.SetTime(now.Add(creationGrace))
		created := r.do(zone.StoreRequest{Op: zone.StoreCreate, Record: fresh})
		late := r.finish(rest) // what was under way lands after all
		if n := len(r.holds(lost.Home)); n != 1 {
			t.Fatalf("crash after step %d: the account has %d masters", crash, n)
		}
		master := r.do(zone.StoreRequest{Op: zone.StoreClaimSession, Account: 8, Session: "s", FreshSecret: "f"}).Record
		if master == nil || master.Entity != r.holds(lost.Home)[0].Entity {
			t.Fatalf("crash after step %d: master is %+v", crash, master)
		}
		if crash < 3 && (created.Code != zone.StoreOK || late.Code == zone.StoreOK) {
			t.Fatalf("crash after step %d: second creation answers %+v, late one %+v", crash, created, late)
		}
		if crash == 3 && (created.Code != zone.StoreConflict || created.Record.Entity != lost.Entity) {
			t.Fatalf("after the first creation the second answers %+v", created)
		}
	}
}

func TestACreationUnderWayIsWaitedForBeforeItIsGivenUp(t *testing.T) {
	server := embedded(t)
	r := newRunner(t, server)
	s := client(t, server.Addr(), patient)
	winner, other := record(1), record(2)
	winner.Account, other.Account = 8, 8
	rest := r.to(zone.StoreRequest{Op: zone.StoreCreate, Record: winner}, 2)
	if a := s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: other}); a.Code != zone.StoreUnavailable {
		t.Fatalf("another creation meanwhile answers %+v", a)
	}
	if a := r.finish(rest); a.Code != zone.StoreOK {
		t.Fatalf("the creation answers %+v", a)
	}
	a := s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: other})
	if a.Code != zone.StoreConflict || a.Record == nil || a.Record.Entity != winner.Entity {
		t.Fatalf("another creation afterwards answers %+v", a)
	}
}

func TestASaveThatLandsAfterALaterOneIsDropped(t *testing.T) {
	r := newRunner(t, embedded(t))
	r.do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
	at := func(writer string, number uint64, blob string) {
		rec := record(1)
		rec.Blob = []byte(blob)
		r.finish(first(zone.StoreRequest{Op: zone.StoreSave, Record: rec}, stamp{writer, number}))
		got := r.do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1}).Record.Blob
		if want := map[bool]string{true: "ten", false: blob}[blob == "nine"]; string(got) != want {
			t.Fatalf("after save %q of %s the record has %q, want %q", blob, writer, got, want)
		}
	}
	at("w", 8, "eight")
	at("w", 10, "ten")
	at("w", 9, "nine")
	at("w", 11, "eleven")
	at("another life", 1, "one")
}

func scriptFlush(addr string) error {
	c := redis.NewClient(&redis.Options{Addr: addr})
	return errors.Join(c.ScriptFlush(context.Background()).Err(), c.Close())
}
