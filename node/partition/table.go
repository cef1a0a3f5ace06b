package partition

import (
	"fmt"
	"slices"

	"github.com/spatialcells/spatialcells/node/torus"
)

// Owner is who may write the entities at home in a region.
type Owner struct {
	// Session is the holder: one life of a node, "<world>-zone-<ordinal>#<incarnation>". Empty: the region is free.
	Session string
	// Node is the holder's node, "<world>-zone-<ordinal>", the same through all its lives. Empty if free.
	Node string
	// Epoch is the region epoch, raised by each change of owner; a free region keeps its last.
	Epoch uint64
}

// Free reports whether nobody holds the region.
func (o Owner) Free() bool { return o.Session == "" }

// Row is what is known of one region.
type Row struct {
	Owner
	// Target is the node that should hold the region, as the operator says.
	Target string
	// Stage names what the holder was given the region with, if it came by a move: only a stage of that name may be activated.
	Stage string
}

// Change is a new row for the region of that index.
type Change struct {
	Region int
	Row
}

// SessionRef is a session in the one table that gave it: a small number, cheap to compare. Free regions have NoSession.
type SessionRef uint16

// NoSession is the SessionRef of free regions and of sessions that hold none.
const NoSession SessionRef = 0

// Table is the region table at one moment: immutable, safe to share. Make it with NewTable.
type Table struct {
	grid     torus.Grid
	version  uint64
	rows     []Row
	refs     []SessionRef // per region
	sessions []string     // per SessionRef, in the order of their first region; [0] is ""
	bySess   map[string]SessionRef
}

// NewTable returns a table, version 1, of one row per region in the order of torus.Grid.RegionIndex. No rows at all make a
// table of free regions with epoch 0; any other number than the grid's is an error.
func NewTable(g torus.Grid, rows []Row) (*Table, error) {
	if rows == nil {
		rows = make([]Row, g.Regions())
	}
	if len(rows) != g.Regions() {
		return nil, fmt.Errorf("region table of %d rows for a grid of %d regions", len(rows), g.Regions())
	}
	return index(g, 1, slices.Clone(rows)), nil
}

// With returns the table after the changes, applied in order, one version on. A change with an older epoch than the row
// it would replace is stale and left out; if none changes anything, the answer is t itself. A region index beyond the grid
// panics.
func (t *Table) With(changes ...Change) *Table {
	var rows []Row
	for _, c := range changes {
		current := t.rows
		if rows != nil {
			current = rows
		}
		if c.Epoch < current[c.Region].Epoch || c.Row == current[c.Region] {
			continue
		}
		if rows == nil {
			rows = slices.Clone(t.rows)
		}
		rows[c.Region] = c.Row
	}
	if rows == nil {
		return t
	}
	return index(t.grid, t.version+1, rows)
}

// index numbers the sessions of the rows, which it keeps.
func index(g torus.Grid, version uint64, rows []Row) *Table {
	t := &Table{
		grid: g, version: version, rows: rows,
		refs: make([]SessionRef, len(rows)), sessions: []string{""}, bySess: map[string]SessionRef{"": NoSession},
	}
	for i, row := range rows {
		ref, known := t.bySess[row.Session]
		if !known {
			ref = SessionRef(len(t.sessions))
			t.sessions = append(t.sessions, row.Session)
			t.bySess[row.Session] = ref
		}
		t.refs[i] = ref
	}
	return t
}

// Grid is the world's shape.
func (t *Table) Grid() torus.Grid { return t.grid }

// Version counts the tables of this process, from 1.
func (t *Table) Version() uint64 { return t.version }

// At returns the owner of the region of that index.
func (t *Table) At(region int) Owner { return t.rows[region].Owner }

// Row returns all that is known of the region of that index.
func (t *Table) Row(region int) Row { return t.rows[region] }

// Owner returns the owner of the region that p stands in. An entity that stands in an overhang is owned by the holder of
// its home instead: see Holder.
func (t *Table) Owner(p torus.Pos) Owner { return t.rows[t.grid.RegionIndexOf(p)].Owner }

// Holder returns the owner of region r.
func (t *Table) Holder(r torus.RegionPos) Owner { return t.rows[t.grid.RegionIndex(r)].Owner }

// HolderOfChunk returns the owner of the region that c is part of.
func (t *Table) HolderOfChunk(c torus.ChunkPos) Owner { return t.Holder(t.grid.RegionOfChunk(c)) }

// Holds reports whether session holds region r. No session holds a free one.
func (t *Table) Holds(session string, r torus.RegionPos) bool {
	return session != "" && t.rows[t.grid.RegionIndex(r)].Session == session
}

// Ref returns the session that holds the region of that index.
func (t *Table) Ref(region int) SessionRef { return t.refs[region] }

// RefOf returns the session's number in this table, NoSession if it holds no region.
func (t *Table) RefOf(session string) SessionRef { return t.bySess[session] }

// Session returns the name behind a number of this table; "" for NoSession.
func (t *Table) Session(ref SessionRef) string { return t.sessions[ref] }

// Sessions returns the sessions that hold regions, by their first region. The caller may keep the slice.
func (t *Table) Sessions() []string { return slices.Clone(t.sessions[1:]) }

// AppendRegionsOf appends the indices of the regions that session holds, ascending; "" asks for the free ones.
func (t *Table) AppendRegionsOf(dst []int, session string) []int {
	ref, known := t.bySess[session]
	for i, r := range t.refs {
		if known && r == ref {
			dst = append(dst, i)
		}
	}
	return dst
}
