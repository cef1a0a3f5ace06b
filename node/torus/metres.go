package torus

// integer covers the units of this package: metres are int64, chunks and regions int32.
type integer interface{ ~int32 | ~int64 }

// mod returns v in [0, size). The common cases, v already canonical or one lap off, need no division.
func mod[T integer](v, size T) T {
	switch {
	case v >= 0 && v < size:
		return v
	case v < 0 && v >= -size:
		return v + size
	}
	if v %= size; v < 0 {
		v += size
	}
	return v
}

// shortest returns the offset d, known modulo size, in [-size/2, size/2).
func shortest[T integer](d, size T) T {
	if d = mod(d, size); d >= (size+1)/2 {
		d -= size
	}
	return d
}

// abs returns |v|; offsets never reach the smallest integer.
func abs[T integer](v T) T {
	if v < 0 {
		return -v
	}
	return v
}

// floorDiv divides towards negative infinity.
func floorDiv(v, by int64) int64 {
	q := v / by
	if v%by < 0 {
		q--
	}
	return q
}

// Wrap returns p in canonical form. Z is kept.
func (g Grid) Wrap(p Pos) Pos {
	return Pos{X: mod(p.X, g.sizeX), Y: mod(p.Y, g.sizeY), Z: p.Z}
}

// Canonical reports whether p is in canonical form.
func (g Grid) Canonical(p Pos) bool {
	return p.X >= 0 && p.X < g.sizeX && p.Y >= 0 && p.Y < g.sizeY
}

// Add returns p moved by dx, dy metres, canonical. It cannot overflow, whatever the offsets.
func (g Grid) Add(p Pos, dx, dy int64) Pos {
	return Pos{X: mod(mod(p.X, g.sizeX)+dx%g.sizeX, g.sizeX), Y: mod(mod(p.Y, g.sizeY)+dy%g.sizeY, g.sizeY), Z: p.Z}
}

// Delta returns the shortest way from a to b, in metres: Add(a, dx, dy) is at b. Each offset lies in [-size/2, size/2);
// between antipodes it is -size/2 in both directions.
func (g Grid) Delta(a, b Pos) (dx, dy int64) {
	return shortest(b.X-a.X, g.sizeX), shortest(b.Y-a.Y, g.sizeY)
}

// Distance2 is the square of the shortest horizontal distance between a and b, in square metres. Height does not count.
func (g Grid) Distance2(a, b Pos) int64 {
	dx, dy := g.Delta(a, b)
	return dx*dx + dy*dy
}

// Chebyshev is the larger of the two shortest horizontal offsets between a and b, in metres.
func (g Grid) Chebyshev(a, b Pos) int64 {
	dx, dy := g.Delta(a, b)
	return max(abs(dx), abs(dy))
}

// InBox reports whether p lies in the box of half-widths halfX and halfY metres around center, edges included.
func (g Grid) InBox(center Pos, halfX, halfY int64, p Pos) bool {
	dx, dy := g.Delta(center, p)
	return abs(dx) <= halfX && abs(dy) <= halfY
}

// SlabOf returns the slab that height z, in metres, lies in; slab 0 starts at sea level.
func SlabOf(z int64) int64 { return floorDiv(z, SlabHeight) }
