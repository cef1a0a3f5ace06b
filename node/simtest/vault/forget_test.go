package vault

import (
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

func TestAStoreThatForgotKnowsNothing(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	r := record(1, "kept")
	r.Account = 7
	w.do(c, create(r))
	w.do(c, session(3, 7, "secret"))
	w.do(c, zone.StoreRequest{ID: 4, Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 5})
	if w.Master(7) != 1 || w.Fence(home) != 5 {
		t.Fatalf("before, the master is %v and the fence %d", w.Master(7), w.Fence(home))
	}
	w.Forget()
	if _, found := w.Record(1); found || w.Master(7) != 0 || w.Fence(home) != 0 {
		t.Error("something is left")
	}
	if a := w.do(c, save(r)); a.Code != zone.StoreMissing {
		t.Errorf("a save answers %v", a.Code)
	}
	if a := w.do(c, session(5, 7, "another")); a.SessionEpoch != 1 || a.Record != nil {
		t.Errorf("the first session after it has epoch %d and master %v", a.SessionEpoch, a.Record)
	}
}

// TestNothingThatWasForgottenComesBack: a failover takes back what is not durable, but not to what was before the loss.
func TestNothingThatWasForgottenComesBack(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(seed)
		c := w.Client("a#1")
		w.do(c, create(record(1, "first")))
		w.submit(c, save(record(1, "second")))
		w.pass(time.Duration(seed) * 100 * time.Microsecond)
		w.Forget()
		w.FailoverAll()
		w.pass(time.Minute)
		if r, found := w.Record(1); found {
			t.Fatalf("seed %d: %q is back", seed, r.Blob)
		}
	}
}

func TestARaisedFenceRefusesLowerEpochs(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	w.RaiseFence(home, 9)
	w.RaiseFence(home, 4)
	if a := w.do(c, zone.StoreRequest{ID: 1, Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 8}); a.Code != zone.StoreConflict || a.RegionEpoch != 9 {
		t.Errorf("epoch 8 answers %v and epoch %d", a.Code, a.RegionEpoch)
	}
	if a := w.do(c, zone.StoreRequest{ID: 2, Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 10}); a.Code != zone.StoreOK {
		t.Errorf("epoch 10 answers %v", a.Code)
	}
}
