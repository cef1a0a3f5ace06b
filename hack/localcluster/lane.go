package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// lanes is how many clusters fit on one computer.
const lanes = 16

// lane is a cluster's share of the loopback addresses. It is held by an abstract socket, which exists once per network
// namespace, as loopback addresses do, and which the kernel gives back however the holder dies.
type lane struct {
	number int
	hold   net.Listener
}

func laneSocket(n int) string { return "@spatialcells-localcluster-" + strconv.Itoa(n) }

// takeLane takes the wanted lane, or the first free one when want is negative.
func takeLane(want int) (*lane, error) {
	if want >= lanes {
		return nil, fmt.Errorf("lane %d does not exist", want)
	}
	first, last := 0, lanes-1
	if want >= 0 {
		first, last = want, want
	}
	var lc net.ListenConfig
	for n := first; n <= last; n++ {
		l, err := lc.Listen(context.Background(), "unix", laneSocket(n))
		if err == nil {
			return &lane{n, l}, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("taking loopback addresses: %w", err)
		}
	}
	if want >= 0 {
		return nil, fmt.Errorf("the addresses of this cluster (127.%d and 127.%d) are in use by another local cluster, %s: stop that one, or start this one fresh",
			20+want, 96+want, laneHolder(want))
	}
	return nil, fmt.Errorf("all %d address ranges for local clusters are in use, the first by %s", lanes, laneHolder(0))
}

func laneHolder(n int) string {
	var d net.Dialer
	c, err := d.DialContext(context.Background(), "unix", laneSocket(n))
	if err != nil {
		return "an unknown process"
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return "an unknown process"
	}
	name := "an unknown process"
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			name = processName(strconv.Itoa(int(cred.Pid)))
		}
	})
	return name
}

func (l *lane) podPrefix() (a, b byte) { return 127, byte(20 + l.number) }

func (l *lane) serviceRange() string { return fmt.Sprintf("127.%d.0.0/16", 96+l.number) }

func (l *lane) firstService() net.IP { return net.IPv4(127, byte(96+l.number), 0, 1) }

// machine returns the address of the machine's own API; pods never get it.
func (l *lane) machine(i int) string { return fmt.Sprintf("127.%d.255.%d", 20+l.number, i+1) }
