// Package timeline is virtual time: a queue of things that are due, run in order. Nothing in it sleeps, and the order is a
// function of what was asked for: by due time, then by the order of asking.
package timeline

import "time"

// Timeline is a clock with a queue. The zero value stands at 0 and is ready for use.
type Timeline struct {
	now  time.Duration
	seq  uint64
	heap []entry
}

type entry struct {
	due time.Duration
	seq uint64
	run func()
}

// Now is the time that has come.
func (t *Timeline) Now() time.Duration { return t.now }

// Len is the number of things that are due later.
func (t *Timeline) Len() int { return len(t.heap) }

// At runs fn when the time has come; at once due, if it is past, with the next Advance.
func (t *Timeline) At(due time.Duration, fn func()) {
	t.seq++
	t.heap = append(t.heap, entry{max(due, t.now), t.seq, fn})
	t.up(len(t.heap) - 1)
}

// After runs fn a while from now.
func (t *Timeline) After(d time.Duration, fn func()) { t.At(t.now+max(d, 0), fn) }

// Advance runs all that is due up to and at a time, and stands there. What is asked for meanwhile and due by then runs too.
func (t *Timeline) Advance(to time.Duration) {
	for len(t.heap) > 0 && t.heap[0].due <= to {
		next := t.heap[0]
		t.pop()
		t.now = next.due
		next.run()
	}
	t.now = max(t.now, to)
}

func (t *Timeline) less(i, j int) bool {
	a, b := &t.heap[i], &t.heap[j]
	return a.due < b.due || a.due == b.due && a.seq < b.seq
}

func (t *Timeline) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.less(i, parent) {
			return
		}
		t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
		i = parent
	}
}

func (t *Timeline) pop() {
	last := len(t.heap) - 1
	t.heap[0] = t.heap[last]
	t.heap[last] = entry{}
	t.heap = t.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return
		}
		if child+1 < last && t.less(child+1, child) {
			child++
		}
		if !t.less(child, i) {
			return
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
}
