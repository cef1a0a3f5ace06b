package moves

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Note is what the operator keeps beside an order, on the region Lease. The zero Note is none.
type Note struct {
	// To is the node that the region was ordered to.
	To int32
	// At is when it was ordered, or, after an order in vain, when that was taken back.
	At time.Time
	// Failures counts the orders in vain to that node, one after another.
	Failures int
	// Why is why the last of them was taken back.
	Why Reason
}

// A region waits after an order in vain: at first, and at most.
const (
	firstWait = 10 * time.Second
	mostWait  = 10 * time.Minute
)

// Retry is when the region may be ordered again.
func (n Note) Retry() time.Time {
	wait := firstWait
	for failure := 1; failure < n.Failures && wait < mostWait; failure++ {
		wait *= 2
	}
	return n.At.Add(min(wait, mostWait))
}

// IsZero tells whether there is no note.
func (n Note) IsZero() bool { return n.At.IsZero() }

const noteTime = "2006-01-02T15:04:05.000Z07:00"

// String is the note as the Lease carries it, "" for none.
func (n Note) String() string {
	if n.IsZero() {
		return ""
	}
	words := fmt.Sprintf("to=%d at=%s failures=%d", n.To, n.At.UTC().Format(noteTime), n.Failures)
	if n.Why != "" {
		words += " why=" + string(n.Why)
	}
	return words
}

// ParseNote is the inverse of String. What cannot be read is no note: the order then counts from now.
func ParseNote(text string) Note {
	var n Note
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		var err error
		switch key {
		case "to":
			var to int64
			to, err = strconv.ParseInt(value, 10, 32)
			n.To = int32(to)
		case "at":
			n.At, err = time.Parse(noteTime, value)
		case "failures":
			n.Failures, err = strconv.Atoi(value)
		case "why":
			n.Why = Reason(value)
		}
		if err != nil || n.Failures < 0 {
			return Note{}
		}
	}
	return n
}
