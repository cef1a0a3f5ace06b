package v1alpha1

import (
	"math"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestNamesAreTheirInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := rapid.StringMatching(`[a-z]([a-z0-9-]{0,38}[a-z0-9])?`).Draw(t, "world")
		ordinal := rapid.IntRange(0, MaxNodes-1).Draw(t, "ordinal")
		life := rapid.Int32Range(0, math.MaxInt32).Draw(t, "incarnation")
		node, gotLife, err := ParseSessionID(SessionID(world, ordinal, life))
		if err != nil || node != NodeName(world, ordinal) || gotLife != life {
			t.Fatalf("session of %s %d #%d became %s #%d, %v", world, ordinal, life, node, gotLife, err)
		}
		gotWorld, gotOrdinal, err := ParseNodeName(node)
		if err != nil || gotWorld != world || gotOrdinal != ordinal {
			t.Fatalf("node %s became %s %d, %v", node, gotWorld, gotOrdinal, err)
		}
	})
}

func TestRegionLabelIsItsInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		column, row := rapid.IntRange(0, 4095).Draw(t, "column"), rapid.IntRange(0, 4095).Draw(t, "row")
		c, r, err := ParseRegionLabel(RegionLabel(column, row))
		if err != nil || c != column || r != row {
			t.Fatalf("region %d, %d became %d, %d, %v", column, row, c, r, err)
		}
	})
}

func TestHolderIdentityIsItsInverse(t *testing.T) {
	pod, uid, err := ParseHolderIdentity(HolderIdentity("genesis-zone-0", "1b4e28ba-2fa1"))
	if err != nil || pod != "genesis-zone-0" || uid != "1b4e28ba-2fa1" {
		t.Fatalf("got %s, %s, %v", pod, uid, err)
	}
	for _, bad := range []string{"", "genesis-zone-0", "_uid", "genesis-zone-0_", LostHolder} {
		if _, _, err := ParseHolderIdentity(bad); err == nil {
			t.Errorf("%q was taken for a holder", bad)
		}
	}
}

func TestNothingElseIsASession(t *testing.T) {
	for _, bad := range []string{
		"", "#", "genesis", "genesis-zone-1", "genesis-zone-1#", "#1", "-zone-1#1", "genesis-zone-#1", "genesis-zone-01#1", "genesis-zone-1#01",
		"genesis-zone-1#-1", "genesis-zone--1#1", "genesis-zone-1#+1", "genesis-zone-1#2147483648", "genesis-zone-1#1 ", "genesis-zone-99999999999#1",
	} {
		if node, life, err := ParseSessionID(bad); err == nil {
			t.Errorf("%q was taken for %s #%d", bad, node, life)
		}
	}
}

func TestNamesOfTheLargestWorldAreLabels(t *testing.T) {
	world := string(slices.Repeat([]byte("w"), MaxNameLength))
	for _, name := range []string{
		NodeName(world, MaxNodes-1), RegionLeaseName(world, MaxColumns-1, MaxRows-1), GatewayServiceName(world), PeersServiceName(world), StoreName(world),
		StatefulSetName(world) + "-0123456789", CanaryLeaseName(world),
	} {
		if len(name) > 63 {
			t.Errorf("%s has %d characters, a label at most 63", name, len(name))
		}
	}
}

func FuzzParseSessionID(f *testing.F) {
	for _, s := range []string{"genesis-zone-1#7", "a-zone-0#0", "a-zone-1-zone-2#3", "#", "x#y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		node, life, err := ParseSessionID(s)
		if err != nil {
			return
		}
		world, ordinal, err := ParseNodeName(node)
		if err != nil || SessionID(world, ordinal, life) != s {
			t.Fatalf("%q was read as %s #%d, %v", s, node, life, err)
		}
	})
}

func FuzzParseRegionLabel(f *testing.F) {
	for _, s := range []string{"0-0", "15-3", "-", "1-", "01-1", "1-1-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if column, row, err := ParseRegionLabel(s); err == nil && RegionLabel(column, row) != s {
			t.Fatalf("%q was read as %d, %d", s, column, row)
		}
	})
}

func FuzzParseHolderIdentity(f *testing.F) {
	for _, s := range []string{"genesis-zone-0_1b4e28ba", "_", "a_b_c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if pod, uid, err := ParseHolderIdentity(s); err == nil && HolderIdentity(pod, uid) != s {
			t.Fatalf("%q was read as %s, %s", s, pod, uid)
		}
	})
}

func TestTheTimeOfALeaseGoesOn(t *testing.T) {
	now := time.Date(2026, 12, 1, 4, 0, 0, 1234, time.UTC)
	if got := LeaseTime(nil, now); !got.Time.Equal(now.Truncate(time.Microsecond)) {
		t.Errorf("the first write at %v", got)
	}
	for name, before := range map[string]time.Time{"earlier": now.Add(-time.Second), "the same": now, "in the future": now.Add(time.Hour)} {
		last := metav1.NewMicroTime(before.Truncate(time.Microsecond))
		if got := LeaseTime(&last, now); !got.After(last.Time) || got.Before(&metav1.MicroTime{Time: now.Truncate(time.Microsecond)}) {
			t.Errorf("%s: %v follows %v at %v", name, got, last, now)
		}
	}
}
