package ground

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/ojrac/opensimplex-go"
)

// derive returns 64 bits that depend on the whole seed and on what they are for.
func derive(seed []byte, purpose string) uint64 {
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte("spatialcells/ground/" + purpose))
	return binary.BigEndian.Uint64(mac.Sum(nil))
}

// Hash identifies a seed without giving it away: nodes compare it before they talk.
func Hash(seed []byte) uint64 { return derive(seed, "hash") }

// layer is noise of one wavelength that closes around the world. A circle of the world's circumference is bent into two of
// the noise's dimensions for each axis; its radius in units of the wavelength makes neighbouring metres as far apart as they
// would be on a plane.
type layer struct {
	noise            opensimplex.Noise
	radiusX, radiusY float64
}

// newLayer makes a layer with features of about wavelength metres in a world of sizeX x sizeY metres.
func newLayer(seed []byte, purpose string, wavelength float64, sizeX, sizeY int64) layer {
	return layer{
		noise:   opensimplex.New(int64(derive(seed, purpose))),
		radiusX: float64(sizeX) / (2 * math.Pi * wavelength),
		radiusY: float64(sizeY) / (2 * math.Pi * wavelength),
	}
}

// at returns the noise, about -1 to 1, at a pair of angles.
func (l layer) at(x, y angle) float64 {
	return l.noise.Eval4(x.cos*l.radiusX, x.sin*l.radiusX, y.cos*l.radiusY, y.sin*l.radiusY)
}

// angle is a coordinate on one axis as a point of the unit circle.
type angle struct{ cos, sin float64 }

// angleOf returns the angle of the metre v, canonical in [0, size).
func angleOf(v, size int64) angle {
	sin, cos := math.Sincos(2 * math.Pi * float64(v) / float64(size))
	return angle{cos, sin}
}

// lattice holds values at every step metres of a rectangle, for interpolation between them. Lattice points lie at whole
// multiples of step from the origin of the world, so that neighbouring rectangles agree where they meet.
type lattice struct {
	step, x0, y0 int64 // the first point, in metres
	width        int
	values       [maxLattice * maxLattice]float64
}

// maxLattice is the number of points per axis that a chunk with its margin needs on the finest lattice: 34 metres that begin
// anywhere touch at most 10 cells of 4 m.
const maxLattice = 11

// span returns the first lattice point at or before v0 and the number of points up to the first one beyond v0 + n - 1.
func span(v0 int64, n int, step int64) (first int64, points int) {
	first = floorTo(v0, step)
	return first, int((floorTo(v0+int64(n)-1, step)-first)/step) + 2
}

// floorTo rounds towards negative infinity to a multiple of step.
func floorTo(v, step int64) int64 {
	r := v % step
	if r < 0 {
		r += step
	}
	return v - r
}

// at interpolates at a metre inside the rectangle. The explicit conversions keep the compiler from fusing operations, which
// would round differently on other processors.
func (l *lattice) at(x, y int64) float64 {
	i, j := int((x-l.x0)/l.step), int((y-l.y0)/l.step)
	fx := float64((x-l.x0)%l.step) / float64(l.step)
	fy := float64((y-l.y0)%l.step) / float64(l.step)
	row := l.values[j*l.width+i:]
	return mix(mix(row[0], row[1], fx), mix(row[l.width], row[l.width+1], fx), fy)
}

// mix interpolates linearly.
func mix(a, b, t float64) float64 { return a + float64(t*float64(b-a)) }

// smooth rises from 0 at lo to 1 at hi, level at both ends.
func smooth(lo, hi, v float64) float64 {
	t := min(max((v-lo)/(hi-lo), 0), 1)
	return float64(t*t) * float64(3-float64(2*t))
}
