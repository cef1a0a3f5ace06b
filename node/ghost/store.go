package ghost

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/interest"
)

const (
	// MaxComponent is the highest component number: changes are kept as bits of one word.
	MaxComponent = 13
	// HoldTicks is how long frames of a new owner wait for the old owner's sign-off: 1 s.
	HoldTicks = 20
	// maxHeld bounds the frames held per replica; a new owner sends at most a few a tick.
	maxHeld = 4 * HoldTicks
	// maxEvents bounds the event bytes of one replica in one tick.
	maxEvents = 64 << 10
)

// Replica is a foreign entity as its last public messages.
type Replica struct {
	Entity  ecs.EntityID
	Owner   string // session whose messages count
	Epoch   ecs.Epoch
	Chunk   uint64
	Home    uint32
	Account uint64

	// What happened since the last Settle.
	Previous uint64 // chunk before
	Moved    bool
	Reset    bool
	New      bool
	changed  uint16
	removed  uint16
	events   []byte
	touched  bool

	components []component // by number
	held       []held
	heldSince  int64
	resetNext  bool  // the next news of the owner go on from an earlier state
	lateUntil  int64 // until this tick what the owner says may be old, and what leads after it corrects what was; 0: it is not
	unheard    bool  // the owner before signed off, and nothing of this one has come
	stale      bool  // not confirmed by the snapshot that is under way
	doubted    bool  // another live owner speaks for its home
	missing    bool  // the snapshot that should have it does not; it may be in the next chunk's
	before     uint32
	fixed      bool   // it never moves and never changes its home
	signedOff  int64  // when it was first said that it is at home elsewhere, and no longer in before; 0: never
	signer     string // the owner that signed it off to this one, "": none did
}

type component struct {
	number uint32
	since  int64 // tick at which body was true
	body   []byte
}

// Vanished is a replica that is gone from this store since the last Settle.
type Vanished struct {
	Entity  ecs.EntityID
	Chunk   uint64
	Account uint64
	Reason  wire.VanishReason
	// Reset: it did not get out of sight by walking.
	Reset bool
}

// Unknown is a chunk of which an owner sent news about an entity that this store does not have, or no news about one that
// it was said to have: its snapshot is needed.
type Unknown struct {
	Owner string
	Chunk uint64
}

// TakeUnknown returns and forgets them.
func (s *Store) TakeUnknown() []Unknown {
	u := s.unknown
	s.unknown = nil
	return u
}

// Counters count what the store refused or waited for.
type Counters struct {
	Stale, ForeignOwner, Held, HoldExpired, Malformed, Overflow uint64
}

// Event is a transition of the sign-off and of snapshots, as Store.Observe is told.
type Event uint8

const (
	// SignedOff: the old owner's sign-off was applied.
	SignedOff Event = iota + 1
	// HeldBack: the new owner's frame waits for it.
	HeldBack
	// Released: what was held is applied.
	Released
	// Expired: it waited for too long, or its predecessor died.
	Expired
	// Adopted: the old owner is dead, so the new one needs no sign-off.
	Adopted
	// WasStale: of an older epoch, dropped.
	WasStale
	// WasForeign: of a session that is not the owner at this epoch, dropped.
	WasForeign
	// Swept: no snapshot confirmed it.
	Swept
)

// Store holds the replicas of one gateway. Make it with New.
type Store struct {
	Counters Counters
	// Uncertain reports whether an owner is dead or silent, so that where its entities are is a guess; it may be nil.
	Uncertain func(session string) bool
	// Keeps reports whether an account's own entity is kept though nobody observes its chunk; nil: as Interested says. One
	// whose session has yet to attach is taken in, but not kept: nobody tells how it goes on.
	Keeps func(account uint64) bool
	// Observed reports whether a region may have something in an observed chunk, so that its holder will tell of it; nil: each
	// does.
	Observed func(home uint32) bool
	// Complete reports whether every region that may have something in a chunk has told of it; nil: always.
	Complete func(chunk uint64) bool
	// Leads reports whether a component says where an entity is or goes, so that a late one leads it astray until the next; nil: each
	// does.
	Leads func(number uint32) bool
	// Observe is told of transitions; it may be nil.
	Observe func(Event, ecs.EntityID)

	// Dead reports whether a session is dead. Interested reports whether anybody here observes a chunk or an account's
	// own entity.
	dead       func(session string) bool
	interested func(chunk, account uint64) bool

	tick      int64
	replicas  map[ecs.EntityID]*Replica
	accounts  map[uint64]ecs.EntityID // the own entity of each account that is here
	residents interest.Residents[ecs.EntityID]
	touched   []*Replica
	vanished  []Vanished
	holding   []ecs.EntityID
	spare     []ecs.EntityID
	unknown   []Unknown
	missing   map[string][]ecs.EntityID  // by the owner whose snapshot lacks them
	lacking   []*Replica                 // that no snapshot of their owner has, but others have yet to speak
	awaited   map[uint64][]string        // by chunk: the owners whose snapshot is on its way
	claims    map[uint32][]claim         // by home: whose snapshots covered it, the newest last
	lost      map[uint32][]string        // by home: who lives and held it before the one who does now
	doubts    []doubt                    // whose owner may be dead
	unheard   []doubt                    // whose owner has not been heard of
	buried    map[ecs.EntityID]ecs.Epoch // of what was removed: older news do not bring it back
	graves    []grave                    // the same, oldest first
}

// New returns an empty store.
func New(dead func(session string) bool, interested func(chunk, account uint64) bool) *Store {
	return &Store{
		dead: dead, interested: interested, replicas: map[ecs.EntityID]*Replica{}, accounts: map[uint64]ecs.EntityID{}, missing: map[string][]ecs.EntityID{},
		awaited: map[uint64][]string{}, claims: map[uint32][]claim{}, lost: map[uint32][]string{}, buried: map[ecs.EntityID]ecs.Epoch{},
	}
}

// Get returns a replica or nil.
func (s *Store) Get(id ecs.EntityID) *Replica { return s.replicas[id] }

// Len is the number of replicas.
func (s *Store) Len() int { return len(s.replicas) }

// In returns the replicas indexed in a chunk, sorted by id; valid until the next change.
func (s *Store) In(chunk uint64) []ecs.EntityID { return s.residents.In(chunk) }

// Apply takes a frame of a session, received in this tick.
func (s *Store) Apply(tick int64, from string, f *Frame) {
	s.tick = tick
	s.apply(from, f, s.late(from, f))
}

// late reports whether a frame answers a subscription: what its owner told before that took effect never came.
func (s *Store) late(from string, f *Frame) bool {
	return f.Kind == wire.EntityFrame_KIND_SNAPSHOT && slices.Contains(s.awaited[f.Chunk], from)
}

func (s *Store) apply(from string, f *Frame, late bool) {
	r := s.replicas[f.Entity]
	if r == nil {
		s.applyToNobody(from, f)
		return
	}
	switch {
	case f.Epoch.Less(r.Epoch):
		s.Counters.Stale++
		s.observe(WasStale, f.Entity)
	case r.Owner == from:
		r.resetNext = r.resetNext || r.unheard && late
		s.applyOwner(r, f)
	case f.Epoch == r.Epoch && (f.Kind != wire.EntityFrame_KIND_SNAPSHOT || !s.dead(r.Owner)): // an heir may be offered what the dead had
		s.Counters.ForeignOwner++
		s.observe(WasForeign, f.Entity)
	case s.dead(r.Owner) && len(r.held) > 0: // those came first
		s.succeed(r)
		s.apply(from, f, late)
	case s.dead(r.Owner):
		s.observe(Adopted, f.Entity)
		s.adopt(r, from, f)
	default:
		s.hold(r, &held{from: from, frame: *f, tick: s.tick, late: late})
	}
}

// applyToNobody: only what brings an entity makes a replica.
func (s *Store) applyToNobody(from string, f *Frame) {
	if !s.interested(f.Chunk, f.Account) {
		return
	}
	if f.Epoch.Less(s.buried[f.Entity]) {
		s.Counters.Stale++
		s.observe(WasStale, f.Entity)
		return
	}
	if f.Kind != wire.EntityFrame_KIND_SNAPSHOT {
		if f.Kind == wire.EntityFrame_KIND_UPDATE {
			s.unknown = append(s.unknown, Unknown{from, f.Chunk})
		}
		return
	}
	r := &Replica{Entity: f.Entity, Owner: from, Chunk: f.Chunk, Previous: f.Chunk, New: true}
	s.replicas[f.Entity] = r
	s.residents.Move(f.Entity, f.Chunk)
	s.applyOwner(r, f)
	s.doubt(r)
}

// applyOwner applies a frame whose sender is the replica's owner.
func (s *Store) applyOwner(r *Replica, f *Frame) {
	switch f.Kind {
	case wire.EntityFrame_KIND_LEFT:
		s.leave(r, f)
		return
	case wire.EntityFrame_KIND_GONE:
		s.Remove(r, f.Vanish)
		return
	case wire.EntityFrame_KIND_TRANSFERRED:
		s.transfer(r, f)
		return
	}
	if f.Epoch.Recoveries != r.Epoch.Recoveries { // it was brought back from its record meanwhile
		r.resetNext = true
	}
	if f.Home != r.Home && !r.New {
		r.before, r.signedOff = r.Home, s.tick
	}
	if r.Account != f.Account {
		s.disown(r)
	}
	r.Epoch, r.Home, r.Account, r.fixed, r.stale, r.missing = f.Epoch, f.Home, f.Account, f.Fixed, false, false
	if r.Account != 0 {
		s.accounts[r.Account] = r.Entity
	}
	if r.resetNext {
		r.events = r.events[:0] // an update tells its mark first: what was said before the hole goes with it
	}
	r.Reset, r.unheard = r.Reset || f.Reset || r.resetNext || s.isLate(r, f), false
	r.resetNext = r.resetNext && f.Kind != wire.EntityFrame_KIND_SNAPSHOT // until all of it has come
	if !s.update(r, f) {
		s.Counters.Malformed++
	}
	s.touch(r)
	if !s.interested(f.Chunk, f.Account) { // its account was served here and is not any more: nobody tells us when it goes on
		s.Remove(r, wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT)
		return
	}
	s.move(r, f.Chunk)
}

// isLate reports whether a frame may be old, or is the first that corrects what old ones have led to.
func (s *Store) isLate(r *Replica, f *Frame) bool {
	if r.lateUntil == 0 || s.tick > r.lateUntil && !s.leads(f) {
		return false
	}
	if s.tick > r.lateUntil {
		r.lateUntil = 0
	}
	return true
}

// leads reports whether a frame says where its entity is or goes.
func (s *Store) leads(f *Frame) (leads bool) {
	if s.Leads == nil {
		return true
	}
	_ = eachComponent(f.Components, func(number uint32, _ []byte, _ uint32) error { // what cannot be read is counted by update
		leads = leads || s.Leads(number)
		return nil
	})
	return leads
}

func (s *Store) leave(r *Replica, f *Frame) {
	r.Reset = r.Reset || f.Reset
	if s.interested(f.Chunk, r.Account) {
		s.move(r, f.Chunk) // another observer here came just now; its snapshot is on the way
		r.resetNext = true // what is said until then is missing
		s.touch(r)
		return
	}
	s.Remove(r, wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT)
}

func (s *Store) observe(e Event, id ecs.EntityID) {
	if s.Observe != nil {
		s.Observe(e, id)
	}
}

func (s *Store) update(r *Replica, f *Frame) bool {
	seen := uint16(0)
	err := eachComponent(f.Components, func(number uint32, body []byte, age uint32) error {
		seen |= 1 << number
		r.set(number, body, s.tick-int64(age))
		return nil
	})
	if f.Kind == wire.EntityFrame_KIND_SNAPSHOT {
		for i := len(r.components) - 1; i >= 0; i-- { // a snapshot is all there is
			if n := r.components[i].number; seen&(1<<n) == 0 {
				r.set(n, nil, s.tick)
			}
		}
	}
	if len(r.events)+len(f.Events) > maxEvents {
		s.Counters.Overflow++
		return err == nil
	}
	r.events = append(r.events, f.Events...)
	return err == nil
}

// set replaces a component, or removes it when body is nil.
func (r *Replica) set(number uint32, body []byte, since int64) {
	if number > MaxComponent {
		return
	}
	i, found := slices.BinarySearchFunc(r.components, number, func(c component, n uint32) int { return int(c.number) - int(n) })
	bit := uint16(1) << number
	switch {
	case body == nil && !found:
	case body == nil:
		r.components = slices.Delete(r.components, i, i+1)
		r.removed, r.changed = r.removed|bit, r.changed&^bit
	case found:
		c := &r.components[i]
		if r.changed&bit != 0 && c.since != since {
			r.Reset = true // a value between was never told: what follows from it may jump
		}
		c.body, c.since = append(c.body[:0], body...), since
		r.changed, r.removed = r.changed|bit, r.removed&^bit
	default:
		r.components = slices.Insert(r.components, i, component{number, since, slices.Clone(body)})
		r.changed, r.removed = r.changed|bit, r.removed&^bit
	}
}

func (s *Store) move(r *Replica, chunk uint64) {
	if from, moved := s.residents.Move(r.Entity, chunk); moved && !r.Moved {
		r.Previous, r.Moved = from, true
	}
	r.Chunk = chunk
}

func (s *Store) touch(r *Replica) {
	if !r.touched {
		r.touched = true
		s.touched = append(s.touched, r)
	}
}

// Jumped reports whether the replica may be where no walk has led it, or what it does next may be so.
func (s *Store) Jumped(r *Replica) bool {
	return r.Reset || r.resetNext || r.lateUntil > 0 || s.Uncertain != nil && s.Uncertain(r.Owner)
}

// Remove takes a replica out; who saw it is told at the end of the tick. What a new owner says of it, and waited, is of one that comes
// anew.
func (s *Store) Remove(r *Replica, reason wire.VanishReason) {
	chunk := r.Chunk
	if r.Moved {
		chunk = r.Previous // nobody was told of the move yet
	}
	s.bury(r)
	delete(s.replicas, r.Entity)
	s.disown(r)
	s.residents.Remove(r.Entity)
	s.vanished = append(s.vanished, Vanished{r.Entity, chunk, r.Account, reason, s.Jumped(r)})
	s.release(r)
}

// disown forgets that a replica is its account's own entity.
func (s *Store) disown(r *Replica) {
	if s.accounts[r.Account] == r.Entity {
		delete(s.accounts, r.Account)
	}
}

// DropAccount takes out the own entity of an account that is no longer here, unless somebody observes its chunk.
func (s *Store) DropAccount(account uint64) {
	if r := s.replicas[s.accounts[account]]; r != nil {
		s.Drop(r.Chunk)
	}
}

// Drop takes out what a chunk holds and nobody observes any more. What came there in this tick is still in the sight of
// those who observe where it was.
func (s *Store) Drop(chunk uint64) {
	delete(s.awaited, chunk)
	for _, id := range slices.Clone(s.residents.In(chunk)) {
		r := s.replicas[id]
		account := r.Account
		if account != 0 && s.Keeps != nil && !s.Keeps(account) {
			account = 0
		}
		if !s.interested(chunk, account) {
			s.Remove(r, wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT)
		}
	}
}

// Touched returns the replicas that changed since the last Settle, in the order of their first change. Replicas that were
// removed again are among them; Get tells.
func (s *Store) Touched() []*Replica { return s.touched }

// Vanished returns what was removed since the last Settle.
func (s *Store) Vanished() []Vanished { return s.vanished }

// Settle forgets what happened: all clients have been told.
func (s *Store) Settle() {
	for _, r := range s.touched {
		r.touched, r.Moved, r.Reset, r.New = false, false, false, false
		r.changed, r.removed, r.events = 0, 0, r.events[:0]
		r.Previous = r.Chunk
	}
	clear(s.touched)
	s.touched, s.vanished = s.touched[:0], s.vanished[:0]
}

// AppendUpdate encodes what changed, as fields 2 and 3 of an EntityUpdate; nothing if nothing did.
func (r *Replica) AppendUpdate(dst []byte, tick int64) []byte {
	for i := range r.components {
		if c := &r.components[i]; r.changed&(1<<c.number) != 0 {
			dst = AppendComponent(dst, c.body, age(tick, c.since))
		}
	}
	for number := uint32(1); r.removed != 0 && number <= MaxComponent; number++ {
		if r.removed&(1<<number) != 0 {
			dst = AppendRemoved(dst, number)
		}
	}
	return append(dst, r.events...)
}

// AppendAll encodes all components as they are now, and the events of this tick.
func (r *Replica) AppendAll(dst []byte, tick int64) []byte {
	for i := range r.components {
		c := &r.components[i]
		dst = AppendComponent(dst, c.body, age(tick, c.since))
	}
	return append(dst, r.events...)
}

// age restamps: how long ago the value was true, by the clock of this node's ticks.
func age(tick, since int64) uint32 { return uint32(max(0, tick-since)) }
