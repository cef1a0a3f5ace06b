package timeline

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestThingsRunWhenDueThenAsAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tl Timeline
		type run struct {
			due time.Duration
			n   int
		}
		var want, got []run
		for n, due := range rapid.SliceOfN(rapid.IntRange(0, 8), 0, 40).Draw(t, "due") {
			r := run{time.Duration(due), n}
			want = append(want, r)
			tl.At(r.due, func() {
				if tl.Now() != r.due {
					t.Fatalf("due at %v, run at %v", r.due, tl.Now())
				}
				got = append(got, r)
			})
		}
		slices.SortStableFunc(want, func(a, b run) int { return int(a.due - b.due) })
		tl.Advance(4)
		tl.Advance(8)
		if !slices.Equal(got, want) {
			t.Fatalf("run in the order %v, want %v", got, want)
		}
	})
}

func TestWhatIsAskedForMeanwhileRunsInTheSameAdvance(t *testing.T) {
	var tl Timeline
	var order []string
	tl.At(5, func() {
		order = append(order, "first")
		tl.After(0, func() { order = append(order, "at once") })
		tl.At(1, func() { order = append(order, "past") })
		tl.After(6, func() { order = append(order, "later") })
	})
	tl.Advance(10)
	if !slices.Equal(order, []string{"first", "at once", "past"}) || tl.Len() != 1 || tl.Now() != 10 {
		t.Errorf("ran %v, %d left, now %v", order, tl.Len(), tl.Now())
	}
}
