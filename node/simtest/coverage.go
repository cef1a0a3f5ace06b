package simtest

import (
	"fmt"
	"strings"

	"github.com/spatialcells/spatialcells/node/zone"
)

// Coverage counts transitions by class of fault. Calm is counted to be read, no run has to meet a transition there: many are
// taken only because something went wrong.
type Coverage [zonePoints][faultCount]uint64

const zonePoints = 256

// Add sums two coverages.
func (v *Coverage) Add(o *Coverage) {
	for p := range v {
		for f := range v[p] {
			v[p][f] += o[p][f]
		}
	}
}

// Gaps lists each transition and class of fault that were never met together. There is none that a sound cluster cannot meet:
// also the second lines of defence are reached.
func (v *Coverage) Gaps() (gaps []string) {
	for _, p := range zone.Points() {
		for f := faultNone + 1; f < faultCount; f++ {
			if v[p][f] == 0 {
				gaps = append(gaps, fmt.Sprintf("never met: %v under %v", p, f))
			}
		}
	}
	return gaps
}

// cell is how wide a count is printed.
const cell = 8

// String is the table of all counts, with a legend of the classes.
func (v *Coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s", "")
	for f := range faultCount {
		fmt.Fprintf(&b, " %*s", cell, columnName(f))
	}
	b.WriteByte('\n')
	for _, p := range zone.Points() {
		fmt.Fprintf(&b, "%-24s", p)
		for f := range faultCount {
			fmt.Fprintf(&b, " %*d", cell, v[p][f])
		}
		b.WriteByte('\n')
	}
	b.WriteString("classes:")
	for f := range faultCount {
		fmt.Fprintf(&b, " %s = %v;", columnName(f), f)
	}
	b.WriteByte('\n')
	return b.String()
}

// columnName is the name of a class, short enough for its column: the first letters of its words.
func columnName(f Fault) string {
	words := strings.FieldsFunc(faultNames[f], func(r rune) bool { return r == ' ' || r == '-' })
	each := cell / len(words)
	for i, w := range words {
		words[i] = w[:min(each, len(w))]
	}
	return strings.Join(words, "")
}
