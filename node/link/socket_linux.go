package link

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much the kernel may hold that is not on the wire yet. Without it megabytes of replication would
// stand in front of a reliable message on a slow path, in a queue that cannot be reordered.
const unsentBytes = 2 * maxFrame

// tuneSocket is best effort: an untuned socket works, only slower.
func tuneSocket(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	control, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = control.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	})
}
