package liveness

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	duration = 15 * time.Second
	maxGap   = 5 * time.Second
	second   = time.Second
)

func at(rv string) map[int32]Sighting { return map[int32]Sighting{0: {UID: "u", ResourceVersion: rv}} }

func TestSilenceCountsFromTheEndOfTheFirstReadToTheBeginningOfTheLast(t *testing.T) {
	var o Observer
	o.Observe(0, 2*second, maxGap, at("1"))
	o.Observe(5*second, 7*second, maxGap, at("1"))
	if got := o.Unchanged(0); got != 3*second {
		t.Errorf("unchanged for %v, want 3s", got)
	}
}

func TestARenewalStartsAnew(t *testing.T) {
	var o Observer
	o.Observe(0, 0, maxGap, at("1"))
	o.Observe(4*second, 4*second, maxGap, at("2"))
	o.Observe(8*second, 8*second, maxGap, at("2"))
	if got := o.Unchanged(0); got != 4*second {
		t.Errorf("unchanged for %v, want 4s", got)
	}
}

func TestAGapStartsAnew(t *testing.T) {
	var o Observer
	o.Observe(0, 0, maxGap, at("1"))
	o.Observe(30*second, 30*second, maxGap, at("1"))
	if got := o.Unchanged(0); got != 0 {
		t.Errorf("unchanged for %v after an outage, want 0", got)
	}
}

func TestAFailedReadStartsAnew(t *testing.T) {
	var o Observer
	o.Observe(0, 0, maxGap, at("1"))
	o.Restart()
	o.Observe(2*second, 2*second, maxGap, at("1"))
	if got := o.Unchanged(0); got != 0 {
		t.Errorf("unchanged for %v after a failed read, want 0", got)
	}
}

func TestALeaseThatWasMissingStartsAnew(t *testing.T) {
	var o Observer
	o.Observe(0, 0, maxGap, at("1"))
	o.Observe(4*second, 4*second, maxGap, nil)
	o.Observe(8*second, 8*second, maxGap, at("1"))
	if got := o.Unchanged(0); got != 0 {
		t.Errorf("unchanged for %v after it was missing, want 0", got)
	}
}

// A node that renews at least once per duration is never seen unchanged for a full one, whatever the reads, delays and
// outages do. Each read returns some state that the Lease had between its beginning and its end.
func TestANodeThatRenewsInTimeIsNeverSeenSilent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Observer
		period := time.Duration(rapid.Int64Range(1, int64(duration)-1).Draw(t, "renewal period"))
		version := func(now time.Duration) string { return (now / period).String() }
		now := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "reads") {
			now += time.Duration(rapid.Int64Range(0, int64(2*maxGap)).Draw(t, "pause"))
			took := time.Duration(rapid.Int64Range(0, int64(2*second)).Draw(t, "took"))
			if rapid.Float64().Draw(t, "luck") < 0.1 {
				o.Restart()
			} else {
				served := now + time.Duration(rapid.Int64Range(0, int64(took)).Draw(t, "served"))
				o.Observe(now, now+took, maxGap, at(version(served)))
			}
			now += took
			if got := o.Unchanged(0); got >= duration {
				t.Fatalf("seen unchanged for %v though it renews every %v", got, period)
			}
		}
	})
}

// With reads going well, a node that died is found out within a duration and one read period.
func TestADeadNodeIsFoundOut(t *testing.T) {
	var o Observer
	for now := time.Duration(0); now <= duration; now += 3 * second {
		o.Observe(now, now, maxGap, at("1"))
	}
	if got := o.Unchanged(0); got < duration {
		t.Errorf("unchanged for %v, want at least %v", got, duration)
	}
}

func TestBoottimeGoesForward(t *testing.T) {
	a, b := Boottime(), Boottime()
	if b < a || a == 0 {
		t.Errorf("boottime %v then %v", a, b)
	}
}
