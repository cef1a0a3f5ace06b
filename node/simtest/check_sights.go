package simtest

import (
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/zone"
)

// sights asserts invariant 5 for every client whose gateway is undisturbed.
func (k *checker) sights() {
	for i, n := range k.c.Nodes {
		if k.disturbed(n) {
			k.quiet[i] = 0
		} else {
			k.quiet[i]++
		}
	}
	for _, cl := range k.c.Clients {
		if cl.Open && cl.Welcome != cl.before && cl.Complete && cl.Own() != nil && k.quiet[cl.Node.Ordinal] > calmTicks {
			k.sightOf(cl)
		}
	}
}

// disturbed reports whether something keeps a gateway from showing what is there.
func (k *checker) disturbed(n *Node) bool {
	if !n.Acts() || n.paused || n.held != nil {
		return true
	}
	for _, other := range k.c.Nodes {
		if !other.Acts() || other.paused || other.held != nil || other.table == nil {
			return true
		}
		for _, third := range k.c.Nodes { // also where it is not an end: a sign-off waits for what source and target have to say
			if !k.c.net.calm(other, third) {
				return true
			}
		}
	}
	for i := range k.c.Grid.Regions() {
		holder := k.c.control.holder(i)
		if holder == "" || n.table.At(i).Session != holder {
			return true
		}
		for _, other := range k.c.Nodes {
			if other.table.At(i).Session != holder || other.Session() == holder && !other.Engine.RegionActive(i) {
				return true
			}
		}
	}
	return false
}

// patience is for how many ticks a sight may differ: two ticks and one link delay, once more for a chunk whose
// subscription has yet to be answered, and a tick each for the phases of the two nodes.
func (k *checker) patience() int {
	delay := k.c.options.LinkDelay + k.c.options.LinkJitter
	return 2*(2+int((delay+zone.TickDuration-1)/zone.TickDuration)) + 2
}

func (k *checker) sightOf(cl *Client) {
	for _, t := range k.order {
		if t.tick != k.c.ticks || t.actor == nil {
			continue
		}
		differs := false
		if cl.Entities[t.id] == nil {
			_, differs = cl.Chunks[k.c.Grid.ChunkFromKey(t.chunk)]
		}
		if k.differ(cl, t.id, differs) {
			k.broke(5, "account %d does not see entity %v at %v, though it was sent chunk %v", cl.Account, t.id, t.at, k.c.Grid.ChunkFromKey(t.chunk))
		}
	}
	if k.c.ticks%lookEvery != 0 {
		return
	}
	for _, id := range sortedEntities(&cl.Model) {
		t := k.entities[id]
		if k.differ(cl, id, t == nil || t.tick != k.c.ticks && t.kept != k.c.ticks) {
			k.broke(5, "account %d sees entity %v, which nobody has", cl.Account, id)
		}
	}
}

// difference is for how many looks in a row a sight has differed, and in which tick it was looked at last.
type difference struct{ looks, tick int }

// lookEvery is every how many ticks it is looked for what should not be seen.
const lookEvery = 4

// differ reports whether a sight has differed for longer than it may. What is said of it is composed only then: this is
// asked for every client and every entity in every tick.
func (k *checker) differ(cl *Client, id ecs.EntityID, differs bool) bool {
	key := sight{cl, id}
	if !differs {
		if len(k.differs) > 0 {
			delete(k.differs, key)
		}
		return false
	}
	d := k.differs[key]
	if k.c.ticks-d.tick > lookEvery { // it was out of the world, or out of sight, meanwhile
		d.looks = 0
	}
	k.differs[key] = difference{d.looks + 1, k.c.ticks}
	return d.looks+1 > k.patience()
}
