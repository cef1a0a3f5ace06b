package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/node/torus"
)

type fataler interface{ Fatal(...any) }

func mustGrid(t fataler, columns, rows, edge int) torus.Grid {
	g, err := torus.NewGrid(columns, rows, edge)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// held is a table whose region i is held by the session of node nodes[i]; -1 leaves it free.
func held(t fataler, g torus.Grid, nodes ...int) *Table {
	rows := make([]Row, len(nodes))
	for i, n := range nodes {
		if n >= 0 {
			node := fmt.Sprintf("w-zone-%d", n)
			rows[i] = Row{Owner: Owner{Session: node + "#1", Node: node, Epoch: 1}, Target: node}
		}
	}
	table, err := NewTable(g, rows)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// drawTable draws a tiny world with up to four nodes and free regions.
func drawTable(t *rapid.T) *Table {
	axis := rapid.IntRange(1, 3)
	g := mustGrid(t, axis.Draw(t, "columns"), axis.Draw(t, "rows"), rapid.IntRange(15, 17).Draw(t, "edge"))
	return held(t, g, rapid.SliceOfN(rapid.IntRange(-1, 3), g.Regions(), g.Regions()).Draw(t, "nodes")...)
}

func drawChunk(t *rapid.T, g torus.Grid) torus.ChunkPos {
	return g.WrapChunk(rapid.IntRange(0, int(g.ChunksX())-1).Draw(t, "x"), rapid.IntRange(0, int(g.ChunksY())-1).Draw(t, "y"))
}

func TestBandsAreThoseOfTheDesign(t *testing.T) {
	if Hysteresis != 1 || Interaction != 2 || ViewRadius != 5 || ReleaseMargin != 1 || Ghost != 7 {
		t.Errorf("hysteresis %d, interaction %d, view %d + %d, ghost %d", Hysteresis, Interaction, ViewRadius, ReleaseMargin, Ghost)
	}
}

func TestOwnerOfAPositionIsTheHolderOfItsRegion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t)
		g := table.Grid()
		c := drawChunk(t, g)
		p, r := g.ChunkOrigin(c), g.RegionOfChunk(c)
		if o := table.Owner(p); o != table.Holder(r) || o != table.At(g.RegionIndex(r)) || o != table.HolderOfChunk(c) {
			t.Fatalf("four answers for %v", p)
		}
		o := table.Holder(r)
		if table.Holds(o.Session, r) == o.Free() {
			t.Fatalf("%q holds %v: %v", o.Session, r, table.Holds(o.Session, r))
		}
		if table.Session(table.Ref(g.RegionIndex(r))) != o.Session || table.RefOf(o.Session) != table.Ref(g.RegionIndex(r)) {
			t.Fatal("the session's number is another's")
		}
	})
}

func TestTableRefusesAnotherNumberOfRowsThanRegions(t *testing.T) {
	g := mustGrid(t, 2, 2, 15)
	if _, err := NewTable(g, make([]Row, 3)); err == nil || !strings.Contains(err.Error(), "3 rows") {
		t.Errorf("got %v", err)
	}
	empty, err := NewTable(g, nil)
	if err != nil || !empty.At(3).Free() || empty.Sessions() != nil && len(empty.Sessions()) != 0 {
		t.Errorf("no rows make a free world: %v", err)
	}
}

func TestWithLeavesTheOldTableAsItWas(t *testing.T) {
	g := mustGrid(t, 2, 1, 15)
	before := held(t, g, 0, 0)
	taken := Row{Owner: Owner{Session: "w-zone-1#4", Node: "w-zone-1", Epoch: 2}, Target: "w-zone-1"}
	after := before.With(Change{Region: 1, Row: taken})
	if before.At(1).Session != "w-zone-0#1" || after.Row(1) != taken || after.At(0) != before.At(0) {
		t.Errorf("before %v, after %v", before.At(1), after.At(1))
	}
	if after.Version() != before.Version()+1 {
		t.Errorf("version %d after %d", after.Version(), before.Version())
	}
	if got := after.Sessions(); !slices.Equal(got, []string{"w-zone-0#1", "w-zone-1#4"}) {
		t.Errorf("sessions %v", got)
	}
}

func TestStaleChangesAreLeftOut(t *testing.T) {
	g := mustGrid(t, 1, 1, 15)
	row := func(session string, epoch uint64) Row { return Row{Owner: Owner{Session: session, Epoch: epoch}} }
	table := held(t, g, 0).With(Change{0, row("new", 5)}, Change{0, row("old", 4)})
	if got := table.At(0).Session; got != "new" {
		t.Errorf("within one call: %q holds it", got)
	}
	if later := table.With(Change{0, row("old", 4)}, Change{0, row("new", 5)}); later != table {
		t.Error("changes that change nothing make no new table")
	}
	if freed := table.With(Change{0, row("", 5)}); !freed.At(0).Free() || freed.At(0).Epoch != 5 {
		t.Error("a holder may leave without a new epoch")
	}
}

func TestHoldersAreTheOwnersOfAllRegionsWithinOneChunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t)
		g, band := table.Grid(), rapid.Int32Range(0, 40).Draw(t, "band")
		c := drawChunk(t, g)
		want := map[string]bool{}
		for i := range g.Regions() {
			if o := table.At(i); Within(g, c, g.RegionAt(i), band) && !o.Free() {
				want[o.Session] = true
			}
		}
		got := table.AppendHoldersWithin(nil, c, band)
		if len(got) != len(want) {
			t.Fatalf("%v within %d of %v, want %v", got, band, c, want)
		}
		for _, session := range append(got, "w-zone-0#1", "w-zone-9#9", "") {
			if table.HoldsWithin(session, c, band) != want[session] {
				t.Fatalf("HoldsWithin(%q) = %v", session, !want[session])
			}
		}
		if band == Hysteresis && !slices.Equal(got, table.AppendHolders(nil, c)) {
			t.Fatal("AppendHolders is the band of the overhang")
		}
		if band <= Ghost && len(got) > 4 {
			t.Fatalf("%d holders", len(got))
		}
	})
}

func TestHoldersMoveWithTheWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t)
		g, band := table.Grid(), rapid.Int32Range(0, 20).Draw(t, "band")
		c, by := drawChunk(t, g), g.RegionAt(rapid.IntRange(0, g.Regions()-1).Draw(t, "by"))
		rows := make([]Row, g.Regions())
		for i := range rows {
			r := g.RegionAt(i)
			rows[g.RegionIndex(g.WrapRegion(int(r.Column+by.Column), int(r.Row+by.Row)))] = table.Row(i)
		}
		shifted, err := NewTable(g, rows)
		if err != nil {
			t.Fatal(err)
		}
		o := g.RegionOrigin(by)
		want, got := table.AppendHoldersWithin(nil, c, band), shifted.AppendHoldersWithin(nil, g.AddChunk(c, o.X, o.Y), band)
		if !slices.Equal(got, want) {
			t.Fatalf("%v, shifted by %v regions %v", want, by, got)
		}
	})
}

func TestHoldersAtSeamCornerAndInside(t *testing.T) {
	table := held(t, mustGrid(t, 2, 2, 15), 0, 1, 2, 3)
	for c, want := range map[torus.ChunkPos][]string{
		{X: 7, Y: 7}:   {"w-zone-0#1"},
		{X: 1, Y: 13}:  {"w-zone-0#1"},
		{X: 0, Y: 7}:   {"w-zone-1#1", "w-zone-0#1"},
		{X: 29, Y: 7}:  {"w-zone-1#1", "w-zone-0#1"},
		{X: 0, Y: 0}:   {"w-zone-3#1", "w-zone-2#1", "w-zone-1#1", "w-zone-0#1"},
		{X: 15, Y: 14}: {"w-zone-0#1", "w-zone-1#1", "w-zone-2#1", "w-zone-3#1"},
	} {
		if got := table.AppendHolders(nil, c); !slices.Equal(got, want) {
			t.Errorf("chunk %v: %v, want %v", c, got, want)
		}
	}
	kept := table.AppendHolders([]string{"w-zone-0#1"}, torus.ChunkPos{X: 7, Y: 7})
	if len(kept) != 2 {
		t.Errorf("what was there before is not compared with: %v", kept)
	}
}

func TestRegionsTouchedAreThoseWithinTheBandEachOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, grow := drawTable(t).Grid(), rapid.Int32Range(0, 60).Draw(t, "grow")
		c := drawChunk(t, g)
		got := AppendRegionsTouched(nil, g, c, grow)
		seen := map[torus.RegionPos]bool{}
		for _, r := range got {
			if seen[r] || !g.CanonicalRegion(r) {
				t.Fatalf("%v is there twice or not canonical: %v", r, got)
			}
			seen[r] = true
		}
		for i := range g.Regions() {
			if r := g.RegionAt(i); seen[r] != Within(g, c, r, grow) {
				t.Fatalf("region %v, chunk %v grown by %d: touched %v", r, c, grow, seen[r])
			}
		}
	})
}

func TestBandsLieOnTheirSideOfTheBorder(t *testing.T) {
	g := mustGrid(t, 2, 2, 15)
	home := torus.RegionPos{}
	for _, c := range []struct {
		x              int32
		mayStand       bool
		inBand, inside bool
	}{
		{12, true, false, false},
		{13, true, false, true},
		{14, true, false, true},
		{15, true, true, false},
		{16, false, true, false},
		{17, false, false, false},
		{28, false, true, false},
		{29, true, true, false},
		{0, true, false, true},
	} {
		chunk := torus.ChunkPos{X: c.x, Y: 7}
		if got := MayStand(g, chunk, home); got != c.mayStand {
			t.Errorf("x %d: may stand %v", c.x, got)
		}
		if got := InBand(g, chunk, home, Interaction); got != c.inBand {
			t.Errorf("x %d: in band %v", c.x, got)
		}
		if got := InsideBand(g, chunk, home, Interaction); got != c.inside {
			t.Errorf("x %d: inside band %v", c.x, got)
		}
		if got := NearBorder(g, chunk, home, Interaction); got != (c.inBand || c.inside) {
			t.Errorf("x %d: near border %v", c.x, got)
		}
	}
}

func TestTheOnlyRegionHasNoBorder(t *testing.T) {
	g := mustGrid(t, 1, 1, 15)
	if NearBorder(g, torus.ChunkPos{}, torus.RegionPos{}, 40) {
		t.Error("its seam is no border")
	}
}

func TestPeersAreTheNeighboursOverSeamsAndCornersOnce(t *testing.T) {
	for name, c := range map[string]struct {
		columns, rows int
		nodes         []int
		want          []string
	}{
		"alone":           {1, 1, []int{0}, nil},
		"both sides":      {2, 1, []int{0, 1}, []string{"w-zone-1#1"}},
		"own neighbour":   {2, 1, []int{0, 0}, nil},
		"beside the free": {2, 1, []int{0, -1}, nil},
		"corners":         {2, 2, []int{0, 1, 2, 3}, []string{"w-zone-3#1", "w-zone-2#1", "w-zone-1#1"}},
		"not the far one": {5, 1, []int{0, 1, 2, 3, 4}, []string{"w-zone-4#1", "w-zone-1#1"}},
	} {
		table := held(t, mustGrid(t, c.columns, c.rows, 15), c.nodes...)
		if got := table.AppendPeers(nil, "w-zone-0#1"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := held(t, mustGrid(t, 1, 1, 15), -1).AppendPeers(nil, "w-zone-0#1"); got != nil {
		t.Errorf("who holds nothing has no peers: %v", got)
	}
}

func TestRegionsOfASessionAscend(t *testing.T) {
	table := held(t, mustGrid(t, 3, 2, 15), 0, 1, 0, -1, 1, 0)
	if got := table.AppendRegionsOf(nil, "w-zone-0#1"); !slices.Equal(got, []int{0, 2, 5}) {
		t.Errorf("held: %v", got)
	}
	if got := table.AppendRegionsOf(nil, ""); !slices.Equal(got, []int{3}) {
		t.Errorf("free: %v", got)
	}
	if got := table.AppendRegionsOf(nil, "w-zone-7#1"); got != nil {
		t.Errorf("unknown: %v", got)
	}
}

func TestHotQuestionsDoNotAllocate(t *testing.T) {
	table := held(t, mustGrid(t, 2, 2, 15), 0, 1, 2, 3)
	g := table.Grid()
	dst, regions := make([]string, 0, 4), make([]torus.RegionPos, 0, 4)
	corner := torus.ChunkPos{}
	allocs := testing.AllocsPerRun(100, func() {
		if table.Owner(torus.Pos{X: 3}).Free() || !table.IsHolder("w-zone-3#1", corner) {
			t.Fatal("wrong table")
		}
		dst = table.AppendHolders(dst[:0], corner)
		regions = AppendRegionsTouched(regions[:0], g, corner, Ghost)
	})
	if allocs != 0 || len(dst) != 4 || len(regions) != 4 {
		t.Errorf("%v allocations, want 0; %v, %v", allocs, dst, regions)
	}
}

func TestLaterAreasWin(t *testing.T) {
	got, problems := Paint(3, 2, []Area{
		{Ordinal: 0, Column: 0, Row: 0, Width: 3, Height: 1},
		{Ordinal: 1, Column: 1, Row: 0, Width: 1, Height: 2},
	})
	if want := []int{0, 1, 0, -1, 1, -1}; !slices.Equal(got, want) || problems != nil {
		t.Errorf("%v, want %v; %v", got, want, problems)
	}
	winners, _ := PaintIndex(3, 2, []Area{{Ordinal: 7, Width: 3, Height: 2}, {Ordinal: 7, Width: 1, Height: 1}})
	if want := []int{1, 0, 0, 0, 0, 0}; !slices.Equal(winners, want) {
		t.Errorf("winners %v, want %v", winners, want)
	}
	if holes := AppendHoles(nil, 3, got); !slices.Equal(holes, []torus.RegionPos{{Column: 0, Row: 1}, {Column: 2, Row: 1}}) {
		t.Errorf("holes %v", holes)
	}
}

func TestAreasWrapOverBothSeams(t *testing.T) {
	got, problems := Paint(3, 3, []Area{{Ordinal: 4, Column: 2, Row: 2, Width: 2, Height: 2}})
	if want := []int{4, -1, 4, -1, -1, -1, 4, -1, 4}; !slices.Equal(got, want) || problems != nil {
		t.Errorf("%v, want %v; %v", got, want, problems)
	}
}

func TestAreasThatDoNotFitAreNamedAndLeftOut(t *testing.T) {
	good := Area{Ordinal: 1, Column: 0, Row: 0, Width: 2, Height: 2}
	for want, spoil := range map[string]func(*Area){
		"ordinal -1":                   func(a *Area) { a.Ordinal = -1 },
		"column 2 is outside the grid": func(a *Area) { a.Column = 2 },
		"row -1 is outside the grid":   func(a *Area) { a.Row = -1 },
		"width 3: use 1 to 2":          func(a *Area) { a.Width = 3 },
		"height 0: use 1 to 2":         func(a *Area) { a.Height = 0 },
	} {
		bad := good
		bad.Reason = "capital"
		spoil(&bad)
		got, problems := Paint(2, 2, []Area{good, bad})
		if !slices.Equal(got, []int{1, 1, 1, 1}) || len(problems) != 1 {
			t.Errorf("%s: painted %v, problems %v", want, got, problems)
			continue
		}
		var problem *AreaError
		if !errors.As(problems[0], &problem) || problem.Index != 1 {
			t.Errorf("%s: %v does not say which area", want, problems[0])
		}
		if text := problems[0].Error(); !strings.Contains(text, `areas[1] "capital": `+want) {
			t.Errorf("message %q, want %q in it", text, want)
		}
	}
}

func BenchmarkOwner(b *testing.B) {
	g := mustGrid(b, 16, 16, 250)
	table := held(b, g, make([]int, g.Regions())...)
	p := torus.Pos{X: 127_999, Y: 64_000}
	for b.Loop() {
		if table.Owner(p).Free() {
			b.Fatal("free")
		}
	}
}

func BenchmarkAppendHoldersAtACorner(b *testing.B) {
	table := held(b, mustGrid(b, 2, 2, 15), 0, 1, 2, 3)
	dst := make([]string, 0, 4)
	for b.Loop() {
		dst = table.AppendHolders(dst[:0], torus.ChunkPos{})
	}
}

// BenchmarkWith is a table of 4096 regions that loses one to another node.
func BenchmarkWith(b *testing.B) {
	g := mustGrid(b, 64, 64, 15)
	table := held(b, g, make([]int, g.Regions())...)
	for epoch := uint64(2); b.Loop(); epoch++ {
		table = table.With(Change{Region: 5, Row: Row{Owner: Owner{Session: "x", Epoch: epoch}}})
	}
}
