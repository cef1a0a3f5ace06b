package ecs

import "testing"

// The clock of the machine went back by an hour, or the pod came up on another one: a life whose shard was used before makes no id
// that was made then.
func TestALifeMakesNoIDOfTheTimeBeforeIt(t *testing.T) {
	const now = IDEpochMillis + 1_000_000_000
	before, err := NewIDSource(3, 7)
	if err != nil {
		t.Fatal(err)
	}
	last, err := before.Next(now)
	if err != nil {
		t.Fatal(err)
	}
	after, err := NewIDSource(3, 7+incarnationsPerShard)
	if err != nil {
		t.Fatal(err)
	}
	after.NotBefore(now)
	for range 3 {
		id, err := after.Next(now - 3_600_000)
		if err != nil || id <= last || id.Shard() != last.Shard() {
			t.Errorf("%v of shard %d after %v of shard %d: %v", id, id.Shard(), last, last.Shard(), err)
		}
	}
	after.NotBefore(-1) // nothing is known
	if id, err := after.Next(now + 5); err != nil || id.Millis() != now+5 {
		t.Errorf("at %d: %v", id.Millis(), err)
	}
}
