package zone

import (
	"slices"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/route"
)

// Once a second: what could not be carried is carried, and what came long ago is forgotten.

// sweepItems carries what could not be carried before, and forgets movements that came and whose sources are done.
func (s *sim) sweepItems() {
	if s.tick%itemSweepTicks != 0 || s.stopping || s.storeAway() {
		return
	}
	var ids []ecs.EntityID
	ecs.Each1(s.carrying, s.contents, func(id ecs.EntityID, hd *holding) {
		if len(hd.Out)+len(hd.In)+len(hd.queue)+len(hd.picks) > 0 {
			ids = append(ids, id)
		}
	})
	slices.Sort(ids)
	for _, id := range ids {
		home := s.grid.RegionIndex(s.authority.Get(id).home)
		s.sweepHolder(Holder{Entity: id}, home)
	}
	for _, r := range s.regions {
		if r != nil && r.active {
			if r.outbid > r.epoch {
				s.raiseGround(r)
			}
			s.sweepHolder(Holder{Region: s.grid.RegionAt(r.index)}, r.index)
		}
	}
}

func (s *sim) sweepHolder(h Holder, home int) {
	hd := s.holdingOf(h)
	if hd == nil {
		return
	}
	for _, c := range slices.Clone(hd.routes) {
		if c.command == (route.Number{}) && !c.ending {
			s.carry(h, c.movement, home)
		}
	}
	s.askSources(h, hd)
	if len(hd.picks) > 0 {
		s.sweepPicks(h.Entity, hd)
	}
	s.pump(h)
}

// openItems is how much is under way of the contents that this node may write.
func (s *sim) openItems() (n int) {
	ecs.Each1(s.carrying, s.contents, func(_ ecs.EntityID, hd *holding) { n += hd.open() })
	for _, r := range s.regions {
		if r != nil && r.active {
			n += r.ground.open()
		}
	}
	return n
}

func (hd *holding) open() int { return len(hd.Out) + len(hd.queue) + len(hd.flight) }
