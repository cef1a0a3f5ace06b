package store

import (
	"context"
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

// fencedConn writes nothing at or after the deadline. It compares the clock with the fence once more at each write to the
// socket: between a worker's own look and the socket there may be the dialling of a new connection, or a pause of the whole
// process.
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
