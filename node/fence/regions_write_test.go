package fence

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

func TestFrozenNodeWritesNoRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(regionLease(0, 0, "", 3, ""))
		c := dial(api)
		n := join(t, c, nil)
		c.will(func(verb, name string) plan {
			if verb == "put" && name == zone1 {
				return plan{fail: errors.New("renewals fail, all else works")}
			}
			return plan{}
		})
		after(11 * time.Second)
		api.edit(v1alpha1.RegionLeaseName(testWorld, 0, 0), setTarget(zone1))
		after(time.Minute)
		if row := n.table().Regions[0]; row.Session != "" {
			t.Errorf("taken after the deadline: %+v", row)
		}
		if _, err := n.regions.RaiseEpoch(t.Context(), 0, 9); !errors.Is(err, ErrNotHeld) {
			t.Errorf("raised: %v", err)
		}
		c.will(func(string, string) plan { return plan{} })
		after(5 * time.Second)
		if row := n.table().Regions[0]; row.Session == "" {
			t.Error("not taken after the thaw")
		}
	})
}

func TestFrozenHolderWritesNoEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(regionLease(0, 0, "", 3, zone1))
		c := dial(api)
		n := join(t, c, nil)
		after(time.Second)
		c.will(func(verb, name string) plan {
			if verb == "put" && name == zone1 {
				return plan{fail: errors.New("renewals fail, all else works")}
			}
			return plan{}
		})
		after(12 * time.Second)
		if _, err := n.regions.RaiseEpoch(t.Context(), 0, 9); !errors.Is(err, ErrFenced) {
			t.Errorf("error %v", err)
		}
		if lease, _ := api.get(v1alpha1.RegionLeaseName(testWorld, 0, 0)); transitionsOf(lease) != 4 {
			t.Errorf("epoch %d written after the deadline", transitionsOf(lease))
		}
	})
}

func TestWritesInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, registry := newModelAPI(), prometheus.NewRegistry()
		api.create(sessionLease(1))
		c := dial(api)
		n := start(t, c, func(cfg *Config) { cfg.Metrics = NewMetrics(registry) })
		for i := range 64 {
			api.create(regionLease(i%8, i/8, "", 1, zone1))
		}
		g, err := NewRegions(Clients{Regions: c}, n.Session, RegionsConfig{Columns: 8, Rows: 8})
		if err != nil {
			t.Fatal(err)
		}
		c.will(func(string, string) plan { return plan{before: 100 * time.Millisecond} })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); g.Run(ctx) }()
		defer func() { stop(); <-ended }()
		after(3 * time.Second)
		for _, row := range g.ledger.table().Regions {
			if row.Session != "genesis-zone-1#1" {
				t.Fatalf("not taken: %+v", row)
			}
		}
		if c.most > maxWrites+1 { // a renewal may be in flight beside them
			t.Errorf("%d writes in flight", c.most)
		}
		if taken := gauge(t, registry, "spatialcells_region_takes_total"); taken != 64 {
			t.Errorf("%v takes counted", taken)
		}
		api.noRuleBroken(t)
	})
}

func TestRefusedTakeBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(regionLease(0, 0, "", 1, zone1))
		c := dial(api)
		tries := 0
		c.will(func(verb, name string) plan {
			if verb == "put" && name != zone1 {
				tries++
				return plan{fail: errors.New("refused")}
			}
			return plan{}
		})
		join(t, c, nil)
		after(time.Minute)
		if tries < 10 || tries > 25 {
			t.Errorf("%d tries in a minute", tries)
		}
	})
}

func TestRaiseEpoch(t *testing.T) {
	for name, fault := range map[string]plan{"answered": {}, "answer lost": {mute: true}, "late": {before: 4 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			api := newModelAPI()
			api.create(sessionLease(1))
			api.create(regionLease(0, 0, "", 3, zone1))
			c := dial(api)
			n := join(t, c, nil)
			after(time.Second)
			first := true
			c.will(func(verb, name string) plan {
				if verb == "put" && name != zone1 && first {
					first = false
					return fault
				}
				return plan{}
			})
			epoch, err := n.regions.RaiseEpoch(t.Context(), 0, 77)
			if err != nil || epoch != 77 {
				t.Fatalf("%s: %d, %v", name, epoch, err)
			}
			after(10 * time.Second)
			if row := n.table().Regions[0]; row.Epoch != 77 || row.Session == "" {
				t.Errorf("%s: %+v", name, row)
			}
			if epoch, err := n.regions.RaiseEpoch(t.Context(), 0, 5); err != nil || epoch != 77 {
				t.Errorf("%s: lowered to %d, %v", name, epoch, err)
			}
			if _, err := n.regions.RaiseEpoch(t.Context(), 1, 5); !errors.Is(err, ErrNotHeld) {
				t.Errorf("%s: raised a region of nobody: %v", name, err)
			}
			if _, err := n.regions.RaiseEpoch(t.Context(), 0, 1<<31); !errors.Is(err, ErrEpochExhausted) {
				t.Errorf("%s: beyond what a Lease holds: %v", name, err)
			}
			api.noRuleBroken(t)
		})
	}
}

func TestReleasedRegionsStayFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		api.create(regionLease(0, 0, "", 3, zone1))
		api.create(regionLease(1, 0, "", 3, zone1))
		c := dial(api)
		n := join(t, c, nil)
		after(time.Second)
		tries := 0
		c.will(func(verb, name string) plan {
			if verb == "put" && name != zone1 {
				tries++
				return plan{mute: tries == 1, before: time.Millisecond}
			}
			return plan{}
		})
		if err := n.regions.Release(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for column := range 2 {
			lease, _ := api.get(v1alpha1.RegionLeaseName(testWorld, column, 0))
			if holderOf(lease) != "" || transitionsOf(lease) != 4 {
				t.Errorf("holder %q, epoch %d", holderOf(lease), transitionsOf(lease))
			}
		}
		after(time.Minute)
		if row := n.table().Regions[0]; row.Session != "" {
			t.Errorf("taken again: %+v", row)
		}
		api.noRuleBroken(t)
	})
}
