package fence

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const heir = "genesis-zone-2#1"

// handing is a node that holds a region which is ordered to another one.
func handing(t *testing.T, lag func() time.Duration) (api *modelAPI, c *conn, n *node) {
	t.Helper()
	api = newModelAPI()
	api.create(sessionLease(1))
	api.create(held(sessionLease(2), "genesis-zone-2_uid", 1))
	api.create(regionLease(0, 0, "", 3, zone1))
	c = dial(api)
	c.lag = lag
	n = join(t, c, nil)
	after(time.Second)
	api.edit(v1alpha1.RegionLeaseName(testWorld, 0, 0), setTarget("genesis-zone-2"))
	after(time.Second)
	return api, c, n
}

func region(t *testing.T, api *modelAPI) *coordinationv1.Lease {
	t.Helper()
	lease, err := api.get(v1alpha1.RegionLeaseName(testWorld, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestRegionIsHandedOverWithItsStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _, n := handing(t, func() time.Duration { return 0 })
		if err := n.regions.HandOver(t.Context(), 0, 4, heir, "me/7"); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		if row := n.table().Regions[0]; row.Session != heir || row.Epoch != 5 || row.Stage != "me/7" {
			t.Errorf("the table says %+v", row)
		}
		if err := n.regions.HandOver(t.Context(), 0, 4, heir, "me/8"); !errors.Is(err, ErrNotHeld) {
			t.Errorf("handed over again: %v", err)
		}
		api.noRuleBroken(t)
	})
}

// Whatever becomes of the write, its sender knows at the end, and what it knows stays so.
func TestHandoverWithAnUnknownOutcomeIsSettledByAWrite(t *testing.T) {
	for name, fault := range map[string]struct {
		plan
		behind time.Duration // the clock of this machine is behind that of who wrote the Lease last
	}{
		"applied, answer lost":                       {plan{mute: true}, 0},
		"applied long after its sender gave up":      {plan{before: 4 * time.Second}, 0},
		"applied while its sender looks what it is":  {plan{before: 2050 * time.Millisecond}, 0},
		"applied late, and the clock has gone back":  {plan{before: 4 * time.Second}, time.Hour},
		"applied while it looks, the clock was back": {plan{before: 2050 * time.Millisecond}, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			api, c, n := handing(t, func() time.Duration { return 0 })
			api.edit(v1alpha1.RegionLeaseName(testWorld, 0, 0), func(lease *coordinationv1.Lease) {
				ahead := metav1.NewMicroTime(time.Now().Add(fault.behind))
				lease.Spec.RenewTime = &ahead
			})
			after(time.Second)
			first := true
			c.will(func(verb, object string) plan {
				if verb == "put" && object != zone1 && first {
					first = false
					return fault.plan
				}
				return plan{}
			})
			err := n.regions.HandOver(t.Context(), 0, 4, heir, "me/7")
			if err != nil && !errors.Is(err, ErrSettled) {
				t.Fatalf("%s: %v", name, err)
			}
			want := heir
			if err != nil {
				want = n.Session.Session()
			}
			for range 10 {
				if got := holderOf(region(t, api)); got != want {
					t.Fatalf("%s: answered %v, and the lease names %s", name, err, got)
				}
				after(time.Second)
			}
			if stage := region(t, api).Annotations[v1alpha1.AnnotationStage]; (stage != "") != (err == nil) {
				t.Errorf("%s: stage %q", name, stage)
			}
			api.noRuleBroken(t)
		})
	}
}

func TestRegionWhoseOrderChangedIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lag := time.Duration(0)
		api, _, n := handing(t, func() time.Duration { return lag })
		api.edit(v1alpha1.RegionLeaseName(testWorld, 0, 0), setTarget(zone1))
		after(time.Second)
		if err := n.regions.HandOver(t.Context(), 0, 4, heir, "me/7"); !errors.Is(err, ErrOrderChanged) {
			t.Errorf("%v", err)
		}
		api.edit(v1alpha1.RegionLeaseName(testWorld, 0, 0), setTarget("genesis-zone-2"))
		after(time.Second)
		lag = time.Hour // its watch does not show what comes now
		api.edit(v1alpha1.RegionLeaseName(testWorld, 0, 0), setTarget(zone1))
		if err := n.regions.HandOver(t.Context(), 0, 4, heir, "me/8"); !errors.Is(err, ErrSettled) {
			t.Errorf("%v", err)
		}
		if got := holderOf(region(t, api)); got != n.Session.Session() {
			t.Errorf("the lease names %s", got)
		}
		api.noRuleBroken(t)
	})
}

func TestWhoTakesARegionHasNoStageOfIt(t *testing.T) {
	lease := regionLease(0, 0, "", 3, zone1)
	lease.Annotations[v1alpha1.AnnotationStage] = "old/1"
	if stage := rewritten(lease, "genesis-zone-1#2", 4).Annotations[v1alpha1.AnnotationStage]; stage != "" {
		t.Errorf("taken with stage %q", stage)
	}
}

// The order went round while the first write was under way: the region was the other's, and is this node's again.
func TestRegionThatWasAnothersMeanwhileIsNotHeldAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, c, n := handing(t, func() time.Duration { return 0 })
		name, first := v1alpha1.RegionLeaseName(testWorld, 0, 0), true
		c.will(func(verb, object string) plan {
			if verb == "put" && object == name && first {
				first = false
				return plan{mute: true}
			}
			if verb == "get" && object == name {
				api.edit(name, func(l *coordinationv1.Lease) { held(l, n.Session.Session(), 6) })
			}
			return plan{}
		})
		if err := n.regions.HandOver(t.Context(), 0, 4, heir, "me/7"); !errors.Is(err, ErrNotHeld) {
			t.Errorf("%v", err)
		}
	})
}
