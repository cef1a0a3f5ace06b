package leases

import "time"

// sight is which version of which object a read saw.
type sight struct{ uid, version uint64 }

func sightOf(l lease) sight { return sight{l.uid, l.version} }

// observation mirrors fence.observation: how long a process that waits for its session Lease saw one version of it.
type observation struct {
	sight
	since, last time.Duration
}

func (o *observation) see(sent, answered time.Duration, l lease, gap time.Duration) time.Duration {
	known := o.version != 0 && o.sight == sightOf(l)
	if !known || sent-o.last > gap {
		*o = observation{sight: sightOf(l), since: answered, last: answered}
		return 0
	}
	o.last = answered
	return sent - o.since
}

func (o *observation) forget() { *o = observation{} }

// observer mirrors liveness.Observer: since when the operator sees each session Lease unchanged.
type observer struct {
	seen     []standing
	lastRead time.Duration
	read     bool
}

type standing struct {
	sight
	since time.Duration
	known bool
}

func (o *observer) observe(began, ended, maxGap time.Duration, sessions []lease) {
	if o.read && began-o.lastRead > maxGap {
		o.restart()
	}
	for ordinal, l := range sessions {
		switch old := o.seen[ordinal]; {
		case !l.exists():
			o.seen[ordinal] = standing{}
		case !old.known || old.sight != sightOf(l):
			o.seen[ordinal] = standing{sight: sightOf(l), since: ended, known: true}
		}
	}
	o.lastRead, o.read = began, true
}

func (o *observer) restart() {
	clear(o.seen)
	o.read = false
}

func (o *observer) unchanged(ordinal int) time.Duration {
	s := o.seen[ordinal]
	if !s.known || o.lastRead < s.since {
		return 0
	}
	return o.lastRead - s.since
}
