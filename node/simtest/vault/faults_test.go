package vault

import (
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/zone"
)

// outcome is an answer and when it came. Code 0: not yet.
type outcome struct {
	zone.StoreAnswer
	at time.Duration
}

func (w world) submit(c *Client, req zone.StoreRequest) *outcome {
	o := &outcome{}
	c.Submit(req, func(a zone.StoreAnswer) { *o = outcome{a, w.time.Now()} })
	return o
}

func TestAwayAnswersNothingBeforeTheTimeOut(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	w.SetAway(true)
	asked := w.submit(c, create(record(1, "")))
	w.pass(Timeout - 1)
	if asked.Code != 0 {
		t.Fatalf("answered %+v", asked)
	}
	w.pass(1)
	if asked.Code != zone.StoreUnavailable {
		t.Fatalf("answered %+v", asked)
	}
	w.SetAway(false)
	w.pass(time.Minute)
	if len(w.Records()) != 0 {
		t.Error("what was sent without a connection has landed")
	}
	if a := w.do(c, create(record(1, ""))); a.Code != zone.StoreOK {
		t.Errorf("after the fault the answer is %+v", a)
	}
}

func TestWhatWasUnderWayWhenTheConnectionBrokeMayHaveLanded(t *testing.T) {
	landed := 0
	const seeds = 40
	for seed := range uint64(seeds) {
		w := newWorld(seed)
		asked := w.submit(w.Client("a#1"), create(record(1, "")))
		w.SetAway(true)
		w.pass(time.Minute)
		if asked.Code != zone.StoreUnavailable || asked.at != Timeout {
			t.Fatalf("answered %+v", asked)
		}
		landed += len(w.Records())
	}
	if landed == 0 || landed == seeds {
		t.Errorf("landed in %d of %d runs", landed, seeds)
	}
}

func TestReadOnlyAndFullRefuseWritesAndAnswerReads(t *testing.T) {
	for name, set := range map[string]func(*Vault, bool){"read-only": (*Vault).SetReadOnly, "full": (*Vault).SetFull} {
		w := newWorld(1)
		w.Put(record(1, "before"))
		c := w.Client("a#1")
		set(w.Vault, true)
		for _, req := range []zone.StoreRequest{
			create(record(2, "")), save(record(1, "after")), claim(1, zone.Epoch{}, zone.Epoch{Transfers: 1}, home),
			session(1, 1, "s"),
			{Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 1},
		} {
			start := w.time.Now()
			if a := w.do(c, req); a.Code != zone.StoreUnavailable || w.time.Now()-start > Timeout/2 {
				t.Errorf("%s: operation %d is answered %+v after %v", name, req.Op, a, w.time.Now()-start)
			}
		}
		if a := w.do(c, load(1)); a.Code != zone.StoreOK || string(a.Record.Blob) != "before" {
			t.Errorf("%s: a read is answered %+v", name, a)
		}
		set(w.Vault, false)
		if a := w.do(c, save(record(1, "after"))); a.Code != zone.StoreOK {
			t.Errorf("%s: after the fault the answer is %+v", name, a)
		}
	}
}

func TestWhatIsTooSlowLandsAfterItsSenderGaveUp(t *testing.T) {
	w := newWorld(1)
	w.SetSlow(10_000)
	asked := w.submit(w.Client("a#1"), create(record(1, "")))
	w.pass(Timeout)
	if asked.Code != zone.StoreUnavailable || len(w.Records()) != 0 {
		t.Fatalf("answered %+v", asked)
	}
	w.pass(10 * time.Minute)
	if len(w.Records()) != 1 || w.Counters().LateLandings != 1 {
		t.Errorf("%d records, %+v", len(w.Records()), w.Counters())
	}
	w.SetSlow(1)
	w.do(w.Client("b#1"), load(1))
	if w.Counters().Overdue != 1 {
		t.Errorf("after the fault: %+v", w.Counters())
	}
}

func TestHalfOfTheTimeOutsLand(t *testing.T) {
	w := newWorld(1)
	w.SetTimeouts(1)
	c := w.Client("a#1")
	const n = 1000
	for id := range ecs.EntityID(n) {
		c.Submit(create(record(id+1, "")), func(a zone.StoreAnswer) {
			if a.Code != zone.StoreUnavailable || w.time.Now() != Timeout {
				t.Errorf("answered %+v at %v", a, w.time.Now())
			}
		})
	}
	w.pass(LateBy / 2)
	early := len(w.Records())
	w.pass(LateBy)
	late := len(w.Records())
	if early < n/5 || early > n*3/10 || late < n*4/10 || late > n*6/10 {
		t.Errorf("%d landed in the first half, %d in all", early, late)
	}
}

// some runs worlds until one shows what is looked for.
func some(t *testing.T, what string, run func(w world) bool) {
	t.Helper()
	for seed := range uint64(300) {
		if run(newWorld(seed)) {
			return
		}
	}
	t.Errorf("no seed shows %s", what)
}

func TestASaveThatLandsAfterItsRepeatIsDropped(t *testing.T) {
	some(t, "a save after its repeat", func(w world) bool {
		w.Put(record(1, ""))
		c := w.Client("a#1")
		w.SetTimeouts(1)
		w.do(c, save(record(1, "first")))
		w.SetTimeouts(0)
		w.do(c, save(record(1, "first")))
		w.do(c, save(record(1, "second")))
		w.pass(LateBy)
		if got, _ := w.Record(1); string(got.Blob) != "second" {
			t.Fatalf("the record has %q", got.Blob)
		}
		return w.Counters().StaleSaves == 1
	})
}

func TestAClaimThatLandsAfterItsRepeatDoesNotWakeTheRecord(t *testing.T) {
	some(t, "a claim after its repeat", func(w world) bool {
		w.Put(record(1, ""))
		c, to := w.Client("a#1"), zone.Epoch{Transfers: 1}
		w.SetTimeouts(1)
		w.do(c, claim(1, zone.Epoch{}, to, away))
		w.SetTimeouts(0)
		w.do(c, claim(1, zone.Epoch{}, to, away))
		rest := zone.Record{Entity: 1, Epoch: to, Home: away, Resting: true, Blob: []byte("logged out")}
		w.do(c, save(rest))
		w.pass(LateBy)
		if got, _ := w.Record(1); !got.Resting || got.Epoch != to || string(got.Blob) != "logged out" {
			t.Fatalf("the record is %+v", got)
		}
		return w.Counters().LateLandings == 1
	})
}

func TestASessionClaimThatLandsAfterItsRepeatCountsOnce(t *testing.T) {
	some(t, "a session claim after its repeat", func(w world) bool {
		c := w.Client("a#1")
		w.SetTimeouts(1)
		w.do(c, session(1, 5, "s1"))
		w.SetTimeouts(0)
		first := w.do(c, session(1, 5, "s1"))
		second := w.do(c, session(2, 5, "s2"))
		w.pass(LateBy)
		third := w.do(c, session(3, 5, "s3"))
		if first.SessionEpoch != 1 || second.SessionEpoch != 2 || third.SessionEpoch != 3 {
			t.Fatalf("session epochs %d, %d, %d", first.SessionEpoch, second.SessionEpoch, third.SessionEpoch)
		}
		return w.Counters().LateLandings == 1
	})
}

func TestADeadClientsSaveMayLandAndIsRefusedByANewerEpoch(t *testing.T) {
	landed, lost, refused := 0, 0, 0
	for seed := range uint64(200) {
		w := newWorld(seed)
		w.Put(record(1, "before"))
		dying := w.Client("a#1")
		dying.Submit(save(record(1, "last words")), func(zone.StoreAnswer) { t.Fatal("a dead client was answered") })
		dying.Kill()
		dying.Submit(save(record(1, "from beyond")), func(zone.StoreAnswer) { t.Fatal("a dead client was answered") })
		w.pass(time.Millisecond)
		claimed := w.do(w.Client("b#1"), claim(1, zone.Epoch{}, zone.Epoch{Recoveries: 1}, home))
		w.pass(LateBy + time.Second)
		got, _ := w.Record(1)
		if string(got.Blob) != string(claimed.Record.Blob) || got.Epoch.Recoveries != 1 {
			t.Fatalf("claimed as %q, now %+v", claimed.Record.Blob, got)
		}
		switch {
		case string(got.Blob) == "last words":
			landed++
		case w.Counters().DeadLandings == 0:
			lost++
		default:
			refused++
		}
	}
	if landed == 0 || lost == 0 || refused == 0 {
		t.Errorf("landed before the claim %d times, was lost %d times, refused %d times", landed, lost, refused)
	}
}

func TestWhatADeadClientHadNotSentIsLost(t *testing.T) {
	w := newWorld(1)
	w.Put(record(1, "before"))
	c := w.Client("a#1")
	w.submit(c, load(1))
	w.submit(c, save(record(1, "after")))
	c.Kill()
	w.pass(time.Minute)
	if got, _ := w.Record(1); string(got.Blob) != "before" {
		t.Errorf("the record has %q", got.Blob)
	}
}

func TestReadersMaySeeWhatAFailoverTakesBack(t *testing.T) {
	some(t, "a reader what is taken back", func(w world) bool {
		w.Put(record(1, "before"))
		asked := w.submit(w.Client("a#1"), save(record(1, "seen")))
		seen := w.submit(w.Client("b#1"), load(1))
		for seen.Code == 0 {
			w.pass(10 * time.Microsecond)
		}
		if string(seen.Record.Blob) != "seen" || len(w.slots[keyOfEntity(1).slot()].tail) == 0 {
			return false
		}
		w.FailoverAll()
		w.pass(Timeout)
		if got, _ := w.Record(1); asked.Code != zone.StoreUnavailable || asked.at != Timeout || string(got.Blob) != "before" {
			t.Fatalf("answered %+v, the record has %q", asked, got.Blob)
		}
		return true
	})
}

// carriedOut lets time pass until the vault shows a record with this blob, and reports whether it did while nobody was
// answered.
func (w world) carriedOut(blob string, asked ...*outcome) bool {
	for w.time.Now() < Timeout {
		for _, o := range asked {
			if o.Code != 0 {
				return false
			}
		}
		if got, _ := w.Record(1); string(got.Blob) == blob {
			return true
		}
		w.pass(10 * time.Microsecond)
	}
	return false
}

func TestTheTailOfTwoClientsIsTakenBackNewestFirst(t *testing.T) {
	some(t, "two saves in the tail", func(w world) bool {
		w.Put(record(1, "before"))
		a := w.submit(w.Client("a#1"), save(record(1, "a")))
		if !w.carriedOut("a", a) {
			return false
		}
		b := w.submit(w.Client("b#1"), save(record(1, "b")))
		if !w.carriedOut("b", a, b) || len(w.slots[keyOfEntity(1).slot()].tail) != 2 {
			return false
		}
		w.FailoverAll()
		if got, _ := w.Record(1); string(got.Blob) != "before" || w.Counters().Undone != 2 {
			t.Fatalf("the record has %q, %+v", got.Blob, w.Counters())
		}
		return true
	})
}

func TestASaveThatWasTakenBackDoesNotStandInTheWayOfItsWritersOthers(t *testing.T) {
	some(t, "a save that is taken back", func(w world) bool {
		w.Put(record(1, "same"))
		c := w.Client("a#1")
		asked := w.submit(c, save(record(1, "same")))
		for len(w.slots[keyOfEntity(1).slot()].tail) == 0 {
			w.pass(10 * time.Microsecond)
		}
		w.FailoverAll()
		w.pass(Timeout)
		if s := w.tables.records[1]; asked.Code != zone.StoreUnavailable || s.writer != "" || s.number != 0 {
			t.Fatalf("answered %+v, the record is %+v", asked, s)
		}
		return true
	})
}

func TestAMasterThatWasNamedButNotDurablyIsTakenBack(t *testing.T) {
	w := newWorld(1)
	rec := record(1, "")
	rec.Account = 8
	asked := w.submit(w.Client("a#1"), create(rec))
	for w.tables.accounts[8].master == 0 {
		w.pass(10 * time.Microsecond)
	}
	w.FailoverAll()
	if w.tables.accounts[8].master != 0 || w.Counters().Undone != 1 {
		t.Errorf("the account is %+v, %+v", w.tables.accounts[8], w.Counters())
	}
	w.pass(time.Minute)
	if asked.Code != zone.StoreUnavailable || len(w.Records()) != 0 {
		t.Errorf("answered %+v, %d records", asked, len(w.Records()))
	}
}

func TestWritesAfterAFailoverDoNotWaitForWhatItTookBack(t *testing.T) {
	w := newWorld(1)
	w.Put(record(1, ""))
	c := w.Client("a#1")
	w.SetSlow(1_000)
	w.submit(c, save(record(1, "slow")))
	for len(w.slots[keyOfEntity(1).slot()].tail) == 0 {
		w.pass(time.Millisecond)
	}
	w.SetSlow(1)
	w.FailoverAll()
	start := w.time.Now()
	if a := w.do(w.Client("b#1"), save(record(1, "fast"))); a.Code != zone.StoreOK || w.time.Now()-start > 50*time.Millisecond {
		t.Errorf("answered %+v after %v", a, w.time.Now()-start)
	}
}

func TestARepeatIsNotAcknowledgedBeforeTheFirstTryIsDurable(t *testing.T) {
	for seed := range uint64(300) {
		w := newWorld(seed)
		w.Put(record(1, ""))
		c, to := w.Client("a#1"), zone.Epoch{Transfers: 1}
		w.SetSlow(300) // the first try becomes durable long after the repeat was carried out
		w.do(c, claim(1, zone.Epoch{}, to, away))
		w.SetSlow(1)
		again := w.submit(c, claim(1, zone.Epoch{}, to, away))
		w.pass(20 * time.Millisecond)
		w.FailoverAll()
		w.pass(time.Minute)
		if got, _ := w.Record(1); again.Code == zone.StoreOK && got.Epoch != to {
			t.Fatalf("seed %d: acknowledged, and the record is %+v", seed, got)
		}
	}
}

func TestACreationThatWasCutOffIsGivenUpAfterItsGrace(t *testing.T) {
	some(t, "a creation that is cut off", func(w world) bool {
		lost, fresh := record(1, "lost"), record(2, "fresh")
		lost.Account, fresh.Account = 8, 8
		dying := w.Client("a#1")
		w.submit(dying, create(lost))
		w.pass(3 * time.Millisecond)
		dying.Kill()
		w.pass(LateBy)
		if len(w.Records()) == 1 || w.tables.accounts[8].master == 0 {
			return false
		}
		c := w.Client("b#1")
		if a := w.do(c, create(fresh)); a.Code != zone.StoreUnavailable {
			t.Fatalf("a creation within the grace is answered %+v", a)
		}
		w.pass(creationGrace)
		if a := w.do(c, create(fresh)); a.Code != zone.StoreOK || w.Counters().GivenUp != 1 {
			t.Fatalf("a creation after the grace is answered %+v", a)
		}
		if a := w.do(c, create(lost)); a.Code != zone.StoreConflict || a.Record.Entity != 2 {
			t.Fatalf("the creation that was given up is answered %+v", a)
		}
		lost.Account = 0
		if a := w.do(c, create(lost)); a.Code != zone.StoreConflict || a.Record != nil {
			t.Fatalf("the id that was given up is answered %+v", a)
		}
		return true
	})
}
