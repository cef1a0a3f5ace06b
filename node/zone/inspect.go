package zone

import (
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
)

// What checkers and tools may look at from outside, between two steps.

// Tick is the number of steps made.
func (e *Engine) Tick() int64 { return e.tick }

// Entity describes one copy of an entity for checkers and tools.
type Entity struct {
	ID      ecs.EntityID
	Epoch   Epoch
	Home    torus.RegionPos
	At      torus.Pos
	Account uint64
	// Chunk is the key of the chunk that it is indexed in.
	Chunk uint64
	// Acting: this node simulates it. Else it is frozen.
	Acting bool
	// Shows is the serial of the item that it shows on the ground; 0: it is no item.
	Shows uint64
}

// EachEntity calls fn for every entity that this node owns or holds frozen: for checkers.
func (e *Engine) EachEntity(fn func(Entity)) {
	s := e.sim
	for id := range s.mine.Each {
		a := s.authority.Get(id)
		x := Entity{ID: id, Epoch: a.epoch, Home: a.home, At: s.game.Position.Get(id).At, Chunk: a.chunk, Acting: s.world.Owned(id)}
		if acc := s.game.Account.Get(id); acc != nil {
			x.Account = acc.ID
		}
		if l := s.game.Lies.Get(id); l != nil {
			x.Shows = l.Item.Serial
		}
		fn(x)
	}
}

// EachHolding calls fn for the contents of every entity and ground that this node may write, and says whether it is writing or
// reading them. They are the engine's own.
func (e *Engine) EachHolding(fn func(h Holder, c *Contents, busy bool)) {
	s := e.sim
	for id := range s.carrying.Each {
		h := Holder{Entity: id}
		if sv := s.saving.Get(id); sv != nil && sv.claimed && !s.still(id) {
			hd := s.contents.Get(id)
			fn(h, &hd.Contents, hd.busy())
		}
	}
	for _, r := range s.regions {
		if r != nil && r.active && !r.still() {
			fn(Holder{Region: e.grid.RegionAt(r.index)}, &r.ground.Contents, r.ground.busy())
		}
	}
}

// EachOffer calls fn for every entity that was given away and is kept until it is durable, by id, with the epoch that it
// was offered.
func (e *Engine) EachOffer(fn func(id ecs.EntityID, epoch Epoch)) {
	for _, o := range e.sim.outgoing.All() {
		if o.Accepted {
			fn(o.Entity, o.Epoch)
		}
	}
}

// EachStaged calls fn for every entity of the stage of a region, if that is complete, with the epoch that it will have here.
func (e *Engine) EachStaged(region int, fn func(id ecs.EntityID, epoch Epoch)) {
	st := e.sim.stages.by[region]
	if st == nil || st.cut == nil {
		return
	}
	for id, x := range st.entities {
		fn(id, epochOf(x.Epoch).Transferred(1))
	}
}

// Observes lists the chunks that this node observes at a session, by key; ObservedBy those that a session observes here.
func (e *Engine) Observes(session string) []uint64 { return e.gate.observedAt(session) }

// ObservedBy lists the chunks that a session observes here, by key.
func (e *Engine) ObservedBy(session string) []uint64 { return e.sim.nodes.Chunks(session) }

// RegionActive reports whether a region is held here and recovered.
func (e *Engine) RegionActive(region int) bool {
	r := e.sim.regions[region]
	return r != nil && r.active
}
