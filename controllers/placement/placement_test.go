package placement

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustPlan(t interface{ Fatalf(string, ...any) }, d Declaration) Table {
	table, refusal := Plan(d)
	if refusal != nil {
		t.Fatalf("refused: %v", refusal)
	}
	return table
}

func spread(counts []int) int { return slices.Max(counts) - slices.Min(counts) }

func draw(g Grid, t Table) string {
	var b strings.Builder
	for i, owner := range t {
		if i > 0 && i%int(g.Columns) == 0 {
			b.WriteByte('\n')
		}
		b.WriteByte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/."[owner])
	}
	return b.String()
}

func TestFourNodesGetQuarters(t *testing.T) {
	g := Grid{16, 16}
	table := mustPlan(t, Declaration{Grid: g, Nodes: 4, Policy: Balanced})
	if border := g.Border(table); border != 64 {
		t.Errorf("border is %d edges, want 64 (four squares of 8 x 8):\n%s", border, draw(g, table))
	}
}

func drawGrid(t *rapid.T) Grid {
	return Grid{rapid.Int32Range(1, 20).Draw(t, "columns"), rapid.Int32Range(1, 20).Draw(t, "rows")}
}

func TestBalancedIsContiguousEvenAndDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		n := rapid.Int32Range(1, int32(min(g.Size(), 64))).Draw(t, "nodes")
		d := Declaration{Grid: g, Nodes: n, Policy: Balanced}
		table := mustPlan(t, d)
		for node := range n {
			if p := g.Pieces(table, node); p != 1 {
				t.Fatalf("node %d has %d pieces:\n%s", node, p, draw(g, table))
			}
		}
		if s := spread(table.Counts(n)); s > 1 {
			t.Fatalf("counts differ by %d: %v", s, table.Counts(n))
		}
		if !slices.Equal(table, mustPlan(t, d)) {
			t.Fatal("two plans of one declaration differ")
		}
	})
}

func drawAreas(t *rapid.T, g Grid, n int32, atMost int) []Area {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Area {
		return Area{
			Ordinal: rapid.Int32Range(0, n-1).Draw(t, "ordinal"),
			Column:  rapid.Int32Range(0, g.Columns-1).Draw(t, "column"),
			Row:     rapid.Int32Range(0, g.Rows-1).Draw(t, "row"),
			Width:   rapid.Int32Range(0, g.Columns).Draw(t, "width"),
			Height:  rapid.Int32Range(0, g.Rows).Draw(t, "height"),
		}
	}), 1, atMost).Draw(t, "areas")
}

func TestPinsAreKeptAndTheRestIsEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		n := rapid.Int32Range(1, int32(min(g.Size(), 12))).Draw(t, "nodes")
		d := Declaration{Grid: g, Nodes: n, Policy: Balanced, Areas: drawAreas(t, g, n, 6)}
		table, refusal := Plan(d)
		painted := paint(d)
		if refusal != nil {
			if refusal.Reason != ReasonNodeWithoutRegions || slices.Contains(painted, Nobody) && slices.Min(painted.Counts(n)) > 0 {
				t.Fatalf("refused: %v", refusal)
			}
			return
		}
		for i, owner := range painted {
			if owner != Nobody && table[i] != owner {
				t.Fatalf("region %v is pinned to %d and planned for %d", g.Region(i), owner, table[i])
			}
		}
		counts, pins := table.Counts(n), painted.Counts(n)
		var free []int // nodes that pins do not make larger
		smallest := slices.Min(counts)
		for node := range n {
			if counts[node] != pins[node] || counts[node] <= smallest+1 {
				free = append(free, counts[node])
			}
		}
		if s := spread(free); s > 1 {
			t.Fatalf("counts %v differ by %d though pins %v do not force it:\n%s", counts, s, pins, draw(g, table))
		}
	})
}

// On a narrow torus a region that crosses to a neighbour can close the border that the chain came over.
func TestAChainThatBreaksOffIsNotTriedForEver(t *testing.T) {
	table := mustPlan(t, Declaration{Grid: Grid{2, 9}, Nodes: 7, Policy: Balanced, Areas: []Area{{Column: 1, Row: 1, Width: 1, Height: 2}}})
	if counts := table.Counts(7); spread(counts) > 1 {
		t.Fatalf("counts %v differ by more than one", counts)
	}
}

func TestOnePinAddsAtMostOnePiecePerNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Grid{16, 16}
		n := rapid.Int32Range(2, 8).Draw(t, "nodes")
		pin := Area{
			Ordinal: rapid.Int32Range(0, n-1).Draw(t, "ordinal"),
			Column:  rapid.Int32Range(0, 15).Draw(t, "column"), Row: rapid.Int32Range(0, 15).Draw(t, "row"),
			Width: rapid.Int32Range(1, 3).Draw(t, "width"), Height: rapid.Int32Range(1, 3).Draw(t, "height"),
		}
		table := mustPlan(t, Declaration{Grid: g, Nodes: n, Policy: Balanced, Areas: []Area{pin}})
		for node := range n {
			limit := 1
			if node == pin.Ordinal {
				limit = 2
			}
			if p := g.Pieces(table, node); p > limit {
				t.Fatalf("node %d has %d pieces with pin %v:\n%s", node, p, pin, draw(g, table))
			}
		}
	})
}

func TestASmallPinMovesFewRegions(t *testing.T) {
	g := Grid{16, 16}
	before := mustPlan(t, Declaration{Grid: g, Nodes: 4, Policy: Balanced})
	after := mustPlan(t, Declaration{Grid: g, Nodes: 4, Policy: Balanced, Areas: []Area{{Ordinal: 3, Column: 2, Row: 2, Width: 2, Height: 2}}})
	if moved := differences(before, after); moved > 12 {
		t.Errorf("a pin of 4 regions moved %d:\n%s", moved, draw(g, after))
	}
}

func differences(a, b Table) int {
	n := 0
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func TestScalingUpLeavesMostRegionsWhereTheyAre(t *testing.T) {
	g := Grid{16, 16}
	for n := int32(1); n < 16; n++ {
		before := mustPlan(t, Declaration{Grid: g, Nodes: n, Policy: Balanced})
		after := mustPlan(t, Declaration{Grid: g, Nodes: n + 1, Policy: Balanced})
		if moved := differences(before, after); moved > 170 {
			t.Errorf("%d -> %d nodes moves %d of 256 regions:\n%s\n\n%s", n, n+1, moved, draw(g, before), draw(g, after))
		}
	}
}

func TestManualPaintsInOrderAndWrapsOverTheSeam(t *testing.T) {
	g := Grid{4, 3}
	table := mustPlan(t, Declaration{Grid: g, Nodes: 2, Policy: Manual, Areas: []Area{
		{Ordinal: 0, Width: 4, Height: 3},
		{Ordinal: 1, Column: 3, Row: 2, Width: 2, Height: 2},
	}})
	if got, want := draw(g, table), "1001\n0000\n1001"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		declaration Declaration
		reason      string
		says        []string
	}{
		"a hole under Manual": {
			Declaration{Grid{4, 4}, 1, Manual, []Area{{Width: 4, Height: 3}}},
			ReasonAreasLeaveHoles,
			[]string{"4 regions (column,row) 0,3 1,3 2,3 3,3 belong to no area", "Append areas"},
		},
		"many holes": {
			Declaration{Grid{4, 4}, 1, Manual, []Area{{Width: 4, Height: 2}}},
			ReasonAreasLeaveHoles,
			[]string{"8 regions", "0,2 1,2 2,2 3,2 0,3 and 3 more"},
		},
		"one region for two nodes": {
			Declaration{Grid{1, 1}, 2, Balanced, nil},
			ReasonMoreNodesThanRegions,
			[]string{"2 nodes cannot share 1 region", "nodes.replicas to at most 1"},
		},
		"an unknown node": {
			Declaration{Grid{4, 4}, 2, Balanced, []Area{{Ordinal: 2, Reason: "capital"}}},
			ReasonOrdinalBeyondReplicas,
			[]string{"assignment.areas[0] (capital) names node 2", "at least 3"},
		},
		"an area outside": {
			Declaration{Grid{4, 4}, 2, Balanced, []Area{{}, {Column: 4, Reason: "abroad"}}},
			ReasonAreaBeyondGrid,
			[]string{"assignment.areas[1] (abroad) starts at 4,0", "grid of 4 x 4"},
		},
		"a node without regions": {
			Declaration{Grid{2, 2}, 2, Manual, []Area{{Width: 2, Height: 2}}},
			ReasonNodeWithoutRegions,
			[]string{"leave node 1 without a region: none names it", "nodes.replicas"},
		},
		"a node whose areas are painted over": {
			Declaration{Grid{2, 2}, 2, Balanced, []Area{{Column: 1, Ordinal: 1}, {Width: 2, Reason: "north"}, {Row: 1, Width: 2}, {Column: 1, Height: 2}}},
			ReasonNodeWithoutRegions,
			[]string{"leave node 1 without a region: over assignment.areas[0] others are painted later, assignment.areas[1] (north), assignment.areas[3]. Give"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal := Plan(tc.declaration)
			if refusal == nil || refusal.Reason != tc.reason {
				t.Fatalf("refusal is %v, want reason %s", refusal, tc.reason)
			}
			for _, words := range tc.says {
				if !strings.Contains(refusal.Message, words) {
					t.Errorf("message %q does not say %q", refusal.Message, words)
				}
			}
		})
	}
}

func TestDistanceGoesTheShortWayRound(t *testing.T) {
	g := Grid{16, 8}
	if d := g.Distance(g.Index(0, 0), g.Index(15, 7)); d != 2 {
		t.Errorf("distance over the corner of the seam is %d, want 2", d)
	}
}

func TestHeirsAreEvenAndNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Grid{rapid.Int32Range(2, 16).Draw(t, "columns"), rapid.Int32Range(2, 16).Draw(t, "rows")}
		n := rapid.Int32Range(2, int32(min(g.Size(), 8))).Draw(t, "nodes")
		held := mustPlan(t, Declaration{Grid: g, Nodes: n, Policy: Balanced})
		dead := rapid.Int32Range(0, n-1).Draw(t, "dead")
		var orphans []int
		var live []int32
		for i, owner := range held {
			if owner == dead {
				orphans, held[i] = append(orphans, i), Nobody
			}
		}
		for node := range n {
			if node != dead {
				live = append(live, node)
			}
		}
		heirs := Heirs(g, held, orphans, live)
		if len(heirs) != len(orphans) {
			t.Fatalf("%d orphans, %d heirs", len(orphans), len(heirs))
		}
		for region, heir := range heirs {
			held[region] = heir
		}
		counts := held.Counts(n)
		counts = slices.Delete(counts, int(dead), int(dead)+1)
		if s := spread(counts); s > 2 {
			t.Fatalf("counts after the failover differ by %d: %v", s, counts)
		}
	})
}

func TestNobodyInheritsWhenNobodyLives(t *testing.T) {
	if heirs := Heirs(Grid{2, 2}, Table{-1, -1, -1, -1}, []int{0, 1, 2, 3}, nil); len(heirs) != 0 {
		t.Errorf("heirs are %v", heirs)
	}
}

func TestTheLargestWorldIsPlannedInTime(t *testing.T) {
	began := time.Now()
	mustPlan(t, Declaration{Grid: Grid{64, 64}, Nodes: 64, Policy: Balanced, Areas: []Area{{Ordinal: 5, Column: 60, Row: 60, Width: 9, Height: 9}}})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("planning 4096 regions for 64 nodes took %v", took)
	}
}

func BenchmarkPlanSampleWorld(b *testing.B) {
	for b.Loop() {
		mustPlan(b, Declaration{Grid: Grid{16, 16}, Nodes: 4, Policy: Balanced, Areas: []Area{{Ordinal: 3, Column: 2, Row: 2, Width: 2, Height: 2}}})
	}
}
