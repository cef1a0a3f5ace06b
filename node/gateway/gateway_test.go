package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// patience bounds every wait of a test.
const patience = 10 * time.Second

var secret = []byte("a development secret of 40 bytes, or so.")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a gateway with its surroundings.
type world struct {
	*Server
	t        *testing.T
	handler  *recorder
	verifier *Verifier
	registry *prometheus.Registry
	fence    atomic.Int64
	clock    atomic.Int64
}

// recorder is a handler that keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	events []zone.ClientEvent
}

func (r *recorder) Client(ev zone.ClientEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, ev)
}

func (r *recorder) all() []zone.ClientEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]zone.ClientEvent(nil), r.events...)
}

// keyDir makes a key directory with the development secret.
func keyDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dev.hs256"), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start makes a gateway on a loopback address; change may set limits and more.
func start(t *testing.T, change func(*Config)) *world {
	t.Helper()
	v, err := NewVerifier(VerifierConfig{World: "genesis", Dir: keyDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, handler: &recorder{}, verifier: v, registry: prometheus.NewRegistry()}
	w.fence.Store(int64(time.Hour))
	cfg := Config{
		ListenHost: "127.0.0.1", Handler: w.handler, Tokens: v, World: "genesis", Node: "genesis-zone-0", Metrics: w.registry,
		Fence: func() time.Duration { return time.Duration(w.fence.Load()) },
		Now:   func() time.Duration { return time.Duration(w.clock.Load()) },
	}
	if change != nil {
		change(&cfg)
	}
	if w.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		v.Close()
	})
	return w
}

// token signs a development token.
func token(t *testing.T, change func(*Claims)) string {
	t.Helper()
	c := Claims{World: "genesis", RegisteredClaims: jwt.RegisteredClaims{Subject: "7"}}
	if change != nil {
		change(&c)
	}
	s, err := SignDevelopment(secret, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// client is a player's end of a socket.
type client struct {
	t  *testing.T
	ws *websocket.Conn
}

// dial opens a socket that has not authenticated.
func (w *world) dial() *client {
	w.t.Helper()
	ws, resp, err := websocket.DefaultDialer.Dial(fmt.Sprintf("ws://%s/play", w.Addr()), nil)
	if err != nil {
		w.t.Fatalf("dialling: %v", err)
	}
	resp.Body.Close()
	w.t.Cleanup(func() { ws.Close() })
	return &client{w.t, ws}
}

// login opens an authenticated socket and returns the id that the handler learned.
func (w *world) login(account string) (*client, zone.ConnID) {
	w.t.Helper()
	c := w.dial()
	before := len(w.handler.all())
	c.send(authenticate(token(w.t, func(c *Claims) { c.Subject = account })))
	var id zone.ConnID
	eventually(w.t, "connected event", func() bool {
		for _, ev := range w.handler.all()[before:] {
			if ev.Connected != nil && fmt.Sprint(ev.Connected.Account) == account {
				id = ev.Conn
			}
		}
		return id != 0
	})
	return c, id
}

func authenticate(token string) *wire.ClientEnvelope {
	return &wire.ClientEnvelope{Message: &wire.ClientEnvelope_Authenticate{Authenticate: &wire.Authenticate{
		Token: token, ProtocolVersion: ProtocolVersion,
	}}}
}

func ping(nonce uint64) *wire.ClientEnvelope {
	return &wire.ClientEnvelope{Message: &wire.ClientEnvelope_Ping{Ping: &wire.Ping{Nonce: nonce}}}
}

func say(text string) *wire.ClientEnvelope {
	return &wire.ClientEnvelope{Message: &wire.ClientEnvelope_Input{Input: &wire.Input{
		Number: 1, Action: &wire.Input_Say{Say: &wire.Say{Text: text}},
	}}}
}

func (c *client) send(env *wire.ClientEnvelope) {
	c.t.Helper()
	b, err := proto.Marshal(env)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendRaw(websocket.BinaryMessage, b)
}

func (c *client) sendRaw(kind int, b []byte) {
	c.t.Helper()
	if err := c.ws.WriteMessage(kind, b); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
}

// frame reads one raw binary message.
func (c *client) frame() ([]byte, error) {
	_ = c.ws.SetReadDeadline(time.Now().Add(patience))
	_, b, err := c.ws.ReadMessage()
	return b, err
}

// next reads one message with one envelope.
func (c *client) next() *wire.ServerEnvelope {
	c.t.Helper()
	b, err := c.frame()
	if err != nil {
		c.t.Fatalf("reading: %v", err)
	}
	return decodeServer(c.t, b)
}

func decodeServer(t *testing.T, b []byte) *wire.ServerEnvelope {
	t.Helper()
	env := &wire.ServerEnvelope{}
	if err := protodelim.UnmarshalFrom(bufio.NewReader(bytes.NewReader(b)), env); err != nil {
		t.Fatalf("decoding a server message: %v", err)
	}
	return env
}

// expectEnd reads until the Disconnected, checks it and the close code, and that the handler saw what it must.
func (w *world) expectEnd(c *client, reason wire.Disconnected_Reason) *wire.Disconnected {
	w.t.Helper()
	var told *wire.Disconnected
	for {
		b, err := c.frame()
		if err == nil {
			if d := decodeServer(w.t, b).GetDisconnected(); d != nil {
				told = d
			}
			continue
		}
		c.ws.Close() // hang up, as told; the gateway waits for it
		if told == nil {
			w.t.Fatalf("closed without a Disconnected: %v", err)
		}
		if told.GetReason() != reason || told.GetDetail() == "" {
			w.t.Fatalf("disconnected with %v %q, want %v and a detail", told.GetReason(), told.GetDetail(), reason)
		}
		if !websocket.IsCloseError(err, 4000+int(reason)) {
			w.t.Fatalf("closed with %v, want code %d", err, 4000+int(reason))
		}
		w.expectCount("closed_total", strings.TrimPrefix(reason.String(), "REASON_"))
		return told
	}
}

// expectCount waits until a counter with a label value is above 0.
func (w *world) expectCount(name, label string) {
	w.t.Helper()
	eventually(w.t, name+" "+label, func() bool { return w.count(name, label) > 0 })
}

// count reads a metric; label selects among those with labels.
func (w *world) count(name, label string) float64 {
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "spatialcells_gateway_"+name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// eventually polls until a fact holds.
func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v for: %s", patience, what)
		}
	}
}

func TestAClientConnectsTalksAndLeaves(t *testing.T) {
	w := start(t, nil)
	c, id := w.login("7")
	c.send(say("hello\u202e there\n"))
	c.send(ping(41))
	if got := c.next().GetPong().GetNonce(); got != 41 {
		t.Fatalf("pong %d, want 41", got)
	}
	w.Send(zone.ClientBytes{Conn: id, Bytes: encode(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Welcome{
		Welcome: &wire.Welcome{Account: 7},
	}})})
	if got := c.next().GetWelcome().GetAccount(); got != 7 {
		t.Fatalf("welcome for %d, want 7", got)
	}
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(patience))
	w.expectCount("closed_total", endClientClosed)
	eventually(t, "closed event", func() bool { return len(w.handler.all()) == 3 })
	events := w.handler.all()
	if secret := events[0].Connected.FreshSecret; len(secret) < 40 {
		t.Fatalf("fresh secret %q is too short", secret)
	}
	if text := events[1].Message.GetInput().GetSay().GetText(); text != "hello there" {
		t.Fatalf("the handler got %q", text)
	}
	if !events[2].Closed {
		t.Fatalf("the last event is %+v, want Closed", events[2])
	}
}

func TestAResumingClientIsPassedOnWhole(t *testing.T) {
	grid, err := torus.NewGrid(1, 1, 15)
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, func(c *Config) { c.Grid = grid })
	env := authenticate(token(t, func(c *Claims) { c.Name = "Ada"; c.Spawn = "481,2" }))
	a := env.GetAuthenticate()
	a.ResumeToken, a.AckedInput = "resume", 41
	a.Held = []*wire.HeldChunk{{X: 1, Y: 2, Revision: 3}}
	w.dial().send(env)
	eventually(t, "connected event", func() bool { return len(w.handler.all()) == 1 })
	got := w.handler.all()[0].Connected
	if got.Account != 7 || got.Name != "Ada" || got.Resume != "resume" || got.AckedInput != 41 ||
		len(got.Held) != 1 || got.Held[0].GetRevision() != 3 || *got.Spawn != (torus.Pos{X: 1, Y: 2}) {
		t.Fatalf("connected %+v", got)
	}
}

func TestALostConnectionIsAnEventAndGivesItsSeatBack(t *testing.T) {
	w := start(t, nil)
	c, _ := w.login("7")
	c.ws.NetConn().Close()
	w.expectCount("closed_total", endConnectionLost)
	eventually(t, "seat given back", func() bool { return w.Connections() == 0 })
	events := w.handler.all()
	if len(events) != 2 || !events[1].Closed {
		t.Fatalf("events %+v, want Connected and Closed", events)
	}
}

func TestEachRefusalBeforeAuthentication(t *testing.T) {
	big := authenticate(strings.Repeat("x", 9000))
	old := authenticate("x")
	old.GetAuthenticate().ProtocolVersion = 99
	for name, test := range map[string]struct {
		send   *wire.ClientEnvelope
		kind   int
		raw    []byte
		reason wire.Disconnected_Reason
	}{
		"no token within the time": {reason: wire.Disconnected_REASON_AUTH_TIMEOUT},
		"another message first":    {send: ping(1), reason: wire.Disconnected_REASON_AUTH_FAILED},
		"a refused token":          {send: authenticate("x"), reason: wire.Disconnected_REASON_AUTH_FAILED},
		"an unknown protocol":      {send: old, reason: wire.Disconnected_REASON_PROTOCOL_MISMATCH},
		"more than 8 KiB":          {send: big, reason: wire.Disconnected_REASON_TOO_LARGE},
		"garbage":                  {kind: websocket.BinaryMessage, raw: []byte("garbage"), reason: wire.Disconnected_REASON_MALFORMED},
		"text":                     {kind: websocket.TextMessage, raw: []byte("hi"), reason: wire.Disconnected_REASON_MALFORMED},
		"nothing":                  {send: &wire.ClientEnvelope{}, reason: wire.Disconnected_REASON_MALFORMED},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, func(c *Config) { c.Limits.Auth = 500 * time.Millisecond })
			c := w.dial()
			switch {
			case test.send != nil:
				c.send(test.send)
			case test.raw != nil:
				c.sendRaw(test.kind, test.raw)
			}
			w.expectEnd(c, test.reason)
			if events := w.handler.all(); len(events) != 0 {
				t.Fatalf("the handler saw %+v of a client that never authenticated", events)
			}
		})
	}
}

func TestEachRefusalAfterAuthentication(t *testing.T) {
	unknownAction := &wire.ClientEnvelope{Message: &wire.ClientEnvelope_Input{Input: &wire.Input{Number: 1}}}
	for name, test := range map[string]struct {
		kind   int
		raw    []byte
		send   *wire.ClientEnvelope
		reason wire.Disconnected_Reason
	}{
		"silence":               {reason: wire.Disconnected_REASON_IDLE_TIMEOUT},
		"a second login":        {send: authenticate("x"), reason: wire.Disconnected_REASON_MALFORMED},
		"garbage":               {kind: websocket.BinaryMessage, raw: []byte{0xff}, reason: wire.Disconnected_REASON_MALFORMED},
		"text":                  {kind: websocket.TextMessage, raw: []byte("hi"), reason: wire.Disconnected_REASON_MALFORMED},
		"an unknown message":    {kind: websocket.BinaryMessage, raw: []byte{0xfa, 0x01, 0}, reason: wire.Disconnected_REASON_MALFORMED},
		"an input of no action": {send: unknownAction, reason: wire.Disconnected_REASON_MALFORMED},
		"more than 64 KiB":      {kind: websocket.BinaryMessage, raw: make([]byte, 1<<20), reason: wire.Disconnected_REASON_TOO_LARGE},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, func(c *Config) { c.Limits.Idle = time.Second })
			c, _ := w.login("7")
			switch {
			case test.send != nil:
				c.send(test.send)
			case test.raw != nil:
				c.sendRaw(test.kind, test.raw)
			}
			w.expectEnd(c, test.reason)
			eventually(t, "seat given back", func() bool { return w.Connections() == 0 })
			events := w.handler.all()
			if len(events) != 2 || !events[1].Closed {
				t.Fatalf("events %+v, want Connected and Closed only", events)
			}
		})
	}
}

func TestTheLimitsOfMessageSizeAreExact(t *testing.T) {
	w := start(t, func(c *Config) { c.Limits.BytesAfterAuth = 100 })
	c, _ := w.login("7")
	fits := say(strings.Repeat("x", 92))
	if size := proto.Size(fits); size != 100 {
		t.Fatalf("the message has %d bytes", size)
	}
	c.send(fits)
	eventually(t, "message of 100 bytes", func() bool { return len(w.handler.all()) == 2 })
	c.send(say(strings.Repeat("x", 93)))
	w.expectEnd(c, wire.Disconnected_REASON_TOO_LARGE)
}

func TestAFloodIsRateLimitedAfterItsBurst(t *testing.T) {
	w := start(t, func(c *Config) { c.Limits.MessagesPerSecond = 0.001; c.Limits.Burst = 20 })
	c, _ := w.login("7")
	b, _ := proto.Marshal(say("x"))
	for range 100 {
		if c.ws.WriteMessage(websocket.BinaryMessage, b) != nil {
			break
		}
	}
	w.expectEnd(c, wire.Disconnected_REASON_RATE_LIMITED)
	eventually(t, "closed", func() bool { return w.Connections() == 0 })
	if got := len(w.handler.all()); got != 1+19+1 {
		t.Fatalf("%d events, want Connected, 19 messages (Authenticate was the first of 20) and Closed", got)
	}
}

func TestAFloodOfControlFramesIsRateLimited(t *testing.T) {
	for name, kind := range map[string]int{"pings": websocket.PingMessage, "pongs": websocket.PongMessage} {
		t.Run(name, func(t *testing.T) {
			w := start(t, func(c *Config) { c.Limits.MessagesPerSecond = 0.001; c.Limits.Burst = 20 })
			c, _ := w.login("7")
			for range 40 {
				if c.ws.WriteControl(kind, []byte("x"), time.Now().Add(patience)) != nil {
					break
				}
			}
			w.expectEnd(c, wire.Disconnected_REASON_RATE_LIMITED)
		})
	}
}

func TestAMessageThatTricklesInIsNoSignOfLife(t *testing.T) {
	w := start(t, func(c *Config) { c.Limits.Idle = time.Second })
	c, _ := w.login("7")
	out, err := c.ws.NextWriter(websocket.BinaryMessage)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(out, strings.Repeat("x", 5000)) // more than the write buffer: a first fragment goes out
	w.expectEnd(c, wire.Disconnected_REASON_IDLE_TIMEOUT)
}

func TestBrokenFramingIsMalformed(t *testing.T) {
	w := start(t, nil)
	c, _ := w.login("7")
	if _, err := c.ws.NetConn().Write([]byte{0xff, 0x00, 0x00, 0x00}); err != nil {
		t.Fatal(err)
	}
	w.expectCount("closed_total", "MALFORMED")
	eventually(t, "closed", func() bool { return w.Connections() == 0 })
}

func TestCloseComesAfterWhatWasSentBefore(t *testing.T) {
	w := start(t, nil)
	c, id := w.login("7")
	for i := range 50 {
		w.Send(zone.ClientBytes{Conn: id, Bytes: encode(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Pong{Pong: &wire.Pong{Nonce: uint64(i)}}})})
	}
	w.CloseConn(zone.ClientClose{Conn: id, Reason: wire.Disconnected_REASON_DISPLACED, Detail: "you logged in elsewhere"})
	w.Send(zone.ClientBytes{Conn: id, Bytes: []byte("after the end")})
	for i := range 50 {
		if got := c.next().GetPong().GetNonce(); got != uint64(i) {
			t.Fatalf("frame %d holds %d", i, got)
		}
	}
	w.expectEnd(c, wire.Disconnected_REASON_DISPLACED)
	w.expectCount("unknown_connection_total", "")
}

func TestKickEndsTheAccountsConnectionsOnly(t *testing.T) {
	w := start(t, nil)
	a, _ := w.login("7")
	b, _ := w.login("8")
	if n := w.Kick(7, ""); n != 1 {
		t.Fatalf("%d kicked, want 1", n)
	}
	w.expectEnd(a, wire.Disconnected_REASON_KICKED)
	b.send(ping(1))
	if b.next().GetPong() == nil {
		t.Fatal("the other account's connection does not answer")
	}
}

func TestShutdownTellsEverybody(t *testing.T) {
	w := start(t, nil)
	a, _ := w.login("7")
	pending := w.dial()
	eventually(t, "pending", func() bool { return w.count("pending_connections", "") == 1 })
	done := make(chan error)
	go func() { done <- w.Shutdown(context.Background()) }()
	w.expectEnd(a, wire.Disconnected_REASON_SHUTTING_DOWN)
	w.expectEnd(pending, wire.Disconnected_REASON_SHUTTING_DOWN)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", w.Addr().String()); err == nil {
		t.Fatal("the gateway still listens")
	}
}

func TestShutdownCutsOffAtItsDeadline(t *testing.T) {
	w := start(t, func(c *Config) { c.Limits.Farewell = time.Hour })
	w.login("7") // a client that neither reads nor hangs up
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("shutdown: %v", err)
	}
	events := w.handler.all()
	if !events[len(events)-1].Closed {
		t.Fatal("the handler did not see Closed")
	}
}

func TestLimitsOfConnections(t *testing.T) {
	t.Run("pending", func(t *testing.T) {
		w := start(t, func(c *Config) { c.Limits.Pending = 1 })
		w.dial()
		w.expectEnd(w.dial(), wire.Disconnected_REASON_TOO_MANY_CONNECTIONS)
	})
	t.Run("in all", func(t *testing.T) {
		w := start(t, func(c *Config) { c.Limits.Connections = 1 })
		early := w.dial() // has a seat as pending, finds none as connected
		first, _ := w.login("7")
		w.expectEnd(w.dial(), wire.Disconnected_REASON_TOO_MANY_CONNECTIONS)
		early.send(authenticate(token(t, nil)))
		w.expectEnd(early, wire.Disconnected_REASON_TOO_MANY_CONNECTIONS)
		first.ws.Close()
		eventually(t, "seat given back", func() bool { return w.Connections() == 0 })
		w.login("8")
	})
	t.Run("of one address", func(t *testing.T) {
		w := start(t, func(c *Config) { c.Limits.PerAddress = 2 })
		first := w.dial()
		w.dial()
		w.expectEnd(w.dial(), wire.Disconnected_REASON_TOO_MANY_CONNECTIONS)
		first.ws.Close()
		w.expectCount("closed_total", endConnectionLost)
		eventually(t, "seat given back", func() bool { return w.count("pending_connections", "") == 1 })
		w.login("7")
	})
	t.Run("even of refusals", func(t *testing.T) {
		w := start(t, func(c *Config) { c.Limits.Pending = 1; c.Limits.Farewell = time.Minute })
		w.dial()
		for range refusals {
			w.dial()
		}
		_, resp, err := websocket.DefaultDialer.Dial(fmt.Sprintf("ws://%s/play", w.Addr()), nil)
		if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("got %v, want 503", err)
		}
		w.expectCount("refused_total", refusedOverload)
		cut, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.Shutdown(cut)
	})
}

func TestAddressesAreCountedByWhatOneCustomerGets(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:99": "192.0.2.1/32", "[::ffff:192.0.2.1]:99": "192.0.2.1/32",
		"[2001:db8:1:2:3::4]:99": "2001:db8:1:2::/64", "[fe80::1%eth0]:9": "fe80::/64",
	} {
		if got := addressOf(remote).String(); got != want {
			t.Errorf("%s counts as %s, want %s", remote, got, want)
		}
	}
}

func TestOrigins(t *testing.T) {
	w := start(t, func(c *Config) { c.AllowedOrigins = []string{"https://play.example.com"} })
	for origin, admitted := range map[string]bool{
		"":                                  true,
		"https://play.example.com":          true,
		"https://PLAY.example.com":          true,
		"http://" + w.Addr().String():       true,
		"http://play.example.com":           false,
		"https://play.example.com.evil.org": false,
		"https://evil.org":                  false,
		"null":                              false,
		"garbage":                           false,
	} {
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		ws, resp, err := websocket.DefaultDialer.Dial(fmt.Sprintf("ws://%s/play", w.Addr()), header)
		if admitted != (err == nil) {
			t.Errorf("origin %q admitted: %v (%v), want %v", origin, err == nil, err, admitted)
		}
		if err == nil {
			ws.Close()
		} else if resp.StatusCode != http.StatusForbidden {
			t.Errorf("origin %q: status %d", origin, resp.StatusCode)
		}
	}
	w.expectCount("refused_total", refusedOrigin)
}

func TestOtherRequestsAreAnsweredAndEnd(t *testing.T) {
	w := start(t, nil)
	for path, status := range map[string]int{"/play": http.StatusBadRequest, "/": http.StatusNotFound} {
		resp, err := http.Get(fmt.Sprintf("http://%s%s", w.Addr(), path))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	w.expectCount("refused_total", refusedHandshake)
	if got := w.count("pending_connections", ""); got != 0 {
		t.Fatalf("%v seats are still taken", got)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	ok := Config{
		ListenHost: "127.0.0.1", Handler: &recorder{}, Tokens: &Verifier{},
		Fence: func() time.Duration { return 0 }, Now: func() time.Duration { return 0 },
	}
	for name, spoil := range map[string]func(*Config){
		"no handler":     func(c *Config) { c.Handler = nil },
		"no tokens":      func(c *Config) { c.Tokens = nil },
		"no fence":       func(c *Config) { c.Fence = nil },
		"no clock":       func(c *Config) { c.Now = nil },
		"negative limit": func(c *Config) { c.Limits.Idle = -1 },
		"bad origin":     func(c *Config) { c.AllowedOrigins = []string{"play.example.com"} },
		"bad host":       func(c *Config) { c.ListenHost = "256.0.0.1" },
	} {
		cfg := ok
		spoil(&cfg)
		if s, err := New(cfg); err == nil {
			_ = s.Shutdown(context.Background())
			t.Errorf("%s: accepted", name)
		}
	}
}
