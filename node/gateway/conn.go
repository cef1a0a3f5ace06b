package gateway

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/zone"
)

// conn is one socket. run's goroutine reads and tells the handler, write's goroutine writes, anyone may send or end.
type conn struct {
	server  *Server
	id      zone.ConnID
	address netip.Prefix
	// refused: the socket was opened only to say that there is no room.
	refused bool
	opened  time.Time
	// account is 0 until the token was verified; guarded by server.mu.
	account uint64

	ws      *websocket.Conn
	socket  *patientConn
	limiter *rate.Limiter
	// ctx ends when the end of the connection is decided.
	ctx    context.Context
	cancel context.CancelFunc
	// wake has room for one signal to the writer; written is closed when the writer has ended.
	wake    chan struct{}
	written chan struct{}

	mu sync.Mutex
	// queue holds frames of the heart, pongs encoded answers to Ping; backlog is the bytes of both.
	queue   [][]byte
	pongs   [][]byte
	backlog int
	// ended: the reason stands, nothing is queued any more.
	ended  bool
	reason wire.Disconnected_Reason
	detail string
}

// newConn makes a connection that has a seat and no socket yet.
func newConn(s *Server, id zone.ConnID, address netip.Prefix) *conn {
	c := &conn{
		server: s, id: id, address: address, opened: now(),
		limiter: rate.NewLimiter(rate.Limit(s.cfg.Limits.MessagesPerSecond), s.cfg.Limits.Burst),
		wake:    make(chan struct{}, 1), written: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// open gives the connection its socket.
func (c *conn) open(ws *websocket.Conn) {
	c.server.mu.Lock()
	stopping := c.server.stopping
	c.ws, c.socket = ws, ws.NetConn().(*patientConn)
	c.server.mu.Unlock()
	if stopping { // Shutdown listed the sockets before this one was there
		c.end(wire.Disconnected_REASON_SHUTTING_DOWN, "this gateway stops; connect again")
	}
}

// isOpen reports whether the connection has a socket; called with server.mu held.
func (c *conn) isOpen() bool { return c.ws != nil }

// send queues a frame; false if the connection has ended.
func (c *conn) send(frame []byte) bool {
	return c.enqueue(&c.queue, frame)
}

// pong queues the answer to a Ping.
func (c *conn) pong(nonce uint64) {
	c.enqueue(&c.pongs, encode(&wire.ServerEnvelope{
		Message: &wire.ServerEnvelope_Pong{Pong: &wire.Pong{Nonce: nonce}},
	}))
}

// enqueue appends a frame to one of the queues and ends the connection when both together exceed the limit.
func (c *conn) enqueue(queue *[][]byte, frame []byte) bool {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return false
	}
	full := c.backlog+len(frame) > c.server.cfg.Limits.Backlog
	if !full {
		c.backlog += len(frame)
		*queue = append(*queue, frame)
	}
	c.mu.Unlock()
	if full {
		c.drop()
		c.end(wire.Disconnected_REASON_SLOW_READER, "you read too slowly; connect again and read faster")
	}
	c.signal()
	return true
}

// drop forgets what is queued.
func (c *conn) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.pongs, c.backlog = nil, nil, 0
}

// signal wakes the writer.
func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// end decides why the connection ends and has the client told after what is queued. Only the first call counts; it
// returns true.
func (c *conn) end(reason wire.Disconnected_Reason, detail string) bool {
	return c.finish(reason, detail, strings.TrimPrefix(reason.String(), "REASON_"))
}

// endQuietly decides that the connection ended by the client's doing: nothing is left to be told.
func (c *conn) endQuietly(label string) bool {
	return c.finish(wire.Disconnected_REASON_UNSPECIFIED, "", label)
}

// finish is the one place where a connection comes to its end, so the one that counts it.
func (c *conn) finish(reason wire.Disconnected_Reason, detail, label string) bool {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return false
	}
	c.ended, c.reason, c.detail = true, reason, detail
	c.mu.Unlock()

	c.server.metrics.ends.WithLabelValues(label).Inc()
	c.server.cfg.Log.Info("client connection ended",
		"conn", uint64(c.id), "from", c.address.Addr(), "reason", label, "detail", detail)
	c.socket.finishBy(now().Add(c.server.cfg.Limits.Farewell))
	c.cancel()
	_ = c.socket.SetReadDeadline(now()) // wakes the reader; fails on a closed socket only
	c.signal()
	return true
}

// hasEnded reports whether the end is decided.
func (c *conn) hasEnded() bool { return c.ctx.Err() != nil }
