package link

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
)

// conn is one connection. Reader and writer are a goroutine each; the reader's is the peer's own.
type conn struct {
	peer *peer
	raw  net.Conn
	tls  *tls.Conn
	dec  *decoder
	idle *idleReader
	// ctx ends when reader or writer is through.
	ctx context.Context
}

// idleReader gives up a connection that brings nothing for a while. Before the Hello the deadline is the caller's.
type idleReader struct {
	conn    *tls.Conn
	timeout time.Duration
}

func (r *idleReader) Read(b []byte) (int, error) {
	if r.timeout > 0 {
		if err := r.conn.SetReadDeadline(time.Now().Add(r.timeout)); err != nil {
			return 0, err
		}
	}
	return r.conn.Read(b)
}

func (l *Link) newConn(raw net.Conn, secured *tls.Conn) *conn {
	idle := &idleReader{conn: secured}
	c := &conn{raw: raw, tls: secured, idle: idle, dec: newDecoder(idle, l.limits)}
	c.dec.greeting = true
	return c
}

// readHello returns the first frame, which must be a Hello. The caller has set a deadline.
func (c *conn) readHello() (*wire.Hello, error) {
	f, err := c.dec.next()
	if err != nil {
		return nil, err
	}
	if f.kind == kindRefusal {
		return nil, decodeRefusal(f.bytes)
	}
	return decodeHello(f.bytes)
}

// serve runs the connection until it breaks. It returns why.
func (p *peer) serve(c *conn, hello *wire.Hello) error {
	defer c.raw.Close()
	stream, err := p.begin(c.raw, hello)
	if err != nil {
		p.link.sayRefusal(c.tls, ownRefusal(err))
		return err
	}
	defer p.end()
	if err := errors.Join(c.raw.SetDeadline(time.Time{}), p.ctx.Err()); err != nil {
		return err
	}
	if !p.up(stream) {
		return ErrDead
	}
	defer p.down()
	p.link.peerUp(p.session)
	c.peer, c.idle.timeout, c.dec.greeting = p, p.link.limits.IdleTimeout, false
	return c.exchange()
}

// exchange reads and writes; the first of the two that fails ends the other.
func (c *conn) exchange() error {
	ctx, cancel := context.WithCancelCause(c.peer.ctx)
	c.ctx = ctx
	written := make(chan struct{})
	go func() {
		defer close(written)
		if err := c.write(); err != nil {
			cancel(err)
			_ = c.raw.Close()
		}
	}()
	err := c.read()
	if r := ownRefusal(err); r != nil {
		// The writer may stand in the middle of a frame: give it a moment, then say why.
		_ = c.tls.SetWriteDeadline(time.Now().Add(farewell))
		cancel(err)
		<-written
		c.peer.link.sayRefusal(c.tls, r)
		return err
	}
	cancel(err)
	_ = c.raw.Close()
	<-written
	// The writer's reason is the first cause if it broke the connection under the reader.
	return context.Cause(ctx)
}

func (c *conn) read() error {
	for {
		f, err := c.dec.next()
		if err != nil {
			return err
		}
		if err := c.handle(f); err != nil {
			return err
		}
	}
}

func (c *conn) handle(f frame) error {
	p := c.peer
	switch f.kind {
	case kindReplication, kindReplicationMore:
		return p.deliverReplication(f.bytes)
	case kindReliable, kindReliableMore:
		err := p.deliverReliable(f.number, f.bytes)
		p.wakeWriter()
		return err
	case kindPing:
		p.mu.Lock()
		p.out.pong, p.out.pongDue = f.number, true
		p.mu.Unlock()
		p.wakeWriter()
		return nil
	case kindPong:
		return p.takePong(f.number)
	case kindAck:
		return p.takeAck(f.number)
	case kindRefusal:
		return decodeRefusal(f.bytes)
	case kindHello:
	}
	return refuse(ReasonMalformed, "a second Hello")
}

func (p *peer) takePong(nonce uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rtt, ok := p.out.pongOf(nonce, p.link.cfg.Now()); ok {
		p.roundTrip = rtt
		p.hear()
		p.link.metrics.roundTrip.Observe(rtt.Seconds())
	}
	return nil
}

func (p *peer) takeAck(number uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.out.ack(number) {
		return refuse(ReasonMalformed, "acknowledged %d, which was not sent", number)
	}
	p.hear()
	if p.out.refused && p.out.room() {
		return errAnew
	}
	return nil
}

// write sends what waits, one buffer of at most maxFrame bytes at a time.
func (c *conn) write() error {
	ping := time.NewTicker(c.peer.link.limits.PingInterval)
	defer ping.Stop()
	ack := time.NewTimer(time.Hour)
	defer ack.Stop()
	buf := make([]byte, 0, maxFrame)
	pingNow, ackNow, ackArmed := true, false, false
	for {
		var owed bool
		buf, owed = c.peer.fill(buf[:0], pingNow, ackNow)
		pingNow, ackNow = false, false
		if len(buf) > 0 {
			if err := c.flush(buf); err != nil {
				return err
			}
			continue
		}
		if owed && !ackArmed {
			ack.Reset(c.peer.link.limits.AckDelay)
			ackArmed = true
		}
		select {
		case <-c.peer.wake:
		case <-ping.C:
			pingNow = true
		case <-ack.C:
			ackNow, ackArmed = true, false
		case <-c.ctx.Done():
			return nil
		}
	}
}

func (p *peer) fill(b []byte, pingNow, ackNow bool) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pingNow {
		b = p.out.pushPing(b, p.link.cfg.Now())
	}
	received := p.received.Load()
	ackNow = ackNow || received-p.out.ackSent >= ackEvery
	return p.out.fill(b, received, ackNow)
}

// flush is a commit point: it waits until the fence allows the write, and writes at once.
func (c *conn) flush(b []byte) error {
	l := c.peer.link
	for {
		if err := c.tls.SetWriteDeadline(time.Now().Add(l.limits.IdleTimeout)); err != nil {
			return err
		}
		if l.gate.open() {
			break
		}
		if err := l.gate.wait(c.ctx); err != nil {
			return err
		}
	}
	n, err := c.tls.Write(b)
	l.metrics.written.Add(float64(n))
	return err
}

const (
	// ackEvery is how many reliable messages may come before one acknowledgement is sent without delay.
	ackEvery = 64
	// farewell bounds the time for telling a peer why it is refused.
	farewell = 500 * time.Millisecond
)

// sayRefusal tells the peer, if the fence allows a word, and waits a moment for it to hang up, so that the word is not
// overtaken by a reset.
func (l *Link) sayRefusal(c *tls.Conn, r *refusal) {
	if r == nil || !l.gate.open() {
		return
	}
	_ = c.SetDeadline(time.Now().Add(farewell))
	if _, err := c.Write(appendFrame(nil, kindRefusal, r.encode())); err != nil {
		return
	}
	if c.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, maxFrame)
	}
}

// asRefusal turns an error before the first Hello into its reason.
func asRefusal(err error) *refusal {
	var r *refusal
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &notTLS):
		return refuse(ReasonNotTLS, "the first bytes are not TLS")
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return refuse(ReasonHandshakeTimeout, "no Hello in time")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return refuse(ReasonHungUp, "closed before its Hello")
	default:
		return refuse(ReasonTLS, "%v", err)
	}
}
