package handoff

import (
	"slices"

	"github.com/spatialcells/spatialcells/node/ecs"
)

const (
	// TombstoneTicks is how long a node remembers whom it gave an entity to: 30 s.
	TombstoneTicks = 600
	// BurnTicks is how long a refused epoch is remembered: the source gives up on an epoch when it hears of the refusal,
	// and a reliable message that was not delivered within a minute belongs to a dead session.
	BurnTicks = 1200
	// MaxRemembered bounds what is remembered when another refusal comes. Tombstones are of entities that this node had.
	MaxRemembered = 1 << 18
)

// Verdict is the target's answer to an offer.
type Verdict uint8

const (
	// Take: create the entity.
	Take Verdict = iota + 1
	// AcceptAgain: it was taken before, here or newer; the source may forget its copy.
	AcceptAgain
	// Refuse: the epoch is burned, or older than what is known.
	Refuse
)

// Tombstone says where an entity went.
type Tombstone struct {
	Epoch  ecs.Epoch
	Region int    // home region index now
	To     string // session of the new owner
	// Chunk it was indexed in here, and the one it stands in there.
	Chunk, NewChunk uint64
}

type remembered[T any] struct {
	value T
	until int64
}

type due struct {
	entity ecs.EntityID
	until  int64
	chunk  uint64 // of a tombstone
}

// Known is what a node remembers of entities it does not own. The zero value is ready for use.
type Known struct {
	tombs  map[ecs.EntityID]remembered[Tombstone]
	burned map[ecs.EntityID]remembered[ecs.Epoch]
	queue  []due // by until, for both maps
	// left are the tombstones by the chunk that they left, oldest first. Some have been replaced since: those in tombs count.
	left map[uint64][]due
}

// Bury remembers that the entity went to a region with an epoch.
func (k *Known) Bury(tick int64, id ecs.EntityID, t Tombstone) {
	if k.tombs == nil {
		k.tombs, k.left = map[ecs.EntityID]remembered[Tombstone]{}, map[uint64][]due{}
	}
	d := due{id, tick + TombstoneTicks, t.Chunk}
	k.tombs[id] = remembered[Tombstone]{t, d.until}
	k.remember(d)
	if t.Chunk != Nowhere {
		k.left[t.Chunk] = append(k.left[t.Chunk], d)
	}
}

// Burn remembers that an epoch of the entity is refused: it is never taken. False: too much is remembered, so it may not be refused now.
func (k *Known) Burn(tick int64, id ecs.EntityID, epoch ecs.Epoch) bool {
	if k.burned == nil {
		k.burned = map[ecs.EntityID]remembered[ecs.Epoch]{}
	}
	if old, ok := k.burned[id]; ok && epoch.Less(old.value) {
		return true
	}
	if len(k.queue) >= MaxRemembered {
		return false
	}
	k.burned[id] = remembered[ecs.Epoch]{epoch, tick + BurnTicks}
	k.remember(due{id, tick + BurnTicks, Nowhere})
	return true
}

func (k *Known) remember(d due) {
	i, _ := slices.BinarySearchFunc(k.queue, d.until+1, func(d due, u int64) int { return int(d.until - u) })
	k.queue = slices.Insert(k.queue, i, d)
}

// Tombstone returns where the entity went, if it is remembered.
func (k *Known) Tombstone(id ecs.EntityID) (Tombstone, bool) {
	t, ok := k.tombs[id]
	return t.value, ok
}

// Chunks of tombstones of which observers may have the entity in any chunk, or in none.
const (
	Anywhere = ^uint64(0)
	Nowhere  = Anywhere - 1
)

// InChunk calls fn for each entity that was handed over while it was indexed in a chunk, then for those that may be seen in any;
// oldest first.
func (k *Known) InChunk(chunk uint64, fn func(ecs.EntityID, Tombstone)) {
	for _, from := range [...]uint64{chunk, Anywhere} {
		for _, d := range k.left[from] {
			if t, ok := k.tombs[d.entity]; ok && t.value.Chunk == from && t.until == d.until {
				fn(d.entity, t.value)
			}
		}
	}
}

// Returned forgets the tombstone: the entity is here again.
func (k *Known) Returned(id ecs.EntityID) { delete(k.tombs, id) }

// Judge answers an offer of an epoch. live is the epoch of the copy that this node owns or holds frozen, if it has one. An
// orphan is refused only if its very epoch is burned: that a later one is, says nothing of whether somebody has it. Nor does it say so
// that the entity went to the very session that offers it now, at the epoch that it got there: it has lost the region since.
func (k *Known) Judge(id ecs.EntityID, from string, offered ecs.Epoch, live *ecs.Epoch, orphan bool) Verdict {
	if live != nil {
		if live.Less(offered) {
			return Refuse // the source cannot own what this node owns: let the newer epochs settle it
		}
		return AcceptAgain
	}
	if t, ok := k.tombs[id]; ok && !t.value.Epoch.Less(offered) && (t.value.To != from || t.value.Epoch != offered) {
		return AcceptAgain
	}
	if b, ok := k.burned[id]; ok && (b.value == offered || !orphan && !b.value.Less(offered)) {
		return Refuse
	}
	return Take
}

// Expire forgets what is old. Call it once a tick.
func (k *Known) Expire(tick int64) {
	n := 0
	for ; n < len(k.queue) && k.queue[n].until <= tick; n++ {
		id := k.queue[n].entity
		if t, ok := k.tombs[id]; ok && t.until <= tick {
			delete(k.tombs, id)
		}
		if b, ok := k.burned[id]; ok && b.until <= tick {
			delete(k.burned, id)
		}
		k.expireLeft(k.queue[n].chunk, tick)
	}
	k.queue = k.queue[n:]
}

func (k *Known) expireLeft(chunk uint64, tick int64) {
	list := k.left[chunk]
	for len(list) > 0 && list[0].until <= tick {
		list = list[1:]
	}
	if len(list) == 0 {
		delete(k.left, chunk)
		return
	}
	k.left[chunk] = list
}

// Len is the number of entities remembered.
func (k *Known) Len() int { return len(k.tombs) + len(k.burned) }
