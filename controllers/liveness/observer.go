// Package liveness answers how long a session Lease has stood unchanged, as seen by this process and nobody else.
//
// Who may revoke a session? Only somebody who watched its Lease stand still for a full lease duration, and whose write
// names the very resourceVersion it watched. The times inside a Lease are never compared with a clock: clocks differ, and
// a node that renewed in time must not lose its session because ours runs fast.
//
// What counts as watching? Reads of our own that succeeded, at most maxGap apart. A read that failed, an outage or a
// suspended machine leaves a gap, and a gap starts every observation anew: during it nobody could renew, so silence
// proves nothing. A new leader has an empty Observer and so starts anew by itself.
//
// It may import the standard library only.
package liveness

import "time"

// Sighting is what one read saw of one session Lease. Of one that does not exist there is none: absence proves nothing,
// because the Lease may have been made, taken and lost again between two reads.
type Sighting struct {
	UID, ResourceVersion string
}

// Observer remembers since when each session Lease of one World stands unchanged. Times are readings of a clock that
// never stops or goes back, see [Boottime]. The zero value has seen nothing. Not safe for concurrent use.
type Observer struct {
	seen     map[int32]standing
	lastRead time.Duration // when the latest successful read began
	read     bool
}

type standing struct {
	Sighting
	since time.Duration // when the first read that saw it had ended
}

// Observe takes in one successful read of all session Leases, sent at began and answered at ended. Sessions that are not
// in it are forgotten.
func (o *Observer) Observe(began, ended, maxGap time.Duration, sightings map[int32]Sighting) {
	if o.read && began-o.lastRead > maxGap {
		o.Restart()
	}
	seen := make(map[int32]standing, len(sightings))
	for ordinal, s := range sightings {
		if old, known := o.seen[ordinal]; known && old.Sighting == s {
			seen[ordinal] = old
		} else {
			seen[ordinal] = standing{Sighting: s, since: ended}
		}
	}
	o.seen, o.lastRead, o.read = seen, began, true
}

// Restart forgets all observations: a read failed, or a write came back with an unknown outcome.
func (o *Observer) Restart() { o.seen, o.read = nil, false }

// Unchanged is how long the Lease of a session has stood as it was last seen: from the end of the first read that saw it
// to the beginning of the last. Both ends err to the short side.
func (o *Observer) Unchanged(ordinal int32) time.Duration {
	s, known := o.seen[ordinal]
	if !known || o.lastRead < s.since {
		return 0
	}
	return o.lastRead - s.since
}
