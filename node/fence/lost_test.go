package fence

import (
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// placed is the session Lease of node 1 as session 3 wrote it, with where that session is.
func placed() *coordinationv1.Lease {
	lease := held(sessionLease(1), "genesis-zone-1_uid", 3)
	lease.Annotations = map[string]string{
		v1alpha1.AnnotationAddress: "10.0.0.1:7", v1alpha1.AnnotationKeyHash: "k", v1alpha1.AnnotationGateway: "10.0.0.1:8",
	}
	return lease
}

// third is session 3 of node 1 as its peers know it.
var third = PeerInfo{Session: "genesis-zone-1#3", Node: zone1, Address: "10.0.0.1:7", KeyHash: "k", Gateway: "10.0.0.1:8"}

// ways are how a ledger may learn at some version that the session Lease of node 1 is deleted.
var ways = map[string]func(l *ledger, version string) error{
	"a watch event": func(l *ledger, version string) error { return l.Delete(at(version, placed())) },
	"a list": func(l *ledger, version string) error {
		return l.Replace([]any{at("5", regionLease(0, 0, "genesis-zone-1#3", 7, zone1))}, version)
	},
}

// lostLedger is an ownedLedger that knows where session 3 is, and saw at version 9 that its Lease is deleted.
func lostLedger(t *testing.T, remove func(*ledger, string) error) *ledger {
	t.Helper()
	l := ownedLedger(t)
	l.observe(at("6", placed()))
	if err := remove(l, "9"); err != nil {
		t.Fatal(err)
	}
	return l
}

// shows checks who is live, and that the first region is owned by the session that holds its Lease if that is live.
func shows(t *testing.T, l *ledger, when string, live ...PeerInfo) {
	t.Helper()
	got := l.table()
	if !slices.Equal(got.Sessions, live) {
		t.Errorf("%s: live are %+v, want %+v", when, got.Sessions, live)
	}
	holder := l.region(0).holder
	owned := slices.ContainsFunc(live, func(p PeerInfo) bool { return p.Session == holder })
	if row := got.Regions[0]; owned && row.Session != holder || !owned && row.Session != "" {
		t.Errorf("%s: region held by %q shown as %+v", when, holder, row)
	}
}

func TestSessionOutlivesItsLostLeaseUntilThatIsAnothersOrNobodys(t *testing.T) {
	for way, remove := range ways {
		for name, end := range map[string]struct {
			lease *coordinationv1.Lease
			live  []PeerInfo
		}{
			"revoked":                      {lease: held(sessionLease(1), "", 1001)},
			"taken by its node's next one": {held(sessionLease(1), "genesis-zone-1_next", 1002), []PeerInfo{{Session: "genesis-zone-1#1002", Node: zone1}}},
		} {
			l := lostLedger(t, remove)
			shows(t, l, way+" of the deletion", third)
			l.observe(at("10", standIn(1, 1001)))
			shows(t, l, way+", then made again", third)
			if err := l.Delete(at("11", standIn(1, 1001))); err != nil {
				t.Fatal(err)
			}
			shows(t, l, way+", then lost again", third)
			l.observe(at("12", standIn(1, 1001)))
			l.observe(at("13", end.lease))
			shows(t, l, way+", then "+name, end.live...)
		}
	}
}

func TestSessionIsOverWhenItsLostLeaseIsMadeAgainFree(t *testing.T) {
	l := lostLedger(t, ways["a watch event"])
	l.observe(at("10", held(sessionLease(1), "", 1001)))
	shows(t, l, "made again free")
}

func TestSessionOfALostLeaseThatNobodySawIsLiveByWordOfItsRegion(t *testing.T) {
	named := PeerInfo{Session: "genesis-zone-1#3", Node: zone1}
	region := func(version, holder string) *coordinationv1.Lease {
		return at(version, regionLease(0, 0, holder, 7, zone1))
	}
	for name, list := range map[string][]any{
		"missing":                {region("5", "genesis-zone-1#3")},
		"made again":             {at("4", standIn(1, 1001)), region("5", "genesis-zone-1#3")},
		"made again, told later": {region("5", "genesis-zone-1#3"), at("4", standIn(1, 1001))},
	} {
		l := newLedger(shape{world: testWorld, columns: 4, rows: 2}, func() {}, func(string, error) {})
		if err := l.Replace(list, "9"); err != nil {
			t.Fatal(err)
		}
		if err := l.Delete(region("10", "genesis-zone-1#3")); err != nil {
			t.Fatal(err)
		}
		shows(t, l, name+", and its region lost", named)
		l.observe(region("11", "genesis-zone-1#3"))
		l.observe(region("12", "genesis-zone-1#2")) // of an earlier life
		shows(t, l, name, named)
		l.observe(at("13", held(sessionLease(1), "", 1001)))
		shows(t, l, name+", then revoked")
	}
}

func TestSessionThatTookAndLostItsLeaseUnseenIsLiveByWordOfItsRegion(t *testing.T) {
	l := ownedLedger(t)
	if err := l.Replace([]any{at("8", regionLease(0, 0, "genesis-zone-1#4", 8, zone1))}, "9"); err != nil {
		t.Fatal(err)
	}
	shows(t, l, "after a list", PeerInfo{Session: "genesis-zone-1#4", Node: zone1})
}

func TestSessionThatIsOverIsNotLiveByWordOfItsRegion(t *testing.T) {
	for name, last := range map[string]*coordinationv1.Lease{
		"revoked":                   held(sessionLease(1), "", 3),
		"revoked under a later one": held(sessionLease(1), "", 1001),
	} {
		l := ownedLedger(t)
		l.observe(at("6", last))
		if err := l.Delete(at("9", last.DeepCopy())); err != nil {
			t.Fatal(err)
		}
		l.observe(at("10", regionLease(0, 0, "genesis-zone-1#3", 7, "genesis-zone-2")))
		shows(t, l, name+", then deleted")
		l.observe(at("11", standIn(1, 2001)))
		shows(t, l, name+", then deleted and made again")
	}
}

func TestRegionHeldByNoSessionOfTheWorldMakesNobodyLive(t *testing.T) {
	for _, holder := range []string{"eden-zone-1#3", "genesis-zone-1024#3", "genesis-zone-1", "lost"} {
		l := newLedger(shape{world: testWorld, columns: 4, rows: 2}, func() {}, func(string, error) {})
		if err := l.Replace([]any{at("5", regionLease(0, 0, holder, 7, zone1))}, "9"); err != nil {
			t.Fatal(err)
		}
		shows(t, l, "held by "+holder)
	}
}
