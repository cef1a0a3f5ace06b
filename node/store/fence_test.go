package store

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// clock is a fence and its clock under the control of a test.
type clock struct{ now, deadline atomic.Int64 }

func (c *clock) options() Options {
	opts := patient
	opts.Now = func() time.Duration { return time.Duration(c.now.Load()) }
	opts.Fence = func() time.Duration { return time.Duration(c.deadline.Load()) }
	return opts
}

func TestALateWriteWaitsForTheRenewal(t *testing.T) {
	server := embedded(t)
	var c clock
	c.now.Store(100)
	c.deadline.Store(100)
	opts := c.options()
	opts.HoldFor = time.Hour
	r, answers := driver(t, server.Addr(), opts)
	r.Submit(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
	select {
	case a := <-answers:
		t.Fatalf("a late write was answered %+v", a)
	case <-time.After(50 * time.Millisecond):
	}
	if keys := server.Keys(); len(keys) != 0 {
		t.Fatalf("a late write has made keys %v", keys)
	}
	c.deadline.Store(101)
	if a := <-answers; a.Code != zone.StoreOK {
		t.Fatalf("answer after the renewal: %+v", a)
	}
}

func TestALateWriteThatIsNotRenewedIsUnavailable(t *testing.T) {
	server := embedded(t)
	var c clock
	opts := c.options()
	opts.HoldFor = 10 * time.Millisecond
	s := client(t, server.Addr(), opts)
	if a := s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)}); a.Code != zone.StoreUnavailable {
		t.Fatalf("answer %+v", a)
	}
	if keys := server.Keys(); len(keys) != 0 {
		t.Fatalf("a late write has made keys %v", keys)
	}
}

func TestAWriteThatBecomesLateAfterTheWorkersLookDoesNotReachTheSocket(t *testing.T) {
	server := embedded(t)
	var looks atomic.Int64
	opts := patient
	opts.HoldFor = time.Millisecond
	// In time at the worker's looks, late at the socket: as a pause of the process in between.
	opts.Now = func() time.Duration {
		if looks.Add(1) <= 2 {
			return 0
		}
		return 10
	}
	opts.Fence = func() time.Duration { return 10 }
	s := client(t, server.Addr(), opts)
	if a := s.Do(zone.StoreRequest{Op: zone.StoreSave, Record: record(1)}); a.Code != zone.StoreUnavailable {
		t.Fatalf("answer %+v", a)
	}
	if looks.Load() < 3 || server.CommandCount() != 0 {
		t.Fatalf("%d looks at the clock, %d commands at the server", looks.Load(), server.CommandCount())
	}
}
