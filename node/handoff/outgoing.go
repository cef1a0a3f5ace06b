package handoff

import (
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
)

const (
	// RepeatTicks is after how long an unanswered offer is sent again: 2 s. The reliable stream repeats by itself within a
	// pair of sessions; this is for a target session that is gone.
	RepeatTicks = 40
	// HeirTicks is after how long an offer is repeated to the heir of a dead target, which says nothing until it is ready:
	// half a second, because observers wait for a second before what nobody has vanishes.
	HeirTicks = 10
	// PatientTicks is the longest pause between two repeats to a target that lives and has accepted: 8 s. It says Durable by
	// itself when the store has the entity.
	PatientTicks = 160
	// OffersPerTick bounds the repeats of a tick, each of which is a whole entity.
	OffersPerTick = 64
	// BackOffTicks is how long a refused entity waits before it is offered again: 1 s.
	BackOffTicks = 20
)

// Outgoing is an entity on its way to another node.
type Outgoing struct {
	Entity ecs.EntityID
	// Epoch that the target will have.
	Epoch  ecs.Epoch
	Region int    // target region index
	Target string // session that the offer was last sent to
	// Chunk is the key of the one that it stands in there; Jumped: it does not get there by walking.
	Chunk  uint64
	Jumped bool
	// Offer is kept until the target says Durable.
	Offer    *wire.Offer
	Accepted bool
	// PassedOn: the target that was asked first is gone, and may have taken it.
	PassedOn bool
	// Heir is the session that recovers the target region, if one has asked what is kept of it: only its Durable counts.
	Heir string
	// FrozenAt is the boot-time clock when the entity was frozen, AcceptedAt when the target took it; FrozenTick is the tick.
	FrozenAt   time.Duration
	AcceptedAt time.Duration
	FrozenTick int64
	next       int64
	pause      int64 // before that
}

// Orphaned reports whether somebody else may have had the entity and lost it since, so that the snapshot may be all there
// is, or older than what there is: an heir that is not ready stays silent, and one that is asks the store first.
func (o *Outgoing) Orphaned() bool { return o.Accepted || o.PassedOn }

// ComesBack reports whether a session that has taken the entity offers that very copy now: it has lost the region since, and this
// node has got it. Each would keep it for the other.
func (o *Outgoing) ComesBack(from string, epoch ecs.Epoch) bool {
	return o.Accepted && o.Target == from && o.Epoch == epoch
}

// Recovering notes that a session recovers the target region: whoever was asked there has lost the entity, if it had it.
func (o *Outgoing) Recovering(tick int64, session string) {
	o.PassedOn, o.next = true, tick+HeirTicks
	if session != o.Target {
		o.Heir = session
	}
}

// Released: who was asked has nothing to do with it any more.
func (o *Outgoing) Released(tick int64) { o.Target, o.PassedOn, o.next = "", true, tick }

// Book holds the entities on their way out, by id. The zero value is ready for use.
type Book struct {
	list []*Outgoing // sorted by entity
	// turn is the entity from which on Due looks first.
	turn ecs.EntityID
}

// Get returns the entry of an entity or nil.
func (b *Book) Get(id ecs.EntityID) *Outgoing {
	if i, ok := b.find(id); ok {
		return b.list[i]
	}
	return nil
}

// Begin records that an entity was offered in this tick.
func (b *Book) Begin(tick int64, o *Outgoing) {
	o.FrozenTick, o.next = tick, tick+RepeatTicks
	i, ok := b.find(o.Entity)
	if ok {
		b.list[i] = o
		return
	}
	b.list = slices.Insert(b.list, i, o)
}

// End forgets an entity: durable at the target, or refused.
func (b *Book) End(id ecs.EntityID) {
	if i, ok := b.find(id); ok {
		b.list = slices.Delete(b.list, i, i+1)
	}
}

// Peers is what Due asks about sessions.
type Peers interface {
	// Alive reports whether a session is not known to be dead, Linked whether what is sent to it goes out.
	Alive(session string) bool
	Linked(session string) bool
	// Holder is who holds a region now, "" nobody.
	Holder(region int) string
}

// Due calls offer for every entry whose offer must be sent (again): its target changed, or did not answer in time. Who was asked
// answers as long as it lives, also if it has given the region away: it may have handed the entity on. Who is not linked is asked when
// it is, and if more is due than one tick may repeat, the next goes on where this one ended. offer is told who was asked before.
func (b *Book) Due(tick int64, peers Peers, offer func(o *Outgoing, before string)) {
	first, _ := b.find(b.turn)
	budget := OffersPerTick
	for i := range b.list {
		o := b.list[(first+i)%len(b.list)]
		to := o.Target
		if to == "" || !peers.Alive(to) {
			to = peers.Holder(o.Region)
		}
		if to == "" || to == o.Target && tick < o.next || !peers.Linked(to) {
			continue
		}
		if budget--; budget < 0 {
			b.turn = o.Entity
			return
		}
		before := o.Target
		o.repeat(tick, to)
		offer(o, before)
	}
}

// repeat notes that an entity is offered to a session, and when it is the next time.
func (o *Outgoing) repeat(tick int64, to string) {
	o.PassedOn = o.PassedOn || to != o.Target
	switch {
	case o.PassedOn:
		o.pause = HeirTicks
	case o.Accepted:
		o.pause = min(max(2*o.pause, RepeatTicks), PatientTicks)
	default:
		o.pause = RepeatTicks
	}
	o.Target, o.next = to, tick+o.pause
}

// All returns the entries, by entity. It may not be written.
func (b *Book) All() []*Outgoing { return b.list }

func (b *Book) find(id ecs.EntityID) (int, bool) {
	return slices.BinarySearchFunc(b.list, id, func(o *Outgoing, id ecs.EntityID) int {
		switch {
		case o.Entity < id:
			return -1
		case o.Entity > id:
			return 1
		}
		return 0
	})
}
