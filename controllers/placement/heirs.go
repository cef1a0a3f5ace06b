package placement

import (
	"math"
	"slices"
)

// Heirs gives each orphan a live node: the least loaded takes the orphan nearest to what it has, until none is left, so
// that inherited regions hang together. held tells who has or is promised each region, Nobody for the orphans. The answer
// maps region indices to ordinals; it is empty if nobody lives.
func Heirs(g Grid, held Table, orphans []int, live []int32) map[int]int32 {
	heirs := make(map[int]int32, len(orphans))
	if len(live) == 0 {
		return heirs
	}
	estates := estatesOf(g, held, orphans, live)
	for left := slices.Clone(orphans); len(left) > 0; {
		e := leastLoaded(estates)
		k := e.nearest(left)
		region := left[k]
		left = slices.Delete(left, k, k+1)
		heirs[region] = e.ordinal
		e.add(g, region, left)
		e.load++
	}
	return heirs
}

// estate is what one live node has, seen from the orphans.
type estate struct {
	ordinal  int32
	load     int
	distance map[int]int // from each orphan to the nearest region of this node
}

func estatesOf(g Grid, held Table, orphans []int, live []int32) []*estate {
	sorted := slices.Clone(live)
	slices.Sort(sorted)
	estates := make([]*estate, 0, len(sorted))
	for _, ordinal := range sorted {
		e := &estate{ordinal: ordinal, distance: make(map[int]int, len(orphans))}
		for region, owner := range held {
			if owner == ordinal {
				e.load++
				e.add(g, region, orphans)
			}
		}
		estates = append(estates, e)
	}
	return estates
}

func leastLoaded(estates []*estate) *estate {
	return slices.MinFunc(estates, func(a, b *estate) int { return a.load - b.load })
}

// nearest is the place in left of the orphan nearest to the estate, the first of equals.
func (e *estate) nearest(left []int) int {
	best, shortest := 0, math.MaxInt
	for k, region := range left {
		if d, known := e.distance[region]; known && d < shortest {
			best, shortest = k, d
		}
	}
	return best
}

func (e *estate) add(g Grid, region int, orphans []int) {
	for _, orphan := range orphans {
		d := g.Distance(region, orphan)
		if old, known := e.distance[orphan]; !known || d < old {
			e.distance[orphan] = d
		}
	}
}
