package ground

import (
	"fmt"
	"math"
	"slices"

	"github.com/spatialcells/spatialcells/node/torus"
)

// Version changes whenever the same seed gives other ground or payloads. Nodes of different versions do not talk.
const Version = 1

const (
	// MinSeed is the shortest seed, in bytes.
	MinSeed = 16
	// MaxStep is the height, in metres, that one can climb or jump down from a metre to its neighbour.
	MaxStep = 1
	// WadingDepth is the depth of water, in metres, that one can walk through.
	WadingDepth = 1

	coarseStep = 16 // metres between samples of the layers that change slowly
	fineStep   = 4  // metres between samples of the others
	margin     = 1  // metres around a chunk whose heights decide about slopes at its edge
	block      = torus.ChunkEdge + 2*margin

	// waterShare of the world lies below sea level, whatever the seed and however small the world.
	waterShare = 0.25
	// fullSize is the edge of the smallest world, in metres, that has features of full size; in smaller ones wavelengths and
	// heights shrink together, so that slopes stay, down to smallest.
	fullSize = 18_000.0
	smallest = 1.0 / 16
)

// Column is the ground at one metre.
type Column struct {
	// Height in metres above sea level. Water stands at 0 above what is lower.
	Height   int16
	Surface  Surface
	Walkable bool
}

// Chunk is a chunk's ground: row by row from the smallest coordinates, metre x, y of the chunk at y*32 + x.
type Chunk [torus.ChunkEdge * torus.ChunkEdge]Column

// Generator makes ground.
type Generator struct {
	grid   torus.Grid
	hash   uint64
	scale  float64 // 1 in worlds of full size
	dx, dy int64   // the shift, metres
	sea    float64 // what is subtracted so that waterShare lies below 0

	continents [3]layer
	mountains  layer // where
	peaks      layer // how high
	moisture   [2]layer
	warmth     layer
	hills      layer
	detail     layer
}

// New returns the generator of a world. The error says when the seed is too short to be a secret.
func New(grid torus.Grid, seed []byte) (*Generator, error) {
	if len(seed) < MinSeed {
		return nil, fmt.Errorf("terrain seed of %d bytes: use at least %d random ones", len(seed), MinSeed)
	}
	g := &Generator{grid: grid, hash: Hash(seed)}
	g.scale = min(max(float64(min(grid.SizeX(), grid.SizeY()))/fullSize, smallest), 1)
	at := func(purpose string, wavelength float64) layer {
		return newLayer(seed, purpose, wavelength, grid.SizeX(), grid.SizeY())
	}
	g.continents = [3]layer{at("continents", 6000*g.scale), at("bays", 2700*g.scale), at("coves", 1200*g.scale)}
	g.mountains, g.peaks = at("mountains", 4200*g.scale), at("peaks", 700*g.scale)
	g.moisture = [2]layer{at("moisture", 2600*g.scale), at("groves", 500*g.scale)}
	g.warmth = at("warmth", 5200*g.scale)
	g.hills, g.detail = at("hills", max(320*g.scale, 64)), at("detail", 48)
	g.sea = g.seaLevel()
	return g, nil
}

// Shifted returns a generator whose ground at p is g's at p - (dx, dy): the same world, seen from another origin.
func (g *Generator) Shifted(dx, dy int64) *Generator {
	shifted := *g
	p := g.grid.Add(torus.Pos{X: g.dx, Y: g.dy}, dx, dy)
	shifted.dx, shifted.dy = p.X, p.Y
	return &shifted
}

// Grid is the shape of the world.
func (g *Generator) Grid() torus.Grid { return g.grid }

// SeedHash identifies the seed; see Hash.
func (g *Generator) SeedHash() uint64 { return g.hash }

// Chunk fills in the ground of a chunk.
func (g *Generator) Chunk(c torus.ChunkPos, into *Chunk) {
	o := g.grid.ChunkOrigin(c)
	var f fields
	f.sample(g, o.X-margin, o.Y-margin, block)
	var heights [block * block]int16
	for y := range block {
		for x := range block {
			heights[y*block+x] = f.height(x, y)
		}
	}
	for y := range torus.ChunkEdge {
		for x := range torus.ChunkEdge {
			around := slope(heights[:], (y+margin)*block+x+margin, block)
			into[y*torus.ChunkEdge+x] = f.column(x+margin, y+margin, heights[(y+margin)*block+x+margin], around)
		}
	}
}

// At returns the ground at one metre; z is not looked at. For many metres use a Map.
func (g *Generator) At(p torus.Pos) Column {
	const edge = 2*margin + 1
	var f fields
	f.sample(g, p.X-margin, p.Y-margin, edge)
	var heights [edge * edge]int16
	for i := range heights {
		heights[i] = f.height(i%edge, i/edge)
	}
	return f.column(margin, margin, heights[edge+margin], slope(heights[:], edge+margin, edge))
}

// Biome returns what grows and lives at a metre.
func (g *Generator) Biome(p torus.Pos) Biome {
	var f fields
	f.sample(g, p.X, p.Y, 1)
	return f.biome(0, 0, f.height(0, 0))
}

// slope is the largest difference, in metres, between a height and its four neighbours.
func slope(heights []int16, at, width int) int {
	steepest := 0
	for _, n := range [...]int{at - 1, at + 1, at - width, at + width} {
		steepest = max(steepest, abs(int(heights[at])-int(heights[n])))
	}
	return steepest
}

func abs(v int) int { return max(v, -v) }

// fields are the layers, sampled over a square and ready for interpolation.
type fields struct {
	sea, scale                     float64
	x0, y0                         int64
	shape, rough, moisture, warmth lattice
	hills, detail                  lattice
}

// sample fills all lattices for a square of edge metres whose smallest coordinates are x0, y0 (any integers).
func (f *fields) sample(g *Generator, x0, y0 int64, edge int) {
	f.sea, f.scale = g.sea, g.scale
	f.x0, f.y0 = x0-g.dx, y0-g.dy
	g.each(f.x0, f.y0, edge, coarseStep, func(i int, x, y angle) {
		f.rough.values[i] = smooth(0.05, 0.55, g.mountains.at(x, y))
		f.shape.values[i] = g.shape(f.rough.values[i], x, y)
		f.moisture.values[i] = mix(g.moisture[0].at(x, y), g.moisture[1].at(x, y), 0.35)
		f.warmth.values[i] = g.warmth.at(x, y)
	}, &f.rough, &f.shape, &f.moisture, &f.warmth)
	g.each(f.x0, f.y0, edge, fineStep, func(i int, x, y angle) {
		f.hills.values[i] = g.hills.at(x, y)
		f.detail.values[i] = g.detail.at(x, y)
	}, &f.hills, &f.detail)
}

// each calls fill for the lattice points that a square needs and tells the lattices where they lie.
func (g *Generator) each(x0, y0 int64, edge int, step int64, fill func(i int, x, y angle), lattices ...*lattice) {
	firstX, width := span(x0, edge, step)
	firstY, height := span(y0, edge, step)
	for _, l := range lattices {
		l.step, l.x0, l.y0, l.width = step, firstX, firstY, width
	}
	var xs [maxLattice]angle
	for i := range width {
		xs[i] = angleOf(g.grid.Wrap(torus.Pos{X: firstX + int64(i)*step}).X, g.grid.SizeX())
	}
	for j := range height {
		y := angleOf(g.grid.Wrap(torus.Pos{Y: firstY + int64(j)*step}).Y, g.grid.SizeY())
		for i := range width {
			fill(j*width+i, xs[i], y)
		}
	}
}

// shape is the height of the land at large, in metres, in which rough (0 to 1) says how mountainous it is here.
func (g *Generator) shape(rough float64, x, y angle) float64 {
	land := float64(70*g.continents[0].at(x, y)) + float64(30*g.continents[1].at(x, y)) + float64(12*g.continents[2].at(x, y))
	if rough > 0 {
		land += float64(rough * float64(60+float64(170*g.peaks.at(x, y))))
	}
	return g.scale * land
}

// height returns the height at a metre of the square.
func (f *fields) height(x, y int) int16 {
	px, py := f.x0+int64(x), f.y0+int64(y)
	rough := f.rough.at(px, py)
	h := f.shape.at(px, py) - f.sea
	hills := f.hills.at(px, py)
	h += float64(hills * float64(f.scale*float64(5+float64(35*rough))))
	h += float64(rough * float64(float64(16*f.scale)*smooth(0.14, 0.17, hills))) // bluffs along a contour of the hills, too steep to walk
	h += float64(f.detail.at(px, py) * float64(0.9+float64(1.6*rough)))
	return int16(math.Round(h))
}

// seaLevel finds the height below which waterShare of the world lies, on a lattice of samples.
func (g *Generator) seaLevel() float64 {
	const samples = 48
	heights := make([]float64, 0, samples*samples)
	for j := range int64(samples) {
		y := angleOf(j*g.grid.SizeY()/samples, g.grid.SizeY())
		for i := range int64(samples) {
			x := angleOf(i*g.grid.SizeX()/samples, g.grid.SizeX())
			heights = append(heights, g.shape(smooth(0.05, 0.55, g.mountains.at(x, y)), x, y))
		}
	}
	slices.Sort(heights)
	return heights[int(waterShare*float64(len(heights)))]
}
