package gateway

import (
	"bytes"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/spatialcells/spatialcells/api/wire"
)

// fencePoll is how often a held write looks whether the fence has moved on: one tick.
const fencePoll = 50 * time.Millisecond

// closeCodeBase is added to the reason to make the WebSocket close code, in the range for private use.
const closeCodeBase = 4000

// write writes what is queued until the connection ends, then says farewell.
func (c *conn) write() {
	defer close(c.written)
	var heldSince time.Time
	for {
		pong, frame := c.peek()
		switch {
		case pong != nil:
			c.writeFrame(pong)
			c.pop(&c.pongs)
		case frame != nil && c.fenceOpen():
			heldSince = time.Time{}
			c.writeFrame(frame)
			c.pop(&c.queue)
		case frame != nil && c.hasEnded():
			c.drop() // decided under a deadline that has passed: never to be sent
		case frame != nil:
			heldSince = c.hold(heldSince)
		case c.hasEnded():
			c.farewell()
			return
		default:
			<-c.wake
		}
	}
}

// fenceOpen compares the clock with the deadline; it is called right before each write of client data.
func (c *conn) fenceOpen() bool { return c.server.cfg.Now() < c.server.cfg.Fence() }

// hold waits for the fence to move on, or for something else to do, and ends a connection that was held for too long.
func (c *conn) hold(since time.Time) time.Time {
	if since.IsZero() {
		since = now()
		c.server.metrics.held.Inc()
	}
	if now().Sub(since) > c.server.cfg.Limits.Hold {
		c.end(wire.Disconnected_REASON_UNAVAILABLE, "this node cannot serve you now; connect again")
		return since
	}
	timer := time.NewTimer(min(fencePoll, c.server.cfg.Limits.Hold))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.wake:
	}
	return since
}

// peek returns the oldest pong, or else the oldest frame.
func (c *conn) peek() (pong, frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pongs) > 0 {
		return c.pongs[0], nil
	}
	if len(c.queue) > 0 {
		return nil, c.queue[0]
	}
	return nil, nil
}

// pop removes the oldest of a queue once it is written; drop may have emptied it meanwhile.
func (c *conn) pop(queue *[][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*queue) == 0 {
		return
	}
	c.backlog -= len((*queue)[0])
	(*queue)[0] = nil
	*queue = (*queue)[1:]
}

// writeFrame writes one binary message. A failure ends the connection, and empties its queues: a frame that was begun
// cannot be followed by another.
func (c *conn) writeFrame(frame []byte) {
	err := c.ws.WriteMessage(websocket.BinaryMessage, frame)
	switch {
	case err == nil:
		c.server.metrics.bytes.WithLabelValues("out").Add(float64(len(frame)))
		return
	case timedOut(err):
		c.end(wire.Disconnected_REASON_SLOW_READER, "you stopped reading; connect again")
	default:
		c.endQuietly(endConnectionLost)
	}
	c.drop()
}

// farewell tells the client why, as a message and as a close frame. Both may fail: the socket may be gone or full.
func (c *conn) farewell() {
	c.mu.Lock()
	reason, detail := c.reason, c.detail
	c.mu.Unlock()
	if reason == wire.Disconnected_REASON_UNSPECIFIED {
		return
	}
	c.writeFrame(encode(&wire.ServerEnvelope{
		Message: &wire.ServerEnvelope_Disconnected{Disconnected: &wire.Disconnected{Reason: reason, Detail: detail}},
	}))
	frame := websocket.FormatCloseMessage(closeCodeBase+int(reason), reason.String())
	_ = c.ws.WriteControl(websocket.CloseMessage, frame, now().Add(c.server.cfg.Limits.Farewell))
}

// encode frames one envelope: its length as a varint, then the message.
func encode(env *wire.ServerEnvelope) []byte {
	var b bytes.Buffer
	if _, err := protodelim.MarshalTo(&b, env); err != nil {
		panic("gateway: encoding an envelope of its own: " + err.Error()) // strings in it are valid UTF-8
	}
	return b.Bytes()
}
