package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/zone"
)

// ErrBusy: so much is written that no state of the whole store was found.
var ErrBusy = errors.New("the world is written to faster than it can be read: try again when less goes on, or pause it")

const (
	// scanned is how many keys a SCAN is asked to look at.
	scanned = 1000
	// maxTransaction bounds what one transaction reads, in bytes: the server does nothing else meanwhile.
	maxTransaction = 64 << 20
	// progressPeriod is the time between two lines about how far it is.
	progressPeriod = 5 * time.Second
	// timeout bounds one round trip, which may bring a whole batch.
	timeout = 30 * time.Second
	// attempts is how often a read is tried.
	attempts = 3
)

// Options say how a store is read. The zero value has sensible ones.
type Options struct {
	// Batch bounds how many holders are in memory at once with all they have. Default 64.
	Batch int
	// Passes is how often the stamps of all holders are read, at most, until nothing has changed. Default 256.
	Passes int
	// Wait is the time between two passes. Default 50 ms.
	Wait time.Duration
	// Saves makes a save of a record a change, too: for readers to whom the blob matters.
	Saves bool
	// Each, if set, gets all fields of each holder as they are read first, as name, value, name, value ... The holders that
	// changed meanwhile come again, as of the instant of the snapshot, or without fields if they are not there any more.
	Each func(h zone.Holder, fields []any) error
	// Logger is told how far it is; nil: nobody is.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Batch <= 0 {
		o.Batch = 64
	}
	if o.Passes <= 0 {
		o.Passes = 256
	}
	if o.Wait <= 0 {
		o.Wait = 50 * time.Millisecond
	}
	if o.Each == nil {
		o.Each = func(zone.Holder, []any) error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Client makes a client for a whole store: it waits longer than a node does, and repeats what failed, so it is for commands
// that may be repeated.
func Client(c connect.Config) (redis.UniversalClient, error) {
	c.Timeout = timeout
	opts, err := c.Options()
	if err != nil {
		return nil, err
	}
	opts.MaxRetries = attempts
	return redis.NewUniversalClient(opts), nil
}

// Read reads all holders of a store as of one instant, while it is written to. See the package comment. With ErrBusy the
// world is what was met, as of no instant.
func Read(ctx context.Context, client redis.UniversalClient, opts Options) (*World, error) {
	r := &reader{client: client, options: opts.withDefaults(), world: NewWorld(), inUse: map[zone.Holder]bool{}, told: time.Now()}
	if err := r.first(ctx); err != nil {
		return nil, err
	}
	var last [][]any
	for pass := 1; pass <= r.options.Passes; pass++ {
		changed, err := r.again(ctx, pass)
		if err != nil {
			return nil, err
		}
		if changed == 0 {
			r.world.passes, r.world.busy = pass, len(r.inUse)
			return r.world, r.deliver(last)
		}
		if err := sleep(ctx, r.options.Wait); err != nil {
			return nil, err
		}
		last, err = r.transaction(ctx)
		if errors.Is(err, ErrBusy) {
			return r.world, err
		}
		if err != nil {
			return nil, err
		}
		if time.Since(r.told) > progressPeriod {
			r.told = time.Now()
			r.options.Logger.Info("waiting for a point in time", "pass", pass, "holders", len(r.world.holders), "inUse", len(r.list), "changed", changed)
		}
	}
	return r.world, fmt.Errorf("%w (%d holders were in use in %d passes)", ErrBusy, len(r.inUse), r.options.Passes)
}

type reader struct {
	client  redis.UniversalClient
	options Options
	world   *World
	// inUse are the holders that are not quiet, in the order of list.
	inUse map[zone.Holder]bool
	list  []zone.Holder
	told  time.Time
}

// first reads all holders.
func (r *reader) first(ctx context.Context) error {
	return eachHolder(ctx, r.client, r.options.Batch, func(batch []zone.Holder) error {
		batch = r.unknown(batch)
		replies, err := hashes(ctx, r.client.Pipeline(), batch)
		if err != nil {
			return err
		}
		for i, h := range batch {
			if err := r.take(h, replies[i]); err != nil {
				return err
			}
			if err := r.options.Each(h, replies[i].fields); err != nil {
				return err
			}
		}
		if time.Since(r.told) > progressPeriod {
			r.told = time.Now()
			r.options.Logger.Info("reading the store", "holders", len(r.world.holders))
		}
		return nil
	})
}

// unknown leaves out what a scan has named before.
func (r *reader) unknown(batch []zone.Holder) []zone.Holder {
	var list []zone.Holder
	for _, h := range batch {
		if r.world.holders[h] == nil {
			list = append(list, h)
		}
	}
	return list
}

// take keeps what a holder has.
func (r *reader) take(h zone.Holder, got reply) error {
	if got.bad == nil && len(got.fields) == 0 {
		delete(r.world.holders, h)
		return nil
	}
	now := &holding{bad: got.bad}
	if got.bad == nil {
		now = read(h, got.fields)
	}
	r.world.put(h, now).stamp = r.stamp(got.fields)
	return nil
}

// stampFields are what every write to the contents changes; version is raised by saves and claims, too.
var stampFields = []string{"moves", "write", "version"}

func (r *reader) stampNames() []string {
	if r.options.Saves {
		return stampFields
	}
	return stampFields[:2]
}

func (r *reader) stamp(fields []any) string {
	values := make([]any, len(r.stampNames()))
	for i := 0; i+1 < len(fields); i += 2 {
		for n, name := range r.stampNames() {
			if fields[i] == name {
				values[n] = fields[i+1]
			}
		}
	}
	return fmt.Sprintf("%q", values)
}

// again looks for holders that are not as they were, and returns how many more are in use.
func (r *reader) again(ctx context.Context, pass int) (int, error) {
	before := len(r.inUse)
	err := eachHolder(ctx, r.client, scanned, func(batch []zone.Holder) error {
		pipe := r.client.Pipeline()
		var replies []*redis.SliceCmd
		for _, h := range batch {
			replies = append(replies, pipe.HMGet(ctx, store.HolderKey(h), r.stampNames()...))
		}
		if err := exec(ctx, pipe); err != nil {
			return err
		}
		for i, h := range batch {
			known := r.world.holders[h]
			if known == nil {
				r.use(h)
				continue
			}
			known.seen = pass
			values := replies[i].Val()
			if replies[i].Err() != nil {
				values = make([]any, len(r.stampNames())) // no hash, as before
			}
			if fmt.Sprintf("%q", values) != known.stamp {
				r.use(h)
			}
		}
		return nil
	})
	for h, known := range r.world.holders {
		if known.seen != pass { // nothing is ever removed, but by hand or by a failover
			r.use(h)
		}
	}
	return len(r.inUse) - before, err
}

func (r *reader) use(h zone.Holder) {
	if !r.inUse[h] {
		r.inUse[h] = true
		r.list = append(r.list, h)
	}
}

// transaction reads all holders in use at one instant. What Options.Each has to get is returned.
func (r *reader) transaction(ctx context.Context) ([][]any, error) {
	size := 0
	for _, h := range r.list {
		if known := r.world.holders[h]; known != nil {
			size += known.size
		}
	}
	if size > maxTransaction {
		return nil, fmt.Errorf("%w (%d holders in use have %d bytes)", ErrBusy, len(r.list), size)
	}
	replies, err := hashes(ctx, r.client.TxPipeline(), r.list)
	if err != nil {
		return nil, err
	}
	all := make([][]any, len(replies))
	for i, h := range r.list {
		if err := r.take(h, replies[i]); err != nil {
			return nil, err
		}
		all[i] = replies[i].fields
	}
	return all, nil
}

// deliver hands over what the last transaction read.
func (r *reader) deliver(last [][]any) error {
	for i, fields := range last {
		if err := r.options.Each(r.list[i], fields); err != nil {
			return err
		}
	}
	return nil
}

// reply is what was read of one key: fields, or why they are none of ours.
type reply struct {
	fields []any
	bad    error
}

// hashes reads whole hashes, in the order of the holders.
func hashes(ctx context.Context, pipe redis.Pipeliner, holders []zone.Holder) ([]reply, error) {
	var replies []*redis.SliceCmd
	for _, h := range holders {
		cmd := redis.NewSliceCmd(ctx, "hgetall", store.HolderKey(h))
		_ = pipe.Process(ctx, cmd) // it only queues
		replies = append(replies, cmd)
	}
	if len(holders) == 0 {
		return nil, nil
	}
	if err := exec(ctx, pipe); err != nil {
		return nil, err
	}
	list := make([]reply, len(replies))
	for i, cmd := range replies {
		list[i] = reply{cmd.Val(), cmd.Err()}
	}
	return list, nil
}

// exec sends what is queued. That a key is of another type is the key's affair, every other error means that the store can
// not be read.
func exec(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if err == nil {
		return nil
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return fmt.Errorf("reading the store: %w", err)
		}
	}
	return nil
}

// EachKey names all keys that are there all the time, some twice, in batches.
func EachKey(ctx context.Context, client redis.UniversalClient, do func(names []string) error) error {
	for cursor := uint64(0); ; {
		names, next, err := client.Scan(ctx, cursor, "", scanned).Result()
		if err != nil {
			return fmt.Errorf("reading the names of keys: %w", err)
		}
		if err := do(names); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// eachHolder names all holders, in batches of a size.
func eachHolder(ctx context.Context, client redis.UniversalClient, size int, do func([]zone.Holder) error) error {
	return EachKey(ctx, client, func(names []string) error {
		var batch []zone.Holder
		for _, name := range names {
			if k := store.ParseKey(name); k.Kind == store.KeyRecord || k.Kind == store.KeyGround {
				batch = append(batch, k.Holder)
			}
		}
		for len(batch) > 0 {
			n := min(size, len(batch))
			if err := do(batch[:n]); err != nil {
				return err
			}
			batch = batch[n:]
		}
		return nil
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
