package link

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func numbered(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}

func TestBothStreamsArriveInOrderBothWays(t *testing.T) {
	a, b := start(t, "w-zone-0#1"), start(t, "w-zone-1#1")
	acquaint(a, b)
	a.awaitUp(b.session, 1)
	b.awaitUp(a.session, 1)
	want := numbered("m", 500)
	for _, m := range want {
		for _, pair := range [][2]*node{{a, b}, {b, a}} {
			pair[0].sendBatch(pair[1].session, []byte(m))
			if err := pair[0].SendReliable(pair[1].session, []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, pair := range [][2]*node{{a, b}, {b, a}} {
		eventually(t, "all arrives", func() bool {
			return slices.Equal(pair[1].reliableFrom(pair[0].session), want) &&
				slices.Equal(pair[1].replicationFrom(pair[0].session), want)
		})
	}
	eventually(t, "the round trip is measured", func() bool { return a.RoundTrip(b.session) > 0 && b.RoundTrip(a.session) > 0 })
	if a.LastHeard(b.session) > patience || a.LastHeard("nobody#1") != math.MaxInt64 {
		t.Errorf("last heard: %v and %v", a.LastHeard(b.session), a.LastHeard("nobody#1"))
	}
	if got := a.Codecs(b.session); len(got) != 1 || got[0].Component != "position" {
		t.Errorf("codecs of the peer: %v", got)
	}
}

func TestMessagesLargerThanAFrameArriveWhole(t *testing.T) {
	a, b := start(t, "a#1"), start(t, "b#1")
	acquaint(a, b)
	a.awaitUp(b.session, 1)
	batch, message := strings.Repeat("r", 4<<20), strings.Repeat("m", 1<<20)
	a.sendBatch(b.session, []byte(batch))
	if err := a.SendReliable(b.session, []byte(message)); err != nil {
		t.Fatal(err)
	}
	a.sendBatch(b.session, nil)
	eventually(t, "both arrive whole", func() bool {
		return slices.Equal(b.replicationFrom(a.session), []string{batch, ""}) &&
			slices.Equal(b.reliableFrom(a.session), []string{message})
	})
	if err := a.SendReliable(b.session, make([]byte, 1<<20+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message above the limit: %v", err)
	}
}

func TestReliableMessagesWaitForTheFirstConnection(t *testing.T) {
	a, b := start(t, "a#1"), start(t, "b#1")
	a.SetPeers([]Peer{b.lease()})
	want := numbered("early", 10)
	for _, m := range want {
		if err := a.SendReliable(b.session, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	a.awaitRefused(ReasonForeignKey) // b has not seen the Lease of a
	b.SetPeers([]Peer{a.lease()})
	eventually(t, "they arrive", func() bool { return slices.Equal(b.reliableFrom(a.session), want) })
}

func TestAPeerThatAcknowledgesNothingFillsTheReliableQueue(t *testing.T) {
	a := start(t, "a#1", func(c *Config) { c.Limits.ReliableCount = 3; c.Limits.ReliableQueue = 100 })
	a.SetPeers([]Peer{{Session: "b#1", Address: "127.0.0.1:1", KeyHash: "00"}, {Session: "c#1"}})
	for range 3 {
		if err := a.SendReliable("b#1", []byte("m")); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.SendReliable("b#1", []byte("m")); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth message: %v", err)
	}
	if err := a.SendReliable("c#1", make([]byte, 101)); !errors.Is(err, ErrFull) {
		t.Errorf("too many bytes: %v", err)
	}
	if err := a.SendReliable("nobody#1", nil); !errors.Is(err, ErrDead) {
		t.Errorf("an unknown session: %v", err)
	}
	if n := a.metric("spatialcells_link_reliable_not_queued_total", "full"); n != 2 {
		t.Errorf("refused at the sender: %v", n)
	}
}

// What was refused is lost: both sides have to begin anew, but not before what they say then has room.
func TestALinkThatRefusedAMessageBeginsAnewWhenThereIsRoom(t *testing.T) {
	a := start(t, "a#1", func(c *Config) { c.Limits.ReliableCount = 4 })
	b := start(t, "b#1")
	acquaint(a, b)
	a.awaitUp("b#1", 1)
	b.awaitUp("a#1", 1)
	a.deadline.Store(0) // a may write nothing
	var want []string
	for n := range 4 {
		want = append(want, strconv.Itoa(n))
		if err := a.SendReliable("b#1", []byte(want[n])); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.SendReliable("b#1", []byte("lost")); !errors.Is(err, ErrFull) {
		t.Fatalf("a fifth message: %v", err)
	}
	if n := a.count("down b#1"); n > 0 {
		t.Error("given up while the queue is full")
	}
	a.deadline.Store(int64(time.Hour))
	a.awaitUp("b#1", 2)
	b.awaitUp("a#1", 2)
	eventually(t, "all that was taken is there once", func() bool { return slices.Equal(b.reliableFrom("a#1"), want) })
	if err := a.SendReliable("b#1", []byte("after")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return len(b.reliableFrom("a#1")) == 5 })
	if n := a.count("up b#1"); n != 2 {
		t.Errorf("up %d times: it begins anew without end", n)
	}
}

func TestAPeerThatStopsReadingLosesItsLinkAndStallsNobody(t *testing.T) {
	a := start(t, "a#1", func(c *Config) { c.Limits.ReplicationQueue = 1 << 20 })
	b := start(t, "b#1")
	p := newProxy(t, b.Addr().String())
	a.SetPeers([]Peer{p.through(b)})
	b.SetPeers([]Peer{a.lease()})
	a.awaitUp(b.session, 1)
	p.stuck.Store(true)
	batch, slowest := make([]byte, 256<<10), time.Duration(0)
	eventually(t, "the queue overflows", func() bool {
		began := time.Now()
		a.sendBatch(b.session, batch)
		slowest = max(slowest, time.Since(began))
		return a.metric("spatialcells_link_replication_overflows_total") > 0
	})
	if slowest > time.Second {
		t.Errorf("a send took %v", slowest)
	}
	eventually(t, "the engine hears of it", func() bool { return a.count("down "+b.session) == 1 })
	old := a.stream(b.session)
	p.stuck.Store(false)
	a.awaitUp(b.session, 2)
	a.SendReplication(b.session, old, []byte("made for the old stream"))
	eventually(t, "a batch for the new stream arrives", func() bool {
		a.sendBatch(b.session, []byte("new"))
		return slices.Contains(b.replicationFrom(a.session), "new")
	})
	if slices.Contains(b.replicationFrom(a.session), "made for the old stream") {
		t.Error("a batch of the old stream arrived on the new one")
	}
}

func TestASilentConnectionIsGivenUpAndDialledAgain(t *testing.T) {
	quick := func(c *Config) { c.Limits.IdleTimeout = 400 * time.Millisecond }
	a, b := start(t, "a#1", quick), start(t, "b#1", quick)
	p := newProxy(t, b.Addr().String())
	a.SetPeers([]Peer{p.through(b)})
	b.SetPeers([]Peer{a.lease()})
	a.awaitUp(b.session, 1)
	p.deaf.Store(true)
	eventually(t, "both notice", func() bool { return a.count("down "+b.session) > 0 && b.count("down "+a.session) > 0 })
	if err := a.SendReliable(b.session, []byte("meanwhile")); err != nil {
		t.Fatal(err)
	}
	p.deaf.Store(false)
	p.cut()
	eventually(t, "it arrives once", func() bool { return slices.Equal(b.reliableFrom(a.session), []string{"meanwhile"}) })
}

func TestADeadSessionIsSilentAndRefused(t *testing.T) {
	a, b := start(t, "a#1"), start(t, "b#1")
	acquaint(a, b)
	b.awaitUp(a.session, 1)
	b.SetPeers(nil)
	if got := b.history(); !slices.Equal(got[len(got)-2:], []string{"down a#1", "dead a#1"}) {
		t.Fatalf("history when SetPeers returns: %v", got)
	}
	before := len(b.reliableFrom(a.session))
	if err := a.SendReliable(b.session, []byte("from the grave")); err != nil {
		t.Fatal(err)
	}
	b.awaitRefused(ReasonDeadSession)
	a.awaitRefused(ReasonDeadSession) // it is told
	b.SetPeers([]Peer{a.lease()})     // a dead session does not rise
	b.SetPeers(nil)
	if err := b.SendReliable(a.session, nil); !errors.Is(err, ErrDead) {
		t.Errorf("sending to the dead: %v", err)
	}
	if n := len(b.reliableFrom(a.session)); n != before || b.count("dead a#1") != 1 {
		t.Errorf("%d messages of the dead, dead %d times", n-before, b.count("dead a#1"))
	}
}

func TestANewIncarnationAtTheSameAddressTakesOver(t *testing.T) {
	a := start(t, "a#1")
	b1 := start(t, "b#1")
	acquaint(a, b1)
	a.awaitUp("b#1", 1)
	if err := a.SendReliable("b#1", []byte("for the first")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first gets it", func() bool { return len(b1.reliableFrom("a#1")) == 1 })
	address := b1.Addr().String()
	b1.Close()
	b2 := start(t, "b#2", func(c *Config) { _, port, _ := splitPort(address); c.Port = port })
	acquaint(a, b2)
	a.awaitUp("b#2", 1)
	got := a.history()
	dead, up := slices.Index(got, "dead b#1"), slices.Index(got, "up b#2")
	if dead < 0 || up < dead || a.count("dead b#1") != 1 {
		t.Errorf("history: %v", got)
	}
	if err := a.SendReliable("b#2", []byte("for the second")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second gets its own only", func() bool {
		return slices.Equal(b2.reliableFrom("a#1"), []string{"for the second"})
	})
}

func TestFenceHoldsFramesUntilItIsMoved(t *testing.T) {
	a, b := start(t, "a#1"), start(t, "b#1")
	acquaint(a, b)
	a.awaitUp(b.session, 1)
	b.awaitUp(a.session, 1)
	a.deadline.Store(int64(boot()))
	a.sendBatch(b.session, []byte("late batch"))
	if err := a.SendReliable(b.session, []byte("late message")); err != nil {
		t.Fatal(err)
	}
	if err := b.SendReliable(a.session, []byte("to the fenced")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fenced node still receives", func() bool { return len(a.reliableFrom(b.session)) == 1 })
	throughout(t, 300*time.Millisecond, "a fenced node is silent", func() bool {
		return len(b.reliableFrom(a.session)) == 0 && len(b.replicationFrom(a.session)) == 0
	})
	if a.metric("spatialcells_link_fence_held") == 0 {
		t.Error("nothing is shown as held")
	}
	a.deadline.Store(int64(time.Hour))
	eventually(t, "what was held arrives", func() bool {
		return slices.Equal(b.reliableFrom(a.session), []string{"late message"}) &&
			slices.Equal(b.replicationFrom(a.session), []string{"late batch"})
	})
	if a.count("down "+b.session) > 0 {
		t.Error("the link did not survive a short pause")
	}
}

func TestAFencedNodeNeitherDialsNorGreets(t *testing.T) {
	for _, fenced := range []int{0, 1} {
		a, b := start(t, "a#1"), start(t, "b#1")
		silent := []*node{a, b}[fenced]
		silent.deadline.Store(0)
		acquaint(a, b)
		throughout(t, 150*time.Millisecond, "no link", func() bool { return len(a.history())+len(b.history()) == 0 })
		silent.deadline.Store(int64(time.Hour))
		a.awaitUp(b.session, 1)
		b.awaitUp(a.session, 1)
	}
}

func TestCloseWhileFencedEnds(t *testing.T) {
	a, b := start(t, "a#1"), start(t, "b#1")
	acquaint(a, b)
	a.awaitUp(b.session, 1)
	a.deadline.Store(0)
	if err := a.SendReliable(b.session, []byte("held for ever")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is held", func() bool { return a.metric("spatialcells_link_fence_held") > 0 })
	a.Close()
	a.Close()
	if err := a.SendReliable(b.session, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("sending after Close: %v", err)
	}
	a.SetPeers([]Peer{b.lease()})
	eventually(t, "the other side notices", func() bool { return b.count("down "+a.session) == 1 })
}

func TestAChangedKeyInTheLeaseEndsTheOldConnection(t *testing.T) {
	a, b := start(t, "a#1"), start(t, "b#1")
	acquaint(a, b)
	a.awaitUp(b.session, 1)
	b.SetPeers([]Peer{{Session: a.session, Address: a.Addr().String(), KeyHash: strings.Repeat("0", 64)}})
	eventually(t, "the connection ends", func() bool { return b.count("down "+a.session) == 1 })
	b.awaitRefused(ReasonForeignKey)
}
