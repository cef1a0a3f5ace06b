package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/zone"
)

// durableWithin is how long written data may take to become durable: a server that syncs its file every second may put a
// sync off for two.
const durableWithin = 3 * time.Second

// syncKey is written before each wait. A repeat may change nothing, and its first try, by another connection, may not be
// durable yet: the wait covers all that was before the last write of its own connection.
const syncKey = "{sync}"

// errNotDurable: what was written may be lost with the server.
var errNotDurable = errors.New("the store did not say in time that it is durable")

// durability is what a server gives for its reply to a write, and what is waited for beyond that.
type durability struct {
	level string
	// local: the server's file is synced later than it replies, and it can be waited for.
	local bool
	// explained is for people who operate the store.
	explained string
}

var (
	// durabilityUnknown holds until the first connection is made.
	durabilityUnknown  = durability{"unknown", false, "not known yet"}
	durabilityAlways   = durability{"always", false, "the server syncs its append-only file before it replies"}
	durabilityWaited   = durability{"waited", true, "the server syncs its append-only file later, and each write waits for that"}
	durabilityEverySec = durability{"everysec", false, "the server syncs its append-only file every second and can not be waited for: a crash of it may lose the last two seconds"}
	durabilitySystem   = durability{"system", false, "the server leaves it to the operating system when its append-only file is synced: a crash of the machine may lose the last half minute"}
	durabilityNone     = durability{"none", false, "the server writes no append-only file: its end may lose everything"}

	durabilities = []durability{
		durabilityUnknown, durabilityAlways, durabilityWaited, durabilityEverySec, durabilitySystem, durabilityNone,
	}
)

// Durability says in words what a write that was answered OK may rely on, as the server said on the latest connection.
func (r *Redis) Durability() string {
	d := r.durability.Load()
	text := d.level + ": " + d.explained
	if n := r.options.Replicas; n > 0 {
		text += fmt.Sprintf("; each write waits until %d replicas have received it", n)
	}
	return text
}

// greet asks a new connection's server what its reply to a write is worth. Some servers forbid some of the questions.
func (r *Redis) greet(ctx context.Context, conn *redis.Conn) error {
	pipe := conn.Pipeline()
	info := pipe.Do(ctx, "INFO", "persistence")
	config := pipe.Do(ctx, "CONFIG", "GET", "appendfsync")
	wait := pipe.Do(ctx, "WAITAOF", 1, 0, 1)
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, c := range []*redis.Cmd{info, config, wait} {
		var refused redis.Error
		err := c.Err()
		if err != nil && (!errors.As(err, &refused) || strings.HasPrefix(err.Error(), "NOAUTH")) {
			return err // also a connection without a password that is asked for: the next one may have it
		}
	}
	r.learn(durabilityOf(info, config, wait))
	return nil
}

// durabilityOf weighs the answers. A wait that is allowed tells that there is a file.
func durabilityOf(info, config, wait *redis.Cmd) durability {
	sync := ""
	if pair, err := config.Slice(); err == nil && len(pair) == 2 {
		sync, _ = pair[1].(string)
	}
	text, _ := info.Text()
	switch {
	case strings.Contains(text, "aof_enabled:0"), wait.Err() != nil && strings.Contains(wait.Err().Error(), "appendonly is disabled"):
		return durabilityNone
	case wait.Err() != nil && !strings.Contains(text, "aof_enabled:1"):
		return durabilityUnknown
	case sync == "always":
		return durabilityAlways
	case sync == "no":
		return durabilitySystem
	case wait.Err() == nil:
		return durabilityWaited
	}
	return durabilityEverySec
}

// learn keeps what the latest server gives, and says so when it is another than before.
func (r *Redis) learn(d durability) {
	if before := r.durability.Swap(&d); *before == d {
		return
	}
	r.metrics.durable(d)
	r.options.Logger.Info("durability of the store", "level", d.level, "meaning", r.Durability())
}

// lane is the connection of one batch: whoever waits for durability has to use the connection that wrote.
type lane struct {
	redis *Redis
	conn  interface{ Pipeline() redis.Pipeliner }
	close func() error
}

func (r *Redis) lane() lane {
	client, ok := r.client.(*redis.Client)
	if !ok {
		return lane{r, r.client, func() error { return nil }}
	}
	// The time-out of a round trip is that of its context; this one has to be long enough for a wait.
	conn := client.WithTimeout(r.options.Timeout + durableWithin).Conn()
	return lane{r, conn, conn.Close}
}

// waits reports whether writes have to be waited for after they were replied to.
func (r *Redis) waits() bool { return r.durability.Load().local || r.options.Replicas > 0 }

// settle returns when all that was written by the lane, and all that it saw, is durable.
func (l lane) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.redis.options.Timeout+durableWithin)
	defer cancel()
	pipe := l.conn.Pipeline()
	pipe.Set(ctx, syncKey, l.redis.writer, 0)
	var local, replicas *redis.Cmd
	if l.redis.durability.Load().local {
		local = pipe.Do(ctx, "WAITAOF", 1, 0, durableWithin.Milliseconds())
	}
	want := l.redis.options.Replicas
	if want > 0 {
		replicas = pipe.Do(ctx, "WAIT", want, durableWithin.Milliseconds())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("waiting until it is durable: %w", err)
	}
	if local != nil {
		if synced, err := local.Int64Slice(); err != nil || len(synced) == 0 || synced[0] < 1 {
			return fmt.Errorf("its own file: %w", errNotDurable)
		}
	}
	if replicas != nil {
		if n, err := replicas.Int(); err != nil || n < want {
			return fmt.Errorf("%d of %d replicas: %w", n, want, errNotDurable)
		}
	}
	return nil
}

// settle answers what was held back until it is durable.
func (w *worker) settle(l lane, held []*task) {
	if len(held) == 0 {
		return
	}
	err := l.settle(w.redis.ctx)
	for _, t := range held {
		if err != nil {
			w.redis.report(t.job, err)
			*t.held = answer(t.req, zone.StoreUnavailable)
		}
		w.redis.answer(t.job, *t.held)
	}
}
