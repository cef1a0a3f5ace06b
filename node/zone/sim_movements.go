package zone

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Movements of items between holders, and the inputs and commands that wait for them.

// Await, Ground, OthersNear, Move and Rewrite make the sim the game's ItemEnv.
func (s *sim) Await(w route.Waiting) { s.awaited = &w }

// Ground is whom to send orders to the ground of a place.
func (s *sim) Ground(at torus.Pos) (ecs.EntityID, int) {
	region := s.grid.RegionIndexOf(at)
	return groundID(region), region
}

// OthersNear: who is within reach is at home no further than a chunk from the chunks around the place.
func (s *sim) OthersNear(at torus.Pos) bool {
	for _, r := range partition.AppendRegionsTouched(nil, s.grid, s.grid.ChunkOf(at), partition.Hysteresis+1) {
		if here := s.regions[s.grid.RegionIndex(r)]; here == nil || !here.active {
			return true
		}
	}
	return false
}

// Move takes an item from an entity, for another holder.
func (s *sim) Move(from ecs.EntityID, serial uint64, to ecs.EntityID, home int, at torus.Pos) (uint64, error) {
	item, err := s.game.Carried(from, serial)
	if err != nil {
		return 0, err
	}
	hd, err := s.ready(from, serial)
	if err != nil {
		return 0, err
	}
	target, ok := s.holderOf(uint64(to))
	if !ok {
		return 0, fmt.Errorf("entity %v cannot be given anything", to)
	}
	movement, err := s.ids.Next(s.wall)
	if err != nil {
		return 0, game.ErrNotNow
	}
	entry := OutEntry{Movement: uint64(movement), Item: item, To: target}
	if target.OnGround() {
		shown, err := s.ids.Next(s.wall)
		if err != nil {
			return 0, game.ErrNotNow
		}
		entry.Lying = Lying{shown, at}
	}
	if hd.opening() >= MaxOpen {
		return 0, game.ErrNotNow
	}
	h := Holder{Entity: from}
	s.change(h, Change{RemoveItems: []uint64{serial}, AddOut: []OutEntry{entry}}, func(ok bool) {
		if !ok {
			s.tellMovement(from, entry.Movement, wire.InputResult_CODE_UNAVAILABLE, "the store has other news of what is carried")
			return
		}
		s.carry(h, entry.Movement, home)
	})
	return entry.Movement, nil
}

// Rewrite changes what an entity carries.
func (s *sim) Rewrite(id ecs.EntityID, w game.Rewrite) (uint64, error) {
	var hd *holding
	for _, serial := range w.Remove {
		var err error
		if hd, err = s.ready(id, serial); err != nil {
			return 0, err
		}
	}
	ch := Change{RemoveItems: w.Remove, Ended: uint64(len(w.Remove))}
	for _, item := range w.Add {
		if item.Serial != 0 {
			ch.Ended--
		} else {
			serial, err := s.ids.Next(s.wall)
			if err != nil || hd.expected() >= MaxHeld {
				return 0, errors.New("there is no room for another item")
			}
			item.Serial = uint64(serial)
			ch.Made++
		}
		ch.AddItems = append(ch.AddItems, Held{Item: item})
	}
	movement, err := s.ids.Next(s.wall)
	if err != nil {
		return 0, game.ErrNotNow
	}
	s.change(Holder{Entity: id}, ch, func(ok bool) {
		if !ok {
			s.tellMovement(id, uint64(movement), wire.InputResult_CODE_UNAVAILABLE, "the store has other news of what is carried")
			return
		}
		if w.Then != nil {
			w.Then()
		}
		s.tellMovement(id, uint64(movement), wire.InputResult_CODE_OK, "")
	})
	return uint64(movement), nil
}

// ready is the contents of an entity one of whose items may be moved now.
func (s *sim) ready(id ecs.EntityID, serial uint64) (*holding, error) {
	hd := s.holdingOf(Holder{Entity: id})
	switch {
	case hd == nil || s.storeAway() || hd.full(false):
		return nil, game.ErrNotNow
	case hd.spoken(serial):
		return nil, fmt.Errorf("item %d is on its way already", serial)
	}
	return hd, nil
}

// mayStart reports whether an input about items may begin now. One that may not waits, as does all that follows it: what has
// just been handed over is not claimed yet, and what is about to be handed over must come to an end.
func (s *sim) mayStart(id ecs.EntityID) bool {
	if s.storeAway() {
		return true // and is refused
	}
	return s.holdingOf(Holder{Entity: id}) != nil && !s.closing(id) && !s.Offside(id, s.game.Position.Get(id).At)
}

// carry hands an item that is out to its target, again until that is answered. It goes out as a command of the entity that it
// leaves: who carries it, or what shows it on the ground.
func (s *sim) carry(h Holder, movement uint64, home int) {
	hd := s.holdingOf(h)
	if hd == nil {
		return
	}
	o, c := hd.out(movement), hd.course(movement)
	if o == nil || c == nil || c.ending || c.command != (route.Number{}) {
		return
	}
	c.home = home
	sender, m := h.Entity, &wire.Receive{Movement: movement, Item: game.WireItem(o.Item), From: s.holderID(h)}
	if h.OnGround() {
		sender, m.Picked = o.Lying.Entity, uint64(o.Lying.Entity)
	}
	p := s.game.Position.Get(sender)
	if p == nil {
		return
	}
	m.At = game.WirePosition(p.At)
	if o.To.OnGround() {
		c.home = s.grid.RegionIndex(o.To.Region)
		m.At, m.ShownAs = game.WirePosition(o.Lying.At), uint64(o.Lying.Entity)
	}
	number, err := s.Command(sender, ecs.EntityID(s.holderID(o.To)), c.home, &wire.Order{Order: &wire.Order_Receive{Receive: m}})
	if err == nil {
		c.sender, c.command = sender, number
	} // else the next sweep tries again
}

// sourceOf is the holder that an entity speaks for: itself, or the ground on which it shows an item.
func (s *sim) sourceOf(id ecs.EntityID) Holder {
	if s.game.Lies.Has(id) {
		return Holder{Region: s.authority.Get(id).home}
	}
	return Holder{Entity: id}
}

// itemObeyed takes the answer to a command about an item; false: it was about something else.
func (s *sim) itemObeyed(id ecs.EntityID, target uint64, number route.Number, res *wire.OrderResult) bool {
	h := s.sourceOf(id)
	if hd := s.holdingOf(h); hd != nil {
		for i := range hd.routes {
			if c := &hd.routes[i]; c.sender == id && c.command == number {
				c.command = route.Number{}
				s.carried(h, c.movement, c.home, res)
				return true
			}
		}
	}
	return s.inputObeyed(id, target, number, res)
}

// carried ends a movement as its target says. Without a word of it, the target is asked again: it knows the movement.
func (s *sim) carried(h Holder, movement uint64, home int, res *wire.OrderResult) {
	switch {
	case res == nil:
		s.carry(h, movement, home)
	case res.Code == wire.OrderResult_CODE_OK:
		s.end(h, movement, true, "")
	default:
		s.end(h, movement, false, res.Detail)
	}
}

// end clears a movement whose item the target has, or takes back one that it has refused.
func (s *sim) end(h Holder, movement uint64, taken bool, why string) {
	hd := s.holdingOf(h)
	if hd == nil {
		return
	}
	o, c := hd.out(movement), hd.course(movement)
	if o == nil || c == nil {
		return
	}
	c.ending = true
	ch := Change{RemoveOut: []uint64{movement}}
	if !taken {
		held := Held{Item: o.Item}
		if h.OnGround() {
			held.Lying = o.Lying
		}
		if !hd.has(o.Item.Serial) {
			ch.AddItems = []Held{held}
		}
	}
	s.change(h, ch, func(ok bool) {
		if !ok { // it is carried again, and its target says the same
			s.reopen(h, movement)
			return
		}
		point := ItemCleared
		if !taken {
			point = ItemReturned
		}
		s.at(Happened{Point: point, Entity: ecs.EntityID(s.holderID(h)), Number: movement})
		switch {
		case h.OnGround():
		case taken:
			s.stats.Movements++
			s.tellMovement(h.Entity, movement, wire.InputResult_CODE_OK, "")
		default:
			s.stats.MovementsRefused++
			s.tellMovement(h.Entity, movement, wire.InputResult_CODE_INVALID, why)
		}
	})
}

// reopen lets the next sweep go on with a movement that could not be ended.
func (s *sim) reopen(h Holder, movement uint64) {
	if hd := s.kept(h); hd != nil {
		if c := hd.course(movement); c != nil {
			c.ending = false
		}
	}
}

// unreachable: nobody has the target of a command. What was to be handed to it is decided in the store.
func (s *sim) unreachable(id, target ecs.EntityID) {
	h := s.sourceOf(id)
	if hd := s.holdingOf(h); hd != nil {
		for _, c := range slices.Clone(hd.routes) {
			if o := hd.out(c.movement); o != nil && o.To.Entity == target && !c.ending {
				s.lookForTarget(h, c.movement)
			}
		}
	}
	s.tellWaiting(id, func(w *route.Waiting) bool { return w.Target == uint64(target) }, wire.InputResult_CODE_INVALID, "it is no longer there")
}

// lookForTarget asks the record of a target whether it has taken an item. If it rests and has not, a void entry makes sure
// that it never will.
func (s *sim) lookForTarget(h Holder, movement uint64) {
	hd := s.holdingOf(h)
	if hd == nil {
		return
	}
	o, c := hd.out(movement), hd.course(movement)
	if o == nil || c == nil || c.ending {
		return
	}
	c.ending, c.command = true, route.Number{}
	entry := *o
	s.at(Happened{Point: ItemSearched, Entity: entry.To.Entity, Number: movement})
	s.store(StoreRequest{Op: StoreLoad, Entity: entry.To.Entity}, func(a StoreAnswer) {
		hd := s.holdingOf(h)
		if hd == nil || hd.course(movement) == nil {
			return
		}
		hd.course(movement).ending = false
		if a.Code == StoreUnfit { // it may have taken the item
			return
		}
		if a.Record == nil {
			s.end(h, movement, false, "nobody is there")
			return
		}
		i := slices.IndexFunc(a.Record.Contents.In, func(e InEntry) bool { return e.Movement == movement })
		switch {
		case i >= 0:
			s.end(h, movement, !a.Record.Contents.In[i].Void, "it was not taken")
		case a.Record.Resting:
			s.refuseFor(h, movement, a.Record)
		default:
			s.carry(h, movement, s.grid.RegionIndex(a.Record.Home))
		}
	})
}

// refuseFor writes a void entry to a record at rest. If that has changed, the target is asked again.
func (s *sim) refuseFor(h Holder, movement uint64, rec *Record) {
	write, err := s.ids.Next(s.wall)
	if err != nil {
		return
	}
	s.holdingOf(h).course(movement).ending = true
	home := s.grid.RegionIndex(rec.Home)
	s.store(StoreRequest{
		Op: StoreWrite, Holder: Holder{Entity: rec.Entity}, Expect: rec.Epoch, Moves: rec.Contents.Moves, Write: uint64(write),
		Change: &Change{AddIn: []InEntry{{Movement: movement, From: h, Void: true}}},
	}, func(a StoreAnswer) {
		hd := s.holdingOf(h)
		if hd == nil || hd.course(movement) == nil {
			return
		}
		hd.course(movement).ending = false
		if a.Code == StoreOK || a.Code == StoreMissing {
			s.end(h, movement, false, "nobody is there")
			return
		}
		s.carry(h, movement, home)
	})
}
