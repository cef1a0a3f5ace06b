package store

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// maxPasswordFile bounds the password file, in bytes.
const maxPasswordFile = 4096

// Options tune a Redis driver. The zero value has sensible ones, but no fence: only tools that own no session use it so.
type Options struct {
	// Now reads CLOCK_BOOTTIME; Fence is the deadline by that clock. Both or none. They are called from several
	// goroutines, right before every write.
	Now   func() time.Duration
	Fence func() time.Duration
	// HoldFor is how long writes past the deadline wait for its renewal, then they are answered StoreUnavailable.
	// Default 5 s.
	HoldFor time.Duration
	// Timeout bounds one round trip, a new connection included. Default 1 s.
	Timeout time.Duration
	// Queue bounds the requests that wait, over all workers. Default 4096.
	Queue int
	// Workers carry out requests about entities and accounts, each over a connection of its own; one more carries out loads
	// of regions. Default 4.
	Workers int
	// Batch bounds how many requests one worker sends at once. Default 64.
	Batch int
	// TLS is used with rediss:// URLs; nil trusts the machine's authorities.
	TLS *tls.Config
	// Logger gets what operators should know; nil logs nothing.
	Logger *slog.Logger
	// Registerer gets the metrics; nil registers none.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() (Options, error) {
	if (o.Now == nil) != (o.Fence == nil) {
		return o, errors.New("store options have a clock without a fence, or a fence without a clock")
	}
	o.HoldFor = orDefault(o.HoldFor, 5*time.Second)
	o.Timeout = orDefault(o.Timeout, time.Second)
	o.Queue = orDefault(o.Queue, 4096)
	o.Workers = orDefault(o.Workers, 4)
	o.Batch = orDefault(o.Batch, 64)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// clientOptions says how to connect. The client never repeats a command by itself: repeats are the heart's decision.
func clientOptions(rawURL, passwordFile string, o Options) (*redis.UniversalOptions, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" || (u.Scheme != "redis" && u.Scheme != "rediss") {
		return nil, errors.New("store URL is not of the form redis://host:port or rediss://host:port")
	}
	if _, set := u.User.Password(); set {
		return nil, errors.New("store URL has a password in it: put it into a file and name that")
	}
	db, err := database(u.Path)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	if u.Scheme == "rediss" && o.TLS == nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	opts := &redis.UniversalOptions{
		Addrs:                    []string{net.JoinHostPort(u.Hostname(), port)},
		DB:                       db,
		Protocol:                 2,
		MaxRetries:               -1,
		DialerRetries:            1,
		DialTimeout:              o.Timeout,
		ReadTimeout:              o.Timeout,
		WriteTimeout:             o.Timeout,
		PoolTimeout:              o.Timeout,
		ContextTimeoutEnabled:    true,
		PoolSize:                 o.Workers + 1 + tokenUses,
		PipelinePoolSize:         -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		CredentialsProviderContext: func(context.Context) (string, string, error) {
			password, err := readPassword(passwordFile)
			return u.User.Username(), password, err
		},
	}
	opts.Dialer = fencedDialer(o, u.Scheme == "rediss")
	return opts, nil
}

// database reads the number of the database from the path of a URL; without one it is 0.
func database(path string) (int, error) {
	if path == "" || path == "/" {
		return 0, nil
	}
	db, err := strconv.ParseUint(path[1:], 10, 16)
	if err != nil {
		return 0, fmt.Errorf("store URL names database %q: use a number", path[1:])
	}
	return int(db), nil
}

// readPassword reads a password from a file, anew for each connection, so that it may be changed. No file: no password.
func readPassword(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the store's password: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPasswordFile+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the store's password: %w", err)
	case len(b) > maxPasswordFile:
		return "", fmt.Errorf("password file %s is larger than %d bytes", path, maxPasswordFile)
	}
	return string(bytes.TrimRight(b, "\r\n")), nil
}
