package link

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
)

// greeted is an incoming connection whose peer has proven its key and said a Hello that fits.
type greeted struct {
	conn  *conn
	hello *wire.Hello
}

// acceptLoop serves the connections that the peer dials. A newer one ends the older: the peer dials again only when it
// has given the old one up.
func (p *peer) acceptLoop() {
	for {
		select {
		case g := <-p.greeted:
			err := p.welcome(g)
			if p.ctx.Err() == nil {
				p.link.lost(p.session, err)
			}
		case <-p.ctx.Done():
			p.closeGreeted()
			return
		}
	}
}

// welcome answers the Hello, now that no older connection hands anything over, and serves.
func (p *peer) welcome(g *greeted) error {
	raw := g.conn.raw
	defer context.AfterFunc(p.ctx, func() { _ = raw.Close() })()
	defer raw.Close()
	ctx, cancel := context.WithTimeout(p.ctx, p.link.limits.HandshakeTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return err
	}
	if err := p.link.sayHello(ctx, g.conn.tls, p.link.hello(p.session, p.received.Load())); err != nil {
		return err
	}
	return p.serve(g.conn, g.hello)
}

// offer hands a greeted connection to the peer's goroutine and ends the older ones.
func (p *peer) offer(g *greeted) {
	p.kick()
	p.closeGreeted()
	select {
	case p.greeted <- g:
	default:
		_ = g.conn.raw.Close()
	}
	if p.ctx.Err() != nil {
		p.closeGreeted()
	}
}

func (p *peer) closeGreeted() {
	select {
	case g := <-p.greeted:
		_ = g.conn.raw.Close()
	default:
	}
}

// doorway bounds the connections that have not said Hello yet, in all and by IP address.
type doorway struct {
	mu        sync.Mutex
	total     int
	byAddress map[string]int
}

func (d *doorway) enter(address string, limits Limits) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.total >= limits.Handshakes || d.byAddress[address] >= limits.HandshakesPerAddress {
		return false
	}
	d.total++
	d.byAddress[address]++
	return true
}

func (d *doorway) leave(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total--
	if d.byAddress[address]--; d.byAddress[address] == 0 {
		delete(d.byAddress, address)
	}
}

// accept takes connections until the listener is closed.
func (l *Link) accept() {
	defer l.wg.Done()
	for {
		raw, err := l.listener.Accept()
		if err != nil {
			if l.ctx.Err() != nil {
				return
			}
			l.logOnce("accept", "listener", "accepting link connections fails", "error", err)
			if !pause(l.ctx, acceptPause) {
				return
			}
			continue
		}
		host := remoteHost(raw)
		if !l.doorway.enter(host, l.limits) {
			_ = raw.Close()
			l.refused(host, refuse(ReasonBusy, "too many connections wait for their Hello"))
			continue
		}
		l.wg.Add(1)
		go l.greet(raw, host)
	}
}

// acceptPause spares the processor while the process is out of file descriptors.
const acceptPause = 50 * time.Millisecond

// greet secures an incoming connection, reads its Hello and hands it to its peer, or says why not.
func (l *Link) greet(raw net.Conn, host string) {
	defer l.wg.Done()
	defer l.doorway.leave(host)
	ctx, cancel := context.WithTimeout(l.ctx, l.limits.HandshakeTimeout)
	defer cancel()
	defer context.AfterFunc(l.ctx, func() { _ = raw.Close() })()
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline)
	tuneSocket(raw)
	secured := tls.Server(raw, l.identity.serverTLS())
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		l.refused(host, asRefusal(err))
		return
	}
	c := l.newConn(raw, secured)
	p, hello, err := l.identify(c)
	if err != nil {
		r := asRefusal(err)
		l.refused(who(hello, host), r)
		l.sayRefusal(secured, ownRefusal(r))
		_ = raw.Close()
		return
	}
	p.offer(&greeted{conn: c, hello: hello})
}

// identify finds the live session whose key the connection was made with and whose Hello fits. The Hello is returned if
// the key is that of a live session, whatever else is wrong.
func (l *Link) identify(c *conn) (*peer, *wire.Hello, error) {
	hello, err := c.readHello()
	key := peerKeyHash(c.tls.ConnectionState())
	if key == "" {
		return nil, nil, refuse(ReasonNoCertificate, "the connection shows no certificate")
	}
	if keyErr := l.knownKey(key); keyErr != nil {
		return nil, nil, keyErr
	}
	if err != nil {
		return nil, nil, err
	}
	p := l.find(hello.Session)
	switch {
	case p == nil:
		return nil, nil, refuse(ReasonUnknownSession, "%q is no live session here, or not yet", hello.Session)
	case p.lease().KeyHash != key:
		return nil, nil, refuse(ReasonForeignKey, "the Lease of %s announces another key", hello.Session)
	case hello.Session > l.cfg.Session:
		return nil, hello, refuse(ReasonWrongDirection, "%s has to wait to be dialled by %s", hello.Session, l.cfg.Session)
	}
	return p, hello, p.check(l.hello(p.session, 0), hello)
}

func who(hello *wire.Hello, host string) string {
	if hello != nil {
		return hello.Session
	}
	return host
}

func remoteHost(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
