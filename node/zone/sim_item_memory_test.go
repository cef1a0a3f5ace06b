package zone

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

// shop is an engine with one region and one master, whose items are in a store that answers a step later.
type shop struct {
	*Engine
	t       testing.TB
	store   map[Holder]Contents
	refuse  func(r *StoreRequest) bool // a write
	asked   int                        // peeks
	writes  int
	answers map[uint64]wire.CommandAnswer_Code // by number of the command; of the last tick that had any
	pending []StoreAnswer
}

const shopper = ecs.EntityID(1)

var shopGround = Holder{}

func newShop(t testing.TB) *shop {
	t.Helper()
	s := &shop{Engine: crowd(t, 1), t: t, store: map[Holder]Contents{}, answers: map[uint64]wire.CommandAnswer_Code{}}
	s.sim.saving.Set(shopper, saving{claimed: true})
	return s
}

// has lets the store and the engine have contents of a holder.
func (s *shop) has(h Holder, c Contents) {
	s.store[h] = c
	if h.OnGround() {
		s.sim.adoptGround(s.sim.regions[0], c)
	} else {
		s.sim.adoptContents(h.Entity, c)
	}
}

func (s *shop) tick(in *Inbox) {
	s.t.Helper()
	in.Store, s.pending = s.pending, nil
	out := s.step(s.t, in)
	for i := range out.Store {
		s.pending = append(s.pending, s.do(&out.Store[i]))
	}
	for _, b := range out.Reliable {
		m := &wire.PeerMessage{}
		if err := proto.Unmarshal(b.Bytes, m); err != nil {
			s.t.Fatal(err)
		}
		if a := m.GetCommandAnswer(); a != nil {
			s.answers[a.Number.GetN()] = a.Code
		}
	}
}

func (s *shop) run(ticks int64) {
	s.t.Helper()
	for range ticks {
		s.tick(&Inbox{})
	}
}

func (s *shop) do(r *StoreRequest) StoreAnswer {
	a := StoreAnswer{ID: r.ID, Op: r.Op, Code: StoreOK}
	c, known := s.store[r.Holder]
	switch r.Op {
	case StorePeek:
		s.asked++
		if a.Contents = &c; !known {
			a.Code, a.Contents = StoreMissing, nil
		}
	case StoreWrite:
		s.writes++
		if r.Moves != c.Moves || s.refuse != nil && s.refuse(r) || c.Apply(r.Change) != nil || len(c.In) > MaxRemembered {
			a.Code, a.RegionEpoch, a.Contents = StoreConflict, r.RegionEpoch, &c
			a.Record = &Record{Entity: r.Holder.Entity, Epoch: r.Expect, Contents: c}
			break
		}
		s.store[r.Holder] = c
	}
	return a
}

// remembered is contents that remember so many movements, of one source or of one each.
func remembered(n int, from func(i int) ecs.EntityID, void bool) Contents {
	c := Contents{Moves: 1}
	for i := range n {
		c.In = append(c.In, InEntry{Movement: uint64(i + 1), From: Holder{Entity: from(i)}, Void: void})
	}
	return c
}

// handed is a command by which an item comes to a target, from who stands at a place.
func handed(number, movement uint64, from, to ecs.EntityID, at torus.Pos) *wire.Command {
	m := &wire.Receive{Movement: movement, Item: &wire.Item{Serial: movement, Kind: 1, Count: 1}, From: uint64(from), At: game.WirePosition(at)}
	if _, ground := groundOf(uint64(to)); ground {
		m.ShownAs = 1<<40 + movement
	}
	order, err := proto.Marshal(&wire.Order{Order: &wire.Order_Receive{Receive: m}})
	if err != nil {
		panic(err)
	}
	return &wire.Command{Sender: uint64(from), Target: uint64(to), Number: &wire.CommandNumber{N: number}, Order: order}
}

func hearing(t testing.TB, commands ...*wire.Command) *Inbox {
	in := &Inbox{}
	for _, c := range commands {
		b, err := proto.Marshal(&wire.PeerMessage{Message: &wire.PeerMessage_Command{Command: c}})
		if err != nil {
			t.Fatal(err)
		}
		in.Reliable = append(in.Reliable, PeerBytes{Session: neighbour, Bytes: b})
	}
	return in
}

var lawn = torus.Pos{X: 100, Y: 100}

// TestAGroundThatCanRememberNoMoreLetsItemsWait: they stay where they are until there is room, and all else goes on.
func TestAGroundThatCanRememberNoMoreLetsItemsWait(t *testing.T) {
	s := newShop(t)
	source := Holder{Entity: farMaster}
	full := remembered(MaxRemembered, func(int) ecs.EntityID { return farMaster }, false)
	full.Items = []Held{{Item{Serial: 7, Kind: 1, Count: 1}, Lying{77, lawn}}}
	out := Contents{}
	for _, in := range full.In {
		out.Out = append(out.Out, OutEntry{Movement: in.Movement, Item: Item{Serial: in.Movement, Kind: 1, Count: 1}})
	}
	s.store[source] = out
	s.has(shopGround, full)
	s.run(10)
	item := handed(1, 1<<41, farMaster, groundID(0), lawn)
	s.tick(hearing(t, item))
	if s.writes > 0 || s.answers[1] != wire.CommandAnswer_CODE_BUSY {
		t.Fatalf("an item that cannot be remembered is answered %v, after %d writes", s.answers[1], s.writes)
	}
	pick, err := proto.Marshal(&wire.Order{Order: &wire.Order_Pick{Pick: &wire.PickOrder{At: game.WirePosition(lawn)}}})
	if err != nil {
		t.Fatal(err)
	}
	s.tick(hearing(t, &wire.Command{Sender: uint64(farMaster), Target: 77, Number: &wire.CommandNumber{N: 2}, Order: pick}))
	s.run(2)
	if len(s.store[shopGround].Out) != 1 || s.answers[2] != wire.CommandAnswer_CODE_DONE {
		t.Fatalf("a pick is answered %v", s.answers[2])
	}
	s.store[source] = Contents{} // it is done with all of them
	s.run(2 * rememberTicks)
	if n := len(s.store[shopGround].In); n > 0 {
		t.Fatalf("%d movements are remembered still", n)
	}
	s.tick(hearing(t, item))
	s.run(2)
	if s.answers[1] != wire.CommandAnswer_CODE_DONE || len(s.store[shopGround].In) != 1 {
		t.Errorf("now it is answered %v", s.answers[1])
	}
}

// TestAHundredItemsASecondAreForgottenAsFastAsTheyCome, from one source or from a thousand.
func TestAHundredItemsASecondAreForgottenAsFastAsTheyCome(t *testing.T) {
	for name, sources := range map[string]uint64{"one": 1, "a hundred": 100, "a thousand": 1000} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			const perTick, seconds = 5, 90
			number, most := uint64(0), 0
			for range seconds * TicksPerSecond {
				var commands []*wire.Command
				for range perTick {
					number++
					commands = append(commands, handed(number, number, farMaster+ecs.EntityID(number%sources), groundID(0), lawn))
				}
				s.tick(hearing(t, commands...))
				c := s.store[shopGround]
				most = max(most, len(c.In))
				c.Items = nil // somebody tidies up
				s.store[shopGround] = c
				s.sim.regions[0].ground.Items = nil
			}
			s.run(2)
			for n := range number {
				if s.answers[n+1] != wire.CommandAnswer_CODE_DONE {
					t.Fatalf("item %d is answered %v", n+1, s.answers[n+1])
				}
			}
			if most >= MaxRemembered {
				t.Errorf("%d movements were remembered at once", most)
			}
			s.run(2 * rememberTicks)
			if n := len(s.store[shopGround].In); n > 0 || s.stats.ItemConflicts > 0 {
				t.Errorf("%d movements are remembered still; %d conflicts", n, s.stats.ItemConflicts)
			}
			t.Logf("%d items, at most %d remembered, sources were asked %d times", number, most, s.asked)
		})
	}
}

// TestAnItemThatIsMeantForElsewhereIsRefusedWithoutAWrite: it would be for ever, so nobody has to remember it. What lies on a ground
// takes nothing in, either.
func TestAnItemThatIsMeantForElsewhereIsRefusedWithoutAWrite(t *testing.T) {
	s := newShop(t)
	s.has(shopGround, Contents{Moves: 1, Items: []Held{{Item{Serial: 7, Kind: 1, Count: 1}, Lying{77, lawn}}}})
	for number, to := range map[uint64]ecs.EntityID{1: groundID(0), 2: 77} {
		m := handed(number, number, farMaster, to, lawn)
		var order wire.Order
		if err := proto.Unmarshal(m.Order, &order); err != nil {
			t.Fatal(err)
		}
		order.GetReceive().ShownAs = 0
		m.Order, _ = proto.Marshal(&order)
		s.tick(hearing(t, m))
		if s.answers[number] != wire.CommandAnswer_CODE_DONE {
			t.Errorf("to %v: answered %v", to, s.answers[number])
		}
	}
	s.run(3)
	if s.writes > 0 {
		t.Errorf("%d writes", s.writes)
	}
}

// TestWhatIsRefusedLeavesRoomForWhatIsTaken: somebody who is offered things out of reach all the time can still be given something.
func TestWhatIsRefusedLeavesRoomForWhatIsTaken(t *testing.T) {
	s := newShop(t)
	at := s.sim.game.Position.Get(shopper).At
	s.has(Holder{Entity: shopper}, remembered(maxVoid-1, func(i int) ecs.EntityID { return farMaster }, true))
	far := s.grid.Add(at, game.HandReach+1, 0)
	for n := range uint64(200) {
		s.tick(hearing(t, handed(n+1, 1<<41+n, farMaster+1, shopper, far)))
	}
	c := s.store[Holder{Entity: shopper}]
	if voids := len(c.In); voids != maxVoid || s.answers[200] != wire.CommandAnswer_CODE_BUSY {
		t.Fatalf("%d refusals are remembered, the last one is answered %v", voids, s.answers[200])
	}
	s.tick(hearing(t, handed(300, 1<<42, farMaster+2, shopper, at)))
	s.run(2)
	if c = s.store[Holder{Entity: shopper}]; len(c.Items) != 1 || s.answers[300] != wire.CommandAnswer_CODE_DONE {
		t.Errorf("a gift is answered %v", s.answers[300])
	}
}

// TestWritesThatWaitAreBounded: a store that does not answer lets a ground have so many, whoever asks.
func TestWritesThatWaitAreBounded(t *testing.T) {
	s := newShop(t)
	for n := range uint64(2 * maxGroundWrites) {
		s.step(t, hearing(t, handed(n+1, n+1, farMaster, groundID(0), lawn)))
	}
	g := &s.sim.regions[0].ground
	if len(g.queue) > maxGroundWrites || len(g.late) > maxGroundWrites+maxMerged {
		t.Errorf("%d writes wait, and %d for an answer", len(g.queue), len(g.late))
	}
}

// TestWhatCameBeforeAHandoffIsForgottenAfterIt, though the new owner finds nothing new in the record.
func TestWhatCameBeforeAHandoffIsForgottenAfterIt(t *testing.T) {
	s := newShop(t)
	h := Holder{Entity: shopper}
	c := remembered(100, func(i int) ecs.EntityID { return farMaster + ecs.EntityID(i%7) }, false)
	c.Moves = 40
	s.has(h, c)
	blobs := s.sim.blobs(shopper, false)
	s.sim.evict(shopper)
	if err := s.sim.compose(shopper, blobs); err != nil {
		t.Fatal(err)
	}
	s.sim.adopt(shopper, ecs.Epoch{Transfers: 1}, torus.RegionPos{}, false)
	s.sim.saving.Set(shopper, saving{claimed: true})
	s.sim.adoptContents(shopper, c)
	s.run(2 * rememberTicks)
	if n := len(s.store[h].In); n > 0 {
		t.Errorf("%d of 100 movements are remembered still", n)
	}
}

// TestAMovementIsAskedAfterAgainThatCouldNotBeForgotten.
func TestAMovementIsAskedAfterAgainThatCouldNotBeForgotten(t *testing.T) {
	s := newShop(t)
	h := Holder{Entity: shopper}
	s.has(h, remembered(3, func(int) ecs.EntityID { return farMaster }, false))
	refused := 0
	s.refuse = func(*StoreRequest) bool { refused++; return refused <= 3 }
	s.run(2*rememberTicks + 5*TicksPerSecond)
	if n := len(s.store[h].In); n > 0 || refused < 4 {
		t.Errorf("%d movements are remembered still, after %d refusals", n, refused)
	}
}

// TestAMovementIsRememberedAsLongAsItsSourceHasIt, and for a while after, however often its memory is read anew.
func TestAMovementIsRememberedAsLongAsItsSourceHasIt(t *testing.T) {
	s := newShop(t)
	h, source := Holder{Entity: shopper}, Holder{Entity: farMaster}
	c := remembered(2, func(int) ecs.EntityID { return farMaster }, false)
	s.has(h, c)
	s.store[source] = Contents{Out: []OutEntry{{Movement: 2, Item: Item{Serial: 2, Kind: 1, Count: 1}}}}
	again := func(ticks int64) {
		for range ticks {
			if hd := s.sim.contents.Get(shopper); !hd.busy() {
				s.sim.adoptInto(hd, s.store[h])
			}
			s.run(1)
		}
	}
	again(rememberTicks)
	if n := len(s.store[h].In); n != 2 {
		t.Fatalf("after 20 s %d movements are remembered", n)
	}
	again(rememberTicks)
	if in := s.store[h].In; len(in) != 1 || in[0].Movement != 2 {
		t.Fatalf("after 40 s %v are remembered: the source has the second one out", in)
	}
	s.store[source] = Contents{}
	again(rememberTicks)
	if n := len(s.store[h].In); n != 1 {
		t.Fatalf("%d movements are remembered right after the source was done", n)
	}
	again(askTicks + 3*TicksPerSecond)
	if n := len(s.store[h].In); n > 0 {
		t.Error("the second is never forgotten")
	}
}

// TestAMovementGoesOnWhoseEndWasRefused: its item is known to have arrived, but the write that says so did not fit.
func TestAMovementGoesOnWhoseEndWasRefused(t *testing.T) {
	s := newShop(t)
	h := Holder{Entity: shopper}
	s.has(h, Contents{Moves: 1, Out: []OutEntry{{Movement: 9, Item: Item{Serial: 9, Kind: 1, Count: 1}, To: Holder{}, Lying: Lying{1 << 40, lawn}}}})
	refused := false
	s.refuse = func(r *StoreRequest) bool {
		first := !refused && slices.Contains(r.Change.RemoveOut, 9)
		refused = refused || first
		return first
	}
	s.run(6 * TicksPerSecond)
	if !refused || len(s.store[h].Out) > 0 || len(s.store[shopGround].Items) != 1 {
		t.Errorf("refused %v, out %v, lying %v", refused, s.store[h].Out, s.store[shopGround].Items)
	}
}

// TestAnItemThatWasDoubledIsOneAgainWhereTheTwoMeet: a store that lost its last moments has it where it was, and where it was on its way
// to. That it comes to where it is must not hinder what else comes.
func TestAnItemThatWasDoubledIsOneAgainWhereTheTwoMeet(t *testing.T) {
	item := Item{Serial: 9, Kind: 1, Count: 1}
	for name, from := range map[string]Contents{
		"as it arrives":    {Moves: 1, Out: []OutEntry{{Movement: 9, Item: item, Lying: Lying{1 << 40, lawn}}}},
		"as it comes back": {Moves: 1, Items: []Held{{Item: item}}, Out: []OutEntry{{Movement: 9, Item: item, To: Holder{Entity: farMaster}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			h := Holder{Entity: shopper}
			s.has(shopGround, Contents{Moves: 1, Items: []Held{{item, Lying{77, lawn}}}})
			s.has(h, from)
			s.run(10 * TicksPerSecond) // of whom it was on its way to the store knows nothing
			if c := s.store[h]; len(c.Out) > 0 || len(c.Items) != len(from.Items) || len(s.store[shopGround].Items) != 1 || s.stats.ItemConflicts > 0 {
				t.Errorf("%d are out, %d carried, %d lie there, after %d conflicts", len(c.Out), len(c.Items), len(s.store[shopGround].Items), s.stats.ItemConflicts)
			}
		})
	}
}

// TestAnInputIsToldThatTheStoreHasLostItsMovement: nobody else would ever say what came of it.
func TestAnInputIsToldThatTheStoreHasLostItsMovement(t *testing.T) {
	s := newShop(t)
	h := Holder{Entity: shopper}
	item := Item{Serial: 9, Kind: 1, Count: 1}
	before := Contents{Moves: 1, Items: []Held{{Item: item}}}
	s.has(h, before)
	s.has(h, Contents{Moves: 2, Out: []OutEntry{{Movement: 5, Item: item, To: Holder{Entity: farMaster}}}})
	log := s.sim.game.Calls.Set(shopper, route.Log{})
	log.Login(1, 0)
	log.Wait(route.Waiting{Call: 1, Movement: 5})
	if len(log.Waiting()) != 1 {
		t.Fatal("the input does not wait")
	}
	s.has(h, before)
	if n := len(log.Waiting()); n > 0 {
		t.Errorf("%d inputs wait for ever", n)
	}
}

// TestAnInputDoesNotWaitForEverForWhatWasPickedUp: a store may have lost that it was taken, and then it never comes.
func TestAnInputDoesNotWaitForEverForWhatWasPickedUp(t *testing.T) {
	for name, comes := range map[string]bool{"it comes": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			log := s.sim.game.Calls.Set(shopper, route.Log{})
			log.Login(1, 0)
			number := route.Number{N: 3}
			log.Wait(route.Waiting{Call: 1, Target: 77, Command: number})
			s.sim.inputObeyed(shopper, 77, number, onItsWay(5))
			if s.run(10 * TicksPerSecond); len(log.Waiting()) != 1 {
				t.Fatal("it is given up too soon")
			}
			if comes {
				s.has(Holder{Entity: shopper}, Contents{Moves: 1, In: []InEntry{{Movement: 5, From: shopGround}}})
				s.sim.tellPicked(shopper, 77, nil)
			} else {
				s.run((pickSweeps + 1) * TicksPerSecond)
			}
			if n := len(log.Waiting()); n > 0 {
				t.Errorf("%d inputs wait for ever", n)
			}
			if s.run(2 * TicksPerSecond); len(s.sim.contents.Get(shopper).picks) > 0 {
				t.Error("it is waited for still")
			}
		})
	}
}
