package zone

import (
	"testing"

	"github.com/spatialcells/spatialcells/node/ecs"
)

// TestTheStoreIsAskedOnceForWhatIsExpected, however long it does not answer, and not at all while it is away.
func TestTheStoreIsAskedOnceForWhatIsExpected(t *testing.T) {
	e := crowd(t, 1)
	r := e.sim.regions[0]
	for id := ecs.EntityID(90); id < 100; id++ {
		r.expect(expected{id: id, record: Record{Entity: id}, by: neighbour})
	}
	asked := 0
	ask := func(seconds int64, code StoreCode) {
		for range seconds * TicksPerSecond {
			in := &Inbox{}
			for _, p := range e.pending {
				if p.retry == 0 && code != 0 {
					in.Store = append(in.Store, StoreAnswer{ID: p.request.ID, Op: p.request.Op, Code: code, Record: &Record{Entity: p.request.Entity}})
				}
			}
			for _, q := range e.step(t, in).Store {
				if q.Op == StoreLoad {
					asked++
				}
			}
		}
	}
	ask(60, 0)
	if asked != 10 {
		t.Fatalf("a store that does not answer is asked %d times for 10 that are expected", asked)
	}
	ask(12, StoreOK)
	if len(r.expected) != 10 || asked <= 10 {
		t.Fatalf("it answers, and is asked %d times for %d", asked, len(r.expected))
	}
	ask(60, StoreUnavailable)
	if n := len(e.pending); n > 10 {
		t.Errorf("it is away, and has %d requests to answer", n)
	}
}
