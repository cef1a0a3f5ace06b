package gateway

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// sendBuffer is the kernel's share of what waits for a client, so that a slow reader shows early and 5 000 of them do not
// fill the machine.
const sendBuffer = 256 << 10

// patientListener hands out sockets whose writes fail only when the peer takes in nothing for stall.
type patientListener struct {
	net.Listener
	stall time.Duration
}

// Accept waits for the next socket.
func (l patientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := &patientConn{Conn: c, stall: l.stall}
	if b, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = b.SetWriteBuffer(sendBuffer) // only a hint; without it the backlog limit still holds
	}
	return s, nil
}

// patientConn fails a write when it makes no progress for stall, or at the time set by finishBy, however long the write is.
type patientConn struct {
	net.Conn
	stall  time.Duration
	finish atomic.Int64 // Unix nanoseconds; 0: none
}

// Write writes all of b or fails with a time-out.
func (c *patientConn) Write(b []byte) (int, error) {
	written := 0
	for {
		n, err := c.writeSome(b[written:])
		written += n
		if written == len(b) || !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || c.finished() {
			return written, err
		}
	}
}

// writeSome makes one try with a deadline that finishBy may shorten at any moment.
func (c *patientConn) writeSome(b []byte) (int, error) {
	for {
		finish := c.finish.Load()
		deadline := now().Add(c.stall)
		if finish != 0 && finish < deadline.UnixNano() {
			deadline = time.Unix(0, finish)
		}
		if err := c.Conn.SetWriteDeadline(deadline); err != nil {
			return 0, err
		}
		if c.finish.Load() == finish { // else finishBy may have set its deadline before ours
			return c.Conn.Write(b)
		}
	}
}

// finishBy sets the last moment for all writes from now on, also for one that is under way.
func (c *patientConn) finishBy(t time.Time) {
	c.finish.Store(t.UnixNano())
	_ = c.Conn.SetWriteDeadline(t) // fails on a closed socket only
}

// finished reports whether the last moment has passed.
func (c *patientConn) finished() bool {
	finish := c.finish.Load()
	return finish != 0 && now().UnixNano() >= finish
}

// SetWriteDeadline does nothing: deadlines are this type's own.
func (c *patientConn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the deadline of reads only.
func (c *patientConn) SetDeadline(t time.Time) error { return c.Conn.SetReadDeadline(t) }
