package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/hack/swarm/bots"
	"github.com/spatialcells/spatialcells/node/client"
)

// page is what a node says after so many handoffs, of which slow took 90 ms.
func page(t *testing.T, players, handoffs, slow, ticks string) reading {
	t.Helper()
	r, err := read(strings.NewReader(`# TYPE spatialcells_zone_players gauge
spatialcells_zone_players ` + players + `
# TYPE spatialcells_zone_handoffs_total counter
spatialcells_zone_handoffs_total ` + handoffs + `
# TYPE spatialcells_zone_crossings_total counter
spatialcells_zone_crossings_total{kind="seam_x"} ` + slow + `
spatialcells_zone_crossings_total{kind="corner"} 0
# TYPE spatialcells_zone_handoff_gap_seconds histogram
spatialcells_zone_handoff_gap_seconds_bucket{le="0.03"} ` + handoffs + `
spatialcells_zone_handoff_gap_seconds_bucket{le="0.09"} 1` + handoffs + `
spatialcells_zone_handoff_gap_seconds_bucket{le="+Inf"} 1` + handoffs + `
spatialcells_zone_handoff_gap_seconds_sum 1
spatialcells_zone_handoff_gap_seconds_count 1` + handoffs + `
# TYPE spatialcells_zone_tick_seconds histogram
spatialcells_zone_tick_seconds_bucket{le="0.005"} ` + ticks + `
spatialcells_zone_tick_seconds_bucket{le="+Inf"} ` + ticks + `
spatialcells_zone_tick_seconds_sum 1
spatialcells_zone_tick_seconds_count ` + ticks + `
`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNodesAreCountedThroughTheirRestarts(t *testing.T) {
	w := newWatch()
	w.note("a", page(t, "5", "10", "3", "100")) // what was before does not count
	w.note("a", page(t, "7", "14", "4", "200"))
	w.note("a", page(t, "2", "6", "1", "50")) // a new life
	w.note("b", page(t, "0", "0", "0", "10"))
	w.note("b", page(t, "0", "1", "0", "20"))
	sum := w.sum()
	if n := sum.counters[metricHandoffs]; n != 4+6+1 {
		t.Errorf("%v handoffs, want 11", n)
	}
	if n := crossings(&sum, "seam_x"); n != 1+1 {
		t.Errorf("%v crossings of the seam, want 2", n)
	}
	if n := sum.counts[metricTick]; n != 100+50+10 {
		t.Errorf("%v ticks, want 160", n)
	}
	if w.most["a"] != 7 {
		t.Errorf("most players %v", w.most["a"])
	}
}

func TestQuantilesAreNeverTooGood(t *testing.T) {
	r := newReading()
	if !math.IsNaN(r.quantile("x", .5)) {
		t.Error("nothing has a quantile")
	}
	r.counts["x"] = 100
	r.buckets["x"] = map[float64]float64{.03: 50, .09: 98, .2: 99}
	for q, want := range map[float64]float64{.5: .03, .51: .09, .98: .09, .99: .2, 1: math.Inf(1)} {
		if got := r.quantile("x", q); got != want {
			t.Errorf("p%v is %v, want %v", q*100, got, want)
		}
	}
}

func TestTheLiveLine(t *testing.T) {
	w := newWatch()
	w.note("z-0", page(t, "5", "0", "0", "1"))
	w.note("z-0", page(t, "26", "118", "9", "100"))
	r := bots.Report{Kinds: map[client.ViolationKind]int{client.Blink: 2}, ViolationCount: 3}
	got := line(w, []zoneNode{{name: "z-0"}, {name: "z-1"}}, r)
	want := "players 26 ? | handoffs 118 (seam x 9, seam y 0, corner 0) | gap p50 90ms p99 90ms | tick p99 5ms | blinks 2 | violations 3"
	if got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

func TestAVerdictNamesAllThatIsMissing(t *testing.T) {
	good := summary{
		Players: map[string]float64{"a": 1, "b": 2, "c": 3, "d": 4}, Handoffs: 250, SeamX: 1, SeamY: 2, Corner: 3, GapP99: 100,
		Swarm: bots.Report{Bots: 10, Connected: 10},
	}
	if s := good; true {
		if s.check(true, 200); len(s.Failed) != 0 {
			t.Error(s.Failed)
		}
	}
	remedies := map[string]string{"gap is 105ms": remedySlow, "9 of 10 players": remedyAway}
	remedies["2 violations: 2 blink"] = remedySeen
	for _, want := range []string{"bots were ended: 1 kicked", "inputs were refused: 1 bad"} {
		remedies[want] = remedyEnded
	}
	for want, spoil := range map[string]func(s *summary){
		"c never simulated": func(s *summary) { s.Players = map[string]float64{"a": 1, "b": 1, "c": 0, "d": 1} },
		"199 handoffs":      func(s *summary) { s.Handoffs = 199 },
		"seam in x":         func(s *summary) { s.SeamX = 0 },
		"seam in y":         func(s *summary) { s.SeamY = 0 },
		"corner of four":    func(s *summary) { s.Corner = 0 },
		"gap is 105ms":      func(s *summary) { s.GapP99 = 105 },
		"2 violations: 2 blink": func(s *summary) {
			s.Swarm.ViolationCount, s.Swarm.Kinds = 2, map[client.ViolationKind]int{client.Blink: 2}
		},
		"9 of 10 players":            func(s *summary) { s.Swarm.Connected = 9 },
		"bots were ended: 1 kicked":  func(s *summary) { s.Swarm.Ended = map[string]int{"kicked": 1} },
		"inputs were refused: 1 bad": func(s *summary) { s.Swarm.Refused = map[string]int{"bad": 1} },
	} {
		s := good
		spoil(&s)
		if s.check(true, 200); len(s.Failed) != 1 || !strings.Contains(s.Failed[0], want) || !strings.Contains(s.String(), "FAILED") {
			t.Errorf("%s: %q", want, s.Failed)
		}
		if remedy := cmp.Or(remedies[want], remedyShown); !slices.Equal(s.remedies, []string{remedy}) {
			t.Errorf("%s: advises %q, want %q", want, s.remedies, remedy)
		}
	}
	s := good
	s.Failed, s.GapP99, s.SeamX, s.SeamY = []string{"after fault kill:1@30s: x"}, 105, 0, 0
	if s.check(true, 200); !slices.Equal(s.remedies, []string{remedyFault, remedySlow, remedyShown}) {
		t.Errorf("several failures: %q", s.remedies)
	}
	s = good
	s.GapP99, s.GapBefore = 1e6, new(float64(60))
	if s.check(true, 200); len(s.Failed) != 0 || !strings.Contains(s.String(), "p99 >1s, before the faults p99 60ms") {
		t.Errorf("the gap is judged by what was before the faults: %q", s.Failed)
	}
	s = summary{Players: map[string]float64{"a": 0}}
	if s.check(false, 200); len(s.Failed) != 0 {
		t.Errorf("a run that was interrupted has no minimum: %q", s.Failed)
	}
}

func TestExpectationsAfterAFault(t *testing.T) {
	was := []zoneNode{{name: "w-zone-0", incarnation: 1}, {name: "w-zone-1", incarnation: 1}}
	is := func(a, b int32) []zoneNode {
		return []zoneNode{{name: "w-zone-0", incarnation: a}, {name: "w-zone-1", incarnation: b}}
	}
	kill, stop, api := fault{kind: faultKill, node: 1}, fault{kind: faultStop, node: 1, length: time.Second}, fault{kind: faultAPI}
	for _, tc := range []struct {
		f    fault
		now  []zoneNode
		fine bool
	}{
		{kill, is(1, 2), true},
		{kill, is(1, 1), false},
		{kill, is(2, 2), false},
		{stop, is(1, 1), true},
		{stop, is(1, 2), true},
		{stop, is(2, 1), false},
		{api, is(1, 1), true},
		{api, is(1, 2), false},
	} {
		if missing := changedSessions(tc.f, was, tc.now); (len(missing) == 0) != tc.fine {
			t.Errorf("%v, %v: %v", tc.f, tc.now, missing)
		}
	}
	if missing := unowned([]string{"w-zone-0#1", "w-zone-1#1", ""}, is(1, 2)); len(missing) != 1 || !strings.Contains(missing[0], "2 regions") {
		t.Error(missing)
	}
	if missing := stuck(map[string]float64{"a": 1, "b": 2}, map[string]float64{"a": 1, "b": 3}); len(missing) != 1 || missing[0] != "a makes no steps" {
		t.Error(missing)
	}
	b := before{nodes: was, gateways: map[string]int{"w-zone-1": 25}}
	if b.allowedLosses(kill) != 25 || b.allowedLosses(api) != 0 {
		t.Error("who may lose a socket")
	}
}
