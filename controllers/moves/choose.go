package moves

import (
	"cmp"
	"slices"

	"github.com/spatialcells/spatialcells/controllers/placement"
)

// chooser says which region goes next.
type chooser struct {
	*planner
	// future is who has each region when all that is on its way has arrived.
	future placement.Table
	// busy counts the regions on their way from or to each node.
	busy map[int32]int
	// distance is how far each region is from what a node has, by node.
	distance map[int32][]int
}

func newChooser(p *planner) *chooser {
	c := &chooser{planner: p, future: make(placement.Table, len(p.Regions)), busy: map[int32]int{}, distance: map[int32][]int{}}
	for i, r := range p.Regions {
		c.future[i] = r.Holder
	}
	for _, i := range p.plan.Moving {
		c.send(i)
	}
	for _, i := range p.ready {
		if to := p.Regions[i].Wanted; c.distance[to] == nil {
			c.distance[to] = distances(p.Grid, c.future, to)
		}
	}
	return c
}

// send accounts for a region that is on its way.
func (c *chooser) send(i int) {
	r := c.Regions[i]
	to := r.Wanted
	if r.ordered() {
		to = r.Target
	}
	c.future[i] = to
	c.busy[r.Holder]++
	c.busy[to]++
}

// choose takes the best of the regions that are ready. Of equals the first in the grid is the best.
func (c *chooser) choose() int {
	place := 0
	for k := range c.ready[1:] {
		if c.compare(c.ready[k+1], c.ready[place]) < 0 {
			place = k + 1
		}
	}
	best := c.ready[place]
	c.ready = slices.Delete(c.ready, place, place+1)
	c.send(best)
	return best
}

func (c *chooser) compare(a, b int) int {
	ra, rb := c.Regions[a], c.Regions[b]
	return cmp.Or(
		cmp.Compare(c.busy[ra.Holder]+c.busy[ra.Wanted], c.busy[rb.Holder]+c.busy[rb.Wanted]),
		cmp.Compare(c.borders(b), c.borders(a)),
		cmp.Compare(c.distance[ra.Wanted][a], c.distance[rb.Wanted][b]),
		cmp.Compare(a, b),
	)
}

// borders counts the sides on which a region borders on what its future holder will have.
func (c *chooser) borders(i int) int {
	n := 0
	for _, j := range c.Grid.Neighbours(i) {
		if j != i && c.future[j] == c.Regions[i].Wanted {
			n++
		}
	}
	return n
}

// distances counts, for each region, the steps to the nearest region that a node has. Where it has none, all are equally far.
func distances(g placement.Grid, t placement.Table, node int32) []int {
	far := g.Size()
	steps := make([]int, len(t))
	var reached []int
	for i, owner := range t {
		steps[i] = far
		if owner == node {
			steps[i] = 0
			reached = append(reached, i)
		}
	}
	for k := 0; k < len(reached); k++ {
		for _, j := range g.Neighbours(reached[k]) {
			if steps[j] > steps[reached[k]]+1 {
				steps[j] = steps[reached[k]] + 1
				reached = append(reached, j)
			}
		}
	}
	return steps
}
