package zone

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Movements of items between holders, and the inputs and commands that wait for them.

// Await, Ground, Move and Rewrite make the sim the game's ItemEnv.
func (s *sim) Await(w route.Waiting) { s.awaited = &w }

// Ground is whom to send orders to the ground of a place.
func (s *sim) Ground(at torus.Pos) (ecs.EntityID, int) {
	region := s.grid.RegionIndexOf(at)
	return groundID(region), region
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
	if len(hd.Out) >= MaxOpen {
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
	return s.holdingOf(Holder{Entity: id}) != nil && !s.Offside(id, s.game.Position.Get(id).At)
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
		ch.AddItems = []Held{held}
	}
	s.change(h, ch, func(ok bool) {
		if ok {
			point := ItemCleared
			if !taken {
				point = ItemReturned
			}
			s.at(Happened{Point: point, Entity: ecs.EntityID(s.holderID(h)), Number: movement})
		}
		switch {
		case !ok || h.OnGround():
		case taken:
			s.stats.Movements++
			s.tellMovement(h.Entity, movement, wire.InputResult_CODE_OK, "")
		default:
			s.stats.MovementsRefused++
			s.tellMovement(h.Entity, movement, wire.InputResult_CODE_INVALID, why)
		}
	})
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

// itemCommand carries out an order about items. Such an order is not numbered at its target: whoever sends it again meets
// what came of it, in the contents.
func (s *sim) itemCommand(h Holder, from string, m *wire.Command, order *wire.Order, answer *wire.CommandAnswer) {
	hd, key := s.holdingOf(h), lateKey{m.Sender, numberOf(m.Number)}
	if hd == nil {
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
	if res == nil || res == again {
		answer.Code = wire.CommandAnswer_CODE_WAIT
		return
	}
	answer.Code, answer.Last, answer.Result = wire.CommandAnswer_CODE_DONE, m.Number, encodeOrderResult(res)
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

// again is the result of an order that is to come again: it cannot be carried out now.
var again = &wire.OrderResult{}

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
	if err != nil || hd.full(true) || len(hd.Out) >= MaxOpen {
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

// receiveItem puts an item into a holder, or remembers that it is refused. Who asks again hears the same.
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
	target := s.holderID(h)
	entry := InEntry{Movement: m.Movement, From: from}
	if hd.putting(m.Movement) { // asked again by another command, which is to come again when this is written
		return again
	}
	why := s.mayReceive(h, hd, m)
	ch := Change{AddIn: []InEntry{entry}}
	if why == nil {
		held := Held{Item: item}
		if h.OnGround() {
			at, _ := game.Canonical(s.grid, m.At.GetX(), m.At.GetY(), m.At.GetZ())
			held.Lying = Lying{ecs.EntityID(m.ShownAs), at}
		}
		ch.AddItems = []Held{held}
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
	at, ok := game.Canonical(s.grid, m.At.GetX(), m.At.GetY(), m.At.GetZ())
	switch {
	case !ok || m.ShownAs == 0 || s.grid.RegionOf(at) != h.Region:
		return errors.New("this ground is elsewhere")
	case hd.expected() >= MaxLying:
		return errors.New("too much lies here already")
	}
	return nil
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
		return refusal(errors.New("this ground is elsewhere"))
	}
	edit := Edit{X: at.X, Y: at.Y, Depth: 1}
	if _, dug := slices.BinarySearchFunc(hd.Edits, edit, CompareEdits); dug || hd.digging(edit) {
		return refusal(errors.New("this place was dug before"))
	}
	serial, err := s.ids.Next(s.wall)
	shown, err2 := s.ids.Next(s.wall)
	if errors.Join(err, err2) != nil || hd.full(true) || hd.expected() >= MaxLying || len(hd.Edits) >= MaxEdits {
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
	in := func(list []itemWrite) bool {
		return slices.ContainsFunc(list, func(w itemWrite) bool {
			return slices.ContainsFunc(w.change.Edits, func(x Edit) bool { return CompareEdits(x, e) == 0 })
		})
	}
	return in(hd.queue) || in(hd.flight)
}

// inputObeyed takes the answer to a command that an input waits for.
func (s *sim) inputObeyed(id ecs.EntityID, target uint64, number route.Number, res *wire.OrderResult) bool {
	log := s.game.Calls.Get(id)
	if log == nil {
		return false
	}
	i := slices.IndexFunc(log.Waiting(), func(w route.Waiting) bool { return w.Target == target && w.Command == number })
	if i < 0 {
		return false
	}
	call := log.Waiting()[i].Call
	_, ground := groundOf(target)
	switch {
	case res == nil:
		s.tellCall(id, log, call, wire.InputResult_CODE_UNAVAILABLE, "what came of it is not known")
	case res.Code != wire.OrderResult_CODE_OK:
		s.tellCall(id, log, call, wire.InputResult_CODE_INVALID, res.Detail)
	case ground:
		s.tellCall(id, log, call, wire.InputResult_CODE_OK, "")
	default: // it is picked up and comes, or has come before the answer
		if hd := s.contents.Get(id); hd != nil {
			if in := hd.in(res.Movement); in != nil {
				s.tellPicked(id, target, takenIn(in))
			}
		}
	}
	return true
}

// takenIn is why an item that came was not taken in; nil: it was.
func takenIn(in *InEntry) error {
	if in.Void {
		return errNotTaken
	}
	return nil
}

// tellPicked: what was picked up is here, or was not taken.
func (s *sim) tellPicked(id ecs.EntityID, picked uint64, why error) {
	if picked == 0 || id == 0 {
		return
	}
	code, detail := wire.InputResult_CODE_OK, ""
	if why != nil {
		code, detail = wire.InputResult_CODE_INVALID, why.Error()
	}
	s.tellWaiting(id, func(w *route.Waiting) bool { return w.Target == picked }, code, detail)
}

// tellMovement tells the input that waits for a movement.
func (s *sim) tellMovement(id ecs.EntityID, movement uint64, code wire.InputResult_Code, detail string) {
	s.tellWaiting(id, func(w *route.Waiting) bool { return w.Movement == movement }, code, detail)
}

// tellWaiting tells every input of an entity that waits for something: some ask twice.
func (s *sim) tellWaiting(id ecs.EntityID, waits func(w *route.Waiting) bool, code wire.InputResult_Code, detail string) {
	log := s.game.Calls.Get(id)
	if log == nil {
		return
	}
	for _, w := range slices.Clone(log.Waiting()) {
		if waits(&w) {
			s.tellCall(id, log, w.Call, code, detail)
		}
	}
}

// tellCall ends an input that waited, and answers its gateway.
func (s *sim) tellCall(id ecs.EntityID, log *route.Log, call uint64, code wire.InputResult_Code, detail string) {
	result := encodeResult(&wire.InputResult{Number: call, Code: code, Detail: detail})
	if !log.Tell(call, result) {
		return
	}
	s.dirty(id)
	ses, acc := s.game.Session.Get(id), s.game.Account.Get(id)
	if ses == nil || ses.Lost > 0 || acc == nil {
		return
	}
	s.send(ses.Gateway, &wire.PeerMessage{Message: &wire.PeerMessage_CallAnswer{CallAnswer: &wire.CallAnswer{
		Entity: uint64(id), Account: acc.ID, LoginEpoch: log.State().Login, Number: call, Code: wire.CallAnswer_CODE_DONE, Result: result,
	}}})
}

// resume goes on with what an entity had under way when its record was written last: movements go on from the store, and
// inputs that wait for what nobody will tell are told that it is not known.
func (s *sim) resume(id ecs.EntityID) {
	log := s.game.Calls.Get(id)
	if log == nil {
		return
	}
	hd, q := s.contents.Get(id), s.commands.queues.Get(id)
	for _, w := range slices.Clone(log.Waiting()) {
		moving := w.Movement != 0 && hd != nil && hd.out(w.Movement) != nil
		asking := w.Command != (route.Number{}) && q != nil && q.Has(w.Target, w.Command)
		if !moving && !asking {
			s.tellCall(id, log, w.Call, wire.InputResult_CODE_UNAVAILABLE, "what came of it is not known: its owner crashed")
		}
	}
}

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
