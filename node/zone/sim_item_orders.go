package zone

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Orders about items, at their targets.

// itemCommand carries out an order about items. Such an order is not numbered at its target: whoever sends it again meets
// what came of it, in the contents.
func (s *sim) itemCommand(h Holder, from string, m *wire.Command, order *wire.Order, answer *wire.CommandAnswer) {
	hd, key := s.holdingOf(h), lateKey{m.Sender, numberOf(m.Number)}
	if hd == nil || s.waitsForMove(h, hd, order) {
		answer.Code = wire.CommandAnswer_CODE_WAIT
		return
	}
	if hd.late[key] != "" { // it is being carried out
		hd.late[key] = from
		answer.Code = wire.CommandAnswer_CODE_WAIT
		return
	}
	res := s.itemOrder(h, hd, key, ecs.EntityID(m.Target), order)
	if res == nil {
		if hd.late == nil {
			hd.late = map[lateKey]string{}
		}
		hd.late[key] = from
	}
	switch res {
	case nil, again:
		answer.Code = wire.CommandAnswer_CODE_WAIT
		return
	case later:
		answer.Code = wire.CommandAnswer_CODE_BUSY
		return
	}
	answer.Code, answer.Last, answer.Result = wire.CommandAnswer_CODE_DONE, m.Number, encodeOrderResult(res)
}

// waitsForMove reports whether an order about a ground has to wait: nothing new is taken from one that is about to move, and nothing
// at all is done with one that came until the store has said what there is. What is on its way is let in, so that it comes to an end.
func (s *sim) waitsForMove(h Holder, hd *holding, order *wire.Order) bool {
	if !h.OnGround() {
		return false
	}
	r := s.regions[s.grid.RegionIndex(h.Region)]
	return hd.reading && hd.Moves == 0 || r.still() || r.closing() && order.GetReceive() == nil
}

// itemOrder returns what came of an order; nil: the store has to decide.
func (s *sim) itemOrder(h Holder, hd *holding, key lateKey, target ecs.EntityID, order *wire.Order) *wire.OrderResult {
	switch o := order.GetOrder().(type) {
	case *wire.Order_Pick:
		return s.pick(target, h, hd, key, o.Pick)
	case *wire.Order_Receive:
		return s.receiveItem(h, hd, key, o.Receive)
	case *wire.Order_Dig:
		return s.dig(h, hd, key, o.Dig)
	}
	return refusal(errors.New("the ground does not take this order"))
}

// again and later are the results of an order that is to come again, in a moment or in a second: it cannot be carried out now.
var again, later = &wire.OrderResult{}, &wire.OrderResult{}

// isItemOrder reports whether an order is about items.
func isItemOrder(order *wire.Order) bool {
	switch order.GetOrder().(type) {
	case *wire.Order_Pick, *wire.Order_Receive, *wire.Order_Dig:
		return true
	}
	return false
}

func refusal(err error) *wire.OrderResult {
	return &wire.OrderResult{Code: wire.OrderResult_CODE_REFUSED, Detail: err.Error()}
}

func onItsWay(movement uint64) *wire.OrderResult {
	return &wire.OrderResult{Code: wire.OrderResult_CODE_OK, Movement: movement}
}

func granted() *wire.OrderResult { return &wire.OrderResult{Code: wire.OrderResult_CODE_OK} }

// answerLate answers a command whose write has come to an end. res is nil if it was not carried out: the command then is
// carried out when it comes again.
func (s *sim) answerLate(h Holder, target uint64, key lateKey, res *wire.OrderResult) {
	hd := s.holdingOf(h)
	if hd == nil {
		return
	}
	to, waits := hd.late[key]
	if !waits {
		return
	}
	delete(hd.late, key)
	if res == nil {
		return
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(res)
	if err != nil {
		panic("zone: encoding a result: " + err.Error())
	}
	a := &wire.CommandAnswer{Sender: key.sender, Target: target, Number: wireNumber(key.number), Code: wire.CommandAnswer_CODE_DONE, Last: wireNumber(key.number), Result: b}
	if h.OnGround() {
		a.Region = uint32(s.grid.RegionIndex(h.Region))
	} else {
		a.Region = uint32(s.grid.RegionIndex(s.authority.Get(h.Entity).home))
	}
	s.send(to, &wire.PeerMessage{Message: &wire.PeerMessage_CommandAnswer{CommandAnswer: a}})
}

// pick takes an item off the ground, for the sender of the order.
func (s *sim) pick(id ecs.EntityID, h Holder, hd *holding, key lateKey, order *wire.PickOrder) *wire.OrderResult {
	if err := s.game.MayPick(id, order); err != nil {
		return refusal(err)
	}
	item := s.game.Lies.Get(id).Item
	for i := range hd.Out {
		if o := &hd.Out[i]; o.Item.Serial == item.Serial {
			if o.To.Entity == ecs.EntityID(key.sender) {
				return onItsWay(o.Movement) // this was asked before
			}
			return refusal(errTaken)
		}
	}
	if hd.spoken(item.Serial) {
		return refusal(errTaken)
	}
	movement, err := s.ids.Next(s.wall)
	if err != nil || hd.full(true) || hd.opening() >= MaxOpen {
		return refusal(game.ErrNotNow)
	}
	at := s.game.Position.Get(id).At
	entry := OutEntry{Movement: uint64(movement), Item: item, To: Holder{Entity: ecs.EntityID(key.sender)}, Lying: Lying{id, at}}
	s.change(h, Change{RemoveItems: []uint64{item.Serial}, AddOut: []OutEntry{entry}}, func(ok bool) {
		if !ok {
			s.answerLate(h, uint64(id), key, nil)
			return
		}
		s.answerLate(h, uint64(id), key, onItsWay(entry.Movement))
		s.carry(h, entry.Movement, s.grid.RegionIndexOf(at))
	})
	return nil
}

var errTaken = errors.New("somebody else is taking it")

// receiveItem puts an item into a holder, or remembers that it is refused. Who asks again hears the same. While no more can be
// remembered nothing is decided: the item waits where it is, and nothing is lost.
func (s *sim) receiveItem(h Holder, hd *holding, key lateKey, m *wire.Receive) *wire.OrderResult {
	item, ok := game.ReadItem(m.Item)
	from, known := s.holderOf(m.From)
	if !ok || !known || m.Movement == 0 || from == h {
		return refusal(errors.New("the item is malformed"))
	}
	if in := hd.in(m.Movement); in != nil {
		why := takenIn(in)
		s.tellPicked(h.Entity, m.Picked, why)
		if why != nil {
			return refusal(why)
		}
		return granted()
	}
	switch {
	case hd.putting(m.Movement): // asked again by another command, which is to come again when this is written
		return again
	case h.OnGround() && !s.liesIn(h.Region, m): // for ever, so nobody need remember it
		return refusal(errElsewhere)
	case hd.full(h.OnGround()):
		return again
	}
	target := s.holderID(h)
	entry := InEntry{Movement: m.Movement, From: from}
	why := s.mayReceive(h, hd, m)
	if !hd.mayRemember(why != nil) {
		return later
	}
	ch := Change{AddIn: []InEntry{entry}}
	if why == nil {
		held := Held{Item: item}
		if h.OnGround() {
			at, _ := game.Canonical(s.grid, m.At.GetX(), m.At.GetY(), m.At.GetZ())
			held.Lying = Lying{ecs.EntityID(m.ShownAs), at}
		}
		if !hd.has(item.Serial) { // else the store lost its last moments, which has doubled it: here the two meet and are one again
			ch.AddItems = []Held{held}
		}
	} else {
		ch.AddIn[0].Void = true
	}
	s.change(h, ch, func(ok bool) {
		switch {
		case !ok:
			s.answerLate(h, target, key, nil)
		case why != nil:
			s.tellPicked(h.Entity, m.Picked, why)
			s.answerLate(h, target, key, refusal(why))
		default:
			s.tellPicked(h.Entity, m.Picked, nil)
			s.answerLate(h, target, key, granted())
		}
	})
	return nil
}

var errNotTaken = errors.New("it was not taken")

func (s *sim) mayReceive(h Holder, hd *holding, m *wire.Receive) error {
	if !h.OnGround() {
		return s.game.MayReceive(h.Entity, hd.expected(), m)
	}
	if hd.expected() >= MaxLying {
		return errors.New("too much lies here already")
	}
	return nil
}

var errElsewhere = errors.New("this ground is elsewhere")

// liesIn reports whether an item is meant for the ground of a region.
func (s *sim) liesIn(region torus.RegionPos, m *wire.Receive) bool {
	at, ok := game.Canonical(s.grid, m.At.GetX(), m.At.GetY(), m.At.GetZ())
	return ok && m.ShownAs != 0 && s.grid.RegionOf(at) == region
}

// dig digs the ground and lays down what comes to light, in one write.
func (s *sim) dig(h Holder, hd *holding, key lateKey, order *wire.DigOrder) *wire.OrderResult {
	for i := range hd.told {
		if hd.told[i].key == key {
			return hd.told[i].result
		}
	}
	at, ok := game.Canonical(s.grid, order.X, order.Y, 0)
	if !ok || !h.OnGround() || s.grid.RegionOf(at) != h.Region {
		return refusal(errElsewhere)
	}
	edit := Edit{X: at.X, Y: at.Y, Depth: 1}
	if _, dug := slices.BinarySearchFunc(hd.Edits, edit, CompareEdits); dug || hd.digging(edit) {
		return refusal(errors.New("this place was dug before"))
	}
	serial, err := s.ids.Next(s.wall)
	shown, err2 := s.ids.Next(s.wall)
	if errors.Join(err, err2) != nil || hd.full(true) || hd.expected() >= MaxLying || hd.deepening() >= MaxEdits {
		return refusal(game.ErrNotNow)
	}
	kind, count := game.DigYield(s.grid, at)
	yield := Held{Item{Serial: uint64(serial), Kind: kind, Count: count}, Lying{shown, at}}
	s.change(h, Change{Edits: []Edit{edit}, AddItems: []Held{yield}, Made: 1}, func(ok bool) {
		if !ok {
			s.answerLate(h, s.holderID(h), key, nil)
			return
		}
		if hd := s.holdingOf(h); hd != nil {
			hd.remember(told{key, granted()})
		}
		s.answerLate(h, s.holderID(h), key, granted())
	})
	return nil
}

func (hd *holding) remember(t told) {
	if len(hd.told) < toldResults {
		hd.told = append(hd.told, t)
		return
	}
	hd.told[hd.next] = t
	hd.next = (hd.next + 1) % toldResults
}

// digging reports whether a column is being dug.
func (hd *holding) digging(e Edit) bool {
	for c := range hd.changes {
		if slices.ContainsFunc(c.Edits, func(x Edit) bool { return CompareEdits(x, e) == 0 }) {
			return true
		}
	}
	return false
}
