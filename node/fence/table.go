package fence

import "slices"

// Table is an immutable snapshot of who owns what, as the API server confirmed it.
type Table struct {
	// Regions has one row per region of the grid, row by row.
	Regions []Row
	// Sessions are the live sessions by ordinal, this node's own included.
	Sessions []PeerInfo
	// Version rises by one with each table that is published.
	Version uint64
}

// Row is one region.
type Row struct {
	// Session owns the region: the holder of its Lease, if that is a live session, else empty.
	Session string
	// Node is the node of Session.
	Node string
	// Epoch is the region epoch, also while the region is free; 0 if its Lease does not exist.
	Epoch uint64
	// Target is the node that should hold the region, by order of the operator.
	Target string
	// Stage is what Session was given the region with by the owner before, "" if it took it.
	Stage string
}

// PeerInfo is a live session: where it is and by what key it is known. The strings are as the node published them and may
// be malformed.
type PeerInfo struct {
	Session string
	Node    string
	Address string
	KeyHash string
	Gateway string
}

// same reports whether two tables say the same, whatever their version.
func (t *Table) same(o *Table) bool {
	return slices.Equal(t.Regions, o.Regions) && slices.Equal(t.Sessions, o.Sessions)
}
