package bots

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/node/torus"
)

func grid(t *testing.T, columns, rows, edge int) torus.Grid {
	t.Helper()
	g, err := torus.NewGrid(columns, rows, edge)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// quarters is the owner of each region in a world of four.
func quarters(g torus.Grid) func(int) string {
	return func(i int) string {
		r := g.RegionAt(i)
		return string(rune('a' + int(r.Column)*2/g.Columns() + 2*(int(r.Row)*2/g.Rows())))
	}
}

func TestAPlanHasEveryBehaviourWhereItBelongs(t *testing.T) {
	g := grid(t, 16, 16, 250)
	owner := quarters(g)
	spots := Plan(g, owner, 100, rand.New(rand.NewPCG(1, 1)))
	seen := map[Behaviour]int{}
	for _, s := range spots {
		seen[s.Behaviour]++
		owners := map[string]bool{}
		at := s.Spawn
		for _, p := range s.Route {
			owners[owner(g.RegionIndexOf(p))] = true
			for _, leg := range way(g, at, p) {
				if g.Chebyshev(at, leg) > 40 || g.Wrap(leg) != leg {
					t.Fatalf("a leg of %s from %v to %v", s.Behaviour, at, leg)
				}
				at = leg
			}
		}
		want := map[Behaviour]int{Border: 2, SeamX: 2, SeamY: 2, Corner: 2, Ring: 4, Group: 2, Wander: 0}[s.Behaviour]
		if len(owners) != want {
			t.Errorf("%s at %v visits %d owners, want %d", s.Behaviour, s.Spawn, len(owners), want)
		}
		if s.Behaviour == SeamX && g.RegionOf(s.Route[0]).Column == g.RegionOf(s.Route[1]).Column {
			t.Errorf("seam-x from %v to %v", s.Route[0], s.Route[1])
		}
	}
	if len(seen) != 7 || len(spots) != 100 {
		t.Errorf("%v", seen)
	}
}

func TestBotsOfAPlaceSeeEachOtherAndOthersDoNot(t *testing.T) {
	g := grid(t, 16, 16, 250)
	spots := Plan(g, quarters(g), 2000, rand.New(rand.NewPCG(1, 1)))
	for i, a := range spots {
		for _, b := range spots[i+1:] {
			d := g.Chebyshev(a.Spawn, b.Spawn)
			if a.Place == b.Place && d > 120 {
				t.Fatalf("%s and %s share place %d and are %d m apart", a.Behaviour, b.Behaviour, a.Place, d)
			}
			if a.Place != b.Place && g.Chebyshev(a.Anchor, b.Anchor) < 300 {
				t.Fatalf("%s at %v and %s at %v are two places", a.Behaviour, a.Anchor, b.Behaviour, b.Anchor)
			}
		}
	}
}

func TestTinyWorldsHavePlansToo(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {2, 1}, {1, 2}, {2, 2}} {
		g := grid(t, size[0], size[1], 15)
		for _, s := range Plan(g, func(int) string { return "one" }, 70, rand.New(rand.NewPCG(1, 1))) {
			if s.Place != 0 || g.Wrap(s.Spawn) != s.Spawn {
				t.Errorf("%v: %+v", size, s)
			}
		}
	}
}

func TestAWayOverTheSeamIsShort(t *testing.T) {
	g := grid(t, 2, 2, 15)
	legs := way(g, torus.Pos{X: 950, Y: 5}, torus.Pos{X: 100, Y: 5})
	if len(legs) != 3 || legs[0] != (torus.Pos{X: 30, Y: 5}) || legs[2] != (torus.Pos{X: 100, Y: 5}) {
		t.Error(legs)
	}
}

func TestNamesAreReadBack(t *testing.T) {
	if n, ok := indexOf("bot12", botName("bot12", 34)); !ok || n != 34 {
		t.Error(n, ok)
	}
	for _, name := range []string{"", "bot12-", "bot12--1", "bot13-1", "bot12-x"} {
		if _, ok := indexOf("bot12", name); ok {
			t.Errorf("%q is taken for a bot", name)
		}
	}
}

func TestTheLoadOfNodesTellsOwners(t *testing.T) {
	owners := make([]string, 4)
	if err := readLoad(strings.NewReader(`{"session":"w-zone-0#3","columns":2,"regions":[{"Region":1,"Epoch":2},{"Region":3}]}`), owners); err != nil {
		t.Fatal(err)
	}
	if owners[1] != "w-zone-0#3" || owners[3] != "w-zone-0#3" || owners[0] != "" {
		t.Error(owners)
	}
	for _, bad := range []string{`{"regions":[{"Region":4}]}`, `{"regions":[{"Region":-1}]}`, `[]`, ``} {
		if err := readLoad(strings.NewReader(bad), owners); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if list, err := Siblings([]string{"10.0.0.1:8080", "ws://10.0.0.2:8080/play"}, 8081); err != nil || list[1] != "10.0.0.2:8081" {
		t.Error(list, err)
	}
}

func FuzzReadLoad(f *testing.F) {
	f.Add(`{"session":"w-zone-0#3","regions":[{"Region":1}]}`)
	f.Fuzz(func(_ *testing.T, s string) {
		_ = readLoad(strings.NewReader(s), make([]string, 4))
	})
}

func TestReportsAreJSON(t *testing.T) {
	r := Report{Violations: []Violation{{Kind: Twin, After: Seconds(1500e6)}}}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"after":1.500`) {
		t.Errorf("%s, %v", b, err)
	}
}
