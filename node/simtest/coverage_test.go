package simtest

import (
	"slices"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

func TestAGapIsNamed(t *testing.T) {
	var v Coverage
	for _, p := range zone.Points() {
		for f := range faultCount {
			v[p][f] = 1
		}
	}
	v[zone.OfferTaken][faultCut] = 0
	v[zone.OfferTaken][faultNone] = 0 // calm is no fault
	if gaps := v.Gaps(); len(gaps) != 1 || gaps[0] != "never met: offer taken under link cut" {
		t.Errorf("the gaps are %q", gaps)
	}
}

func TestColumnsHaveNamesOfTheirOwn(t *testing.T) {
	names := map[string]Fault{}
	for f := range faultCount {
		name := columnName(f)
		if other, taken := names[name]; taken || len(name) > cell {
			t.Errorf("%v is called %q, as is %v", f, name, other)
		}
		names[name] = f
	}
}

// struck is a world of two regions in which somebody walks over the border, with one trigger.
func struck(t *testing.T, class Fault, point zone.Point) *Coverage {
	t.Helper()
	p := &Plan{
		Seed: 1, Columns: 2, Rows: 1, EdgeChunks: 15, Nodes: 2, Owners: []int{0, 1}, Rates: []float64{1, 1}, LinkDelay: 5 * time.Millisecond,
		StoreDelay: 10 * time.Millisecond, Nasty: true, Operators: 1, Ticks: 500, SettleTicks: 4000, Actions: []Action{
			{0, "login", []int64{1, 0, edge - 5, 100}},
			{40, "when", []int64{int64(point), 1, int64(class), 30, -1, 0, 2}},
			{60, "walk", []int64{1, edge + 40, 100}},
		},
	}
	o := Try(p, false)
	if o.Broken != nil {
		t.Errorf("%v at %v: %v", class, point, o.Broken)
	}
	return o.Coverage
}

// TestATriggerStrikesInTheStepOfItsTransition: with each class, though nothing else goes wrong.
func TestATriggerStrikesInTheStepOfItsTransition(t *testing.T) {
	for class := faultNone + 1; class < faultCount; class++ {
		if v := struck(t, class, zone.HandoffOffered); v[zone.HandoffOffered][class] == 0 {
			t.Errorf("%v did not strike at %v", class, zone.HandoffOffered)
		}
	}
}

// TestEverySituationMeetsItsTransitions, in one seed or another.
func TestEverySituationMeetsItsTransitions(t *testing.T) {
	const rounds = 60 // most are met in the first few
	for i, s := range situations {
		var v Coverage
		missing := s.focus
		for round := 0; len(missing) > 0 && round < rounds; round++ {
			v.Add(Try(Generate(uint64(situationShare*(i+len(situations)*round))), false).Coverage)
			missing = slices.DeleteFunc(slices.Clone(missing), func(p zone.Point) bool { return v[p] != (Coverage{}[p]) })
		}
		for _, p := range missing {
			t.Errorf("situation %d never meets %v", i, p)
		}
	}
}
