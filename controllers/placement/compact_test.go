package placement

import "testing"

// TestOfEquallyShortBordersTheCompactPiecesWin: four strips of 4 x 16 have the border of four squares of 8 x 8, and no
// corner at which four nodes meet.
func TestOfEquallyShortBordersTheCompactPiecesWin(t *testing.T) {
	g := Grid{16, 16}
	table := mustPlan(t, Declaration{Grid: g, Nodes: 4, Policy: Balanced})
	if longest := extent(g, table, 4); longest != 8 {
		t.Errorf("a piece touches %d columns or rows, want 8:\n%s", longest, draw(g, table))
	}
}
