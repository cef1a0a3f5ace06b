package route

import "errors"

// Queue keeps the calls of one session until they are answered.
type Queue struct {
	next  uint64 // number of the next call
	open  []Open
	acked uint64
}

// Open is a call that is not answered yet.
type Open struct {
	Number uint64
	Input  []byte
	// Sent: it is on its way to the present owner.
	Sent bool
	// Life is that of the receiver when the call was sent first; 0: it was not.
	Life uint32
}

var (
	// ErrRepeat: the number was used before; the call is dropped.
	ErrRepeat = errors.New("input number was used before")
	// ErrGap: the client left numbers out.
	ErrGap = errors.New("input numbers must rise by one")
	// ErrFull: Window calls are unanswered.
	ErrFull = errors.New("too many unanswered inputs")
)

// Start numbers on from last, the highest number that the receiver has done. Open calls up to it are answered.
func (q *Queue) Start(last uint64) {
	q.acked = max(q.acked, last)
	q.next = max(q.next, q.acked+1)
	for len(q.open) > 0 && q.open[0].Number <= last {
		q.open = q.open[1:]
	}
}

// Next is the number that the next call must have.
func (q *Queue) Next() uint64 { return q.next }

// Acked is the highest number below and at which all are answered.
func (q *Queue) Acked() uint64 { return q.acked }

// Add takes the client's next call.
func (q *Queue) Add(number uint64, input []byte) error {
	switch {
	case number < q.next:
		return ErrRepeat
	case number > q.next:
		return ErrGap
	case len(q.open) >= Window:
		return ErrFull
	}
	q.open = append(q.open, Open{Number: number, Input: input})
	q.next++
	return nil
}

// Open returns the unanswered calls in order. The caller may set Sent.
func (q *Queue) Open() []Open { return q.open }

// Resend marks all calls from number on as not sent.
func (q *Queue) Resend(number uint64) {
	for i := range q.open {
		if q.open[i].Number >= number {
			q.open[i].Sent = false
		}
	}
}

// Answer takes the answer to a call. Answers come in the order of the numbers; false: it was answered before.
func (q *Queue) Answer(number uint64) bool {
	if len(q.open) == 0 || q.open[0].Number != number {
		return false
	}
	q.open = q.open[1:]
	q.acked = number
	return true
}
