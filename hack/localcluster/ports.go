package localcluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Free ports are looked for below the range from which the kernel picks ports for outgoing connections.
const (
	firstPort = 20000
	lastPort  = 29999
)

// freePort returns the wanted loopback port if it is free, an error that names its owner if not; 0 finds one.
func freePort(want int, taken map[int]bool) (int, error) {
	if want != 0 {
		err := tryPort(want)
		if errors.Is(err, syscall.EADDRINUSE) {
			return 0, fmt.Errorf("port %d is in use by %s: stop it or choose another port", want, portOwner(want))
		}
		return want, err
	}
	for range 1000 {
		p := firstPort + rand.IntN(lastPort-firstPort+1)
		if !taken[p] && tryPort(p) == nil {
			taken[p] = true
			return p, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 between %d and %d", firstPort, lastPort)
}

func tryPort(port int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// portOwner names the process that listens on a TCP port, as far as this user may know.
func portOwner(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, _ := os.ReadFile(table)
		for _, line := range strings.Split(string(raw), "\n") {
			if inode, ok := listener(line, port); ok {
				inodes["socket:["+inode+"]"] = true
			}
		}
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && inodes[target] {
			pid := strings.Split(fd, "/")[2]
			return processName(pid)
		}
	}
	return "a process of another user"
}

// listener parses a line of /proc/net/tcp and returns the inode of a socket that listens on port.
func listener(line string, port int) (string, bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return "", false
	}
	_, hex, ok := strings.Cut(f[1], ":")
	n, err := strconv.ParseUint(hex, 16, 16)
	return f[9], ok && err == nil && int(n) == port
}

func processName(pid string) string {
	comm, _ := os.ReadFile("/proc/" + pid + "/comm")
	return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(comm)))
}
