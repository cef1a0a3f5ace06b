package audit

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Kind is what a fault is about.
type Kind string

// The kinds of faults.
const (
	// Unreadable: a key holds what this program did not write.
	Unreadable Kind = "unreadable"
	// Twice: an item is in two places.
	Twice Kind = "twice"
	// Lost: items were made and are in no place.
	Lost Kind = "lost"
	// Surplus: there are items that nobody made.
	Surplus Kind = "surplus"
	// Movement: what left and what came do not fit together.
	Movement Kind = "movement"
	// Index: the index of a record's home does not name it, so the next load of the region loses it.
	Index Kind = "index"
	// Account: an account and the record of its master do not name one another.
	Account Kind = "account"
	// Missing: an item that was to be there is not.
	Missing Kind = "missing"
	// Unexpected: an item that was not to be there is.
	Unexpected Kind = "unexpected"
)

// Fault is one thing that is wrong.
type Fault struct {
	Kind   Kind     `json:"kind"`
	Serial uint64   `json:"serial,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	What   string   `json:"what"`
	Do     string   `json:"do"`
}

func (f Fault) String() string {
	keys := ""
	if len(f.Keys) > 0 {
		keys = " [" + strings.Join(f.Keys, " ") + "]"
	}
	return fmt.Sprintf("%s:%s %s; to do: %s", f.Kind, keys, f.What, f.Do)
}

// maxFaults bounds the faults that are described; the rest is counted.
const maxFaults = 1000

// Report is what was found.
type Report struct {
	Records int `json:"records"`
	Grounds int `json:"grounds"`
	// Items are the places of items.
	Items int    `json:"items"`
	Made  uint64 `json:"made"`
	Ended uint64 `json:"ended"`
	// Open movements have an out entry. Leftovers are in entries that no out entry is left for: nothing is wrong with them.
	Open      int `json:"open"`
	Leftovers int `json:"leftovers"`
	// GivenUp are entities whose creation was given up for good, Underway accounts whose master has no record yet.
	GivenUp  int `json:"givenUp"`
	Underway int `json:"underway"`
	Accounts int `json:"accounts"`
	Indexes  int `json:"indexes"`
	// Entries are those of all indexes. There may be more than records.
	Entries int `json:"entries"`
	Fences  int `json:"fences"`
	Tokens  int `json:"tokens"`
	// Others are keys that this program does not write.
	Others int `json:"others"`
	// Passes is how often the stamps of all holders were read, Busy how many holders were read in one transaction, because
	// they were in use.
	Passes int `json:"passes"`
	Busy   int `json:"busy"`
	// Faults are at most 1000; Found counts them all.
	Faults []Fault `json:"faults"`
	Found  int     `json:"found"`

	serials []place // sorted
}

func (r *Report) fault(f Fault) {
	if r.Found++; len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, f)
	}
}

func (r *Report) count(h zone.Holder, now *holding) {
	switch {
	case now.void:
		r.GivenUp++
	case h.OnGround():
		r.Grounds++
	default:
		r.Records++
	}
	r.Open += len(now.out)
	r.Made += now.made
	r.Ended += now.ended
}

// doubles reports serials that are in more than one place, and returns how many serials there are.
func (r *Report) doubles(places []place, order []zone.Holder) int {
	distinct := 0
	for from := 0; from < len(places); {
		to := from + 1
		for to < len(places) && places[to].serial == places[from].serial {
			to++
		}
		distinct++
		if to > from+1 {
			r.twice(places[from:to], order)
		}
		from = to
	}
	return distinct
}

func (r *Report) twice(same []place, order []zone.Holder) {
	f := Fault{Kind: Twice, Serial: same[0].serial, Do: "stop the nodes; decide who has it, HDEL the i: or o: field at the other one, and its field counts; or restore a backup"}
	var at []string
	for _, p := range same[:min(len(same), 8)] {
		key := store.HolderKey(order[p.holder])
		how := "with "
		if p.moving {
			how = "leaving "
		}
		f.Keys = append(f.Keys, key)
		at = append(at, how+key)
	}
	f.What = fmt.Sprintf("item %d is in %d places: %s", same[0].serial, len(same), strings.Join(at, ", "))
	r.fault(f)
}

// difference compares how many serials there are with how many there have to be.
func (r *Report) difference(distinct, unreadable int) {
	wanted, there := r.Made-r.Ended, uint64(distinct)
	text := fmt.Sprintf("%d items were made and %d have ended, so there are %d, but %d serials are in a place", r.Made, r.Ended, wanted, there)
	switch {
	case wanted == there || unreadable > 0: // what is in the unreadable ones is not known
	case wanted > there && wanted-there < 1<<63:
		r.fault(Fault{Kind: Lost, What: text, Do: "which are gone is told by a list of serials from before (--expect), such as those in the last export; restore if it matters"})
	default:
		r.fault(Fault{Kind: Surplus, What: text, Do: "somebody added items without making them: compare with the serials in the last export (--expect)"})
	}
}

// Expectation names serials that have to be there, and ones that must not be.
type Expectation struct {
	Present []uint64 `json:"present"`
	Absent  []uint64 `json:"absent"`
}

// Expect reports where the items are others than expected.
func (r *Report) Expect(e Expectation) {
	for _, serial := range e.Present {
		if !r.has(serial) {
			r.fault(Fault{Kind: Missing, Serial: serial, What: fmt.Sprintf("item %d was to be there and is in no place", serial), Do: "look who had it in the last export; restore if it matters"})
		}
	}
	for _, serial := range e.Absent {
		if r.has(serial) {
			r.fault(Fault{Kind: Unexpected, Serial: serial, What: fmt.Sprintf("item %d was not to be there and is", serial), Do: "something that was used up was brought back: look where it is, and whether a backup was restored"})
		}
	}
}

func (r *Report) has(serial uint64) bool {
	_, found := slices.BinarySearchFunc(r.serials, serial, func(p place, s uint64) int { return cmp.Compare(p.serial, s) })
	return found
}

// Write says in words what was found.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "records %d, grounds %d, items %d (made %d, ended %d), movements open %d, leftovers %d\n",
		r.Records, r.Grounds, r.Items, r.Made, r.Ended, r.Open, r.Leftovers)
	fmt.Fprintf(&b, "accounts %d, masters under way %d, given up %d; indexes %d with %d entries, fences %d, tokens %d, other keys %d\n",
		r.Accounts, r.Underway, r.GivenUp, r.Indexes, r.Entries, r.Fences, r.Tokens, r.Others)
	fmt.Fprintf(&b, "passes %d, holders in use meanwhile %d\n", r.Passes, r.Busy)
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "FAULT %v\n", f)
	}
	if more := r.Found - len(r.Faults); more > 0 {
		fmt.Fprintf(&b, "and %d more faults\n", more)
	}
	if r.Found == 0 {
		b.WriteString("no faults\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
