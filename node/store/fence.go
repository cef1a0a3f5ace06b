package store

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// errLate: the deadline has passed and was not renewed in time.
var errLate = errors.New("the fence's deadline has passed")

// holdPoll is how often a held write looks whether the fence was renewed.
const holdPoll = 5 * time.Millisecond

// fenced reports whether the deadline has passed, by reading the clock itself.
func (o Options) fenced() bool {
	return o.Fence != nil && o.Now() >= o.Fence()
}

// awaitFence returns when writing is allowed, or errLate after HoldFor, or the context's error.
func (o Options) awaitFence(ctx context.Context) error {
	if !o.fenced() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.HoldFor, errLate)
	defer cancel()
	tick := time.NewTicker(holdPoll)
	defer tick.Stop()
	for o.fenced() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// fencedDialer makes connections that compare the clock with the fence once more at each write to the socket: between a
// worker's own look and the socket there may be the dialling of a new connection, or a pause of the whole process.
func fencedDialer(o Options, secure bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialer := &net.Dialer{Timeout: o.Timeout, KeepAlive: 15 * time.Second}
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn = &fencedConn{Conn: conn, options: o}
		if !secure {
			return conn, nil
		}
		return secured(ctx, conn, addr, o.TLS)
	}
}

func secured(ctx context.Context, conn net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	config = config.Clone()
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		config.ServerName = host
	}
	c := tls.Client(conn, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// fencedConn writes nothing at or after the deadline.
type fencedConn struct {
	net.Conn
	options Options
}

// Write refuses what is late. The client gives up the connection then, with whatever it still had in its buffer.
func (c *fencedConn) Write(b []byte) (int, error) {
	if c.options.fenced() {
		return 0, errLate
	}
	return c.Conn.Write(b)
}

// NetConn lets the client see whether the server has closed an idle connection.
func (c *fencedConn) NetConn() net.Conn { return c.Conn }
