package client_test

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/gateway"
	"github.com/spatialcells/spatialcells/node/zone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heart stands behind one or more gateways and answers as a world of one player would.
type heart struct {
	mu        sync.Mutex
	secret    string
	last      uint64 // executed
	executed  []uint64
	inputs    []*wire.Input
	connected []zone.ClientConnected
	seen      int // inputs that came
	requests  int
	logouts   int
	latest    seat

	forgetful bool // refuses to resume
	deaf      bool // takes no inputs
	mute      bool // carries inputs out and keeps the results to itself
}

// seat is a connection at a gateway.
type seat struct {
	server *gateway.Server
	conn   zone.ConnID
}

// door is one gateway of a heart: its Handler.
type door struct {
	heart  *heart
	name   string
	server *gateway.Server
	ready  chan struct{}
}

func (d *door) Client(ev zone.ClientEvent) {
	<-d.ready
	h := d.heart
	h.mu.Lock()
	defer h.mu.Unlock()
	at := seat{d.server, ev.Conn}
	switch m := ev.Message.GetMessage().(type) {
	case *wire.ClientEnvelope_Input:
		h.input(at, m.Input)
	case *wire.ClientEnvelope_ChunkRequest:
		h.requests += len(m.ChunkRequest.Chunks) / 2
		for i := 0; i < len(m.ChunkRequest.Chunks); i += 2 {
			at.send(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Chunk{Chunk: &wire.ChunkData{X: m.ChunkRequest.Chunks[i], Y: m.ChunkRequest.Chunks[i+1], Revision: 7}}})
		}
	case *wire.ClientEnvelope_Logout:
		h.logouts++
		at.close(wire.Disconnected_REASON_LOGGED_OUT)
	}
	if ev.Connected != nil {
		h.connect(at, d.name, ev.Connected)
	}
}

func (h *heart) connect(at seat, node string, c *zone.ClientConnected) {
	h.connected, h.latest = append(h.connected, *c), at
	resumed := c.Resume != "" && c.Resume == h.secret && !h.forgetful
	if !resumed {
		h.secret, h.last = c.FreshSecret, 0
	}
	h.last = max(h.last, c.AckedInput)
	at.send(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Welcome{Welcome: &wire.Welcome{
		Account: c.Account, Entity: 77, ResumeToken: h.secret, NextInput: h.last + 1, Resumed: resumed,
		Columns: 2, Rows: 2, RegionEdgeChunks: 15, TickMilliseconds: 50, Node: node,
	}}})
	at.send(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Manifest{Manifest: &wire.ChunkManifest{Reset_: true, Added: []uint32{1, 1, 2, 1, 29, 29}}}})
	at.send(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Batch{Batch: &wire.StateBatch{Sequence: 1, Tick: 100, SetComplete: resumed, Updates: []*wire.EntityUpdate{{
		Entity: 77, Appear: true, Components: []*wire.ComponentUpdate{{Component: &wire.ComponentUpdate_Position{Position: &wire.Position{X: 40, Y: 40}}}},
	}}}}})
}

func (h *heart) input(at seat, in *wire.Input) {
	h.seen++
	if h.deaf || in.Number != h.last+1 {
		return
	}
	h.last = in.Number
	h.executed, h.inputs = append(h.executed, in.Number), append(h.inputs, in)
	if !h.mute {
		at.send(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Result{Result: &wire.InputResult{Number: in.Number, Code: wire.InputResult_CODE_OK}}})
	}
}

func (s seat) send(env *wire.ServerEnvelope) {
	var b bytes.Buffer
	if _, err := protodelim.MarshalTo(&b, env); err != nil {
		panic(err)
	}
	s.server.Send(zone.ClientBytes{Conn: s.conn, Bytes: b.Bytes()})
}

func (s seat) close(reason wire.Disconnected_Reason) {
	s.server.CloseConn(zone.ClientClose{Conn: s.conn, Reason: reason, Detail: "the test says so"})
}

// set changes how the heart behaves.
func (h *heart) set(fn func(h *heart)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn(h)
}

// seat is where the player sat down last.
func (h *heart) seat() (s seat) {
	h.set(func(h *heart) { s = h.latest })
	return s
}

// numbers is a verifier: a token is the account's number.
type numbers struct{}

func (numbers) Verify(_ context.Context, token string) (gateway.Identity, error) {
	account, err := strconv.ParseUint(token, 10, 64)
	if err != nil {
		return gateway.Identity{}, &gateway.TokenError{Cause: gateway.CauseExpired, Err: err}
	}
	return gateway.Identity{Account: account}, nil
}

func token(t string) client.TokenSource {
	return func(context.Context) (string, error) { return t, nil }
}

// world starts gateways before one heart and returns their addresses.
func world(t *testing.T, gateways int) (*heart, []string) {
	t.Helper()
	h := &heart{}
	var addresses []string
	for i := range gateways {
		d := &door{heart: h, name: "door-" + strconv.Itoa(i), ready: make(chan struct{})}
		s, err := gateway.New(gateway.Config{
			ListenHost: "127.0.0.1", Handler: d, Tokens: numbers{},
			Fence: func() time.Duration { return time.Hour }, Now: func() time.Duration { return time.Minute },
			Limits: gateway.Limits{Farewell: 200 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.server = s
		close(d.ready)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
		addresses = append(addresses, s.Addr().String())
	}
	return h, addresses
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, gateways []string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(within(t), gateways, token("5"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// until waits for a fact about the model.
func until(t *testing.T, c *client.Client, what string, fact func(m *client.Model) bool) {
	t.Helper()
	if err := c.Wait(within(t), fact); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}
