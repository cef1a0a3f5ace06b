package bots

import (
	"math/rand/v2"

	"github.com/spatialcells/spatialcells/node/torus"
)

// Behaviour says how a bot walks.
type Behaviour string

// Behaviours.
const (
	Border Behaviour = "border" // to and fro over a border between two owners
	SeamX  Behaviour = "seam-x" // the same where the world's east meets its west
	SeamY  Behaviour = "seam-y" // and its north its south
	Corner Behaviour = "corner" // diagonally through a corner of four owners
	Ring   Behaviour = "ring"   // around such a corner, through all four
	Group  Behaviour = "group"  // over a border side by side, all at once
	Wander Behaviour = "wander" // anywhere near a border
)

const (
	// excursion is how far beyond a line a bot walks, in metres: an entity is handed over when it stands more than one
	// chunk (32 m) beyond its region.
	excursion = 35
	// wanderRadius is how far a wanderer goes from its place.
	wanderRadius = 60
	// perPlace is how many bots share a place.
	perPlace = 10
	// apart is the distance of two places on one border: who stands at one does not see the other.
	apart = 400
	// single is the size of a world, in metres, in which all places are taken for one.
	single = 2000
)

// Spot is where a bot appears and how it walks.
type Spot struct {
	Behaviour Behaviour
	// Place numbers what the bot's Anchor is, so that bots of one place may see each other.
	Place  int
	Anchor torus.Pos
	Spawn  torus.Pos
	// Route is walked in circles; empty for a wanderer, who stays around Spawn.
	Route []torus.Pos
}

// line is a point on a border, and in which direction the border is crossed.
type line struct {
	at     torus.Pos
	alongX bool // crossed along x
}

// landmarks are the interesting places of a world.
type landmarks struct {
	borders, seamX, seamY []line
	corners               []torus.Pos
}

// Plan spreads n bots over the interesting places. owner names the owner of a region by its index; where all have the
// same one, any borders do.
func Plan(g torus.Grid, owner func(region int) string, n int, rng *rand.Rand) []Spot {
	marks, every := find(g, owner), find(g, func(region int) string { return g.RegionAt(region).String() })
	if len(marks.borders)+len(marks.seamX)+len(marks.seamY) == 0 {
		marks = every
	}
	if len(marks.seamX) == 0 { // no border between owners lies there; the seam is worth a walk all the same
		marks.seamX = every.seamX
	}
	if len(marks.seamY) == 0 {
		marks.seamY = every.seamY
	}
	turns := []Behaviour{Corner, SeamX, Border, SeamY, Ring, Border, Group, Ring, Wander, Border}
	var spots []Spot
	places := map[torus.Pos]int{}
	for turn := 0; len(spots) < n; turn++ {
		for i := range min(perPlace, n-len(spots)) {
			s := marks.spot(g, turns[turn%len(turns)], turn, i, rng)
			s.Place = placeOf(g, places, s.Anchor)
			spots = append(spots, s)
		}
	}
	return spots
}

// placeOf numbers anchors; in a small world all see each other.
func placeOf(g torus.Grid, places map[torus.Pos]int, anchor torus.Pos) int {
	if max(g.SizeX(), g.SizeY()) <= single {
		return 0
	}
	if _, known := places[anchor]; !known {
		places[anchor] = len(places)
	}
	return places[anchor]
}

// find lists where owners meet, in the order of regions.
func find(g torus.Grid, owner func(region int) string) landmarks {
	var m landmarks
	for i := range g.Regions() {
		r := g.RegionAt(i)
		east := g.WrapRegion(int(r.Column)+1, int(r.Row))
		south := g.WrapRegion(int(r.Column), int(r.Row)+1)
		opposite := g.WrapRegion(int(r.Column)+1, int(r.Row)+1)
		a, b, c, d := owner(i), owner(g.RegionIndex(east)), owner(g.RegionIndex(south)), owner(g.RegionIndex(opposite))
		if a != b {
			m.addLines(g, east, true, east.Column == 0)
		}
		if a != c {
			m.addLines(g, south, false, south.Row == 0)
		}
		if a != b && a != c && a != d && b != c && b != d && c != d {
			m.corners = append(m.corners, g.ChunkOrigin(g.RegionOrigin(opposite)))
		}
	}
	return m
}

// addLines adds points of the western or northern edge of a region, away from its corners.
func (m *landmarks) addLines(g torus.Grid, r torus.RegionPos, alongX, seam bool) {
	origin := g.ChunkOrigin(g.RegionOrigin(r))
	edge := int64(g.RegionEdgeChunks()) * torus.ChunkEdge
	points := max(edge/apart-1, 1)
	for k := range points {
		along := edge * (k + 1) / (points + 1)
		l := line{g.Add(origin, 0, along), true}
		if !alongX {
			l = line{g.Add(origin, along, 0), false}
		}
		switch {
		case seam && alongX:
			m.seamX = append(m.seamX, l)
		case seam:
			m.seamY = append(m.seamY, l)
		default:
			m.borders = append(m.borders, l)
		}
	}
}

// pick takes the n-th of a list, widely spread.
func pick[T any](list []T, n int) T { return list[n*7919%len(list)] }

// spot makes the i-th bot of a turn.
func (m *landmarks) spot(g torus.Grid, b Behaviour, turn, i int, rng *rand.Rand) Spot {
	aside := int64(3*i - 3*perPlace/2)
	switch {
	case b == Corner && len(m.corners) > 0:
		return through(g, m.corners[turn*3%len(m.corners)], i)
	case b == Ring && len(m.corners) > 0:
		return around(g, m.corners[turn*3%len(m.corners)], i)
	case b == SeamX && len(m.seamX) > 0:
		return across(g, b, pick(m.seamX, turn), aside, i%2 == 0)
	case b == SeamY && len(m.seamY) > 0:
		return across(g, b, pick(m.seamY, turn), aside, i%2 == 0)
	}
	lines := m.borders
	if len(lines) == 0 {
		lines = append(append([]line{}, m.seamX...), m.seamY...)
	}
	if len(lines) == 0 { // a world of one region
		return Spot{Behaviour: Wander, Spawn: g.Add(torus.Pos{}, rng.Int64N(40), rng.Int64N(40))}
	}
	l := pick(lines, turn)
	switch b {
	case Wander:
		return Spot{Behaviour: b, Anchor: l.at, Spawn: g.Add(l.at, rng.Int64N(40)-20, rng.Int64N(40)-20)}
	case Group:
		return across(g, b, l, aside/3, true)
	}
	return across(g, Border, l, aside, i%2 == 0)
}

// across walks to and fro over a line, from one side or the other.
func across(g torus.Grid, b Behaviour, l line, aside int64, forward bool) Spot {
	step := func(d int64) torus.Pos {
		if !forward {
			d = -d
		}
		if l.alongX {
			return g.Add(l.at, d, aside)
		}
		return g.Add(l.at, aside, d)
	}
	return Spot{Behaviour: b, Anchor: l.at, Spawn: step(-4), Route: []torus.Pos{step(excursion), step(-excursion)}}
}

// through walks diagonally through a corner; every other bot takes the other diagonal.
func through(g torus.Grid, at torus.Pos, i int) Spot {
	fx, fy := int64(1-i%2*2), int64(1-i/2%2*2)
	end := int64(excursion + i%3)
	return Spot{
		Behaviour: Corner, Anchor: at, Spawn: g.Add(at, -3*fx, -3*fy),
		Route: []torus.Pos{g.Add(at, end*fx, end*fy), g.Add(at, -end*fx, -end*fy)},
	}
}

// around walks around a corner through all four regions, every other bot the other way.
func around(g torus.Grid, at torus.Pos, i int) Spot {
	r := int64(excursion + i%4)
	ring := []torus.Pos{g.Add(at, r, r), g.Add(at, -r, r), g.Add(at, -r, -r), g.Add(at, r, -r)}
	if i%2 == 1 {
		ring[1], ring[3] = ring[3], ring[1]
	}
	start := i / 2 % 4
	route := append(append([]torus.Pos{}, ring[start:]...), ring[:start]...)
	dx, dy := g.Delta(at, route[3])
	return Spot{Behaviour: Ring, Anchor: at, Spawn: g.Add(at, dx-dx/4, dy-dy/4), Route: route}
}

// way leads from one position to another in legs that a move may have: 64 m, also where the crash of an owner has undone
// the last 5 s of the walk.
func way(g torus.Grid, from, to torus.Pos) []torus.Pos {
	const leg, most = 40, 60
	var points []torus.Pos
	for len(points) < most {
		dx, dy := g.Delta(from, to)
		if max(dx, -dx) <= leg && max(dy, -dy) <= leg {
			return append(points, to)
		}
		from = g.Add(from, min(max(dx, -leg), leg), min(max(dy, -leg), leg))
		points = append(points, from)
	}
	return points
}
