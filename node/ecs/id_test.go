package ecs

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func mustSource(t interface{ Fatal(...any) }, ordinal int, incarnation int32) *IDSource {
	s, err := NewIDSource(ordinal, incarnation)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestIDsCarryTimeShardAndSequence(t *testing.T) {
	s := mustSource(t, 63, 16*5+3)
	now := int64(IDEpochMillis + 1234)
	for sequence := range 3 {
		id, err := s.Next(now)
		if err != nil || id.Millis() != now || id.Shard() != 63*16+3 || id.Sequence() != sequence {
			t.Fatalf("id %d: %d ms, shard %d, sequence %d, %v", id, id.Millis(), id.Shard(), id.Sequence(), err)
		}
	}
	if id, _ := s.Next(now + 1); id.Sequence() != 0 || id != EntityID(1235<<22|(63*16+3)<<12) {
		t.Errorf("the next millisecond starts with %d", id)
	}
}

func TestIDsNeverRepeatWhateverTheClockDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now, last := mustSource(t, 0, 0), int64(IDEpochMillis+1_000_000), EntityID(0)
		steps := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(-1, 1), rapid.Int64Range(-5000, 5000)), 1, 20).Draw(t, "steps")
		for _, step := range steps {
			now += step
			for range rapid.SampledFrom([]int{1, 2, 4095, 4096, 4097}).Draw(t, "burst") {
				id, err := s.Next(now)
				if err != nil || id <= last {
					t.Fatalf("at %d ms: id %d after %d, %v", now, id, last, err)
				}
				last = id
			}
		}
	})
}

func TestUsedUpMillisecondsBorrowFromTheNext(t *testing.T) {
	s, now := mustSource(t, 1, 1), int64(IDEpochMillis+10)
	for range 4096 {
		_, _ = s.Next(now)
	}
	if id, err := s.Next(now); err != nil || id.Millis() != now+1 || id.Sequence() != 0 {
		t.Errorf("got %d ms, sequence %d, %v", id.Millis(), id.Sequence(), err)
	}
	if id, err := s.Next(now + 1); err != nil || id.Millis() != now+1 || id.Sequence() != 1 {
		t.Errorf("the clock catches up: %d ms, sequence %d, %v", id.Millis(), id.Sequence(), err)
	}
}

func TestNeighbouringLivesAndNodesShareNoShard(t *testing.T) {
	seen := map[EntityID]string{}
	for ordinal := range MaxOrdinal + 1 {
		for incarnation := range int32(16) {
			id, err := mustSource(t, ordinal, incarnation+160).Next(IDEpochMillis)
			if err != nil || seen[id] != "" {
				t.Fatalf("ordinal %d, incarnation %d: id %d again, %v", ordinal, incarnation, id, err)
			}
			seen[id] = "taken"
		}
	}
}

func TestIDsRefuseClocksAndNodesOutOfBounds(t *testing.T) {
	for _, now := range []int64{0, -1, math.MinInt64, IDEpochMillis - 1, IDEpochMillis + 1<<42, math.MaxInt64} {
		if id, err := mustSource(t, 0, 0).Next(now); err == nil {
			t.Errorf("at %d ms: id %d", now, id)
		}
	}
	s := mustSource(t, 0, 0)
	_, _ = s.Next(IDEpochMillis + maxMillis)
	for range maxSequence {
		if _, err := s.Next(math.MinInt64); err != nil {
			t.Fatalf("a clock gone back: %v", err)
		}
	}
	if id, err := s.Next(IDEpochMillis); err == nil {
		t.Errorf("after the last id: %d", id)
	}
	for _, bad := range []struct {
		ordinal     int
		incarnation int32
	}{{-1, 0}, {64, 0}, {0, -1}} {
		if _, err := NewIDSource(bad.ordinal, bad.incarnation); err == nil {
			t.Errorf("ordinal %d, incarnation %d", bad.ordinal, bad.incarnation)
		}
	}
}

func BenchmarkNextID(b *testing.B) {
	s, now := mustSource(b, 3, 7), int64(IDEpochMillis)
	for b.Loop() {
		_, _ = s.Next(now)
	}
}
