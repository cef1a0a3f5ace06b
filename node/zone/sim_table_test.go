package zone

import (
	"slices"
	"testing"

	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// The Lease of b's only region is gone, so for a moment the table names b nowhere; b need not know that yet, and acts. Who recovers
// another region asks b, and waits for its answer.
func TestARecoveryWaitsForASessionWhoseOnlyLeaseIsGone(t *testing.T) {
	grid, err := torus.NewGrid(2, 1, 15)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Grid: grid, Session: "a#1", Node: "a", Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	show := func(sessions ...string) {
		t.Helper()
		var rows []partition.Row
		for i, session := range sessions {
			rows = append(rows, partition.Row{Owner: partition.Owner{Session: session, Epoch: uint64(i + 1)}})
		}
		table, err := partition.NewTable(grid, rows)
		if err != nil {
			t.Fatal(err)
		}
		e.step(t, &Inbox{Table: table})
	}
	waits := func() bool { return slices.Contains(e.sim.regions[0].waiting, "b#1") }
	show("c#1", "b#1")
	show("c#1", "")
	show("a#1", "")
	if !waits() {
		t.Error("b, whose Lease is gone, is not asked")
	}
	show("a#1", "")
	if !waits() {
		t.Error("b is not waited for any more")
	}
	show("a#1", "c#1")
	if waits() {
		t.Error("b is waited for though its region is c's, and it does not answer")
	}
}
