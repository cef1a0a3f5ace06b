package ecs

import (
	"fmt"
	"strconv"
)

// EntityID names an entity for ever, on all nodes: milliseconds since 2024-01-01 UTC << 22 | shard (10 bits) << 12 |
// sequence (12 bits). 0 is no entity.
type EntityID uint64

const (
	// IDEpochMillis is 2024-01-01T00:00:00Z in Unix milliseconds.
	IDEpochMillis = 1_704_067_200_000

	// MaxOrdinal bounds node ordinals, so that ordinal and incarnation fit a shard.
	MaxOrdinal = 63

	incarnationsPerShard = 16
	sequenceBits         = 12
	shardBits            = 10
	maxSequence          = 1<<sequenceBits - 1
	maxMillis            = 1<<(64-shardBits-sequenceBits) - 1
)

// Millis is the id's time in Unix milliseconds. It may be ahead of the clock it was made by; see IDSource.
func (id EntityID) Millis() int64 { return int64(id>>(shardBits+sequenceBits)) + IDEpochMillis }

// Shard is ordinal x 16 + incarnation mod 16 of the node life that made the id.
func (id EntityID) Shard() int { return int(id>>sequenceBits) & (1<<shardBits - 1) }

// Sequence numbers the ids of one shard in one millisecond.
func (id EntityID) Sequence() int { return int(id & maxSequence) }

// String writes the id in decimal, as logs and stores show it.
func (id EntityID) String() string { return strconv.FormatUint(uint64(id), 10) }

// IDSource makes the ids of one node life. Neighbouring lives have different shards, so a life never repeats an id of one
// before it even if its clock is behind. A shard comes again after 16 incarnations, or sooner if the session Lease was lost, as the
// numbers then go on far above. Therefore a life begins above what the ones before it can have used: see NotBefore. It is not safe
// for concurrent use.
type IDSource struct {
	shard    EntityID
	millis   int64 // of the last id, since IDEpochMillis; -1 before the first
	sequence EntityID
}

// NewIDSource returns the source of the incarnation (>= 0) of the node of an ordinal (0 to MaxOrdinal).
func NewIDSource(ordinal int, incarnation int32) (*IDSource, error) {
	if ordinal < 0 || ordinal > MaxOrdinal {
		return nil, fmt.Errorf("entity ids of ordinal %d: use 0 to %d", ordinal, MaxOrdinal)
	}
	if incarnation < 0 {
		return nil, fmt.Errorf("entity ids of incarnation %d: use 0 or more", incarnation)
	}
	shard := ordinal*incarnationsPerShard + int(incarnation%incarnationsPerShard)
	return &IDSource{shard: EntityID(shard), millis: -1}, nil
}

// NotBefore makes all ids later than a time in Unix milliseconds, whatever the clock says: the last at which an earlier life of the
// node can have made one.
func (s *IDSource) NotBefore(unixMillis int64) {
	if millis := unixMillis - IDEpochMillis; millis > s.millis && millis < maxMillis {
		s.millis, s.sequence = millis, maxSequence
	}
}

// Next returns an id that this source never returned before, larger than all of them. nowMillis is the wall clock in Unix
// milliseconds. When the 4096 ids of a millisecond are used up, the next millisecond's are taken; a clock that stands
// still or goes back is answered by going on from the last id. The error is a clock outside 2024 to 2163, before the
// first id or at the end of time.
func (s *IDSource) Next(nowMillis int64) (EntityID, error) {
	now := max(nowMillis, 0) - IDEpochMillis
	if now < 0 && s.millis < 0 || now > maxMillis {
		return 0, fmt.Errorf("entity id at %d ms: the clock is outside 2024 to 2163", nowMillis)
	}
	millis, sequence := now, EntityID(0)
	if now <= s.millis {
		millis, sequence = s.millis, s.sequence+1
	}
	if sequence > maxSequence {
		millis, sequence = millis+1, 0
	}
	if millis > maxMillis {
		return 0, fmt.Errorf("entity id at %d ms: no ids are left", nowMillis)
	}
	s.millis, s.sequence = millis, sequence
	return EntityID(millis)<<(shardBits+sequenceBits) | s.shard<<sequenceBits | sequence, nil
}
