package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/torus"
)

func TestALoginGetsItsEntityAndAllAnnouncedChunks(t *testing.T) {
	h, doors := world(t, 1)
	c := dial(t, doors, client.Options{})
	until(t, c, "entity and chunks are there", func(m *client.Model) bool { return m.Own() != nil && len(m.Chunks) == 3 })
	c.Do(func(m *client.Model, tick uint64) {
		if at := m.At(m.Own(), tick); at.X != 40 || tick < 100 {
			t.Errorf("at %v, tick %d", at, tick)
		}
		if m.ViolationCount != 0 {
			t.Error(m.Violations)
		}
	})
	h.set(func(h *heart) {
		if h.requests != 3 {
			t.Errorf("%d chunks asked for, want 3", h.requests)
		}
	})
}

func TestInputsGetTheirResultsInOrder(t *testing.T) {
	h, doors := world(t, 1)
	c := dial(t, doors, client.Options{})
	for want := uint64(1); want <= 5; want++ {
		if n, err := c.Say("hello"); err != nil || n != want {
			t.Fatalf("input %d, error %v, want %d", n, err, want)
		}
	}
	until(t, c, "all are answered", func(m *client.Model) bool { return m.Acked() == 5 })
	c.Do(func(m *client.Model, _ uint64) {
		if r := m.TakeResults(); len(r) != 5 || m.ViolationCount != 0 {
			t.Errorf("%d results, violations %v", len(r), m.Violations)
		}
	})
	if c.Unanswered() != 0 {
		t.Error("inputs are open still")
	}
	h.set(func(h *heart) {
		if !slices.Equal(h.executed, []uint64{1, 2, 3, 4, 5}) {
			t.Error(h.executed)
		}
	})
}

func TestAtMostSixteenInputsAreUnanswered(t *testing.T) {
	h, doors := world(t, 1)
	h.set(func(h *heart) { h.deaf = true })
	c := dial(t, doors, client.Options{})
	for range client.MaxUnanswered {
		if _, err := c.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Move(torus.Pos{X: 41, Y: 41}); !errors.Is(err, client.ErrBusy) {
		t.Errorf("the seventeenth: %v, want ErrBusy", err)
	}
}

func TestALostSocketIsResumedElsewhereAndInputsGoOn(t *testing.T) {
	h, doors := world(t, 2)
	var mu sync.Mutex
	var events []client.LinkEvent
	c := dial(t, doors, client.Options{OnLink: func(ev client.LinkEvent) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, ev)
	}})
	say := func(n int) {
		t.Helper()
		for range n {
			if _, err := c.Say("x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	say(2) // 1 and 2 are answered
	until(t, c, "two are answered", func(m *client.Model) bool { return m.Acked() == 2 && len(m.Chunks) == 3 })
	h.set(func(h *heart) { h.mute = true })
	say(1) // 3 is carried out, its result is lost
	waitFor(t, "three are carried out", func() (ok bool) { h.set(func(h *heart) { ok = h.last == 3 }); return })
	h.set(func(h *heart) { h.deaf = true })
	say(2) // 4 and 5 are lost on the way
	waitFor(t, "they came", func() (ok bool) { h.set(func(h *heart) { ok = h.seen == 5 }); return })
	h.set(func(h *heart) { h.deaf, h.mute = false, false })
	h.seat().close(wire.Disconnected_REASON_UNAVAILABLE)

	until(t, c, "all are answered", func(m *client.Model) bool { return m.Acked() == 5 && m.Complete })
	h.set(func(h *heart) {
		if !slices.Equal(h.executed, []uint64{1, 2, 3, 4, 5}) {
			t.Errorf("carried out: %v", h.executed)
		}
		again := h.connected[len(h.connected)-1]
		if len(h.connected) != 2 || again.AckedInput != 2 || len(again.Held) != 3 || again.Held[0].Revision != 7 {
			t.Errorf("%d connections, the last with acked %d and %d chunks held", len(h.connected), again.AckedInput, len(again.Held))
		}
	})
	if s := c.Stats(); s.Resumes != 1 || s.Unknown != 1 || s.Dropped != 0 || s.Losses != 1 {
		t.Errorf("%+v", s)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(events) != 3 || events[0].Kind != client.LoggedIn || events[1].Kind != client.LinkLost || events[2].Kind != client.Resumed || events[2].Node != "door-1" {
		t.Errorf("%+v", events)
	}
	c.Do(func(m *client.Model, _ uint64) {
		if m.ViolationCount != 0 {
			t.Error(m.Violations)
		}
	})
}

func TestARefusedResumeIsAFreshLogin(t *testing.T) {
	h, doors := world(t, 1)
	c := dial(t, doors, client.Options{})
	h.set(func(h *heart) { h.deaf = true })
	if _, err := c.Say("lost"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it came", func() (ok bool) { h.set(func(h *heart) { ok = h.seen == 1 }); return })
	h.set(func(h *heart) { h.deaf, h.forgetful = false, true })
	h.seat().close(wire.Disconnected_REASON_SLOW_READER)
	waitFor(t, "a second login", func() bool { return c.Stats().Logins == 2 })
	if s := c.Stats(); s.Dropped != 1 {
		t.Errorf("%d inputs dropped, want 1", s.Dropped)
	}
	if n, err := c.Say("again"); n != 1 || err != nil {
		t.Errorf("input %d, %v: want numbers from 1", n, err)
	}
	until(t, c, "it is answered", func(m *client.Model) bool { return m.Acked() == 1 && m.ViolationCount == 0 })
}

func TestAGatewayMayAskToGoOnElsewhere(t *testing.T) {
	h, doors := world(t, 2)
	c := dial(t, doors, client.Options{})
	h.seat().send(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Reconnect{Reconnect: &wire.Reconnect{WithinSeconds: 5}}})
	until(t, c, "it is there", func(m *client.Model) bool { return m.Welcome.Node == "door-1" && m.Welcome.Resumed })
}

func TestSomeEndsAreFinal(t *testing.T) {
	for _, reason := range []wire.Disconnected_Reason{wire.Disconnected_REASON_DISPLACED, wire.Disconnected_REASON_KICKED, wire.Disconnected_REASON_MALFORMED} {
		h, doors := world(t, 1)
		c := dial(t, doors, client.Options{})
		h.seat().close(reason)
		<-c.Done()
		var end *client.EndError
		if err := c.Err(); !errors.As(err, &end) || end.Reason != reason || end.Detail != "the test says so" {
			t.Errorf("%v: %v", reason, err)
		}
		if _, err := c.Stop(); err == nil {
			t.Error("an ended client takes inputs")
		}
	}
}

func TestATokenThatIsRefusedTwiceIsReported(t *testing.T) {
	_, doors := world(t, 1)
	asked := 0
	_, err := client.Dial(within(t), doors, func(context.Context) (string, error) { asked++; return "no number", nil }, client.Options{})
	var end *client.EndError
	if !errors.As(err, &end) || end.Reason != wire.Disconnected_REASON_AUTH_FAILED || asked != 2 {
		t.Errorf("%v after %d tokens", err, asked)
	}
}

func TestLogoutIsSaid(t *testing.T) {
	h, doors := world(t, 1)
	c := dial(t, doors, client.Options{})
	if err := c.Logout(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Err(); !errors.Is(err, client.ErrClosed) {
		t.Error(err)
	}
	h.set(func(h *heart) {
		if h.logouts != 1 {
			t.Errorf("%d logouts", h.logouts)
		}
	})
}

func TestDialSaysWhyItFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = client.Dial(ctx, []string{nobody}, token("5"), client.Options{})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), nobody) {
		t.Errorf("error %v names neither the time nor the address", err)
	}
	for _, gateways := range [][]string{nil, {"http://x"}, {"ws://"}} {
		if _, err := client.Dial(ctx, gateways, token("5"), client.Options{}); err == nil {
			t.Errorf("%q is accepted", gateways)
		}
	}
}

func TestDialsFromTheGivenAddress(t *testing.T) {
	from := make(chan string, 8)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case from <- r.RemoteAddr:
		default:
		}
	}))
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, _ = client.Dial(ctx, []string{s.Listener.Addr().String()}, token("5"), client.Options{From: netip.MustParseAddr("127.3.2.1")})
	if got := <-from; !strings.HasPrefix(got, "127.3.2.1:") {
		t.Errorf("dialled from %s", got)
	}
}

func TestASilentGatewayIsGivenUp(t *testing.T) {
	quiet := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		_ = ws.WriteMessage(websocket.BinaryMessage, welcomeFrame)
		<-quiet
	}))
	defer s.Close()
	defer close(quiet)
	lost := make(chan client.LinkEvent, 16)
	c := dial(t, []string{s.Listener.Addr().String()}, client.Options{Ping: 30 * time.Millisecond, OnLink: func(ev client.LinkEvent) {
		if ev.Kind == client.LinkLost {
			select {
			case lost <- ev:
			default:
			}
		}
	}})
	defer c.Close()
	select {
	case ev := <-lost:
		if ev.Err == nil {
			t.Error("no reason")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it was not given up")
	}
}

// waitFor polls a fact that no model shows.
func waitFor(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !fact(); {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // a poll, with a deadline
	}
}
