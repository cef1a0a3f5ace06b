package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/audit"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/zone"
)

const (
	// marker is in the store from before the first key of an import until it is through. Its value is the checksum of the
	// file.
	marker = "spatialcells:import"
	// syncKey is written before a wait for durability, as nodes do.
	syncKey = "{sync}"
	// maxPipe bounds what is sent at once, in bytes, but for one entry.
	maxPipe = 1 << 20
	// maxFieldsAtOnce bounds the fields of one command.
	maxFieldsAtOnce = 1000
	// progressPeriod is the time between two lines about how far it is.
	progressPeriod = 5 * time.Second
	// syncTimeout bounds the wait for the server's disk.
	syncTimeout = 20 * time.Second
)

var (
	// ErrNotEmpty: the store has keys already.
	ErrNotEmpty = errors.New("the store is not empty")
	// ErrOtherImport: an import of another file was begun and is not through.
	ErrOtherImport = errors.New("an import of another file was broken off in this store: go on with that one, or empty the store")
)

// Import writes the world in a file to an empty store, and returns what the auditor finds there. No node may run on the
// store. See the package comment for what it does when it is interrupted.
func Import(ctx context.Context, c connect.Config, file string, opts audit.Options) (*audit.Report, error) {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	content, err := load(ctx, file)
	if err != nil {
		return nil, err
	}
	if r := content.audit(); r.Found > 0 {
		return r, fmt.Errorf("the file is not taken: %w", ErrFaults)
	}
	report, err := connect.Inspect(ctx, c)
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking at the store: %w", err)
	case report.Loading || !report.Primary():
		return nil, fmt.Errorf("the store takes no writes now: its role is %q, loading %v", report.Role, report.Loading)
	}
	client, err := audit.Client(c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	if err := begin(ctx, client, content.sum); err != nil {
		return nil, err
	}
	w := &writer{client: client, content: content, log: log, told: time.Now()}
	if err := w.all(ctx, file); err != nil {
		return nil, fmt.Errorf("writing the store (begin again with the same file to go on): %w", err)
	}
	found, err := audit.Run(ctx, client, opts)
	if err != nil {
		return nil, fmt.Errorf("looking at what was written: %w", err)
	}
	if found.Found > 0 {
		return found, fmt.Errorf("the store is not as the file: %w", ErrFaults)
	}
	return found, finish(ctx, client, report, content.header.StoreID, log)
}

// begin marks an empty store, or finds it marked for the same file.
func begin(ctx context.Context, client redis.UniversalClient, sum string) error {
	begun, err := marked(ctx, client, sum)
	if begun || err != nil {
		return err
	}
	err = audit.EachKey(ctx, client, func(names []string) error {
		for _, name := range names {
			if name != connect.Key && name != syncKey {
				return fmt.Errorf("%w: it has the key %.80q; import into a fresh one, or a fresh database of it", ErrNotEmpty, name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := client.SetNX(ctx, marker, sum, 0).Err(); err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	begun, err = marked(ctx, client, sum)
	if err == nil && !begun {
		err = errors.New("the store does not keep what it is given")
	}
	return err
}

// marked reports whether an import of a file was begun; of another one is an error.
func marked(ctx context.Context, client redis.UniversalClient, sum string) (bool, error) {
	mark, err := client.Get(ctx, marker).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for an earlier import: %w", err)
	case mark != sum:
		return false, ErrOtherImport
	}
	return true, nil
}

// finish waits until all is on the disk, names whose store it is, and takes the mark away.
func finish(ctx context.Context, client redis.UniversalClient, report connect.Report, was string, log *slog.Logger) error {
	has := report.StoreID
	settle := func() (onDisk bool, err error) {
		pipe := client.Pipeline()
		pipe.Set(ctx, syncKey, "1", 0)
		synced := pipe.Do(ctx, "WAITAOF", 1, 0, syncTimeout.Milliseconds())
		if _, err := pipe.Exec(ctx); err != nil && synced.Err() == nil {
			return false, fmt.Errorf("waiting for the disk: %w", err)
		}
		counts, err := synced.Slice() // an error: it does not know how to wait, or is forbidden to
		return report.Synced() || err == nil && len(counts) > 0 && counts[0] != int64(0), nil
	}
	if _, err := settle(); err != nil {
		return err
	}
	pipe := client.TxPipeline()
	if was != "" {
		pipe.SetNX(ctx, connect.Key, was, 0)
	}
	pipe.Del(ctx, marker)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("finishing: %w", err)
	}
	if has != "" && has != was {
		log.Warn("the store keeps its own id, it was another's in the file", "storeID", has, "file", was)
	}
	onDisk, err := settle()
	if err == nil && !onDisk {
		log.Warn("what was imported may not be on the store's disk yet", "why",
			cmp.Or(report.Risking(), "the server does not say how it writes its append-only file"))
	}
	return err
}

// writer sends the entries of a file, some at a time. Each may be sent again.
type writer struct {
	client  redis.UniversalClient
	content *content
	log     *slog.Logger
	told    time.Time
	pipe    redis.Pipeliner
	size    int
}

// all writes fences, directory and indexes first: no record is there that they do not know of.
func (w *writer) all(ctx context.Context, file string) error {
	w.pipe = w.client.Pipeline()
	for _, pass := range []func(context.Context, Entry, store.Key) error{w.before, w.holder} {
		r, err := eachEntry(ctx, file, func(n int, e Entry) error {
			w.tell(n)
			if w.content.last[e.Key] != n || e.Gone() {
				return nil
			}
			if err := pass(ctx, e, store.ParseKey(e.Key)); err != nil {
				return err
			}
			return w.flush(ctx, maxPipe)
		})
		if err == nil {
			err = w.flush(ctx, 0)
		}
		if err == nil && r.checksum() != w.content.sum {
			err = errors.New("the file was changed meanwhile")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tell says how far it is, now and then.
func (w *writer) tell(n int) {
	if time.Since(w.told) > progressPeriod {
		w.told = time.Now()
		w.log.Info("writing the store", "line", n, "lines", w.content.counts.Lines)
	}
}

// flush sends what has come together, if it is more than so much.
func (w *writer) flush(ctx context.Context, above int) error {
	if w.size <= above {
		return nil
	}
	w.size = 0
	_, err := w.pipe.Exec(ctx)
	return err
}

// before writes what is no holder, and of a record its place in the index.
func (w *writer) before(ctx context.Context, e Entry, k store.Key) error {
	switch k.Kind {
	case store.KeyFence:
		epoch, err := audit.ReadFence(string(*e.String))
		if err == nil && epoch+1 >= store.MaxFence {
			err = fmt.Errorf("fence %s is too high to be raised", e.Key)
		}
		if err != nil {
			return err
		}
		w.pipe.Set(ctx, e.Key, strconv.FormatUint(epoch+1, 10), 0)
		w.size += len(e.Key)
	case store.KeyAccount:
		w.hash(ctx, e.Key, e.Hash)
	case store.KeyToken:
		if left := time.Until(time.UnixMilli(e.Expires)); left > 0 {
			w.pipe.Set(ctx, e.Key, string(*e.String), max(left, time.Second))
			w.size += len(e.Key)
		}
	case store.KeyRecord:
		return w.index(ctx, e, k)
	}
	return nil
}

func (w *writer) index(ctx context.Context, e Entry, k store.Key) error {
	if e.void() {
		return nil
	}
	rec, err := raised(e, k)
	if err != nil {
		return err
	}
	w.pipe.HSet(ctx, store.IndexKey(rec.Home), strconv.FormatUint(uint64(rec.Entity), 10), store.EncodeEpoch(rec.Epoch))
	w.size += 64
	return nil
}

// raised is a record with its epoch in the new life.
func raised(e Entry, k store.Key) (zone.Record, error) {
	rec, _, err := store.DecodeHolder(k.Holder, e.fields())
	if err == nil && rec.Epoch.Recoveries == math.MaxUint32 {
		err = fmt.Errorf("epoch of %s is too high to be raised", e.Key)
	}
	rec.Epoch.Recoveries++
	return rec, err
}

// holder writes a record or a ground.
func (w *writer) holder(ctx context.Context, e Entry, k store.Key) error {
	if k.Kind == store.KeyRecord && !e.void() {
		rec, err := raised(e, k)
		if err != nil {
			return err
		}
		for i := 0; i < len(e.Hash); i += 2 {
			if e.Hash[i] == "recoveries" {
				e.Hash[i+1] = Text(strconv.FormatUint(uint64(rec.Epoch.Recoveries), 10))
			}
		}
	}
	if k.Kind == store.KeyRecord || k.Kind == store.KeyGround {
		w.hash(ctx, e.Key, e.Hash)
	}
	return nil
}

func (w *writer) hash(ctx context.Context, key string, hash []Text) {
	for len(hash) > 0 {
		n := min(len(hash), 2*maxFieldsAtOnce)
		values := make([]any, n)
		for i, t := range hash[:n] {
			values[i] = string(t)
			w.size += len(t)
		}
		w.pipe.HSet(ctx, key, values...)
		hash = hash[n:]
	}
}
