package zone

import "testing"

// TestAClaimIsLookedAtOnceMore: an entity of which nothing changes is saved a while after it was claimed, and then no more. A store that
// has lost the claim says so.
func TestAClaimIsLookedAtOnceMore(t *testing.T) {
	e := crowd(t, 1)
	saves := func(seconds int64) (n int) {
		var in Inbox
		for range seconds * TicksPerSecond {
			out := e.step(t, &in)
			in = Inbox{}
			for _, r := range out.Store {
				if r.Op == StoreSave {
					n++
					in.Store = append(in.Store, StoreAnswer{ID: r.ID, Op: r.Op, Code: StoreOK})
				}
			}
		}
		return n
	}
	e.sim.saving.Set(1, saving{claimed: true})
	early, late, later := saves(doubtTicks/TicksPerSecond-1), saves(3), saves(60)
	if early != 0 || late != 1 || later != 0 {
		t.Errorf("saved %d times, %d times when it was due, and %d times after", early, late, later)
	}
	e.sim.saving.Get(1).claimed = false
	e.step(t, &Inbox{})
	e.sim.saving.Get(1).claimed = true
	if n := saves(2 * doubtTicks / TicksPerSecond); n != 1 {
		t.Errorf("claimed again, it is saved %d times", n)
	}
}

// TestWhatTheStoreHasAtAnotherEpochIsClaimedOnce, however many of its requests are refused meanwhile.
func TestWhatTheStoreHasAtAnotherEpochIsClaimedOnce(t *testing.T) {
	e := crowd(t, 1)
	e.sim.saving.Set(1, saving{claimed: true, dirty: true})
	var claims []StoreRequest
	var in Inbox
	for range 10 * TicksPerSecond {
		out := e.step(t, &in)
		in = Inbox{}
		for _, r := range out.Store {
			switch r.Op {
			case StoreSave:
				in.Store = append(in.Store, StoreAnswer{ID: r.ID, Op: r.Op, Code: StoreConflict})
			case StoreClaim:
				claims = append(claims, r)
			}
		}
		e.sim.saving.Get(1).dirty = true
	}
	epoch := e.sim.authority.Get(1).epoch
	if len(claims) != 1 || claims[0].Expect != epoch || claims[0].Record.Epoch != epoch {
		t.Fatalf("claimed %d times: %+v", len(claims), claims)
	}
	newer := Record{Entity: 1, Epoch: epoch.Recovered()}
	e.step(t, &Inbox{Store: []StoreAnswer{{ID: claims[0].ID, Op: StoreClaim, Code: StoreConflict, Record: &newer}}})
	if e.sim.world.Alive(1) {
		t.Error("another node has it at a newer epoch, and this copy is kept")
	}
}
