package store

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// Driver takes store requests of an engine. The answers go to the function that it was made with, once per request.
type Driver interface {
	// Submit never blocks. The answer may come before it returns.
	Submit(req zone.StoreRequest)
	// UseToken records the name of a login token for at least keep, and reports whether it was recorded before, by any
	// node of the world. An error means "not known to be done". It blocks for a round trip, or until ctx ends.
	UseToken(ctx context.Context, name string, keep time.Duration) (used bool, err error)
	// Close answers what is open with StoreUnavailable, and ends everything that the driver started. Requests after it are
	// answered so, too.
	Close() error
}

// Open makes the driver that url names: "memory" (kept by this process alone, lost with it), "redis://host:port",
// "rediss://host:port" for TLS, or "redis+sentinel://host:port,host:port/primary-name". It does not wait for the store to be reachable. See New for the other parameters.
func Open(
	ctx context.Context, url, passwordFile string, deliver func(zone.StoreAnswer), opts Options,
) (Driver, error) {
	switch {
	case url == "memory":
		return Local(&Memory{}, deliver), nil
	case strings.HasPrefix(url, "redis"):
		return New(ctx, url, passwordFile, deliver, opts)
	}
	return nil, fmt.Errorf("store %q is unknown: use memory, redis://host:port, rediss://host:port or redis+sentinel://host:port/primary-name", url)
}

// Local makes a driver of a store in memory. It answers within Submit.
func Local(m *Memory, deliver func(zone.StoreAnswer)) Driver {
	return &local{memory: m, deliver: deliver}
}

type local struct {
	memory  *Memory
	deliver func(zone.StoreAnswer)
	closed  atomic.Bool
}

func (l *local) Submit(req zone.StoreRequest) {
	if l.closed.Load() {
		l.deliver(answer(req, zone.StoreUnavailable))
		return
	}
	l.deliver(l.memory.Do(req))
}

// UseToken records nothing: this process is the only one with this store, and its gateway remembers tokens by itself.
func (l *local) UseToken(context.Context, string, time.Duration) (bool, error) { return false, nil }

func (l *local) Close() error {
	l.closed.Store(true)
	return nil
}
