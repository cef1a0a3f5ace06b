package placement

import "slices"

// balance lays pins over the plain layout and evens out what they disturbed. painted holds the pinned owners, Nobody
// elsewhere. It returns nil for no nodes.
func balance(g Grid, n int32, painted Table) Table {
	if n == 0 {
		return nil
	}
	b := &balancer{grid: g, nodes: n, owner: layout(g, n), pinned: make([]bool, len(painted))}
	for i, owner := range painted {
		if owner != Nobody {
			b.owner[i], b.pinned[i] = owner, true
		}
	}
	if slices.Contains(b.pinned, true) {
		b.mergeFragments()
		b.even()
	}
	return b.owner
}

type balancer struct {
	grid   Grid
	nodes  int32
	owner  Table
	pinned []bool
	counts []int
	quota  []int
}

// mergeFragments gives what a pin cut off from its node's main piece to a neighbour. Pieces with pins stay: they were asked for.
func (b *balancer) mergeFragments() {
	for merged := true; merged; {
		merged = false
		for node := range b.nodes {
			for _, part := range b.fragments(node) {
				heir := b.closestNeighbour(part)
				for _, cell := range part {
					b.owner[cell] = heir
				}
				merged = true
			}
		}
	}
}

// fragments are the pieces of a node without pins, but for its largest piece.
func (b *balancer) fragments(node int32) [][]int {
	parts := b.grid.pieces(b.owner, node)
	slices.SortStableFunc(parts, func(p, q []int) int { return len(q) - len(p) })
	if len(parts) < 2 {
		return nil
	}
	return slices.DeleteFunc(parts[1:], func(part []int) bool {
		return slices.ContainsFunc(part, func(cell int) bool { return b.pinned[cell] })
	})
}

// closestNeighbour is the other node with the longest border to a piece.
func (b *balancer) closestNeighbour(part []int) int32 {
	edges := make([]int, b.nodes)
	self := b.owner[part[0]]
	for _, cell := range part {
		for _, j := range b.grid.Neighbours(cell) {
			if b.owner[j] != self {
				edges[b.owner[j]]++
			}
		}
	}
	best := int32(0)
	for node := range b.nodes {
		if edges[node] > edges[best] {
			best = node
		}
	}
	return best
}

// even moves regions from nodes above their quota to nodes below, along a chain of neighbours, one region over each
// border. Each round brings a node above its quota and one below one region nearer to it, so it ends.
func (b *balancer) even() {
	b.counts = b.owner.Counts(b.nodes)
	b.quota = quotas(b.counts, b.pinnedCounts(), b.grid.Size())
	for {
		if chain := b.chain(b.mayLeave); chain != nil {
			if !b.pass(chain, b.mayLeave) {
				b.settle()
			}
			continue
		}
		// Pins can wall a node in so that only a cut through a neighbour's piece keeps the counts even.
		if chain := b.chain(b.unpinned); chain != nil {
			if !b.pass(chain, b.unpinned) {
				b.settle()
			}
			continue
		}
		if !b.settle() {
			return
		}
	}
}

// settle gives a node that no border leads to (its last region went to a pin, or pins surround it, or a chain broke off there)
// one region of a node above its quota, the nearest to what it has.
func (b *balancer) settle() bool {
	taker := int32(-1)
	for node := range b.nodes {
		if b.counts[node] < b.quota[node] {
			taker = node
		}
	}
	if taker < 0 {
		return false
	}
	best, shortest, cut := -1, 0, false
	for cell, giver := range b.owner {
		if b.pinned[cell] || b.counts[giver] <= b.quota[giver] {
			continue
		}
		d, cuts := b.distanceTo(taker, cell), !b.mayLeave(cell)
		if best < 0 || cut && !cuts || cut == cuts && d < shortest {
			best, shortest, cut = cell, d, cuts
		}
	}
	if best < 0 {
		return false
	}
	b.counts[b.owner[best]]--
	b.counts[taker]++
	b.owner[best] = taker
	return true
}

// distanceTo is the way from a region to the nearest of a node's, 0 if it has none.
func (b *balancer) distanceTo(node int32, cell int) int {
	shortest := 0
	for other, owner := range b.owner {
		if d := b.grid.Distance(cell, other); owner == node && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	return shortest
}

func (b *balancer) pinnedCounts() []int {
	counts := make([]int, b.nodes)
	for i, owner := range b.owner {
		if b.pinned[i] {
			counts[owner]++
		}
	}
	return counts
}

// quotas fills up to a common level: a node with more pins than that keeps its pins, the others differ by at most one.
// The larger shares go to those that have most already.
func quotas(counts, pins []int, total int) []int {
	n := len(counts)
	quota := slices.Clone(pins)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return counts[b] - counts[a] })
	left := total
	for _, p := range pins {
		left -= p
	}
	for level := 0; left > 0; level++ { // raise everyone that stands at the level by one, until nothing is left
		for _, node := range order {
			if quota[node] == level && left > 0 {
				quota[node]++
				left--
			}
		}
	}
	return quota
}

// chain is the shortest chain of nodes from one above its quota to one below, over borders where a region may cross.
func (b *balancer) chain(may func(int) bool) []int32 {
	from := make([]int32, b.nodes)
	var queue []int32
	for node := range b.nodes {
		from[node] = Nobody
		if b.counts[node] > b.quota[node] {
			from[node] = node
			queue = append(queue, node)
		}
	}
	if len(queue) == 0 {
		return nil
	}
	open := b.crossings(may)
	for k := 0; k < len(queue); k++ {
		node := queue[k]
		if b.counts[node] < b.quota[node] {
			return trace(from, node)
		}
		for next := range b.nodes {
			if open[node*b.nodes+next] && from[next] == Nobody {
				from[next] = node
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// trace walks the chain back to where it began.
func trace(from []int32, node int32) []int32 {
	chain := []int32{node}
	for from[node] != node {
		node = from[node]
		chain = append(chain, node)
	}
	slices.Reverse(chain)
	return chain
}

// crossings tells for each pair of nodes whether some region of the first may go to the second.
func (b *balancer) crossings(may func(int) bool) []bool {
	open := make([]bool, b.nodes*b.nodes)
	for cell, owner := range b.owner {
		for _, j := range b.grid.Neighbours(cell) {
			pair := owner*b.nodes + b.owner[j]
			if b.owner[j] != owner && !open[pair] && may(cell) {
				open[pair] = true
			}
		}
	}
	return open
}

// pass hands one region over each border of the chain, from its end, so that no node runs empty. False: a hand-over closed the
// border before it, so that a node in the chain is one below its quota now, instead of the last; passing on from there again could
// go to and fro for ever.
func (b *balancer) pass(chain []int32, may func(int) bool) bool {
	for k := len(chain) - 1; k > 0; k-- {
		giver, taker := chain[k-1], chain[k]
		cell := b.best(giver, taker, may)
		if cell < 0 { // the last hand-over closed this border: any unpinned region will do
			cell = b.best(giver, taker, b.unpinned)
		}
		if cell < 0 {
			return false
		}
		b.owner[cell] = taker
		b.counts[giver]--
		b.counts[taker]++
	}
	return true
}

// best is the region of giver whose move to taker shortens the borders most, or -1.
func (b *balancer) best(giver, taker int32, may func(int) bool) int {
	best, gain := -1, 0
	for cell, owner := range b.owner {
		if owner != giver {
			continue
		}
		toTaker, toGiver := 0, 0
		for _, j := range b.grid.Neighbours(cell) {
			switch b.owner[j] {
			case taker:
				toTaker++
			case giver:
				toGiver++
			}
		}
		if toTaker > 0 && (best < 0 || toTaker-toGiver > gain) && may(cell) {
			best, gain = cell, toTaker-toGiver
		}
	}
	return best
}

func (b *balancer) unpinned(cell int) bool {
	return !b.pinned[cell] && b.counts[b.owner[cell]] > 1
}

// mayLeave tells whether a region can go without cutting its node's piece in two.
func (b *balancer) mayLeave(cell int) bool {
	if !b.unpinned(cell) {
		return false
	}
	self := b.owner[cell]
	var kin []int
	for _, j := range b.grid.Neighbours(cell) {
		if j != cell && b.owner[j] == self && !slices.Contains(kin, j) {
			kin = append(kin, j)
		}
	}
	if len(kin) < 2 {
		return len(kin) == 1
	}
	return b.joined(cell, kin)
}

// joined tells whether all of kin reach each other without going through cell.
func (b *balancer) joined(cell int, kin []int) bool {
	self := b.owner[cell]
	seen := map[int]bool{cell: true, kin[0]: true}
	missing := len(kin) - 1
	for queue := []int{kin[0]}; len(queue) > 0; queue = queue[1:] {
		for _, j := range b.grid.Neighbours(queue[0]) {
			if b.owner[j] != self || seen[j] {
				continue
			}
			seen[j] = true
			queue = append(queue, j)
			if slices.Contains(kin, j) {
				if missing--; missing == 0 {
					return true
				}
			}
		}
	}
	return false
}
