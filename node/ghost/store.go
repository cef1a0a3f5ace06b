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
	resetNext  bool // the next news of the owner go on from an earlier state
	stale      bool // not confirmed by the snapshot that is under way
	missing    bool // the snapshot that should have it does not; it may be in the next chunk's
}

type component struct {
	number uint32
	since  int64 // tick at which body was true
	body   []byte
}

type held struct {
	from  string
	frame Frame
	tick  int64
}

// Vanished is a replica that is gone from this store since the last Settle.
type Vanished struct {
	Entity  ecs.EntityID
	Chunk   uint64
	Account uint64
	Reason  wire.VanishReason
}

// Unknown is a chunk of which an owner sent news about an entity that this store does not have: its snapshot is needed.
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
	// Observe is told of transitions; it may be nil.
	Observe func(Event, ecs.EntityID)

	// Dead reports whether a session is dead. Interested reports whether anybody here observes a chunk or an account's
	// own entity.
	dead       func(session string) bool
	interested func(chunk, account uint64) bool

	tick      int64
	replicas  map[ecs.EntityID]*Replica
	residents interest.Residents[ecs.EntityID]
	touched   []*Replica
	vanished  []Vanished
	holding   []ecs.EntityID
	spare     []ecs.EntityID
	unknown   []Unknown
	missing   map[string][]ecs.EntityID // by the owner whose snapshot lacks them
}

// New returns an empty store.
func New(dead func(session string) bool, interested func(chunk, account uint64) bool) *Store {
	return &Store{dead: dead, interested: interested, replicas: map[ecs.EntityID]*Replica{}, missing: map[string][]ecs.EntityID{}}
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
		s.applyOwner(r, f)
	case f.Epoch == r.Epoch:
		s.Counters.ForeignOwner++
		s.observe(WasForeign, f.Entity)
	case s.dead(r.Owner):
		s.observe(Adopted, f.Entity)
		s.adopt(r, from, f)
	default:
		s.hold(r, from, f)
	}
}

// applyToNobody: only what brings an entity makes a replica.
func (s *Store) applyToNobody(from string, f *Frame) {
	if !s.interested(f.Chunk, f.Account) {
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
	r.Epoch, r.Home, r.Account, r.stale, r.missing = f.Epoch, f.Home, f.Account, false, false
	r.Reset = r.Reset || f.Reset || r.resetNext
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

func (s *Store) leave(r *Replica, f *Frame) {
	if s.interested(f.Chunk, r.Account) {
		s.move(r, f.Chunk) // another observer here came just now; its snapshot is on the way
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

// transfer is the old owner's sign-off: from here the new owner's messages count, those that came early first.
func (s *Store) transfer(r *Replica, f *Frame) {
	s.observe(SignedOff, r.Entity)
	r.Owner, r.Epoch, r.Home, r.stale, r.missing = f.To, f.Epoch, f.Home, false, false
	r.resetNext = r.resetNext || f.Reset
	if !s.interested(f.Chunk, r.Account) {
		s.Remove(r, wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT)
		return
	}
	s.move(r, f.Chunk)
	s.touch(r)
	s.release(r)
}

// adopt makes the sender the owner: the old one is dead, or did not sign off in time.
func (s *Store) adopt(r *Replica, from string, f *Frame) {
	r.Owner, r.Epoch, r.resetNext = from, f.Epoch, true // what the old owner said last may never have come
	s.applyOwner(r, f)
}

func (s *Store) hold(r *Replica, from string, f *Frame) {
	if len(r.held) == 0 {
		r.heldSince = s.tick
		s.holding = append(s.holding, r.Entity)
	}
	if len(r.held) >= maxHeld {
		s.Counters.Overflow++
		return
	}
	s.Counters.Held++
	s.observe(HeldBack, r.Entity)
	r.held = append(r.held, held{from, *f, s.tick})
}

// release applies what was held for the replica, in the order it came.
func (s *Store) release(r *Replica) {
	if len(r.held) == 0 {
		return
	}
	s.observe(Released, r.Entity)
	frames := r.held
	r.held = nil
	now := s.tick
	for i := range frames {
		s.Apply(frames[i].tick, frames[i].from, &frames[i].frame)
	}
	s.tick = now
}

// Expire adopts the senders of frames that waited too long, or whose predecessor died. Call it once a tick.
func (s *Store) Expire(tick int64) {
	s.tick = tick
	s.holding, s.spare = s.spare[:0], s.holding // what is held again meanwhile goes on a list of its own
	for _, id := range s.spare {
		r := s.replicas[id]
		switch {
		case r == nil || len(r.held) == 0:
		case tick-r.heldSince < HoldTicks && !s.dead(r.Owner):
			s.holding = append(s.holding, id)
		default:
			s.Counters.HoldExpired++
			s.observe(Expired, id)
			r.Owner, r.Epoch, r.resetNext = r.held[0].from, r.held[0].frame.Epoch, true
			s.release(r)
		}
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

// Remove takes a replica out; who saw it is told at the end of the tick.
func (s *Store) Remove(r *Replica, reason wire.VanishReason) {
	chunk := r.Chunk
	if r.Moved {
		chunk = r.Previous // nobody was told of the move yet
	}
	delete(s.replicas, r.Entity)
	s.residents.Remove(r.Entity)
	s.vanished = append(s.vanished, Vanished{r.Entity, chunk, r.Account, reason})
}

// Drop takes out what a chunk holds and nobody observes any more. What came there in this tick is still in the sight of
// those who observe where it was.
func (s *Store) Drop(chunk uint64) {
	for _, id := range slices.Clone(s.residents.In(chunk)) {
		if r := s.replicas[id]; !s.interested(chunk, r.Account) {
			s.Remove(r, wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT)
		}
	}
}

// BeginSnapshot marks the replicas of an owner in a chunk: those that its snapshot does not confirm will vanish.
func (s *Store) BeginSnapshot(chunk uint64, owner string) {
	for _, id := range s.residents.In(chunk) {
		if r := s.replicas[id]; r.Owner == owner {
			r.stale = true
		}
	}
}

// Interrupted: the stream of an owner broke, so news of its replicas may be missing. The next ones may jump.
func (s *Store) Interrupted(owner string) {
	for _, r := range s.replicas {
		if r.Owner == owner {
			r.resetNext = true
		}
	}
}

// EndSnapshot notes what the snapshot of a chunk should have confirmed and did not: the owner's own replicas, and those of
// dead owners at home in one of the regions that it covers. They may have moved to a chunk whose snapshot is still on its
// way, so they stay until Sweep.
func (s *Store) EndSnapshot(chunk uint64, owner string, homes []uint32) {
	for _, id := range s.residents.In(chunk) {
		r := s.replicas[id]
		if slices.Contains(homes, r.Home) && (r.Owner == owner && r.stale || r.Owner != owner && s.dead(r.Owner)) {
			if !r.missing {
				r.missing = true
				s.missing[owner] = append(s.missing[owner], id)
			}
		}
	}
}

// Sweep removes what all snapshots of an owner together did not confirm. Call it when none of them is on its way.
func (s *Store) Sweep(owner string) {
	for _, id := range s.missing[owner] {
		if r := s.replicas[id]; r != nil && r.missing {
			s.observe(Swept, id)
			s.Remove(r, wire.VanishReason_VANISH_REASON_GONE)
		}
	}
	delete(s.missing, owner)
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
