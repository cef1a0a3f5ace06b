package simtest

import (
	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/zone"
)

// gaze is what one client sees of the entities of the world. By itself it cannot tell one that is gone from one that
// blinks: it is told the same.
type gaze struct {
	login    uint64
	glimpses []glimpse // in the order in which the checker has the entities
}

// glimpse is one entity in a client's eyes.
type glimpse struct {
	seen   bool
	since  int // tick at which it came into sight
	missed bool
	went   int    // tick at which it went out of sight
	why    string // what the client was told
}

// blinks asserts the first half of invariant 4, also where the client was given a reason: what goes out of sight where it
// stands does not come back into it, unless it rested or was elsewhere meanwhile.
func (k *checker) blinks(cl *Client) {
	if cl.gaze.login != cl.loginEpoch() {
		cl.gaze = gaze{login: cl.loginEpoch()}
	}
	for len(cl.gaze.glimpses) < len(k.order) {
		cl.gaze.glimpses = append(cl.gaze.glimpses, glimpse{})
	}
	for i, t := range k.order {
		g := &cl.gaze.glimpses[i]
		switch seen := cl.Entities[t.id] != nil; {
		case seen && g.missed:
			k.broke(4, "entity %v blinks: %s for account %d, which sees it again after %d ticks, and it has neither rested nor left",
				t.id, g.why, cl.Account, k.c.ticks-g.went)
		case seen && !g.seen:
			*g = glimpse{seen: true, since: k.c.ticks}
		case !seen && g.seen:
			*g = glimpse{since: g.since, went: k.c.ticks, why: farewell(cl, t.id)}
			g.missed = k.stands(cl, t, g.since) && !k.jumpedAway(t, g.why)
			if g.missed {
				k.c.say("account %d misses entity %v: %s", cl.Account, t.id, g.why)
			}
		case g.missed:
			g.missed = k.stands(cl, t, g.since)
		}
	}
}

// stands reports whether an entity has not rested since a tick, and was last where a client looks: two chunks or more from
// the edge of what it holds, further than anything walks while the news of it are under way.
func (k *checker) stands(cl *Client, t *tracked, since int) bool {
	if t.shows {
		return k.lies(t) && cl.surrounds(t.at)
	}
	return t.rested < since && cl.surrounds(t.at)
}

// jumpedAway reports whether an entity was out of sight before it jumped to where it is: client and entity may pass each other.
func (k *checker) jumpedAway(t *tracked, why string) bool {
	return why == outOfSight && k.c.ticks-t.jumped <= 2*k.patience()
}

// outOfSight is what a client is told of what it cannot see any more.
var outOfSight = "it vanished as " + wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT.String()

// farewell is what a client was told of an entity that went out of its sight in this tick.
func farewell(cl *Client, id ecs.EntityID) string {
	if n := len(cl.Vanished); n > 0 && cl.Vanished[n-1].Tick == cl.Tick {
		for _, v := range cl.Vanished {
			if v.Entity == id && v.Tick == cl.Tick {
				return "it vanished as " + v.Reason.String()
			}
		}
	}
	return "a full set lacked it"
}

// rested notes that an entity goes out of the world, and that its record has all it has executed.
func (k *checker) rested(n *Node, h zone.Happened) {
	if t := k.entities[h.Entity]; t != nil {
		t.rested = k.c.ticks
	}
	if k.dropped == h.Entity { // the store has another copy
		k.dropped = 0
		return
	}
	for _, x := range k.inputs {
		x.rested = x.rested || x.entity == h.Entity && x.by == n && x.session == n.Session()
	}
}

// lastSeen notes where a node has its entities that dies in this tick: what it still gets rid of tells of that.
func (k *checker) lastSeen(n *Node) {
	n.Engine.EachEntity(func(e zone.Entity) {
		if t := k.entities[e.ID]; t != nil && e.Acting {
			t.at = e.At
		}
	})
}
