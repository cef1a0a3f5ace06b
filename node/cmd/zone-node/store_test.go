package main

import (
	"context"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// TestTheStoreIsWrittenAfterTheSignalToStop: the signal ends the context that the node was started with, and what the
// players did last is saved after it.
func TestTheStoreIsWrittenAfterTheSignalToStop(t *testing.T) {
	server := miniredis.RunT(t)
	n := &node{
		cfg: config{store: "redis://" + server.Addr()}, log: slog.New(slog.DiscardHandler), metrics: prometheus.NewRegistry(),
		mail: &mailbox{now: func() time.Duration { return 0 }, streams: map[string]uint64{}, full: func() { t.Error("the mailbox is full") }},
	}
	ctx, stop := context.WithCancel(context.Background())
	if err := n.openStore(ctx, func() time.Duration { return math.MaxInt64 }); err != nil {
		t.Fatal(err)
	}
	stop()
	n.store.Submit(zone.StoreRequest{ID: 1, Op: zone.StoreCreate, Record: zone.Record{Entity: 7, Home: torus.RegionPos{}, Blob: []byte("b")}})
	poll, late := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer poll.Stop()
	in, _ := n.mail.take()
	for len(in.Store) == 0 {
		select {
		case <-poll.C:
			in, _ = n.mail.take()
		case <-late:
			t.Fatal("no answer")
		}
	}
	if len(in.Store) != 1 || in.Store[0].Code != zone.StoreOK {
		t.Errorf("answers after the signal: %+v, want one that is OK", in.Store)
	}
	if err := n.store.Close(); err != nil {
		t.Error(err)
	}
}
