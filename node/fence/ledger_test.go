package fence

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// at gives a Lease a resourceVersion.
func at(version string, lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease.ResourceVersion = version
	return lease
}

// ownedLedger is one that was listed at version 5: node 1 is live as session 3 and owns the first region.
func ownedLedger(t *testing.T) *ledger {
	l := newLedger(shape{world: testWorld, columns: 4, rows: 2}, func() {}, func(string, error) {})
	list := []any{at("4", held(sessionLease(1), "genesis-zone-1_uid", 3)), at("5", regionLease(0, 0, "genesis-zone-1#3", 7, zone1))}
	if err := l.Replace(list, "5"); err != nil {
		t.Fatal(err)
	}
	return l
}

// standIn is the session Lease of a node as the operator makes it in place of a lost one.
func standIn(ordinal int, transitions int32) *coordinationv1.Lease {
	return held(sessionLease(ordinal), v1alpha1.LostHolder, transitions)
}

func TestLateAnswerDoesNotBringBackADeletedRegion(t *testing.T) {
	for name, remove := range map[string]func(*ledger) error{
		"a watch event": func(l *ledger) error { return l.Delete(at("9", regionLease(0, 0, "genesis-zone-1#3", 7, zone1))) },
		"a list": func(l *ledger) error {
			return l.Replace([]any{at("4", held(sessionLease(1), "genesis-zone-1_uid", 3))}, "9")
		},
	} {
		l := ownedLedger(t)
		if row := l.table().Regions[0]; row.Session != "genesis-zone-1#3" {
			t.Fatalf("%+v at first", row)
		}
		if err := remove(l); err != nil {
			t.Fatal(err)
		}
		l.observe(at("8", regionLease(0, 0, "genesis-zone-1#3", 8, zone1)))
		l.observe(at("8", regionLease(1, 0, "genesis-zone-1#3", 8, zone1))) // never shown, deleted before the list of version 9
		got := l.table().Regions
		if got[0] != (Row{}) {
			t.Errorf("%s: a late answer made %+v of a deleted lease", name, got[0])
		}
		if listed := name == "a list"; listed != (got[1] == Row{}) {
			t.Errorf("%s: an answer about a lease that no list knows made %+v", name, got[1])
		}
		l.observe(at("10", regionLease(0, 0, "genesis-zone-1#3", 1000, zone1)))
		if row := l.table().Regions[0]; row.Session != "genesis-zone-1#3" || row.Epoch != 1000 {
			t.Errorf("%s: made anew as %+v", name, row)
		}
	}
}

func TestLateAnswerDoesNotBringBackADeletedSession(t *testing.T) {
	l := ownedLedger(t)
	session := func() *coordinationv1.Lease { return held(sessionLease(1), "genesis-zone-1_uid", 3) }
	if err := l.Delete(at("9", session())); err != nil {
		t.Fatal(err)
	}
	l.observe(at("10", standIn(1, 1001)))
	l.observe(at("11", held(sessionLease(1), "", 1001))) // revoked
	l.observe(at("8", session()))
	if got := l.table(); len(got.Sessions) != 0 || got.Regions[0].Session != "" || got.Regions[0].Epoch != 7 {
		t.Errorf("sessions %+v, region %+v", got.Sessions, got.Regions[0])
	}
	if err := l.Delete(at("12", held(sessionLease(1), "", 1001))); err != nil {
		t.Fatal(err)
	}
	l.observe(at("8", session()))
	if got := l.table(); len(got.Sessions) != 0 || got.Regions[0].Session != "" || got.Regions[0].Epoch != 7 {
		t.Errorf("after the deletion of a lease that nobody held: sessions %+v, region %+v", got.Sessions, got.Regions[0])
	}
	l.observe(at("13", session()))
	if got := l.table(); len(got.Sessions) != 1 {
		t.Errorf("sessions %+v of one that was made anew", got.Sessions)
	}
}

func TestListThatIsBehindUndoesNoDeletion(t *testing.T) {
	l := ownedLedger(t)
	region := regionLease(0, 0, "genesis-zone-1#3", 7, zone1)
	if err := l.Delete(at("9", region)); err != nil {
		t.Fatal(err)
	}
	if err := l.Replace([]any{at("4", held(sessionLease(1), "genesis-zone-1_uid", 3)), at("5", region.DeepCopy())}, "6"); err != nil {
		t.Fatal(err)
	}
	if row := l.table().Regions[0]; row != (Row{}) || l.region(0).lease != nil {
		t.Errorf("%+v after a list from before the deletion", row)
	}
	if names := l.wanted(func(r regionFacts) bool { return r.target == v1alpha1.NodeName(testWorld, 1) }); len(names) != 0 {
		t.Errorf("wanted %v", names)
	}
}
