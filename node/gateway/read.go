package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/zone"
)

// violation is why a client is to be closed.
type violation struct {
	reason wire.Disconnected_Reason
	detail string
}

func (v *violation) Error() string { return v.reason.String() + ": " + v.detail }

func malformed(detail string) error { return &violation{wire.Disconnected_REASON_MALFORMED, detail} }

// run serves the socket until its end: first the token, then messages, then the farewell.
func (c *conn) run() {
	c.ws.SetPingHandler(c.controlPing)
	c.ws.SetPongHandler(func(string) error { return c.allow() })
	go c.write()
	if c.authenticate() {
		c.serve()
		c.server.cfg.Handler.Client(zone.ClientEvent{Conn: c.id, Closed: true})
	}
	c.linger()
	<-c.written
	_ = c.socket.Close()
}

// authenticate reads the first message and verifies its token; after true the handler knows the connection.
func (c *conn) authenticate() bool {
	deadline := c.opened.Add(c.server.cfg.Limits.Auth)
	env, err := c.read(c.server.cfg.Limits.BytesBeforeAuth, deadline)
	if timedOut(err) {
		err = &violation{
			wire.Disconnected_REASON_AUTH_TIMEOUT,
			fmt.Sprintf("send Authenticate within %v of connecting", c.server.cfg.Limits.Auth),
		}
	}
	var connected *zone.ClientConnected
	if err == nil {
		connected, err = c.login(env.GetAuthenticate(), deadline)
	}
	if err != nil {
		c.fail(err)
		return false
	}
	c.server.cfg.Handler.Client(zone.ClientEvent{Conn: c.id, Connected: connected})
	return true
}

// login turns Authenticate into a connected client.
func (c *conn) login(a *wire.Authenticate, deadline time.Time) (*zone.ClientConnected, error) {
	if a == nil {
		return nil, &violation{wire.Disconnected_REASON_AUTH_FAILED, "the first message must be Authenticate"}
	}
	if v := a.GetProtocolVersion(); v < OldestProtocolVersion || v > ProtocolVersion {
		return nil, &violation{wire.Disconnected_REASON_PROTOCOL_MISMATCH, fmt.Sprintf(
			"this gateway speaks protocol %d to %d, you %d; update the older of both", OldestProtocolVersion, ProtocolVersion, v)}
	}
	ctx, cancel := context.WithDeadline(c.ctx, deadline)
	defer cancel()
	id, err := c.server.cfg.Tokens.Verify(ctx, a.GetToken())
	if err != nil {
		return nil, c.tokenRefused(err)
	}
	if !c.server.promote(c, id.Account) {
		return nil, &violation{wire.Disconnected_REASON_TOO_MANY_CONNECTIONS, "this gateway is full; get a new token and try again later"}
	}
	if grid := c.server.cfg.Grid; id.Spawn != nil && grid.SizeX() > 0 {
		spawn := grid.Wrap(*id.Spawn)
		id.Spawn = &spawn
	}
	return &zone.ClientConnected{
		Account: id.Account, Name: id.Name, Resume: a.GetResumeToken(), Held: a.GetHeld(), AckedInput: a.GetAckedInput(), SentInput: a.GetSentInput(),
		Spawn: id.Spawn, FreshSecret: rand.Text() + rand.Text(),
	}, nil
}

// tokenRefused logs and counts the cause; the client learns only whether a new token can help.
func (c *conn) tokenRefused(err error) error {
	refused := &TokenError{Cause: CauseUnavailable}
	known := errors.As(err, &refused)
	c.server.metrics.authFailures.WithLabelValues(string(refused.Cause)).Inc()
	c.server.cfg.Log.Info("token refused", "conn", uint64(c.id), "from", c.address.Addr(), "cause", refused.Cause, "error", err)
	if !known || refused.Cause == CauseUnavailable {
		return &violation{wire.Disconnected_REASON_UNAVAILABLE, "tokens cannot be checked now; try again in a few seconds"}
	}
	return &violation{wire.Disconnected_REASON_AUTH_FAILED, "the token was refused; get a new one for this world"}
}

// serve hands messages to the handler until the connection ends.
func (c *conn) serve() {
	for {
		env, err := c.read(c.server.cfg.Limits.BytesAfterAuth, now().Add(c.server.cfg.Limits.Idle))
		if timedOut(err) {
			err = &violation{
				wire.Disconnected_REASON_IDLE_TIMEOUT,
				fmt.Sprintf("send something, Ping if nothing else, every %v", c.server.cfg.Limits.Idle/3),
			}
		}
		if err == nil && env.GetAuthenticate() != nil {
			err = malformed("you are authenticated already; open a new connection for another login")
		}
		if err != nil {
			c.fail(err)
			return
		}
		if ping := env.GetPing(); ping != nil {
			c.pong(ping.GetNonce())
			continue
		}
		c.server.cfg.Handler.Client(zone.ClientEvent{Conn: c.id, Message: env})
	}
}

// read returns the next message. The deadline is for all of it, so trickling does not help.
func (c *conn) read(limit int, deadline time.Time) (*wire.ClientEnvelope, error) {
	_ = c.socket.SetReadDeadline(deadline) // fails on a closed socket only; reading will say so
	if c.hasEnded() {                      // after the deadline was set: finish sets a shorter one after it decides
		return nil, net.ErrClosed
	}
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return nil, err
	}
	if err := c.allow(); err != nil {
		return nil, err
	}
	if kind != websocket.BinaryMessage {
		return nil, malformed("text frames are not understood; send binary ones")
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > limit {
		return nil, &violation{wire.Disconnected_REASON_TOO_LARGE, fmt.Sprintf("a message may have at most %d bytes here", limit)}
	}
	env, err := decodeClient(b)
	if err != nil {
		return nil, malformed(err.Error())
	}
	if c.hasEnded() {
		return nil, net.ErrClosed
	}
	c.server.metrics.message(env, len(b))
	return env, nil
}

// allow takes one frame off the client's allowance.
func (c *conn) allow() error {
	if c.limiter.Allow() {
		return nil
	}
	l := c.server.cfg.Limits
	return &violation{wire.Disconnected_REASON_RATE_LIMITED, fmt.Sprintf(
		"more than %v messages a second; slow down and connect again", l.MessagesPerSecond)}
}

// controlPing answers a WebSocket ping, which browsers do not send but other clients may.
func (c *conn) controlPing(data string) error {
	if err := c.allow(); err != nil {
		return err
	}
	err := c.ws.WriteControl(websocket.PongMessage, []byte(data), now().Add(time.Second))
	if errors.Is(err, websocket.ErrCloseSent) || timedOut(err) {
		return nil // the writer's state decides about the connection
	}
	return err
}

// fail ends the connection for the reason that a failed read shows.
func (c *conn) fail(err error) {
	var v *violation
	var closed *websocket.CloseError
	var network net.Error
	switch {
	case errors.As(err, &v):
		c.end(v.reason, v.detail)
	case errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure:
		c.endQuietly(endClientClosed)
	case errors.As(err, &closed), errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		c.endQuietly(endConnectionLost)
	case strings.HasPrefix(err.Error(), "websocket:"):
		c.end(wire.Disconnected_REASON_MALFORMED, "the WebSocket framing is broken")
	default:
		c.endQuietly(endConnectionLost)
	}
}

// linger takes in and forgets what the client still sends until it hangs up or the farewell's time is over. A socket
// closed with unread bytes would be reset, and the reset would overtake the farewell.
func (c *conn) linger() {
	_ = c.socket.SetReadDeadline(now().Add(c.server.cfg.Limits.Farewell))
	_, _ = io.Copy(io.Discard, c.socket)
}

// timedOut reports whether a deadline ended a read or write; the WebSocket library wraps the error of the socket.
func timedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
