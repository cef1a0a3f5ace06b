package link

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
)

// dialLoop keeps one connection to the peer. The pause grows from try to try; a connection that held makes it short again.
func (p *peer) dialLoop() {
	limits := p.link.limits
	for try := 0; p.ctx.Err() == nil; try++ {
		began := time.Now()
		err := p.dialOnce()
		if p.ctx.Err() != nil {
			return
		}
		p.link.lost(p.session, err)
		if time.Since(began) > limits.RedialMax {
			try = 0
		}
		if !pause(p.ctx, backoff(limits.RedialMin, limits.RedialMax, try)) {
			return
		}
	}
}

// dialOnce connects, greets and serves until the connection breaks.
func (p *peer) dialOnce() error {
	if err := p.link.gate.wait(p.ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.link.limits.HandshakeTimeout)
	defer cancel()
	announced := p.lease()
	if announced.Address == "" || announced.KeyHash == "" {
		return fmt.Errorf("the session Lease of %s announces no address or key yet", p.session)
	}
	raw, err := p.link.dialer().DialContext(ctx, "tcp", announced.Address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(p.ctx, func() { _ = raw.Close() })()
	defer raw.Close()
	c, hello, err := p.introduce(ctx, raw, announced.KeyHash)
	if err != nil {
		return err
	}
	return p.serve(c, hello)
}

func (l *Link) dialer() *net.Dialer {
	d := &net.Dialer{}
	if l.cfg.DialFrom != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(l.cfg.DialFrom)}
	}
	return d
}

// introduce secures the connection, says Hello and checks the answer.
func (p *peer) introduce(ctx context.Context, raw net.Conn, pin string) (*conn, *wire.Hello, error) {
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return nil, nil, err
	}
	tuneSocket(raw)
	secured := tls.Client(raw, p.link.identity.clientTLS(pin))
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	c := p.link.newConn(raw, secured)
	mine := p.link.hello(p.session, p.received.Load())
	if err := p.link.sayHello(ctx, secured, mine); err != nil {
		return nil, nil, err
	}
	hello, err := c.readHello()
	if err == nil {
		err = p.check(mine, hello)
	}
	if err != nil {
		p.link.sayRefusal(secured, ownRefusal(err))
		return nil, nil, err
	}
	return c, hello, nil
}

// check compares names and versions; the key was checked before.
func (p *peer) check(mine, hello *wire.Hello) error {
	if hello.Session != p.session || hello.PeerSession != mine.Session {
		return refuse(ReasonWrongPeer, "%q speaks to %q, expected were %q and %q",
			hello.Session, hello.PeerSession, p.session, mine.Session)
	}
	return compatible(mine, hello)
}

// sayHello is a commit point like any other write.
func (l *Link) sayHello(ctx context.Context, c *tls.Conn, h *wire.Hello) error {
	body, err := proto.Marshal(h)
	if err != nil {
		return fmt.Errorf("encoding the Hello: %w", err)
	}
	f := appendFrame(nil, kindHello, body)
	if err := l.gate.wait(ctx); err != nil {
		return err
	}
	_, err = c.Write(f)
	return err
}

// backoff doubles from least to most and takes a random part of the upper half off, so that nodes do not dial in step.
func backoff(least, most time.Duration, try int) time.Duration {
	d := most
	if try < 16 {
		d = min(most, least<<try)
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return d - time.Duration(binary.BigEndian.Uint64(b[:])%uint64(d/2+1))
}

// pause reports false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
