package leases

import (
	"time"

	"github.com/spatialcells/spatialcells/node/simtest/timeline"
)

// Timing of the product: the defaults of World.spec.fencing, and what node/fence and controllers derive from them.
const (
	// LeaseDuration is how long others must see a session unchanged before they may take or revoke it.
	LeaseDuration = 15 * time.Second
	// RenewDeadline is how long after the sending of an answered renewal a process may act.
	RenewDeadline = 10 * time.Second
	// RenewPeriod is the time between renewals, and the longest one attempt may take.
	RenewPeriod = 2 * time.Second
)

// Clock is the boot-time clock of one machine. Readings never go back, and go on while a process is stopped.
type Clock interface {
	Boottime() time.Duration
}

// DriftClock is a clock that runs at a rate of its own: Offset + Rate * virtual time.
type DriftClock struct {
	Timeline *timeline.Timeline
	Offset   time.Duration
	Rate     float64
}

// Boottime implements Clock.
func (c *DriftClock) Boottime() time.Duration {
	return c.Offset + time.Duration(c.Rate*float64(c.Timeline.Now()))
}
