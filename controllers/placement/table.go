package placement

// Nobody is the ordinal of a region without an owner.
const Nobody int32 = -1

// Grid is the fixed partition of the torus, in regions.
type Grid struct {
	Columns, Rows int32
}

// Region addresses one region of a Grid.
type Region struct {
	Column, Row int32
}

// Table holds the ordinal of the owner of each region, row by row from region 0,0. See [Grid.Index].
type Table []int32

// Size is the number of regions.
func (g Grid) Size() int { return int(g.Columns) * int(g.Rows) }

// Index is the place of a region in a Table. Columns and rows outside the grid wrap.
func (g Grid) Index(column, row int32) int {
	return int(wrap(row, g.Rows))*int(g.Columns) + int(wrap(column, g.Columns))
}

// Region is the inverse of Index.
func (g Grid) Region(index int) Region {
	return Region{Column: int32(index) % g.Columns, Row: int32(index) / g.Columns}
}

// Distance counts the regions between a and b, going straight along both axes, the short way round.
func (g Grid) Distance(a, b int) int {
	p, q := g.Region(a), g.Region(b)
	return int(around(p.Column-q.Column, g.Columns) + around(p.Row-q.Row, g.Rows))
}

// Neighbours are the regions west, east, north and south. On a grid one or two wide they repeat, or are the region itself.
func (g Grid) Neighbours(index int) [4]int {
	r := g.Region(index)
	return [4]int{
		g.Index(r.Column-1, r.Row), g.Index(r.Column+1, r.Row),
		g.Index(r.Column, r.Row-1), g.Index(r.Column, r.Row+1),
	}
}

// Border counts the region edges between different owners, once each.
func (g Grid) Border(t Table) int {
	edges := 0
	for i := range t {
		n := g.Neighbours(i)
		for _, j := range [2]int{n[1], n[3]} { // east and south: each edge once
			if t[i] != t[j] {
				edges++
			}
		}
	}
	return edges
}

// Pieces counts the connected parts of what a node owns.
func (g Grid) Pieces(t Table, ordinal int32) int {
	return len(g.pieces(t, ordinal))
}

// pieces lists the connected parts of what a node owns, each in the order it was reached.
func (g Grid) pieces(t Table, ordinal int32) [][]int {
	seen := make([]bool, len(t))
	var parts [][]int
	for i := range t {
		if t[i] != ordinal || seen[i] {
			continue
		}
		part := []int{i}
		seen[i] = true
		for k := 0; k < len(part); k++ {
			for _, j := range g.Neighbours(part[k]) {
				if t[j] == ordinal && !seen[j] {
					seen[j] = true
					part = append(part, j)
				}
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// Counts is the number of regions of each of the first n nodes.
func (t Table) Counts(n int32) []int {
	counts := make([]int, n)
	for _, owner := range t {
		if owner >= 0 && owner < n {
			counts[owner]++
		}
	}
	return counts
}

func wrap(v, size int32) int32 {
	if v %= size; v < 0 {
		v += size
	}
	return v
}

// around is the length of a difference on a ring.
func around(d, size int32) int32 {
	d = wrap(d, size)
	return min(d, size-d)
}
