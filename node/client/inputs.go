package client

// inputs are what the client has sent and has no result of yet: encoded envelopes, in the order of their numbers. The
// caller keeps them to MaxUnanswered.
type inputs struct {
	next uint64   // number of the next input
	open [][]byte // of the numbers next-len(open) to next-1
}

func (q *inputs) add(b []byte) {
	q.open = append(q.open, b)
	q.next++
}

// first is the number of the oldest open input.
func (q *inputs) first() uint64 { return q.next - uint64(len(q.open)) }

// answered forgets the inputs up to a number, whose results are known or never will be. It returns how many those were.
func (q *inputs) answered(number uint64) int {
	n := 0
	if first := q.first(); number >= first {
		n = int(min(number-first+1, uint64(len(q.open))))
	}
	clear(q.open[:n])
	q.open = q.open[n:]
	return n
}

// restart begins the numbering of a fresh login. It returns how many inputs were open: they belong to the login before.
func (q *inputs) restart(next uint64) (dropped int) {
	dropped = len(q.open)
	*q = inputs{next: next}
	return dropped
}
