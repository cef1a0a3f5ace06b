// Command clocks prints its wall clock and its clock since boot, in seconds, ten times a second.
package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	for {
		var boot unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
			panic(err)
		}
		fmt.Println(time.Now().Unix(), boot.Sec)
		time.Sleep(100 * time.Millisecond) // the test reads a line each time, until the clock has jumped
	}
}
