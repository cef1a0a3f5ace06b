package fence

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestReleaseRevokesThenEmptiesAndKeepsTheIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		c := dial(api)
		r := start(t, c, nil)
		api.mu.Lock()
		api.onWrite = func(_, now *coordinationv1.Lease) {
			if holderOf(now) == "" && !r.passed() {
				t.Error("the lease was empty while the process could still act")
			}
		}
		api.mu.Unlock()
		puts := 0
		c.will(func(verb, _ string) plan { // two failures before it works
			if verb == "put" {
				puts++
			}
			return plan{fail: map[bool]error{true: errors.New("reset")}[verb == "put" && puts < 3]}
		})
		if err := r.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease, _ := api.get(zone1)
		if holderOf(lease) != "" || transitionsOf(lease) != 1 {
			t.Errorf("holder %q, transitions %d", holderOf(lease), transitionsOf(lease))
		}
		if err := <-r.err; err != nil || r.lost.Load() != 0 {
			t.Errorf("Run returned %v, lost %d: a release is no loss", err, r.lost.Load())
		}
		next := mustAcquire(t, c, testConfig(1, "2", newSimClock()))
		if next.Incarnation() != 2 {
			t.Errorf("successor is incarnation %d", next.Incarnation())
		}
	})
}

func TestReleaseLeavesASuccessorAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		r := start(t, dial(api), nil)
		api.edit(zone1, func(l *coordinationv1.Lease) { held(l, "genesis-zone-1_2", 2) })
		if err := r.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lease, _ := api.get(zone1); holderOf(lease) != "genesis-zone-1_2" {
			t.Errorf("holder %q", holderOf(lease))
		}
	})
}

func TestReleaseReportsThatItCouldNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		c := dial(api)
		r := start(t, c, nil)
		c.will(func(string, string) plan { return plan{fail: errors.New("connection refused")} })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := r.Release(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error %v", err)
		}
		if !r.passed() {
			t.Error("it may still act")
		}
	})
}
