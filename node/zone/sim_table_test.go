package zone

import (
	"slices"
	"testing"
)

// The Lease of b's only region is gone, so for a moment the table names b nowhere; b need not know that yet, and acts. Who recovers
// another region asks b, and waits for its answer.
func TestARecoveryWaitsForASessionWhoseOnlyLeaseIsGone(t *testing.T) {
	e := alone(t)
	waits := func() bool { return slices.Contains(e.sim.regions[0].waiting, "b#1") }
	e.show(t, "c#1", "b#1")
	e.show(t, "c#1", "")
	e.show(t, "a#1", "")
	if !waits() {
		t.Error("b, whose Lease is gone, is not asked")
	}
	e.show(t, "a#1", "")
	if !waits() {
		t.Error("b is not waited for any more")
	}
	e.show(t, "a#1", "c#1")
	if waits() {
		t.Error("b is waited for though its region is c's, and it does not answer")
	}
}
