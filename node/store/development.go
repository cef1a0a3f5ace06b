package store

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Serve runs a store for development until ctx ends: a server of the Redis protocol that keeps everything in this
// process and loses it with this process. listenHost empty means all interfaces; password empty means none. It says on
// standard error where it listens and that it keeps nothing.
func Serve(ctx context.Context, listenHost string, port int, password string) error {
	return serve(ctx, os.Stderr, listenHost, port, password, func(string) {})
}

// serve is Serve with the place for the warning, and a call with the address once it listens.
func serve(
	ctx context.Context, warn io.Writer, listenHost string, port int, password string, listening func(addr string),
) error {
	server := miniredis.NewMiniRedis()
	if password != "" {
		server.RequireAuth(password)
	}
	addr := net.JoinHostPort(listenHost, strconv.Itoa(port))
	if err := server.StartAddr(addr); err != nil {
		return fmt.Errorf("starting the development store on %s (is the port taken? choose another): %w", addr, err)
	}
	defer server.Close()
	if _, err := fmt.Fprintf(warn,
		"DEVELOPMENT STORE on %s: everything is kept in memory only and is LOST when this process ends.\n", server.Addr(),
	); err != nil {
		return fmt.Errorf("announcing the development store: %w", err)
	}
	listening(server.Addr())
	passTime(ctx, server)
	return nil
}

// expiryPeriod is how often the development store forgets what has expired; its server does not look at a clock itself.
const expiryPeriod = 10 * time.Second

// passTime lets keys expire, until ctx ends.
func passTime(ctx context.Context, server *miniredis.Miniredis) {
	tick := time.NewTicker(expiryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			server.FastForward(expiryPeriod)
		}
	}
}
