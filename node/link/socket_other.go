//go:build !linux

package link

import "net"

func tuneSocket(net.Conn) {}
