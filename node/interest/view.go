package interest

import (
	"slices"

	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// The view of an account, in chunks.
const (
	// ViewRadius makes a square of 11 x 11 chunks around the anchor.
	ViewRadius = partition.ViewRadius
	// ReleaseRadius is how far a chunk may be before it is given up: one more than the view, so that pacing over a
	// chunk border changes nothing.
	ReleaseRadius = partition.ViewRadius + partition.ReleaseMargin
	// ChunksPerTick bounds the payloads to one account in a tick.
	ChunksPerTick = 4
	// maxWanted bounds what a client may have asked for and not got: all that can be announced.
	maxWanted = (2*ReleaseRadius + 1) * (2*ReleaseRadius + 1)
)

// View is what one account may hold. A chunk is announced by a manifest, asked for by the client, then sent; from then on
// the account observes it. The zero View has no anchor and announces all at the first one.
type View struct {
	anchored  bool
	anchor    torus.ChunkPos
	announced map[uint64]bool // true: sent
	wanted    []uint64        // asked for, in order
	square    []torus.ChunkPos
}

// Change is the difference that a new anchor makes. Its slices are valid until the next call.
type Change struct {
	Added   []torus.ChunkPos
	Removed []torus.ChunkPos
	// Released are those of Removed that were sent: the account observes them no longer.
	Released []torus.ChunkPos
}

// Anchor moves the view. Nothing changes while the anchor stays in its chunk.
func (v *View) Anchor(g torus.Grid, anchor torus.ChunkPos) (c Change, changed bool) {
	if v.anchored && v.anchor == anchor {
		return c, false
	}
	if v.announced == nil {
		v.announced = make(map[uint64]bool, maxWanted)
	}
	v.anchored, v.anchor = true, anchor
	v.square = g.AppendSquare(v.square[:0], anchor, ViewRadius)
	for _, chunk := range v.square {
		if key := g.ChunkKey(chunk); !has(v.announced, key) {
			v.announced[key] = false
			c.Added = append(c.Added, chunk)
		}
	}
	for _, key := range v.far(g) {
		chunk := g.ChunkFromKey(key)
		c.Removed = append(c.Removed, chunk)
		if v.announced[key] {
			c.Released = append(c.Released, chunk)
		}
		delete(v.announced, key)
	}
	v.wanted = slices.DeleteFunc(v.wanted, func(key uint64) bool { return !has(v.announced, key) })
	return c, true
}

// far lists the announced chunks beyond the release radius, sorted.
func (v *View) far(g torus.Grid) []uint64 {
	var far []uint64
	for key := range v.announced {
		if g.ChunkChebyshev(v.anchor, g.ChunkFromKey(key)) > ReleaseRadius {
			far = append(far, key)
		}
	}
	slices.Sort(far)
	return far
}

// Want records that the client asks for a chunk. Chunks that were not announced, were sent, or are asked for already are
// refused: false.
func (v *View) Want(key uint64) bool {
	sent, announced := v.announced[key]
	if !announced || sent || slices.Contains(v.wanted, key) {
		return false
	}
	v.wanted = append(v.wanted, key)
	return true
}

// Wanted returns what the client waits for, in its order. It may not be written.
func (v *View) Wanted() []uint64 { return v.wanted }

// Sent records that a wanted chunk is on its way to the client.
func (v *View) Sent(key uint64) {
	if i := slices.Index(v.wanted, key); i >= 0 {
		v.wanted = slices.Delete(v.wanted, i, i+1)
		v.announced[key] = true
	}
}

// Settled reports whether all that is announced was sent.
func (v *View) Settled() bool {
	for _, sent := range v.announced {
		if !sent {
			return false
		}
	}
	return v.anchored
}

// AppendSent appends the keys of the chunks that were sent, sorted.
func (v *View) AppendSent(dst []uint64) []uint64 {
	start := len(dst)
	for key, sent := range v.announced {
		if sent {
			dst = append(dst, key)
		}
	}
	slices.Sort(dst[start:])
	return dst
}

func has(m map[uint64]bool, key uint64) bool {
	_, ok := m[key]
	return ok
}
