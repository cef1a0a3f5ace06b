package partition

import (
	"iter"
	"slices"

	"github.com/spatialcells/spatialcells/node/torus"
)

// AppendHolders appends the distinct sessions that may own an entity standing in c: the owners of all regions that c grown
// by the overhang touches, 1 to 4, fewer where regions are free. Observers subscribe to the chunk at each of them.
func (t *Table) AppendHolders(dst []string, c torus.ChunkPos) []string {
	return t.AppendHoldersWithin(dst, c, Hysteresis)
}

// AppendHoldersWithin appends the distinct sessions that hold a region within band chunks of c, in the order of
// AppendRegionsTouched: at most 4 within the ghost band. What dst held before is left alone and not compared with.
func (t *Table) AppendHoldersWithin(dst []string, c torus.ChunkPos, band int32) []string {
	first := len(dst)
	for region := range t.regionsWithin(c, band) {
		if ref := t.refs[region]; ref != NoSession && !slices.Contains(dst[first:], t.sessions[ref]) {
			dst = append(dst, t.sessions[ref])
		}
	}
	return dst
}

// IsHolder reports whether session is one of AppendHolders(c).
func (t *Table) IsHolder(session string, c torus.ChunkPos) bool {
	return t.HoldsWithin(session, c, Hysteresis)
}

// HoldsWithin reports whether session holds a region within band chunks of c.
func (t *Table) HoldsWithin(session string, c torus.ChunkPos, band int32) bool {
	want := t.bySess[session]
	if want == NoSession {
		return false
	}
	for region := range t.regionsWithin(c, band) {
		if t.refs[region] == want {
			return true
		}
	}
	return false
}

// AppendPeers appends the other sessions that session shares a border or a corner with, each once: those it replicates
// with. A region is wider than the ghost band, so nobody farther away is within it.
func (t *Table) AppendPeers(dst []string, session string) []string {
	self, first := t.bySess[session], len(dst)
	if self == NoSession {
		return dst
	}
	for i, ref := range t.refs {
		if ref == self {
			dst = t.appendAround(dst, first, self, t.grid.RegionAt(i))
		}
	}
	return dst
}

// appendAround appends the holders of the eight regions around r that are neither self nor in dst[first:].
func (t *Table) appendAround(dst []string, first int, self SessionRef, r torus.RegionPos) []string {
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			ref := t.refs[t.grid.RegionIndex(t.grid.WrapRegion(int(r.Column)+dx, int(r.Row)+dy))]
			if ref != NoSession && ref != self && !slices.Contains(dst[first:], t.sessions[ref]) {
				dst = append(dst, t.sessions[ref])
			}
		}
	}
	return dst
}

// regionsWithin visits the indices of the regions within band chunks of c, in the order of AppendRegionsTouched.
func (t *Table) regionsWithin(c torus.ChunkPos, band int32) iter.Seq[int] {
	return func(yield func(int) bool) {
		g := t.grid
		column, columns := touched(c.X, band, g.RegionEdgeChunks(), g.Columns())
		row, rows := touched(c.Y, band, g.RegionEdgeChunks(), g.Rows())
		for y := range rows {
			for x := range columns {
				if !yield(g.RegionIndex(g.WrapRegion(column+x, row+y))) {
					return
				}
			}
		}
	}
}
