package store

import (
	"context"
	"testing"
	"time"
)

// TestATokenIsUsedOnceByAllNodesTogether, and is forgotten when it has expired.
func TestATokenIsUsedOnceByAllNodesTogether(t *testing.T) {
	server := embedded(t)
	one, _ := driver(t, server.Addr(), patient)
	two, _ := driver(t, server.Addr(), patient)
	use := func(r *Redis, name string) bool {
		t.Helper()
		used, err := r.UseToken(context.Background(), name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	if use(one, "a") || use(two, "b") {
		t.Error("a fresh token counts as used")
	}
	if !use(two, "a") || !use(one, "a") || !use(one, "b") {
		t.Error("a used token counts as fresh")
	}
	server.FastForward(time.Hour + time.Second)
	if use(two, "a") {
		t.Error("an expired token is remembered")
	}
}

// TestATokenIsNotTakenByAFencedNodeOrAStoreThatIsAway: not known to be recorded is an error, never "fresh".
func TestATokenIsNotTakenByAFencedNodeOrAStoreThatIsAway(t *testing.T) {
	server := embedded(t)
	fenced, _ := driver(t, server.Addr(), Options{Now: func() time.Duration { return 2 }, Fence: func() time.Duration { return 1 }})
	if _, err := fenced.UseToken(context.Background(), "a", time.Hour); err == nil {
		t.Error("a fenced node recorded a token")
	}
	if len(server.Keys()) != 0 {
		t.Errorf("a fenced node wrote %v", server.Keys())
	}
	away, _ := driver(t, server.Addr(), Options{Timeout: 50 * time.Millisecond})
	server.Close()
	if _, err := away.UseToken(context.Background(), "a", time.Hour); err == nil {
		t.Error("a token was recorded in a store that is away")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range cap(away.tokens) {
		away.tokens <- struct{}{}
	}
	if _, err := away.UseToken(ctx, "a", time.Hour); err == nil {
		t.Error("a caller that gave up was told that its token is fresh")
	}
}
