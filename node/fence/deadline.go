package fence

import (
	"sync/atomic"
	"time"
)

// Deadline is the boot-time instant from which this process must not act. It is safe for concurrent use and costs one
// atomic load; commit points compare it with a clock reading of their own, made right before they commit. The zero value
// has passed.
type Deadline struct {
	nanos atomic.Int64
}

// revoked is the value of a deadline that can never be extended again.
const revoked = -1

// FixedDeadline returns a deadline that nobody extends, for tests and tools.
func FixedDeadline(at time.Duration) *Deadline {
	d := new(Deadline)
	d.extend(at)
	return d
}

// Passed reports whether the process must be silent at the boot-time reading now.
func (d *Deadline) Passed(now time.Duration) bool { return now >= d.At() }

// At returns the deadline, 0 if there is none.
func (d *Deadline) At() time.Duration { return time.Duration(max(d.nanos.Load(), 0)) }

// extend moves the deadline forward to at, never back, and not once it is revoked.
func (d *Deadline) extend(at time.Duration) {
	for {
		old := d.nanos.Load()
		if old == revoked || old >= int64(at) {
			return
		}
		if d.nanos.CompareAndSwap(old, int64(at)) {
			return
		}
	}
}

// revoke ends the deadline for good: a renewal that is answered later changes nothing.
func (d *Deadline) revoke() { d.nanos.Store(revoked) }
