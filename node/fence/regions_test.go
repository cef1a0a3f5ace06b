package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// node is a running session with its regions.
type node struct {
	*running
	regions *Regions
	mu      sync.Mutex
	tables  []Table
}

func (n *node) table() Table {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tables[len(n.tables)-1]
}

// join starts a node with regions of a grid of 4 x 2, after the operator made what Leases the test did not.
func join(t *testing.T, c *conn, change func(*Config)) *node {
	t.Helper()
	c.api.complete(2, 4, 2)
	return joinAsIs(t, c, change)
}

func joinAsIs(t *testing.T, c *conn, change func(*Config)) *node {
	t.Helper()
	n := &node{running: start(t, c, change)}
	var err error
	n.regions, err = NewRegions(Clients{Regions: c}, n.Session, RegionsConfig{Columns: 4, Rows: 2, OnTable: func(table Table) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.tables = append(n.tables, table)
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); n.regions.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return n
}

// as is the Config of another node.
func as(ordinal int) func(*Config) {
	return func(c *Config) { c.Ordinal, c.PodName = ordinal, v1alpha1.NodeName(testWorld, ordinal) }
}

func (n *node) told() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.tables)
}

func TestNodeThatBeginsActsOnlyOnceTheLeasesNameEverybodyWhoActs(t *testing.T) {
	region, second := v1alpha1.RegionLeaseName(testWorld, 3, 1), v1alpha1.NodeName(testWorld, 2)
	for name, c := range map[string]struct {
		lose, found func(*modelAPI)
		known       bool // the node has a table in between
	}{
		"the session lease of a holder": {
			lose:  func(a *modelAPI) { a.remove(second) },
			found: func(a *modelAPI) { a.create(standIn(2, 1001)) },
		},
		"the session lease of a node that holds nothing": {
			lose:  func(a *modelAPI) { a.edit(region, setHolder("")); a.remove(zone0) },
			found: func(a *modelAPI) { a.create(standIn(0, 1001)) },
		},
		"a region lease": {
			lose:  func(a *modelAPI) { a.remove(region) },
			found: func(a *modelAPI) { a.create(regionLease(3, 1, "genesis-zone-2#4", 1001, second)) },
		},
		"a region lease, and its holder": {
			lose: func(a *modelAPI) {
				a.remove(region)
				a.create(regionLease(3, 1, "", 1001, ""))
			},
			found: func(a *modelAPI) { a.edit(region, setTarget(second)) },
		},
		"nothing": {lose: func(*modelAPI) {}, found: func(*modelAPI) {}, known: true},
		"the lease of a node that is no more": {
			lose:  func(a *modelAPI) { a.create(held(sessionLease(4), "", 7)) },
			found: func(*modelAPI) {},
			known: true,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := newModelAPI()
			api.create(held(sessionLease(2), "genesis-zone-2_1", 4))
			api.create(regionLease(3, 1, "genesis-zone-2#4", 9, second))
			api.create(regionLease(0, 0, "", 3, zone1))
			api.complete(2, 4, 2)
			c.lose(api)
			n := joinAsIs(t, dial(api), nil)
			after(time.Minute)
			if known := n.told() > 0; known != c.known {
				t.Fatalf("%s lost: table told %v", name, known)
			}
			if holder, _ := api.get(v1alpha1.RegionLeaseName(testWorld, 0, 0)); holderOf(holder) != "genesis-zone-1#1" {
				t.Errorf("%s lost: region free and ordered is held by %q: it may be taken before it is acted for", name, holderOf(holder))
			}
			c.found(api)
			after(time.Second)
			if n.told() == 0 || n.table().Regions[0].Session != "genesis-zone-1#1" {
				t.Fatalf("%s found: no table", name)
			}
			api.remove(v1alpha1.RegionLeaseName(testWorld, 1, 1))
			after(time.Second)
			if n.table().Regions[5] != (Row{}) {
				t.Errorf("%s: a node that has begun does not see what is lost", name)
			}
		})
	}
}

func TestNodeThatIsHeldBackSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, log := newModelAPI(), &bytes.Buffer{}
		api.complete(1, 4, 2)
		api.edit(v1alpha1.RegionLeaseName(testWorld, 3, 1), setHolder("genesis-zone-2#4"))
		joinAsIs(t, dial(api), func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		after(25 * time.Second)
		if got := strings.Count(log.String(), "waiting for the leases to name everybody"); got != 3 || !strings.Contains(log.String(), "lease genesis-zone-2 is missing") {
			t.Errorf("said %d times in 25 s:\n%s", got, log)
		}
	})
}

func TestNodeTakesWhatIsFreeAndOrderedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(held(sessionLease(2), "genesis-zone-2_1", 4))
		api.create(regionLease(0, 0, "", 3, zone1))
		api.create(regionLease(1, 0, "", 3, "genesis-zone-2"))
		api.create(regionLease(2, 0, "genesis-zone-2#4", 9, zone1))
		api.create(regionLease(3, 0, "genesis-zone-2#3", 9, zone1)) // of a dead session
		api.create(regionLease(0, 1, "genesis-zone-1#0", 5, "genesis-zone-2"))
		n := join(t, dial(api), nil)
		after(time.Second)
		want := []Row{
			{Session: "genesis-zone-1#1", Node: zone1, Epoch: 4, Target: zone1},
			{Epoch: 3, Target: "genesis-zone-2"},
			{Session: "genesis-zone-2#4", Node: "genesis-zone-2", Epoch: 9, Target: zone1},
			{Epoch: 9, Target: zone1},
			{Session: "genesis-zone-1#1", Node: zone1, Epoch: 6, Target: "genesis-zone-2"},
			{Epoch: 1, Target: zone0},
			{Epoch: 1, Target: zone0},
			{Epoch: 1, Target: zone0},
		}
		got := n.table()
		if !slices.Equal(got.Regions, want) {
			t.Errorf("regions %+v", got.Regions)
		}
		if len(got.Sessions) != 2 || got.Sessions[0] != (PeerInfo{"genesis-zone-1#1", zone1, "10.0.0.1:7777", "abc", "10.0.0.1:8080"}) || got.Sessions[1].Session != "genesis-zone-2#4" {
			t.Errorf("sessions %+v", got.Sessions)
		}
		version := got.Version
		after(time.Minute)
		if n.table().Version != version {
			t.Error("renewals made new tables")
		}
		api.noRuleBroken(t)
	})
}

func TestOrdersAreFollowedAsTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(sessionLease(2))
		api.create(regionLease(0, 0, "", 3, zone0))
		one, two := join(t, dial(api), nil), join(t, dial(api), as(2))
		lease := v1alpha1.RegionLeaseName(testWorld, 0, 0)
		after(time.Second)
		if row := one.table().Regions[0]; row.Session != "" {
			t.Errorf("taken without an order: %+v", row)
		}
		api.edit(lease, setTarget(zone1))
		after(time.Second)
		if row := one.table().Regions[0]; row.Node != zone1 || row.Epoch != 4 {
			t.Errorf("not taken: %+v", row)
		}
		api.edit(lease, setTarget("genesis-zone-2"))
		after(time.Second)
		if row := two.table().Regions[0]; row.Node != zone1 || row.Target != "genesis-zone-2" {
			t.Errorf("an order alone moved it: %+v", row)
		}
		if err := one.regions.Release(t.Context(), []int{0}); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		if row := one.table().Regions[0]; row.Node != "genesis-zone-2" || row.Epoch != 5 {
			t.Errorf("not taken by the heir: %+v", row)
		}
		api.remove(lease)
		after(time.Second)
		if row := two.table().Regions[0]; row != (Row{}) {
			t.Errorf("a deleted lease still owns: %+v", row)
		}
		api.create(regionLease(0, 0, "", 1000, "genesis-zone-2"))
		after(time.Second)
		if row := one.table().Regions[0]; row.Epoch != 1001 || row.Node != "genesis-zone-2" {
			t.Errorf("not taken again: %+v", row)
		}
		api.noRuleBroken(t)
	})
}

func TestTwoNodesRacingForOneRegionHaveOneWinner(t *testing.T) {
	for lag := range 10 {
		synctest.Test(t, func(t *testing.T) {
			api := newModelAPI()
			api.create(sessionLease(1))
			api.create(sessionLease(2))
			api.create(regionLease(0, 0, "", 3, zone0)) // both believe the order is theirs, one write apart
			won := 0
			api.onWrite = func(old, now *coordinationv1.Lease) {
				if old != nil && holderOf(old) == "" && holderOf(now) != "" && now.Labels[v1alpha1.LabelLease] == v1alpha1.LeaseKindRegion {
					won++
				}
			}
			c1, c2 := dial(api), dial(api)
			c1.will(func(string, string) plan { return plan{before: time.Duration(lag) * 10 * time.Millisecond} })
			c2.will(func(string, string) plan { return plan{before: 50 * time.Millisecond} })
			one, two := join(t, c1, nil), join(t, c2, as(2))
			after(time.Second)
			lease := v1alpha1.RegionLeaseName(testWorld, 0, 0)
			api.edit(lease, setTarget(zone1))
			time.Sleep(30 * time.Millisecond) // virtual time
			api.edit(lease, setTarget("genesis-zone-2"))
			after(5 * time.Second)
			if a, b := one.table().Regions[0], two.table().Regions[0]; won != 1 || a.Session == "" || a != b {
				t.Errorf("lag %d: %d takes, tables say %+v and %+v", lag, won, a, b)
			}
			api.noRuleBroken(t)
		})
	}
}

func TestTakeWithAnUnknownOutcomeIsSettledByWhatTheAPIShows(t *testing.T) {
	for name, fault := range map[string]plan{
		"applied, answer lost":     {mute: true},
		"applied after 5 s":        {before: 5 * time.Second},
		"not applied":              {fail: errors.New("connection reset")},
		"not applied, 3 s passing": {before: 3 * time.Second, fail: errors.New("connection reset")},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := newModelAPI()
			api.create(sessionLease(1))
			api.create(regionLease(0, 0, "", 3, zone1))
			c := dial(api)
			first := true
			c.will(func(verb, name string) plan {
				if verb == "put" && name != zone1 && first {
					first = false
					return fault
				}
				return plan{}
			})
			n := join(t, c, nil)
			after(10 * time.Second)
			if row := n.table().Regions[0]; row.Session != "genesis-zone-1#1" || row.Epoch != 4 {
				t.Errorf("%s: %+v, want one take", name, row)
			}
			api.noRuleBroken(t)
		})
	}
}

func TestTableSaysOnlyWhatTheAPIConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(regionLease(0, 0, "", 3, zone1))
		c := dial(api)
		c.will(func(verb, name string) plan {
			if verb == "put" && name != zone1 {
				return plan{before: time.Hour}
			}
			return plan{}
		})
		n := join(t, c, nil)
		after(time.Minute)
		if row := n.table().Regions[0]; row.Session != "" {
			t.Errorf("a take that nobody confirmed is in the table: %+v", row)
		}
		api.noRuleBroken(t)
	})
}

func TestLaggingWatchDoesNotUndoAnAnsweredWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(regionLease(0, 0, "", 3, zone0))
		c := dial(api)
		c.lag = func() time.Duration { return time.Second }
		n := join(t, c, nil)
		after(3 * time.Second)
		lease := v1alpha1.RegionLeaseName(testWorld, 0, 0)
		for range 5 { // old versions, still on their way when the take is answered
			api.edit(lease, setTarget("genesis-zone-2"))
			api.edit(lease, setTarget(zone1))
		}
		after(time.Minute)
		owned := false
		for _, table := range n.tables {
			mine := table.Regions[0].Session != ""
			if owned && !mine {
				t.Error("an older version undid the take")
			}
			owned = owned || mine
		}
		if !owned {
			t.Error("never taken")
		}
		api.noRuleBroken(t)
	})
}

func TestSlowReaderOfTablesGetsTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(regionLease(0, 0, "", 3, zone0))
		api.complete(101, 1, 1)
		c := dial(api)
		n := start(t, c, nil)
		var tables []Table
		g, err := NewRegions(Clients{Regions: c}, n.Session, RegionsConfig{Columns: 1, Rows: 1, OnTable: func(table Table) {
			tables = append(tables, table)
			time.Sleep(10 * time.Second)
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); g.Run(ctx) }()
		for i := range 100 {
			time.Sleep(50 * time.Millisecond)
			api.edit(v1alpha1.RegionLeaseName(testWorld, 0, 0), setTarget(fmt.Sprint("genesis-zone-", i+2)))
		}
		after(30 * time.Second)
		stop()
		<-ended
		if len(tables) > 4 || tables[len(tables)-1].Regions[0].Target != "genesis-zone-101" {
			t.Errorf("%d tables, the last says %+v", len(tables), tables[len(tables)-1].Regions)
		}
	})
}

func TestTableComesBackSoonAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(regionLease(0, 0, "", 3, zone0))
		c := dial(api)
		n := join(t, c, nil)
		after(time.Second)
		c.will(func(string, string) plan { return plan{fail: errors.New("connection refused")} })
		api.breakWatches()
		after(time.Minute)
		api.edit(v1alpha1.RegionLeaseName(testWorld, 0, 0), setTarget("genesis-zone-2"))
		c.will(func(string, string) plan { return plan{} })
		after(5 * time.Second)
		if row := n.table().Regions[0]; row.Target != "genesis-zone-2" {
			t.Errorf("%+v: still blind 5 s after the outage", row)
		}
	})
}

func FuzzLedgerReadsAnyLease(f *testing.F) {
	f.Add("genesis-r-1-1", "genesis", "region", "1-1", "genesis-zone-1#3", int32(4), "genesis-zone-1", "7")
	f.Add("genesis-zone-1", "genesis", "session", "", "genesis-zone-1_uid", int32(4), "", "8")
	f.Fuzz(func(t *testing.T, name, world, kind, region, holder string, transitions int32, target, version string) {
		l := newLedger(shape{world: testWorld, columns: 4, rows: 2}, func() {}, func(string, error) {})
		lease := regionLease(0, 0, holder, transitions, target)
		lease.Name, lease.ResourceVersion = name, version
		lease.Labels = map[string]string{v1alpha1.LabelWorld: world, v1alpha1.LabelLease: kind, v1alpha1.LabelRegion: region}
		if err := l.Replace([]any{lease}, version); err != nil {
			t.Fatal(err)
		}
		table := l.table()
		if len(table.Regions) != 8 || len(table.Sessions) > 1 {
			t.Errorf("table %+v", table)
		}
		for _, row := range table.Regions {
			if row.Session == "" {
				continue
			}
			named := kind == v1alpha1.LeaseKindRegion && row.Session == holder // its session Lease is lost
			if !named || len(table.Sessions) != 1 || table.Sessions[0] != (PeerInfo{Session: holder, Node: row.Node}) {
				t.Errorf("a region without a live session is owned: %+v, live are %+v", row, table.Sessions)
			}
		}
		l = newLedger(l.shape, func() {}, func(string, error) {})
		free := []any{lease, at(version, sessionLease(0)), at(version, sessionLease(1))}
		if err := l.Replace(free, version); err != nil {
			t.Fatal(err)
		}
		for _, row := range l.table().Regions {
			if row.Node == zone1 || row.Node == v1alpha1.NodeName(testWorld, 0) {
				t.Errorf("a region of a session that is over is owned: %+v", row)
			}
		}
		l.wanted(func(r regionFacts) bool { a, _ := decideRegion(r, zone1, 4); return a != leave })
	})
}
