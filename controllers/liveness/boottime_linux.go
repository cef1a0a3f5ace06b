package liveness

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boottime reads CLOCK_BOOTTIME: it never goes back, and goes on while the machine is suspended.
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("reading CLOCK_BOOTTIME: " + err.Error()) // present since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}
