package main

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spatialcells/spatialcells/node/store/connect"
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

// looking is a node that has got as far as its look at the store.
func looking(store, id string) (*node, *bytes.Buffer) {
	var log bytes.Buffer
	return &node{
		cfg: config{store: store, storeID: id}, log: slog.New(slog.NewTextHandler(&log, nil)), lost: make(chan error, 1),
	}, &log
}

func TestANodeStartsOnItsOwnStoreOnly(t *testing.T) {
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr()
	if n, _ := looking(url, "default/genesis/1"); n.checkStore(t.Context()) == nil {
		t.Error("it starts on a store that has no id")
	}
	server.Set(connect.Key, "default/eden/2")
	n, _ := looking(url, "default/genesis/1")
	if err := n.checkStore(t.Context()); err == nil || !strings.Contains(err.Error(), "default/eden/2") || !strings.Contains(err.Error(), "spec.store") {
		t.Errorf("it starts on the store of another World, or does not say what to do: %v", err)
	}
	n, log := looking(url, "default/eden/2")
	if err := n.checkStore(t.Context()); err != nil || n.unchecked {
		t.Errorf("it does not start on its own store: %v", err)
	}
	if !strings.Contains(log.String(), "MAY LOSE") {
		t.Errorf("a store that keeps nothing is not warned of: %s", log)
	}
	if n, _ := looking("memory", "x"); n.checkStore(t.Context()) != nil {
		t.Error("a store in this process is asked for its id")
	}
	if n, _ := looking("redis://u:pw@h", ""); n.checkStore(t.Context()) == nil {
		t.Error("a URL with a password is taken")
	}
}

func TestAStoreThatIsAwayAtTheStartIsLookedAtAgain(t *testing.T) {
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr()
	server.Close()
	n, _ := looking(url, "default/genesis/1")
	if err := n.checkStore(t.Context()); err != nil || !n.unchecked {
		t.Fatalf("away: %v, to be checked %v", err, n.unchecked)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	server.Set(connect.Key, "default/eden/2")
	n.recheckStore(t.Context())
	select {
	case err := <-n.lost:
		if !strings.Contains(err.Error(), "default/eden/2") {
			t.Errorf("ended by %v", err)
		}
	default:
		t.Error("a store of another World does not end the process")
	}
	server.Set(connect.Key, "default/genesis/1")
	n.recheckStore(t.Context())
	select {
	case err := <-n.lost:
		t.Errorf("its own store ends it: %v", err)
	default:
	}
}
