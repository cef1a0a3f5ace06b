package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

const (
	// related is how many records are looked at in one go.
	related = 512
	// homeTries is how often a record may move on while its home's index is looked at.
	homeTries = 100
)

// Run reads a store and reports everything that is wrong. An error means that it could not be looked at; a report beside
// it has some faults that were found nevertheless.
func Run(ctx context.Context, client redis.UniversalClient, opts Options) (*Report, error) {
	w, err := Read(ctx, client, opts)
	if w != nil && errors.Is(err, ErrBusy) {
		r, also := w.proven(ctx, client)
		if also != nil || r.Found == 0 {
			return nil, errors.Join(err, also)
		}
		return r, err
	}
	if err != nil {
		return nil, err
	}
	r := w.Check()
	k := &relations{client: client, world: w, report: r, seen: map[string]bool{}}
	records := slices.DeleteFunc(w.sorted(), func(h zone.Holder) bool {
		now := w.holders[h]
		return h.OnGround() || now.void || now.bad != nil
	})
	for batch := range slices.Chunk(records, related) {
		if err := k.homes(ctx, batch); err != nil {
			return nil, err
		}
		if err := k.masters(ctx, batch); err != nil {
			return nil, err
		}
	}
	return r, EachKey(ctx, client, func(names []string) error { return k.others(ctx, names) })
}

// relations checks what is not about items.
type relations struct {
	client redis.UniversalClient
	world  *World
	report *Report
	seen   map[string]bool
}

// homes checks that the index of each record's home names it.
func (k *relations) homes(ctx context.Context, records []zone.Holder) error {
	pipe := k.client.Pipeline()
	var named []*redis.BoolCmd
	for _, h := range records {
		named = append(named, pipe.HExists(ctx, store.IndexKey(k.world.holders[h].home), entity(h)))
	}
	if err := exec(ctx, pipe); err != nil {
		return err
	}
	for i, h := range records {
		if named[i].Val() {
			continue
		}
		if err := k.home(ctx, h, k.world.holders[h].home); err != nil {
			return err
		}
	}
	return nil
}

// home looks at a record and the index of its home at one instant: it may have moved since it was read.
func (k *relations) home(ctx context.Context, h zone.Holder, at torus.RegionPos) error {
	for range homeTries {
		pipe := k.client.TxPipeline()
		home := pipe.HMGet(ctx, store.HolderKey(h), "column", "row")
		named := pipe.HExists(ctx, store.IndexKey(at), entity(h))
		if err := exec(ctx, pipe); err != nil {
			return err
		}
		v := home.Val() // without values if it was removed by hand meanwhile, which the next audit tells
		if len(v) != 2 {
			return nil
		}
		now := store.ParseKey(fmt.Sprintf("{r:%v,%v}:index", v[0], v[1]))
		switch {
		case now.Kind == store.KeyOther:
			return nil // likewise
		case now.Holder.Region != at:
			at = now.Holder.Region
		case named.Val():
			return nil
		default:
			k.report.fault(Fault{
				Kind: Index, Keys: []string{store.HolderKey(h), store.IndexKey(at)},
				What: fmt.Sprintf("the index of the home of entity %d does not name it: the next load of region %s misses it", h.Entity, at),
				Do:   fmt.Sprintf("HSET %s %s '<recoveries> <transfers>' with those of the record", store.IndexKey(at), entity(h)),
			})
			return nil
		}
	}
	return fmt.Errorf("%w (entity %d never stays in a region)", ErrBusy, h.Entity)
}

// masters checks that the account of each record names it. It does so from before the record is created on.
func (k *relations) masters(ctx context.Context, records []zone.Holder) error {
	pipe := k.client.Pipeline()
	named := map[zone.Holder]*redis.StringCmd{}
	for _, h := range records {
		if account := k.world.holders[h].account; account != 0 {
			named[h] = pipe.HGet(ctx, store.AccountKey(account), "master")
		}
	}
	if len(named) == 0 {
		return nil
	}
	if err := exec(ctx, pipe); err != nil {
		return err
	}
	for _, h := range records {
		if cmd := named[h]; cmd != nil && cmd.Val() != entity(h) {
			k.report.disowned(h, k.world.holders[h].account, cmd.Val())
		}
	}
	return nil
}

// Masters checks the records with accounts against what a directory names, which may be in a file, and counts its
// accounts.
func (r *Report) Masters(w *World, directory map[uint64]ecs.EntityID) {
	r.Accounts += len(directory)
	for _, h := range w.sorted() {
		now := w.holders[h]
		if now.account == 0 || now.bad != nil {
			continue
		}
		switch master, named := directory[now.account]; {
		case !named || master == 0:
			r.disowned(h, now.account, "")
		case master != h.Entity:
			r.disowned(h, now.account, strconv.FormatUint(uint64(master), 10))
		}
	}
	for _, master := range directory {
		if now := w.holders[zone.Holder{Entity: master}]; master != 0 && (now == nil || now.void) {
			r.Underway++
		}
	}
}

func (r *Report) disowned(h zone.Holder, account uint64, master string) {
	what := fmt.Sprintf("it is the master of account %d, which names %q", account, master)
	if master == "" {
		what = fmt.Sprintf("it is the master of account %d, which names none", account)
	}
	r.fault(Fault{
		Kind: Account, Keys: []string{store.HolderKey(h), store.AccountKey(account)}, What: what,
		Do: fmt.Sprintf("decide which is the player's; HSET %s master <entity>", store.AccountKey(account)),
	})
}

// others checks the keys that are no holders.
func (k *relations) others(ctx context.Context, names []string) error {
	var fences, accounts []string
	for _, name := range names {
		key := store.ParseKey(name)
		if key.Kind == store.KeyRecord || key.Kind == store.KeyGround || k.seen[name] {
			continue
		}
		k.seen[name] = true
		switch key.Kind {
		case store.KeyFence:
			fences = append(fences, name)
		case store.KeyAccount:
			accounts = append(accounts, name)
		case store.KeyIndex:
			if err := k.index(ctx, name); err != nil {
				return err
			}
		case store.KeyToken:
			k.report.Tokens++
		case store.KeyOther:
			if name != connect.Key {
				k.report.Others++
			}
		}
	}
	if err := k.fences(ctx, fences); err != nil {
		return err
	}
	return k.accounts(ctx, accounts)
}

// index checks the entries of a region's index.
func (k *relations) index(ctx context.Context, name string) error {
	k.report.Indexes++
	met := map[string]bool{} // a scan may name one twice
	for cursor := uint64(0); ; {
		list, next, err := k.client.HScan(ctx, name, cursor, "", scanned).Result()
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			k.unreadable(name, "it is no hash")
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading an index: %w", err)
		}
		for i := 0; i+1 < len(list); i += 2 {
			if met[list[i]] {
				continue
			}
			met[list[i]] = true
			k.report.Entries++
			if id, err := strconv.ParseUint(list[i], 10, 64); err != nil || id == 0 || strconv.FormatUint(id, 10) != list[i] || store.DecodeEpoch(list[i+1]) != nil {
				k.unreadable(name, fmt.Sprintf("entry %.32q has %.32q: it is to be an entity with its epoch", list[i], list[i+1]))
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (k *relations) unreadable(name, what string) {
	k.report.fault(Fault{Kind: Unreadable, Keys: []string{name}, What: what, Do: "repair it by hand, or restore it; nodes do not overwrite it"})
}

func (k *relations) fences(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	pipe := k.client.Pipeline()
	var values []*redis.StringCmd
	for _, name := range names {
		values = append(values, pipe.Get(ctx, name))
	}
	if err := exec(ctx, pipe); err != nil {
		return err
	}
	for i, name := range names {
		k.report.Fences++
		if _, err := ReadFence(values[i].Val()); values[i].Err() != nil || err != nil {
			k.unreadable(name, fmt.Sprintf("it has %.32q: it is to be a region epoch", values[i].Val()))
		}
	}
	return nil
}

// ReadFence reads the value of a fence.
func ReadFence(value string) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n >= store.MaxFence || strconv.FormatUint(n, 10) != value {
		return 0, fmt.Errorf("%.32q is no region epoch", value)
	}
	return n, nil
}

// accounts checks the directory.
func (k *relations) accounts(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	pipe := k.client.Pipeline()
	var all []*redis.SliceCmd
	for _, name := range names {
		all = append(all, pipe.HMGet(ctx, name, "master", "epoch", "login", "since"))
	}
	if err := exec(ctx, pipe); err != nil {
		return err
	}
	for i, name := range names {
		k.report.Accounts++
		if all[i].Err() != nil {
			k.unreadable(name, "it is no hash")
			continue
		}
		master, err := ReadAccount(all[i].Val())
		if err != nil {
			k.unreadable(name, err.Error())
			continue
		}
		if err := k.account(ctx, name, master); err != nil {
			return err
		}
	}
	return nil
}

// ReadAccount reads master, epoch, login and since of an account; nil where there is none. Master 0: none.
func ReadAccount(values []any) (ecs.EntityID, error) {
	var numbers [4]uint64
	for i, what := range []string{"master", "epoch", "login", "since"} {
		text, there := values[i].(string)
		if !there {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != text {
			return 0, fmt.Errorf("its %s is %.32q: it is to be a number", what, text)
		}
		numbers[i] = n
	}
	if numbers[2] > numbers[1] {
		return 0, fmt.Errorf("its login began with session epoch %d, and it is at %d", numbers[2], numbers[1])
	}
	return ecs.EntityID(numbers[0]), nil
}

// account checks that the master of an account is its own.
func (k *relations) account(ctx context.Context, name string, master ecs.EntityID) error {
	if master == 0 {
		return nil
	}
	h := zone.Holder{Entity: master}
	known := k.world.holders[h]
	if known == nil { // perhaps created since
		values, err := k.client.HMGet(ctx, store.HolderKey(h), "account", "void").Result()
		switch {
		case err != nil:
			return fmt.Errorf("reading a record: %w", err)
		case values[0] == nil:
			k.report.Underway++
			return nil
		}
		text, _ := values[0].(string)
		account, _ := strconv.ParseUint(text, 10, 64)
		known = &holding{account: account}
	}
	switch own := store.ParseKey(name).Account; {
	case known.void:
		k.report.Underway++
	case known.bad == nil && known.account != own:
		k.report.fault(Fault{
			Kind: Account, Keys: []string{name, store.HolderKey(h)},
			What: fmt.Sprintf("account %d names entity %d its master, whose record says account %d", own, master, known.account),
			Do:   fmt.Sprintf("decide whose it is; HSET %s master <entity>, or HSET %s account <account>", name, store.HolderKey(h)),
		})
	}
	return nil
}

func entity(h zone.Holder) string { return strconv.FormatUint(uint64(h.Entity), 10) }
