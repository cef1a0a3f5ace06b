package vault

import (
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// TestAStoreThatFailsOverToACopyThatWasBehindLosesItsLastMoments, acknowledged or not, and nothing from before; nobody's account loses
// anything.
func TestAStoreThatFailsOverToACopyThatWasBehindLosesItsLastMoments(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	r := record(1, "first")
	r.Account = 7
	w.do(c, create(r))
	w.pass(RewindBy)
	w.do(c, zone.StoreRequest{ID: 3, Op: zone.StoreClaim, Expect: r.Epoch, Record: zone.Record{Entity: 1, Epoch: r.Epoch.Recovered(), Home: away}})
	w.do(c, zone.StoreRequest{ID: 4, Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 5})
	w.do(c, create(record(2, "young")))
	w.do(c, session(5, 7, "secret"))
	if n := w.Rewind(time.Second); n != 3 {
		t.Errorf("%d acknowledged writes were taken back", n)
	}
	if got, _ := w.Record(1); got.Epoch != r.Epoch || got.Home != home {
		t.Errorf("the claim is there still: %+v", got)
	}
	if _, found := w.Record(2); found || w.Fence(home) != 0 {
		t.Error("what was made in the last moments is there still")
	}
	if a := w.do(c, session(6, 7, "another")); a.SessionEpoch != 2 || w.Master(7) != 1 {
		t.Errorf("the next session has epoch %d, the master is %v", a.SessionEpoch, w.Master(7))
	}
}

// TestNothingIsTakenBackTwice, by a failover after it.
func TestNothingIsTakenBackTwice(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	w.do(c, create(record(1, "first")))
	w.pass(RewindBy)
	w.do(c, save(record(1, "second")))
	w.Rewind(time.Second)
	w.do(c, save(record(1, "third")))
	w.pass(time.Millisecond)
	w.Rewind(0)
	w.FailoverAll()
	if r, _ := w.Record(1); string(r.Blob) != "third" {
		t.Errorf("the store has %q", r.Blob)
	}
}
