package zone

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/torus"
)

// What the store has of a holder is taken over where it is other than what is here, and what lies on a ground is shown.

// cleared takes away the entities of items that have left the ground for good.
func (s *sim) cleared(before []OutEntry, ch *Change) {
	for i := range before {
		o := &before[i]
		stays := slices.ContainsFunc(ch.AddItems, func(h Held) bool { return h.Lying.Entity == o.Lying.Entity })
		if o.Lying.Entity != 0 && !stays && slices.Contains(ch.RemoveOut, o.Movement) && s.world.Owned(o.Lying.Entity) {
			s.world.Destroy(o.Lying.Entity)
		}
	}
}

// show lets an entity's own player see what it carries.
func (s *sim) show(id ecs.EntityID, hd *holding) {
	items := make([]game.Item, len(hd.Items))
	for i, h := range hd.Items {
		items[i] = h.Item
	}
	s.game.Inventory.Set(id, game.Inventory{Items: items})
	if s.sync.Has(id) {
		s.queue(id).changed |= 1 << game.NumberInventory
	}
}

// lay makes the entity that shows an item on the ground, if there is none yet.
func (s *sim) lay(region torus.RegionPos, h *Held) {
	id := h.Lying.Entity
	if l := s.game.Lies.Get(id); l != nil && l.Item.Serial == h.Serial {
		return
	}
	r := s.regions[s.grid.RegionIndex(region)]
	if err := s.world.Create(id); err != nil {
		s.note("item %d cannot be shown as entity %v: %v", h.Serial, id, err)
		return
	}
	s.game.SpawnItem(id, h.Item, s.grid.Wrap(h.Lying.At))
	s.adopt(id, ecs.Epoch{Recoveries: uint32(r.epoch)}, region, false)
}

// refused: memory and store differ, or this node does not have the holder any more.
func (s *sim) refused(h Holder, a StoreAnswer) {
	if h.OnGround() {
		r := s.regions[s.grid.RegionIndex(h.Region)]
		switch {
		case a.RegionEpoch == r.epoch && a.Contents != nil:
			s.adoptGround(r, *a.Contents)
		case a.RegionEpoch > r.epoch: // the lease is raised above that, and the table will tell
			r.ground.reading, r.readAt, r.outbid = true, 0, a.RegionEpoch
			s.raiseGround(r)
		case a.RegionEpoch < r.epoch: // the store has lost that this node raised the fence
			s.note("the store knows region %v at epoch %d, not %d: its last writes are lost, and what lies there is read again", h.Region, a.RegionEpoch, r.epoch)
			s.readGround(r)
		}
		return
	}
	id := h.Entity
	epoch := s.authority.Get(id).epoch
	switch {
	case a.Code == StoreMissing:
		if sv := s.saving.Get(id); sv.claimed {
			sv.claimed = false
			s.restore(id)
		}
	case a.Record == nil:
	case a.Record.Epoch == epoch:
		s.adoptContents(id, a.Record.Contents)
	default:
		s.reclaim(id)
	}
}

// raiseGround asks for an epoch above the one that the store knows.
func (s *sim) raiseGround(r *region) {
	s.out.Raise = append(s.out.Raise, RaiseRequest{Region: r.index, AtLeast: r.outbid + 1})
	s.atRegion(RecoveryOutbid, r.index, "")
}

// raised: the lease of a region of this node has a higher epoch, which the store is to know before anything is written.
func (s *sim) raised(r *region, epoch uint64) {
	if r.epoch = epoch; r.active {
		r.outbid = 0
		s.readGround(r)
	}
}

// readGround raises the fence again, and takes over what the store has.
func (s *sim) readGround(r *region) {
	if r.ground.reread = len(r.ground.flight) > 0; r.ground.reread {
		return
	}
	if r.ground.reading && r.readAt == r.epoch {
		return // under way
	}
	epoch := r.epoch
	r.ground.reading, r.readAt = true, epoch
	s.store(StoreRequest{Op: StoreLoadRegion, Region: s.grid.RegionAt(r.index), RegionEpoch: epoch}, func(a StoreAnswer) {
		if !s.acts(r) || r.readAt != epoch { // it is read for a later one
			return
		}
		r.ground.reading = false
		switch {
		case a.Code == StoreConflict:
			s.refused(Holder{Region: s.grid.RegionAt(r.index)}, a)
		case a.Contents != nil:
			s.adoptGround(r, *a.Contents)
			s.pump(Holder{Region: s.grid.RegionAt(r.index)})
		}
	})
}

// adoptContents takes over what the store has of an entity: for items the store is the truth. Where it has lost its last
// writes, they are lost for all alike, and nothing is doubled.
func (s *sim) adoptContents(id ecs.EntityID, c Contents) {
	hd := s.contents.Get(id)
	if hd == nil {
		if c.Moves == 0 {
			return
		}
		hd = s.contents.Set(id, holding{})
	}
	if len(hd.flight) > 0 || hd.Moves == c.Moves && hd.Made == c.Made && len(hd.Out) == len(c.Out) {
		return // the answer to the write under way will tell
	}
	before := hd.Out
	s.adoptInto(hd, c)
	s.show(id, hd)
	for i := range before {
		if o := &before[i]; hd.out(o.Movement) == nil {
			s.tellMovement(id, o.Movement, wire.InputResult_CODE_UNAVAILABLE, "the store has lost what came of it")
		}
	}
}

func (s *sim) adoptInto(hd *holding, c Contents) {
	if len(hd.routes)+len(hd.Items) > 0 {
		s.at(Happened{Point: ItemsAdopted})
	}
	hd.Contents = c
	hd.routes = nil
	for _, o := range c.Out {
		hd.routes = append(hd.routes, course{movement: o.Movement})
	}
	hd.recollect(s.tick)
}

// adoptGround takes over what the store has of a ground, and shows it.
func (s *sim) adoptGround(r *region, c Contents) {
	at := s.grid.RegionAt(r.index)
	shown := map[ecs.EntityID]bool{}
	s.adoptInto(&r.ground, c)
	for i := range c.Items {
		shown[c.Items[i].Lying.Entity] = true
	}
	for i := range c.Out {
		shown[c.Out[i].Lying.Entity] = true
	}
	for _, id := range s.homed(at) {
		if s.game.Lies.Has(id) && !shown[id] {
			s.world.Destroy(id)
		}
	}
	for i := range c.Items {
		s.lay(at, &c.Items[i])
	}
	for _, o := range c.Out {
		if o.Lying.Entity != 0 {
			s.lay(at, &Held{o.Item, o.Lying})
		}
	}
}

// storeAway reports whether the store has not answered for a while: what would wait for it is refused.
func (s *sim) storeAway() bool { return s.awaySince != 0 && s.tick-s.awaySince > awayTicks }
