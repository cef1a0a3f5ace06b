package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// bench is a loop whose clock and fence a test holds.
type bench struct {
	loop
	now      atomic.Int64
	fence    atomic.Int64
	released atomic.Int64
	during   func() // what happens while a step is made
	once     sync.Once
}

func newBench(t *testing.T) *bench {
	t.Helper()
	g, err := torus.NewGrid(1, 1, 15)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := zone.New(zone.Config{Grid: g, Session: "w-zone-0#1", Node: "w-zone-0", Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{}
	b.now.Store(int64(time.Hour))
	b.fence.Store(int64(time.Hour + time.Second))
	b.loop = loop{
		log: slog.New(slog.DiscardHandler), engine: engine,
		boottime: func() time.Duration { return time.Duration(b.now.Load()) },
		deadline: func() time.Duration { return time.Duration(b.fence.Load()) },
		take: func() (zone.Inbox, map[string]uint64) {
			if b.during != nil {
				b.once.Do(b.during)
			}
			return zone.Inbox{}, nil
		},
		release: func(*zone.Outbox, map[string]uint64) { b.released.Add(1) },
		renewal: func() time.Duration { return 0 },
		observe: func(time.Duration) {}, show: func(*zone.Engine) {},
	}
	return b
}

// start runs the loop until the test ends; ended is closed when it is over.
func (b *bench) start(t *testing.T) (ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return done
}

func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for !fact() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
		time.Sleep(time.Millisecond) // a poll
	}
}

// never watches for a while that a fact does not come true.
func never(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if fact() {
			t.Fatal(what)
		}
	}
}

// TestAStepThatOutlivesTheDeadlineIsHeld: the process is paused in the middle of a step; when it wakes, its deadline has
// passed. What the step decided is neither released nor thrown away: it goes out when the same session is renewed.
func TestAStepThatOutlivesTheDeadlineIsHeld(t *testing.T) {
	b := newBench(t)
	b.during = func() { b.now.Add(int64(20 * time.Second)) }
	b.start(t)
	eventually(t, "the step was made", func() bool { return b.now.Load() > int64(time.Hour) })
	never(t, "a step that outlived its deadline was released", func() bool { return b.released.Load() > 0 })
	b.fence.Store(b.now.Load() + int64(time.Second))
	eventually(t, "the held step was released after the renewal", func() bool { return b.released.Load() >= 1 })
}

// TestNoStepIsMadeAtOrAfterTheDeadline, and they go on when it moves.
func TestNoStepIsMadeAtOrAfterTheDeadline(t *testing.T) {
	b := newBench(t)
	b.fence.Store(b.now.Load())
	b.start(t)
	never(t, "a step was made at the deadline", func() bool { return b.released.Load() > 0 })
	b.fence.Store(b.now.Load() + int64(time.Second))
	eventually(t, "steps are made after the renewal", func() bool { return b.released.Load() > 0 })
}

// TestAFencedNodeStopsWhenItsStopWaitsNoLonger: nothing can be saved then, whether no step is made or one is held.
func TestAFencedNodeStopsWhenItsStopWaitsNoLonger(t *testing.T) {
	for what, fence := range map[string]func(b *bench){
		"no step is made": func(b *bench) { b.fence.Store(b.now.Load()) },
		"a step is held":  func(b *bench) { b.during = func() { b.now.Add(int64(20 * time.Second)) } },
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			fence(b)
			ended := b.start(t)
			never(t, "a step was released after its deadline", func() bool { return b.released.Load() > 0 })
			b.stopping.Store(true)
			b.halt.Store(true)
			eventually(t, "the loop ended", func() bool {
				select {
				case <-ended:
					return true
				default:
					return false
				}
			})
			if b.released.Load() > 0 {
				t.Error("a step was released after its deadline")
			}
		})
	}
}

// TestPeerEventsVoidWhatTheirStreamBrought: batches of a broken connection are not taken for those of the next one.
func TestPeerEventsVoidWhatTheirStreamBrought(t *testing.T) {
	m := &mailbox{now: func() time.Duration { return 7 }, full: func() { t.Error("full") }, streams: map[string]uint64{}}
	m.PeerUp("b", 1)
	m.Replication("b", []byte("old"))
	m.Replication("c", []byte("other"))
	m.PeerDown("b")
	m.PeerUp("b", 2)
	m.Replication("b", []byte("new"))
	in, streams := m.take()
	if len(in.Replication) != 2 || string(in.Replication[0].Bytes) != "other" || string(in.Replication[1].Bytes) != "new" {
		t.Errorf("replication %v", in.Replication)
	}
	if streams["b"] != 2 || in.Replication[1].At != 7 {
		t.Errorf("stream %d, arrived %v", streams["b"], in.Replication[1].At)
	}
	if again, _ := m.take(); len(again.Peers)+len(again.Replication) != 0 {
		t.Error("an event is delivered twice")
	}
}

func TestAMailboxForgetsTheStreamsOfTheDead(t *testing.T) {
	m := &mailbox{now: func() time.Duration { return 0 }, full: func() { t.Error("full") }, streams: map[string]uint64{}}
	m.PeerUp("b", 1)
	m.PeerDead("b")
	if _, streams := m.take(); len(streams) > 0 {
		t.Errorf("streams %v", streams)
	}
}

func TestAMailboxThatOverflowsEndsTheNode(t *testing.T) {
	full := 0
	m := &mailbox{now: func() time.Duration { return 0 }, full: func() { full++ }, streams: map[string]uint64{}}
	batch := make([]byte, 64<<20)
	for range 5 {
		m.Replication("b", batch)
	}
	if full == 0 {
		t.Error("320 MiB wait for a step and nobody was told")
	}
}

func TestFlagsAreCheckedTogether(t *testing.T) {
	_, err := parse([]string{"--columns=0", "--rows=2"})
	if err == nil {
		t.Fatal("no flags are accepted")
	}
	for _, want := range []string{"--world", "--pod-uid", "--seed-file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
}
