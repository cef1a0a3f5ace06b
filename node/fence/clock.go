package fence

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock reads the time since boot. Readings never run backwards and count the time in which the machine was suspended.
type Clock interface {
	Boottime() time.Duration
}

// BootClock is CLOCK_BOOTTIME of the machine. Go's own monotonic clock stands still during a suspension, so it is no use
// for a fence.
type BootClock struct{}

// Boottime implements Clock. A kernel without CLOCK_BOOTTIME (older than Linux 2.6.39) cannot run a zone node: it panics.
func (BootClock) Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("reading CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
