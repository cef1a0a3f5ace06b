package vault

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/simtest/timeline"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

const (
	// Slots is how many parts fail over on their own.
	Slots = 16
	// Timeout is how long a sender waits for the reply to one round trip.
	Timeout = time.Second
	// LateBy bounds how much later something lands whose sender gave up or died.
	LateBy = 5 * time.Second
	// RewindBy bounds what Rewind takes back.
	RewindBy = 3 * time.Second
)

// Options shape a vault.
type Options struct {
	Timeline *timeline.Timeline
	Rand     *rand.Rand
	// Delay is the mean of each way: to the server, until a write is durable, and back.
	Delay time.Duration
}

// Vault is the server of the store. Make it with New.
type Vault struct {
	options  Options
	tables   tables
	slots    [Slots]slot
	history  []*trip // the writes of the last RewindBy, in the order in which they were carried out
	counters Counters

	away, readOnly, full bool
	slow                 int
	timeouts             float64
}

// Counters say how often each fault really bit.
type Counters struct {
	// Requests were submitted; Unavailable of them were answered so.
	Requests, Unavailable uint64
	// Unsent round trips found no connection, Unheard ones lost it under way, TimedOut ones were swallowed by SetTimeouts,
	// Overdue ones took longer than the time-out.
	Unsent, Unheard, TimedOut, Overdue uint64
	// ReadOnly and Full are writes that were refused.
	ReadOnly, Full uint64
	// LateLandings are writes carried out after their sender was answered StoreUnavailable, DeadLandings those after its
	// death; StaleSaves of all saves were dropped, because a later one of their writer was there before.
	LateLandings, DeadLandings, StaleSaves uint64
	// Undone are changes that failovers took back.
	Undone uint64
	// Fenced are writes to contents that were refused because the record's epoch or the region's fence was another than the
	// writer's, StaleWrites those that came after another write, Unfitting those that added what was there or the like.
	Fenced, StaleWrites, Unfitting uint64
	// GivenUp are creations that another creation for their account ruled out.
	GivenUp uint64
}

// New makes an empty vault without faults.
func New(o Options) *Vault { return &Vault{options: o, tables: newTables(), slow: 1} }

// SetAway takes the connection of all clients: what is sent meanwhile is lost, what was under way may have landed, and
// nobody hears of it.
func (v *Vault) SetAway(away bool) { v.away = away }

// SetReadOnly refuses writes, with StoreUnavailable and at once.
func (v *Vault) SetReadOnly(readOnly bool) { v.readOnly = readOnly }

// SetFull refuses writes for want of memory, with StoreUnavailable and at once.
func (v *Vault) SetFull(full bool) { v.full = full }

// SetSlow multiplies all delays from now on; 1 is normal.
func (v *Vault) SetSlow(factor int) { v.slow = max(factor, 1) }

// SetTimeouts lets this share of round trips go without reply; half of them land, at any time within LateBy. 0 ends it.
func (v *Vault) SetTimeouts(share float64) { v.timeouts = share }

// Failover takes back the changes of a slot that are not durable, newest first. Their senders hear nothing.
func (v *Vault) Failover(slot int) {
	s := &v.slots[slot]
	for _, t := range slices.Backward(s.tail) {
		t.takeBack()
	}
	s.tail, s.durable = s.tail[:0], v.now()
}

// FailoverAll is a Failover of every slot at once.
func (v *Vault) FailoverAll() {
	for i := range Slots {
		v.Failover(i)
	}
}

// Rewind is a failover to a copy that was behind by as much, at most RewindBy: what was written since is gone, acknowledged or not,
// of all slots from the same moment on. The directory of accounts is kept apart and loses nothing. Those whose writes are not
// acknowledged yet hear nothing, all others have heard that all is well: lost is how many changes of theirs are gone, of contents each
// entry that was added or removed.
func (v *Vault) Rewind(by time.Duration) (lost int) {
	v.FailoverAll()
	for _, t := range slices.Backward(v.history) {
		if t.landed < v.now()-by {
			break
		}
		if !t.undone && t.reply.undo != nil && t.step.key.kind != accountKey {
			v.counters.Undone++
			lost += entries(t.req.Change)
			t.undone = true
			t.reply.undo()
		}
	}
	v.history = nil
	return lost
}

// entries is how many entries a change adds and removes; 1 for what is none.
func entries(ch *zone.Change) int {
	if ch == nil {
		return 1
	}
	return len(ch.AddItems) + len(ch.RemoveItems) + len(ch.AddOut) + len(ch.RemoveOut) + len(ch.AddIn) + len(ch.RemoveIn)
}

// keep keeps a write for Rewind.
func (v *Vault) keep(t *trip) {
	t.landed = v.now()
	old := 0
	for old < len(v.history) && v.history[old].landed < t.landed-RewindBy {
		old++
	}
	v.history = append(slices.Delete(v.history, 0, old), t)
}

// Forget loses everything, durable or not: the store restarts empty, as one without a disk does. Those whose writes were not
// replied to hear nothing; what is on its way lands in the empty store.
func (v *Vault) Forget() {
	v.tables, v.history = newTables(), nil
	for i := range v.slots {
		s := &v.slots[i]
		for _, t := range s.tail {
			t.reply.undo = nil // there is nothing to take back
			t.takeBack()
		}
		s.tail, s.durable = s.tail[:0], v.now()
	}
}

// RaiseFence lets the store know of an epoch of a region that is at least as high, as after a loss of the API server's
// memory.
func (v *Vault) RaiseFence(region torus.RegionPos, epoch uint64) {
	v.tables.fences[region] = max(v.tables.fences[region], epoch)
}

// Put replaces a record and makes it the master of its account, without a request: it fills a world before it starts.
func (v *Vault) Put(r zone.Record) {
	v.tables.records[r.Entity] = stored{record: ownRecord(r), exists: true}
	if r.Account != 0 {
		a := v.tables.accounts[r.Account]
		a.master, a.since = r.Entity, v.now()
		v.tables.accounts[r.Account] = a
	}
}

// Records returns all records, as readers see them now, in the order of their ids.
func (v *Vault) Records() []zone.Record {
	var all []zone.Record
	for _, s := range v.tables.records {
		if s.exists {
			all = append(all, ownRecord(s.record))
		}
	}
	sortRecords(all)
	return all
}

// Record returns one record, as readers see it now.
func (v *Vault) Record(id ecs.EntityID) (zone.Record, bool) {
	s := v.tables.records[id]
	return ownRecord(s.record), s.exists
}

// Master returns the entity that the directory has as an account's master; 0: none.
func (v *Vault) Master(account uint64) ecs.EntityID { return v.tables.accounts[account].master }

// Fence returns the highest epoch that has loaded a region; 0: none has.
func (v *Vault) Fence(region torus.RegionPos) uint64 { return v.tables.fences[region] }

// Counters returns what happened so far.
func (v *Vault) Counters() Counters { return v.counters }

func (v *Vault) now() time.Duration { return v.options.Timeline.Now() }

func (v *Vault) after(d time.Duration, fn func()) { v.options.Timeline.After(d, fn) }

// slowest is how many times the mean one way takes at most.
const slowest = 8

// delay draws the time of one way: half the mean at least, and now and then a multiple of it.
func (v *Vault) delay() time.Duration {
	half := v.options.Delay / 2
	d := half + time.Duration(v.options.Rand.ExpFloat64()*float64(half))
	return min(d, slowest*v.options.Delay) * time.Duration(v.slow)
}

// late draws how much later something lands that nobody waits for.
func (v *Vault) late() time.Duration { return time.Duration(v.options.Rand.Int64N(int64(LateBy))) }

// chance draws with a probability. Without one it draws nothing.
func (v *Vault) chance(p float64) bool { return p > 0 && v.options.Rand.Float64() < p }

// ownRecord copies a record with its blob and contents.
func ownRecord(r zone.Record) zone.Record {
	r.Blob, r.Contents = bytes.Clone(r.Blob), store.CloneContents(r.Contents)
	return r
}

func sortRecords(records []zone.Record) {
	slices.SortFunc(records, func(a, b zone.Record) int { return cmp.Compare(a.Entity, b.Entity) })
}
