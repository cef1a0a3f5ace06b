package main

import (
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/hack/swarm/bots"
	"github.com/spatialcells/spatialcells/node/client"
)

func TestOnlyWhatIsPardonedIsForgiven(t *testing.T) {
	began := time.Unix(1000, 0)
	p := pardons{began: began}
	p.add(pardon{from: began.Add(10 * time.Second), until: began.Add(20 * time.Second), kinds: lateSights})
	p.add(pardon{from: began.Add(30 * time.Second), until: began.Add(40 * time.Second), kinds: strayTicks, through: "a-zone-1"})
	v := func(kind client.ViolationKind, after int, gateway string) bots.Violation {
		return bots.Violation{Kind: kind, After: bots.Seconds(time.Duration(after) * time.Second), Gateway: gateway}
	}
	r := bots.Report{Violations: []bots.Violation{
		v(bots.SaidHole, 15, "a-zone-0"), v(bots.SaidHole, 20, "a-zone-0"), v(client.Blink, 15, "a-zone-0"),
		v(client.Teleport, 35, "a-zone-1"), v(client.Teleport, 35, "a-zone-2"),
	}, Kinds: map[client.ViolationKind]int{bots.SaidHole: 2, client.Blink: 1, client.Teleport: 2}, ViolationCount: 5}
	if n := p.forgive(&r); n != 2 || r.ViolationCount != 3 || len(r.Violations) != 3 {
		t.Fatalf("%d forgiven, %d left of 5: %v", n, r.ViolationCount, r.Violations)
	}
	if r.Kinds[bots.SaidHole] != 1 || r.Kinds[client.Blink] != 1 || r.Kinds[client.Teleport] != 1 {
		t.Errorf("left by kind: %v", r.Kinds)
	}
}
