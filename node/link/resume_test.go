package link

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A pair of ends without a network: bytes move when the script says so, and a cut may come after any byte.
type end struct {
	out      outgoing
	received uint64
	sent     []string
	got      []string
	pipe     []byte // written, not yet read by the other side
	dec      *decoder
	feed     *feed
}

// feed gives what is there and then io.EOF.
type feed struct{ bytes []byte }

func (f *feed) Read(b []byte) (int, error) {
	if len(f.bytes) == 0 {
		return 0, io.EOF
	}
	n := copy(b, f.bytes)
	f.bytes = f.bytes[n:]
	return n, nil
}

func pairLimits() Limits { return Limits{ReliableCount: 64}.withDefaults() }

func newEnd() *end { return &end{out: outgoing{limits: pairLimits()}} }

func connect(t *rapid.T, a, b *end) {
	for _, pair := range [][2]*end{{a, b}, {b, a}} {
		me, other := pair[0], pair[1]
		if _, err := me.out.start(other.received); err != nil {
			t.Fatalf("resume: %v", err)
		}
		me.out.ackSent, me.pipe = me.received, nil
		me.dec = nil
	}
}

// write frames what waits into the pipe.
func (e *end) write() {
	b, _ := e.out.fill(nil, e.received, true)
	e.pipe = append(e.pipe, b...)
}

// readFrom takes the first n bytes of the other's pipe; whole frames count, a torn one is lost with the connection.
func (e *end) readFrom(t *rapid.T, other *end, n int) {
	whole := wholeFrames(other.pipe[:n])
	chunk := other.pipe[:whole]
	other.pipe = other.pipe[whole:]
	if e.dec == nil {
		e.feed = &feed{}
		e.dec = newDecoder(e.feed, pairLimits())
	}
	e.feed.bytes = append(e.feed.bytes, chunk...)
	for {
		f, err := e.dec.next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("decoding: %v", err)
		}
		e.take(t, f)
	}
}

func (e *end) take(t *rapid.T, f frame) {
	switch f.kind {
	case kindAck:
		if !e.out.ack(f.number) {
			t.Fatalf("acknowledged %d, which was not sent", f.number)
		}
	case kindReliable, kindReliableMore:
		if f.number > e.received+1 {
			t.Fatalf("number %d after %d", f.number, e.received)
		}
		if f.number == e.received+1 {
			e.received++
			e.got = append(e.got, string(f.bytes))
		}
	}
}

func wholeFrames(b []byte) int {
	n := 0
	for len(b)-n >= headerSize {
		size := 4 + int(uint32(b[n])<<24|uint32(b[n+1])<<16|uint32(b[n+2])<<8|uint32(b[n+3]))
		if n+size > len(b) {
			break
		}
		n += size
	}
	return n
}

func TestReliableIsExactlyOnceInOrderWhateverIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newEnd(), newEnd()
		connect(t, a, b)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			me, other := a, b
			if rapid.Bool().Draw(t, "side") {
				me, other = b, a
			}
			switch rapid.SampledFrom([]string{"send", "replicate", "write", "read", "cut"}).Draw(t, "step") {
			case "send":
				size := rapid.SampledFrom([]int{0, 10, 70_000}).Draw(t, "size")
				m := fmt.Sprintf("%d:%0*d", len(me.sent), size, 0)
				if me.out.pushReliable([]byte(m)) == nil {
					me.sent = append(me.sent, m)
				}
			case "replicate":
				me.out.pushReplication(make([]byte, 70_000))
			case "write":
				me.write()
			case "read":
				me.readFrom(t, other, rapid.IntRange(0, len(other.pipe)).Draw(t, "bytes"))
			case "cut":
				a.out.stop()
				b.out.stop()
				connect(t, a, b)
			}
		}
		for len(a.out.reliable)+len(b.out.reliable)+len(a.out.replication)+len(b.out.replication) > 0 {
			a.write()
			b.write()
			a.readFrom(t, b, len(b.pipe))
			b.readFrom(t, a, len(a.pipe))
		}
		if !slices.Equal(a.sent, b.got) || !slices.Equal(b.sent, a.got) {
			t.Fatalf("a sent %d, b got %d; b sent %d, a got %d", len(a.sent), len(b.got), len(b.sent), len(a.got))
		}
		if n := len(a.out.reliable) + a.out.reliableBytes + len(b.out.reliable) + b.out.reliableBytes; n != 0 {
			t.Fatalf("%d left in the queues", n)
		}
	})
}

func TestReliableWaitsForOneFrameOfReplicationAtMost(t *testing.T) {
	o := outgoing{limits: Limits{}.withDefaults()}
	if _, err := o.start(0); err != nil {
		t.Fatal(err)
	}
	o.pushReplication(make([]byte, 4<<20))
	first, _ := o.fill(nil, 0, false)
	if len(first) != maxFrame {
		t.Fatalf("the first frame has %d bytes", len(first))
	}
	if err := o.pushReliable([]byte("urgent")); err != nil {
		t.Fatal(err)
	}
	next, _ := o.fill(nil, 0, false)
	if kind(next[4]) != kindReliable {
		t.Errorf("the next frame is of kind %d", next[4])
	}
	if len(next) != maxFrame {
		t.Errorf("replication does not use the rest of the write: %d bytes", len(next))
	}
}

func TestFillingDoesNotAllocate(t *testing.T) {
	o := outgoing{limits: Limits{}.withDefaults()}
	if _, err := o.start(0); err != nil {
		t.Fatal(err)
	}
	batch, buf := make([]byte, 1000), make([]byte, 0, maxFrame)
	n := uint64(0)
	allocs := testing.AllocsPerRun(1000, func() {
		o.pushReplication(batch)
		buf, _ = o.fill(buf[:0], n, true)
		n++
	})
	if allocs > 1 { // the queue slice moves on now and then
		t.Errorf("%v allocations for a batch", allocs)
	}
}

func TestRealLinksResumeExactlyOnceUnderRandomFaults(t *testing.T) {
	const messages = 2000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	quick := func(c *Config) {
		c.Limits.IdleTimeout, c.Limits.PingInterval, c.Limits.ReliableCount = 250*time.Millisecond, 40*time.Millisecond, 100
	}
	a, b := start(t, "a#1", quick), start(t, "b#1", quick)
	p := newProxy(t, b.Addr().String())
	a.SetPeers([]Peer{p.through(b)})
	b.SetPeers([]Peer{a.lease()})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); disturb(p, random, stop) }()
	want := numbered("m", messages)
	sent := map[*node]int{}
	eventually(t, "all is taken", func() bool {
		for _, pair := range [][2]*node{{a, b}, {b, a}} {
			from, to := pair[0], pair[1]
			from.sendBatch(to.session, make([]byte, 50_000))
			for sent[from] < messages && from.SendReliable(to.session, []byte(want[sent[from]])) == nil {
				sent[from]++
			}
		}
		return sent[a] == messages && sent[b] == messages
	})
	close(stop)
	<-stopped
	p.cut() // a half-open connection would only be noticed later
	eventually(t, "all arrives", func() bool {
		return len(b.reliableFrom(a.session)) >= messages && len(a.reliableFrom(b.session)) >= messages
	})
	if !slices.Equal(b.reliableFrom(a.session), want) || !slices.Equal(a.reliableFrom(b.session), want) {
		t.Error("lost, repeated or out of order")
	}
	if a.count("down "+b.session) == 0 {
		t.Error("no connection broke: the test tested nothing")
	}
	checkAlternates(t, a, b.session)
	checkAlternates(t, b, a.session)
}

// disturb breaks, slows and half-opens until it is stopped, and leaves the proxy sound.
func disturb(p *proxy, random *rand.Rand, stop <-chan struct{}) {
	defer p.deaf.Store(false)
	defer p.delay.Store(0)
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(40)) * time.Millisecond):
		}
		switch random.IntN(5) {
		case 0, 1:
			p.deaf.Store(false)
			p.cut()
		case 2:
			p.delay.Store(int64(random.IntN(3)) * int64(time.Millisecond))
		case 3:
			p.deaf.Store(random.IntN(4) == 0)
		case 4:
			p.deaf.Store(false)
		}
	}
}

// checkAlternates: up and down take turns, so that no connection began before the end of the last was told.
func checkAlternates(t *testing.T, n *node, peer string) {
	t.Helper()
	want := "up " + peer
	for i, e := range n.history() {
		if e != want {
			t.Fatalf("%s: event %d is %q, want %q", n.session, i, e, want)
		}
		if want = "up " + peer; e == want {
			want = "down " + peer
		}
	}
}

func TestOnlyWhatWasFramedCanBeAcknowledged(t *testing.T) {
	o := outgoing{limits: Limits{}.withDefaults()}
	if _, err := o.start(0); err != nil {
		t.Fatal(err)
	}
	if err := o.pushReliable([]byte("waits")); err != nil {
		t.Fatal(err)
	}
	if o.ack(1) {
		t.Error("acknowledged before it was framed")
	}
	o.fill(nil, 0, false)
	for _, nth := range []string{"first", "second"} {
		if !o.ack(1) || len(o.reliable) != 0 {
			t.Errorf("not acknowledged the %s time", nth)
		}
	}
}
