package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// ProtocolVersion is the client protocol that this gateway speaks. OldestProtocolVersion is the oldest that it accepts.
const (
	ProtocolVersion       = 1
	OldestProtocolVersion = 1
)

// Handler receives what clients do. It is called from one goroutine per connection and must not block.
type Handler interface {
	Client(ev zone.ClientEvent)
}

// Identity is who a token speaks for.
type Identity struct {
	Account uint64
	// Name to show to others; may be empty.
	Name string
	// Spawn is where a new master appears; nil unless a development token asks for a place. Canonical only after
	// Grid.Wrap.
	Spawn *torus.Pos
	// Expires is when the token ends. A connection made with it goes on.
	Expires time.Time
}

// TokenVerifier checks a token and uses it up. An error is a *TokenError or means that the check could not be made now.
type TokenVerifier interface {
	Verify(ctx context.Context, token string) (Identity, error)
}

// Config says where to listen, whom to trust and whom to tell.
type Config struct {
	// ListenHost is the address to listen on; empty means all interfaces.
	ListenHost string
	// Port to listen on; 0 takes a free one, see Server.Addr.
	Port int
	// Handler receives the events of authenticated connections. Required.
	Handler Handler
	// Tokens decides who may connect. Required.
	Tokens TokenVerifier
	// World and Node name this world and pod in logs and messages.
	World string
	Node  string
	// Grid makes the spawn position of a token canonical; the zero Grid leaves it as it is.
	Grid torus.Grid
	// AllowedOrigins lists the web origins ("https://play.example.com") whose pages may connect, besides the host that
	// was asked itself; "*" admits every page. Clients that are no browsers send no origin and are always admitted.
	AllowedOrigins []string
	// Limits; zero fields take their default.
	Limits Limits
	// Log receives one line per refused or ended connection; nil discards.
	Log *slog.Logger
	// Metrics is where the collectors are registered; nil registers none.
	Metrics prometheus.Registerer
	// Fence is the deadline and Now the clock (CLOCK_BOOTTIME), both as the heart sees them: client data is written only
	// while Now() < Fence(). Required.
	Fence func() time.Duration
	Now   func() time.Duration
}

// Limits bound what a client may cost. A zero field means the default; a negative one is an error.
type Limits struct {
	// Auth is the time from the open socket to a verified token. 5 s.
	Auth time.Duration
	// BytesBeforeAuth and BytesAfterAuth bound one message. 8 KiB and 64 KiB.
	BytesBeforeAuth int
	BytesAfterAuth  int
	// MessagesPerSecond and Burst bound the frames of a client, WebSocket pings and pongs included. 50 and 200.
	MessagesPerSecond float64
	Burst             int
	// Connections bounds all authenticated connections. 5 000.
	Connections int
	// Pending bounds the sockets that have not authenticated yet. 512.
	Pending int
	// PerAddress bounds the connections of one IPv4 address or IPv6 /64. 0 is off: behind a proxy all clients share one.
	PerAddress int
	// Idle is the longest silence of a client. 30 s.
	Idle time.Duration
	// Backlog bounds the bytes that wait to be written to one client. 4 MiB.
	Backlog int
	// Stall is the longest time a write may take in none of its bytes. 10 s.
	Stall time.Duration
	// Hold is the longest time that data waits for the fence. 2 min.
	Hold time.Duration
	// Farewell is how long a closing socket may take to accept what is queued and its Disconnected, and how long the
	// client may take to hang up. 2 s.
	Farewell time.Duration
}

// refusals bounds the sockets that are told at the same time that there is no room for them; above it they get HTTP 503.
const refusals = 64

// DefaultLimits are the limits of the zero Limits.
func DefaultLimits() Limits {
	return Limits{
		Auth: 5 * time.Second, BytesBeforeAuth: 8 << 10, BytesAfterAuth: 64 << 10,
		MessagesPerSecond: 50, Burst: 200, Connections: 5000, Pending: 512,
		Idle: 30 * time.Second, Backlog: 4 << 20, Stall: 10 * time.Second, Hold: 2 * time.Minute, Farewell: 2 * time.Second,
	}
}

// withDefaults fills zero fields.
func (l Limits) withDefaults() (Limits, error) {
	if l.Auth < 0 || l.BytesBeforeAuth < 0 || l.BytesAfterAuth < 0 || l.MessagesPerSecond < 0 || l.Burst < 0 ||
		l.Connections < 0 || l.Pending < 0 || l.PerAddress < 0 || l.Idle < 0 || l.Backlog < 0 || l.Stall < 0 ||
		l.Hold < 0 || l.Farewell < 0 {
		return l, fmt.Errorf("gateway limits: no limit may be negative: %+v", l)
	}
	d := DefaultLimits()
	fill(&l.Auth, d.Auth)
	fill(&l.BytesBeforeAuth, d.BytesBeforeAuth)
	fill(&l.BytesAfterAuth, d.BytesAfterAuth)
	fill(&l.MessagesPerSecond, d.MessagesPerSecond)
	fill(&l.Burst, d.Burst)
	fill(&l.Connections, d.Connections)
	fill(&l.Pending, d.Pending)
	fill(&l.Idle, d.Idle)
	fill(&l.Backlog, d.Backlog)
	fill(&l.Stall, d.Stall)
	fill(&l.Hold, d.Hold)
	fill(&l.Farewell, d.Farewell)
	return l, nil
}

// fill replaces a zero limit by its default.
func fill[T comparable](v *T, byDefault T) {
	var zero T
	if *v == zero {
		*v = byDefault
	}
}

// check returns the configuration with defaults filled in, or says what is missing.
func (c Config) check() (Config, error) {
	var err error
	if c.Limits, err = c.Limits.withDefaults(); err != nil {
		return c, err
	}
	if c.Handler == nil || c.Tokens == nil || c.Fence == nil || c.Now == nil {
		return c, errors.New("gateway: Handler, Tokens, Fence and Now are required")
	}
	for _, o := range c.AllowedOrigins {
		if _, ok := originHost(o); o != "*" && !ok {
			return c, fmt.Errorf(`gateway: allowed origin %q: use scheme://host[:port] or "*"`, o)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("world", c.World, "node", c.Node)
	return c, nil
}
