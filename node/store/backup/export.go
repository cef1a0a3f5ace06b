package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/audit"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/zone"
)

// ErrFaults: the auditor found something wrong; the report says what.
var ErrFaults = errors.New("the auditor found faults")

// Export writes the world in a store to a file, reads that again and returns what the auditor finds in it. A file with
// faults in its items is kept, with ErrFaults: it is what the store had. On every other error there is no file. One that is
// there is not written over.
func Export(ctx context.Context, c connect.Config, file string, h Header, opts audit.Options) (*audit.Report, error) {
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("file %s is there already, or can not be made: choose another name", file), err)
	}
	report, err := connect.Inspect(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("looking at the store: %w", err)
	}
	client, err := audit.Client(c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	h.StoreID = report.StoreID
	partial := file + ".partial"
	defer func() { _ = os.Remove(partial) }() // after the rename it is not there
	if err := writeFile(ctx, client, partial, h, opts); err != nil {
		return nil, err
	}
	found, err := Check(ctx, partial)
	if err != nil {
		return nil, fmt.Errorf("reading what was written: %w", err)
	}
	if err := os.Rename(partial, file); err != nil {
		return nil, fmt.Errorf("naming the file: %w", err)
	}
	if found.Found > 0 {
		return found, ErrFaults
	}
	return found, nil
}

// writeFile is synced when it returns without an error.
func writeFile(ctx context.Context, client redis.UniversalClient, name string, h Header, opts audit.Options) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making the file (is another export under way, or was one broken off? then remove it): %w", err)
	}
	err = write(ctx, client, f, h, opts)
	return errors.Join(err, f.Sync(), f.Close())
}

func write(ctx context.Context, client redis.UniversalClient, w io.Writer, h Header, opts audit.Options) error {
	f, err := NewWriter(w, h)
	if err != nil {
		return err
	}
	unwritten := map[zone.Holder]error{}
	opts.Saves = true
	opts.Each = func(h zone.Holder, fields []any) error {
		e, err := holderEntry(h, fields)
		if err == nil {
			err = e.check()
		}
		if err != nil { // what is repaired meanwhile comes again
			unwritten[h] = fmt.Errorf("key %s: %w", e.Key, err)
			return nil
		}
		delete(unwritten, h)
		return f.Put(e)
	}
	world, err := audit.Read(ctx, client, opts)
	if err != nil {
		return fmt.Errorf("finding a point in time: %w", err)
	}
	for _, fault := range world.Check().Faults {
		if fault.Kind == audit.Unreadable {
			return fmt.Errorf("the store holds what no backup can, and zone-node audit tells all of it: %v", fault)
		}
	}
	for _, err := range unwritten {
		return fmt.Errorf("the store holds what no backup can: %w", err)
	}
	if err := writeOthers(ctx, client, f); err != nil {
		return err
	}
	return f.Close()
}

// holderEntry is a record or ground. No fields: it is not there.
func holderEntry(h zone.Holder, fields []any) (Entry, error) {
	e := Entry{Key: store.HolderKey(h), Hash: make([]Text, 0, len(fields))}
	for _, v := range fields {
		s, ok := v.(string)
		if !ok {
			return e, fmt.Errorf("a value of type %T", v)
		}
		e.Hash = append(e.Hash, Text(s))
	}
	return e, nil
}

// writeOthers writes the directory, fences and tokens. It comes after the records: none is without its account then.
func writeOthers(ctx context.Context, client redis.UniversalClient, f *Writer) error {
	return audit.EachKey(ctx, client, func(names []string) error {
		pipe := client.Pipeline()
		var reads []read
		for _, name := range names {
			r := read{key: name}
			switch store.ParseKey(name).Kind {
			case store.KeyAccount:
				r.hash = redis.NewSliceCmd(ctx, "hgetall", name)
				_ = pipe.Process(ctx, r.hash) // it only queues
			case store.KeyToken:
				r.text, r.expires = pipe.Get(ctx, name), pipe.PTTL(ctx, name)
			case store.KeyFence:
				r.text = pipe.Get(ctx, name)
			default:
				continue
			}
			reads = append(reads, r)
		}
		if len(reads) == 0 {
			return nil
		}
		_, _ = pipe.Exec(ctx) // each reply has its own error
		for _, r := range reads {
			if err := r.put(f); err != nil {
				return err
			}
		}
		return nil
	})
}

// neverExpires is what the client answers of a key that does not expire, which no token is.
const neverExpires = time.Duration(-1)

// read is the reading of a key that is no holder.
type read struct {
	key     string
	hash    *redis.SliceCmd
	text    *redis.StringCmd
	expires *redis.DurationCmd
}

func (r read) put(f *Writer) error {
	if r.hash != nil {
		e := Entry{Key: r.key}
		for _, v := range r.hash.Val() {
			s, _ := v.(string)
			e.Hash = append(e.Hash, Text(s))
		}
		if err := r.hash.Err(); err != nil {
			return fmt.Errorf("reading %s: %w", r.key, err)
		}
		return f.Put(e)
	}
	if errors.Is(r.text.Err(), redis.Nil) {
		return nil // a token has expired
	}
	if err := r.text.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", r.key, err)
	}
	value := Text(r.text.Val())
	e := Entry{Key: r.key, String: &value}
	if r.expires != nil {
		switch left := r.expires.Val(); {
		case r.expires.Err() != nil:
			return fmt.Errorf("reading when %s expires: %w", r.key, r.expires.Err())
		case left == neverExpires:
			return fmt.Errorf("key %s never expires, which no used token does", r.key)
		case left <= 0:
			return nil // expired between the two
		default:
			e.Expires = time.Now().Add(left).UnixMilli()
		}
	}
	return f.Put(e)
}

// content is a file that was read whole: what its last line of each key says.
type content struct {
	header Header
	sum    string
	counts Counts
	world  *audit.World
	// last is the number of the line that counts, per key, from 0.
	last    map[string]int
	masters map[uint64]ecs.EntityID
}

// Check reads a file whole and returns what the auditor finds in it. An error means that it is damaged, or none.
func Check(ctx context.Context, file string) (*audit.Report, error) {
	c, err := load(ctx, file)
	if err != nil {
		return nil, err
	}
	return c.audit(), nil
}

func (c *content) audit() *audit.Report {
	r := c.world.Check()
	r.Masters(c.world, c.masters)
	r.Fences, r.Tokens = c.counts.Fences, c.counts.Tokens
	return r
}

// load reads a file and keeps what the auditor needs of it.
func load(ctx context.Context, file string) (*content, error) {
	c := &content{world: audit.NewWorld(), last: map[string]int{}, masters: map[uint64]ecs.EntityID{}}
	r, err := eachEntry(ctx, file, func(n int, e Entry) error {
		c.last[e.Key] = n
		switch k := store.ParseKey(e.Key); k.Kind {
		case store.KeyRecord, store.KeyGround:
			c.world.Put(k.Holder, e.fields())
		case store.KeyAccount:
			master, err := audit.ReadAccount(e.account())
			c.masters[k.Account] = master
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", file, err)
	}
	c.header, c.counts, c.sum = r.Header, r.counts, r.checksum()
	return c, nil
}

// eachEntry reads a file to its end.
func eachEntry(ctx context.Context, file string, do func(n int, e Entry) error) (*Reader, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("opening it: %w", err)
	}
	defer f.Close()
	r, err := NewReader(f)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		e, err := r.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return r, nil
		}
		if err == nil {
			err = do(n, e)
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}
