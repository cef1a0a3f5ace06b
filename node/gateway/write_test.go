package gateway

import (
	"net"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/zone"
)

// numbered is a frame that can be told apart.
func numbered(n uint64) []byte {
	return encode(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Batch{Batch: &wire.StateBatch{Sequence: n}}})
}

func TestLateFramesAreHeldUntilTheFenceMovesOn(t *testing.T) {
	w := start(t, nil)
	c, id := w.login("7")
	w.clock.Store(int64(time.Hour)) // now == fence: too late
	for n := uint64(1); n <= 3; n++ {
		w.Send(zone.ClientBytes{Conn: id, Bytes: numbered(n)})
	}
	eventually(t, "a held write", func() bool { return w.count("held_writes_total", "") == 1 })
	c.send(ping(1))
	if c.next().GetPong() == nil { // the first thing that is read: no frame went out
		t.Fatal("a frame was written behind the fence")
	}
	w.fence.Store(int64(2 * time.Hour))
	for n := uint64(1); n <= 3; n++ {
		if got := c.next().GetBatch().GetSequence(); got != n {
			t.Fatalf("frame %d, want %d", got, n)
		}
	}
}

func TestHeldFramesAreNeverSentByAClose(t *testing.T) {
	w := start(t, nil)
	c, id := w.login("7")
	w.clock.Store(int64(time.Hour))
	w.Send(zone.ClientBytes{Conn: id, Bytes: numbered(1)})
	w.CloseConn(zone.ClientClose{Conn: id, Reason: wire.Disconnected_REASON_UNAVAILABLE, Detail: "gone"})
	if got := c.next(); got.GetDisconnected() == nil {
		t.Fatalf("got %v, want Disconnected first", got)
	}
}

func TestAHoldHasAnEnd(t *testing.T) {
	w := start(t, func(c *Config) { c.Limits.Hold = 100 * time.Millisecond })
	c, id := w.login("7")
	w.clock.Store(int64(time.Hour))
	w.Send(zone.ClientBytes{Conn: id, Bytes: numbered(1)})
	w.expectEnd(c, wire.Disconnected_REASON_UNAVAILABLE)
}

func TestAFullBacklogIsASlowReader(t *testing.T) {
	w := start(t, func(c *Config) { c.Limits.Backlog = 1 << 20; c.Limits.Farewell = patience })
	c, id := w.login("7")
	big := make([]byte, 64<<10)
	for w.count("closed_total", "SLOW_READER") == 0 {
		w.Send(zone.ClientBytes{Conn: id, Bytes: big})
	}
	for { // the client wakes up, reads what was under way, and is told
		b, err := c.frame()
		if err != nil {
			t.Fatalf("closed without being told: %v", err)
		}
		if len(b) == len(big) {
			continue
		}
		if d := decodeServer(t, b).GetDisconnected(); d.GetReason() != wire.Disconnected_REASON_SLOW_READER {
			t.Fatalf("told %v", d)
		}
		return
	}
}

func TestAWriteWithoutProgressIsASlowReader(t *testing.T) {
	w := start(t, func(c *Config) {
		c.Limits.Backlog = 64 << 20
		c.Limits.Stall = 200 * time.Millisecond
		c.Limits.Farewell = 200 * time.Millisecond
	})
	_, id := w.login("7")
	for range 400 { // more than the buffers of both kernels take
		w.Send(zone.ClientBytes{Conn: id, Bytes: make([]byte, 64<<10)})
	}
	w.expectCount("closed_total", "SLOW_READER")
	eventually(t, "seat given back", func() bool { return w.Connections() == 0 })
}

func TestAClosingSocketDoesNotWaitForAStuckClient(t *testing.T) {
	w := start(t, func(c *Config) {
		c.Limits.Backlog = 64 << 20
		c.Limits.Stall = time.Hour
		c.Limits.Farewell = 100 * time.Millisecond
	})
	_, id := w.login("7")
	for range 400 { // a write is under way that cannot end
		w.Send(zone.ClientBytes{Conn: id, Bytes: make([]byte, 64<<10)})
	}
	w.CloseConn(zone.ClientClose{Conn: id, Reason: wire.Disconnected_REASON_DISPLACED, Detail: "elsewhere"})
	eventually(t, "seat given back", func() bool { return w.Connections() == 0 })
}

func TestAReaderThatIsSlowButReadsIsKept(t *testing.T) {
	const stall = 300 * time.Millisecond
	server, peer := net.Pipe()
	defer peer.Close()
	c := &patientConn{Conn: server, stall: stall}
	defer c.Close()
	frame := make([]byte, 8)
	done := make(chan error, 1)
	started := time.Now()
	go func() {
		_, err := c.Write(frame)
		done <- err
	}()
	tick := time.NewTicker(stall / 3)
	defer tick.Stop()
	for range frame { // a byte at a time; in all it takes longer than the stall limit
		<-tick.C
		if _, err := peer.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatalf("write failed after %v: %v", time.Since(started), err)
	}
	if took := time.Since(started); took < stall {
		t.Fatalf("the write took only %v, which shows nothing", took)
	}
}

func TestFinishByShortensAWriteUnderWay(t *testing.T) {
	server, peer := net.Pipe()
	defer peer.Close()
	c := &patientConn{Conn: server, stall: time.Hour}
	defer c.Close()
	done := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, 8))
		done <- err
	}()
	c.finishBy(time.Now().Add(10 * time.Millisecond))
	if err := <-done; !timedOut(err) {
		t.Fatalf("got %v, want a time-out", err)
	}
}
