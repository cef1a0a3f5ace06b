package placement

import "slices"

// layout divides a grid among n nodes without pins: contiguous, even, with short borders.
//
// Each candidate cuts the torus into strips along one axis and each strip, in snaking order, into its nodes. The cut into
// one strip is always contiguous, so there is always an answer; of the contiguous ones the shortest border wins, and of
// equally short ones the most compact pieces: no node then rings the world alone.
// Ordinals are then given so that a grid of n nodes resembles that of n-1: scaling moves little.
func layout(g Grid, n int32) Table {
	table := make(Table, g.Size())
	for nodes := int32(2); nodes <= n; nodes++ {
		table = relabel(shape(g, nodes), table, nodes)
	}
	return table
}

// shape is the best candidate for n nodes, with arbitrary but deterministic labels.
func shape(g Grid, n int32) Table {
	var best Table
	shortest := 0
	for _, acrossRows := range []bool{false, true} {
		for strips := int32(1); strips <= n; strips++ {
			if strips > 1 && !proportionate(g, n, strips, acrossRows) {
				continue
			}
			t := cut(g, n, strips, acrossRows)
			if !contiguous(g, t, n) {
				continue
			}
			border := g.Border(t)
			if best == nil || border < shortest || border == shortest && extent(g, t, n) < extent(g, best, n) {
				best, shortest = t, border
			}
		}
	}
	return best
}

// extent is how many columns or rows the piece touches that touches most of them.
func extent(g Grid, t Table, n int32) (longest int32) {
	lines := g.Columns + g.Rows
	touched := make([]bool, n*lines)
	for cell, node := range t {
		r := g.Region(cell)
		touched[node*lines+r.Column], touched[node*lines+g.Columns+r.Row] = true, true
	}
	for node := range n {
		of := touched[node*lines : (node+1)*lines]
		longest = max(longest, count(of[:g.Columns]), count(of[g.Columns:]))
	}
	return longest
}

func count(list []bool) (n int32) {
	for _, yes := range list {
		if yes {
			n++
		}
	}
	return n
}

// proportionate leaves out cuts whose pieces would be more than five times longer than wide: they never win.
func proportionate(g Grid, n, strips int32, acrossRows bool) bool {
	along, across := g.Columns, g.Rows
	if acrossRows {
		along, across = across, along
	}
	width := float64(along) / float64(strips)
	height := float64(across) * float64(strips) / float64(n)
	return width < 5*height && height < 5*width
}

// cut makes the strips and the nodes in them. Every node gets its exact share, so strips may have ragged edges.
func cut(g Grid, n, strips int32, acrossRows bool) Table {
	order := snake(g, acrossRows)
	t := make(Table, g.Size())
	for strip := range strips {
		first, last := strip*n/strips, (strip+1)*n/strips
		from, to := share(g, n, first), share(g, n, last)
		cells := slices.Clone(order[from:to])
		if strips > 1 {
			snakeStrip(g, cells, acrossRows, strip%2 == 1)
		}
		node := first
		for i, cell := range cells {
			for from+i >= share(g, n, node+1) {
				node++
			}
			t[cell] = node
		}
	}
	return t
}

// share is the number of regions of the nodes before ordinal.
func share(g Grid, n, ordinal int32) int { return g.Size() * int(ordinal) / int(n) }

// snake lists all regions, line by line, so that each follows a neighbour: columns, or rows if acrossRows.
func snake(g Grid, acrossRows bool) []int {
	order := make([]int, 0, g.Size())
	lines, length := g.Columns, g.Rows
	if acrossRows {
		lines, length = length, lines
	}
	for line := range lines {
		for k := range length {
			if line%2 == 1 {
				k = length - 1 - k
			}
			if acrossRows {
				order = append(order, g.Index(k, line))
			} else {
				order = append(order, g.Index(line, k))
			}
		}
	}
	return order
}

// snakeStrip reorders the regions of a strip so that it is walked across, line by line, there and back. Every other
// strip is walked from the far end, so that consecutive ordinals stay neighbours.
func snakeStrip(g Grid, cells []int, acrossRows, fromFarEnd bool) {
	key := func(cell int) (int32, int32) {
		r := g.Region(cell)
		line, place := r.Row, r.Column
		if acrossRows {
			line, place = r.Column, r.Row
		}
		if line%2 == 1 {
			place = -place
		}
		if fromFarEnd {
			line = -line
		}
		return line, place
	}
	slices.SortFunc(cells, func(a, b int) int {
		la, pa := key(a)
		lb, pb := key(b)
		if la != lb {
			return int(la - lb)
		}
		return int(pa - pb)
	})
}

func contiguous(g Grid, t Table, n int32) bool {
	for node := range n {
		if g.Pieces(t, node) != 1 {
			return false
		}
	}
	return true
}

// relabel names the pieces of t so that as many regions as possible keep the owner they have in before. Greedy: the
// largest overlaps first.
func relabel(t, before Table, n int32) Table {
	type overlap struct{ piece, node, size int32 }
	sizes := make([]int32, n*n)
	for i := range t {
		sizes[t[i]*n+before[i]]++
	}
	var overlaps []overlap
	for k, size := range sizes {
		if size > 0 {
			overlaps = append(overlaps, overlap{int32(k) / n, int32(k) % n, size})
		}
	}
	slices.SortStableFunc(overlaps, func(a, b overlap) int { return int(b.size - a.size) })
	name, taken := make([]int32, n), make([]bool, n)
	for i := range name {
		name[i] = Nobody
	}
	for _, o := range overlaps {
		if name[o.piece] == Nobody && !taken[o.node] {
			name[o.piece], taken[o.node] = o.node, true
		}
	}
	for piece := range name {
		if name[piece] == Nobody {
			name[piece] = int32(slices.Index(taken, false))
			taken[name[piece]] = true
		}
	}
	out := make(Table, len(t))
	for i, piece := range t {
		out[i] = name[piece]
	}
	return out
}
