package controllers

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/placement"
)

// ran makes a scene one of a World that has run.
func (s *scene) ran() *scene { return s.fresh(1001) }

// fresh makes a scene one of a World that was begun if it has a bound, and of which no life is known.
func (s *scene) fresh(highest int32) *scene {
	s.reported = &v1alpha1.WorldStatus{HighestEpoch: highest}
	return s
}

// told lets the status name a session.
func (s *scene) told(session string) *scene {
	s.reported.ZoneNodes = []v1alpha1.ZoneNodeRow{{Session: session}}
	return s
}

// standIn gives a node a session Lease in place of a lost one.
func (s *scene) standIn(ordinal int32) *scene {
	s.session(ordinal, 1002, true).sessions[ordinal].Spec.HolderIdentity = new(v1alpha1.LostHolder)
	return s
}

// lose lets the Lease of the only region be seen, held by somebody and ordered for a node, and then be gone.
func (s *scene) lose(holder string, target int32) *scene {
	lease := s.lease(v1alpha1.RegionLeaseName("w", 0, 0), v1alpha1.LeaseKindRegion, 5)
	lease.Spec.HolderIdentity, lease.ResourceVersion = &holder, "10"
	lease.Annotations = map[string]string{v1alpha1.AnnotationTarget: v1alpha1.NodeName("w", int(target))}
	s.putRegion(0, lease)
	s.regions[0] = nil
	return s
}

func TestALostRegionIsMadeAgainForWhoMayActForIt(t *testing.T) {
	for name, tc := range map[string]struct {
		scene          *scene
		holder, target string
	}{
		"a live heir keeps it": {
			row(2, "-").session(0, 1, true).session(1, 4, true).ran().lose("w-zone-1#4", 1), "w-zone-1#4", "w-zone-1",
		},
		"the next life of its node gets it": {
			row(2, "-").session(0, 1, true).session(1, 5, true).ran().lose("w-zone-1#4", 1), "w-zone-1#5", "w-zone-1",
		},
		"it may have been taken unseen": {
			row(2, "-").session(0, 1, true).session(1, 4, true).ran().lose("", 1), "w-zone-1#4", "w-zone-1",
		},
		"the sessions of its node are over": {
			row(2, "-").session(0, 1, true).session(1, 4, false).ran().lose("w-zone-1#4", 1), "", "w-zone-0",
		},
		"the session Lease is lost, too": {
			row(2, "-").session(0, 1, true).ran().lose("w-zone-1#4", 1), "w-zone-1#4", "w-zone-1",
		},
		"another Lease stands in for the session Lease": {
			row(2, "-").session(0, 1, true).ran().standIn(1).lose("w-zone-1#4", 1), "w-zone-1#4", "w-zone-1",
		},
		"the session Lease is lost, too, and it may have been taken": {
			row(2, "-").session(0, 1, true).ran().lose("", 1), "", "",
		},
		"it was on its way, and may have arrived unseen": {
			row(2, "-").session(0, 1, true).session(1, 4, true).ran().lose("w-zone-0#1", 1), "", "",
		},
		"this operator never saw it": {
			row(2, "-").session(0, 1, true).session(1, 4, true).ran(), "", "",
		},
		"it was held by nobody that this operator knows": {
			row(2, "-").session(0, 1, true).ran().lose("nonsense", 1), "", "",
		},
	} {
		lease := tc.scene.declared(0).remade(0, 1002)
		if holderOf(lease) != tc.holder || targetOf(lease) != tc.target || transitionsOf(lease) != 1002 {
			t.Errorf("%s: held by %q, ordered for %q, epoch %d; want %q and %q", name, holderOf(lease), targetOf(lease), transitionsOf(lease), tc.holder, tc.target)
		}
	}
}

func TestALostRegionOfAnUnansweredWriteIsInDoubt(t *testing.T) {
	leases := schema.GroupResource{Resource: "leases"}
	for name, tc := range map[string]struct {
		err   error
		doubt bool
	}{
		"time-out":     {context.DeadlineExceeded, true},
		"server error": {apierrors.NewInternalError(errors.New("etcd")), true},
		"conflict":     {apierrors.NewConflict(leases, "w-r-0-0", errors.New("modified")), false},
		"not found":    {apierrors.NewNotFound(leases, "w-r-0-0"), false},
	} {
		s := row(2, "-").session(0, 1, true).session(1, 4, true).ran().lose("w-zone-1#4", 1).declared(0)
		last := s.memory.custody.regions[0].lease
		s.memory.custody.unsettled(0, last, fmt.Errorf("writing: %w", tc.err))
		if got := unordered(s.remade(0, 1002)); got != tc.doubt {
			t.Errorf("%s: in doubt %v, want %v", name, got, tc.doubt)
		}
		next := last.DeepCopy()
		next.ResourceVersion = "11"
		s.memory.custody.remember(0, next)
		if unordered(s.remade(0, 1002)) {
			t.Errorf("%s: still in doubt after a later version was seen", name)
		}
	}
}

func TestAnOlderVersionSaysNothingAboutCustody(t *testing.T) {
	s := row(2, "-").session(0, 1, true).session(1, 4, true).ran().lose("w-zone-1#4", 1).declared(0)
	old := s.memory.custody.regions[0].lease.DeepCopy()
	old.ResourceVersion, old.Spec.HolderIdentity = "9", new("w-zone-0#1")
	s.memory.custody.remember(0, old)
	if holder := holderOf(s.remade(0, 1002)); holder != "w-zone-1#4" {
		t.Errorf("made for %q", holder)
	}
}

func TestARegionInDoubtIsOrderedAfterQuietReads(t *testing.T) {
	const second = time.Second
	s := row(2, "").session(0, 1, true).session(1, 1, true).ran().declared(1)
	at := time.Hour
	look := func(renewed bool) placement.Table {
		if renewed {
			for _, lease := range s.sessions {
				lease.ResourceVersion += "1"
			}
		}
		s.memory.sessions.Observe(at, at, s.maxGap(), s.sightings())
		s.watchDoubts(at, at)
		at += 3 * second
		return s.targets()
	}
	wait := func() time.Duration {
		for began := at; ; {
			if want := look(true); want[0] != placement.Nobody {
				return at - began
			}
			if at-began > time.Minute {
				t.Fatal("in doubt for ever")
			}
		}
	}
	if took := wait(); took < 30*second || took > 36*second {
		t.Errorf("in doubt for %v, want 30 s", took)
	}
	s.memory.restart()
	if look(true)[0] != placement.Nobody {
		t.Error("ordered though a read had failed")
	}
	for range 8 { // 24 s, the last of it without a renewal
		look(at < time.Hour+36*second+3*3*second)
	}
	if look(true)[0] != placement.Nobody {
		t.Error("ordered soon after a silence")
	}
	if took := wait(); took < 24*second {
		t.Errorf("ordered %v after a silence", took)
	}
}

func TestNumbersOfALostWorldAreCountedOnAboveAllThatWereUsed(t *testing.T) {
	s := row(1, "").session(0, 700, false)
	s.highestEpoch = 1001
	if got := s.leadHighestEpoch(); got != 1700 {
		t.Errorf("highestEpoch %d with an incarnation of 700, want 1700", got)
	}
}

func TestOnlyAWorldWithoutALifeIsMadeAsIfItWereNew(t *testing.T) {
	for name, tc := range map[string]struct {
		scene *scene
		lived bool
	}{
		"new":                       {row(1, "-").fresh(0), false},
		"begun, and interrupted":    {row(1, "-").fresh(1001), false},
		"a session was held once":   {row(1, "-").fresh(1001).session(0, 1, false), true},
		"a session that was never":  {row(1, "-").fresh(1001).session(0, 0, false), false},
		"a region names a session":  {row(1, "w-zone-0#1").fresh(1001), true},
		"the status names a life":   {row(1, "-").fresh(1001).told("w-zone-0#1"), true},
		"new, and nothing is known": {row(1, "-").fresh(0).told("w-zone-0#1"), false},
	} {
		if got := tc.scene.lived(); got != tc.lived {
			t.Errorf("%s: lived %v, want %v", name, got, tc.lived)
		}
	}
}

func TestWhatIsRememberedOfARegionKeepsNoList(t *testing.T) {
	s := row(1, "")
	items := make([]coordinationv1.Lease, 2)
	items[0].ResourceVersion = "10"
	list := weak.Make(&items[1])
	s.putRegion(0, &items[0])
	s.regions = make([]*coordinationv1.Lease, 1)
	runtime.GC()
	if list.Value() != nil {
		t.Error("the rest of the list is kept for the sake of one Lease")
	}
	if known := s.memory.custody.regions[0].lease; known == nil || known.ResourceVersion != "10" {
		t.Errorf("remembered %v", known)
	}
}
