package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/hack/swarm/bots"
)

func TestChaosNeedsAStoreThatKeepsSomething(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := needStore()
	if err == nil || !strings.Contains(explain(err, ""), "apt-get install redis-server") {
		t.Error(err)
	}
}

func TestTheFaultsOfAnAuditAreNamed(t *testing.T) {
	got := faultsOf([]byte(`{"found": 7, "faults": [{"kind": "twice", "what": "item 5 is in 2 places"}]}`))
	if got != "7, twice: item 5 is in 2 places" {
		t.Error(got)
	}
	if got := faultsOf([]byte("{")); !strings.Contains(got, "cannot be read") {
		t.Error(got)
	}
}

func TestTheSummaryOfChaosSaysWhatFailed(t *testing.T) {
	c := newChaos()
	c.Kills["a-zone-1"], c.Kills["a-zone-0"] = 2, 1
	c.StoreKills = append(c.StoreKills, bots.Seconds(1500*time.Millisecond))
	if s := c.String(); !strings.Contains(s, "killed      3 nodes: a-zone-0 1 a-zone-1 2; the store 1 times, away for 1.5 s") || !strings.Contains(s, "verdict     good") {
		t.Error(s)
	}
	c.fail("%d regions are held by nobody", 3)
	if s := c.String(); !strings.Contains(s, "FAILED      3 regions are held by nobody") || strings.Contains(s, "verdict") {
		t.Error(s)
	}
}
