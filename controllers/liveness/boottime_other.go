//go:build !linux

package liveness

import "time"

var began = time.Now()

// Boottime reads the monotonic clock. It may stand still while the machine is suspended, which only delays a revocation.
func Boottime() time.Duration { return time.Since(began) }
