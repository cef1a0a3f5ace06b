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
		if len(hd.Out)+len(hd.In)+len(hd.queue) > 0 {
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
	asked := 0
	for i := range hd.seen {
		if x := &hd.seen[i]; !x.asked && s.tick-x.since > rememberTicks && asked < forgetsPerSweep {
			if in := hd.in(x.movement); in != nil {
				x.asked = true
				asked++
				s.forgetMovement(h, *in)
			}
		}
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

// forgetMovement asks whether the source of a movement has it out still. If it has not, and a while later still has not, as
// its last write may have been undone, nobody will ever ask again.
func (s *sim) forgetMovement(h Holder, in InEntry) {
	s.store(StoreRequest{Op: StorePeek, Holder: in.From}, func(a StoreAnswer) {
		hd := s.holdingOf(h)
		if hd == nil || hd.in(in.Movement) == nil {
			return
		}
		open := a.Contents != nil && slices.ContainsFunc(a.Contents.Out, func(o OutEntry) bool { return o.Movement == in.Movement })
		for i := range hd.seen {
			switch x := &hd.seen[i]; {
			case x.movement != in.Movement:
			case x.over && !open:
				s.change(h, Change{RemoveIn: []uint64{in.Movement}}, nil)
				return
			default:
				x.asked, x.over, x.since = false, !open, s.tick
			}
		}
	})
}
