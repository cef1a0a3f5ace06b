package store

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/store/connect"
)

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
	// Replicas is how many replicas have to have received a write before it is answered. Default 0.
	Replicas int
	// UsernameFile has the user's name; empty: the one in the URL, or the default user. Read anew for each connection.
	UsernameFile string
	// SentinelUsernameFile and SentinelPasswordFile are for sentinels that ask for credentials; empty: none.
	SentinelUsernameFile, SentinelPasswordFile string
	// CAFile has the authorities, as PEM, that may sign the store's certificate; empty: those that the machine trusts.
	CAFile string
	// DialFrom is the address that connections come from; empty: any.
	DialFrom string
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

// clientOptions says how the driver connects: each connection compares the clock with the fence at each write.
func clientOptions(url, passwordFile string, o Options) (*redis.UniversalOptions, error) {
	c, err := connect.Files{
		Username: o.UsernameFile, Password: passwordFile, CA: o.CAFile,
		SentinelUsername: o.SentinelUsernameFile, SentinelPassword: o.SentinelPasswordFile,
	}.Config(url)
	if err != nil {
		return nil, err
	}
	c.Timeout, c.From = o.Timeout, o.DialFrom
	c.Wrap = func(conn net.Conn) net.Conn { return &fencedConn{Conn: conn, options: o} }
	opts, err := c.Options()
	if err != nil {
		return nil, err
	}
	opts.PoolSize = o.Workers + 1 + tokenUses
	return opts, nil
}
