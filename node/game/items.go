package game

import (
	"errors"
	"fmt"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

// The rules of items: what may be taken, given, used and dug, by whom and from where. That an item stays one, whatever dies,
// is the engine's affair: a rule says what is to happen, and Inventory shows what has happened.

// Kinds of items.
const (
	KindStone = 1
	KindRoot  = 2
	KindBerry = 3
)

const (
	// MaxHeld bounds the items that an entity carries.
	MaxHeld = 64
	// HandReach is how near, in metres, somebody must be to what is picked up, or to whom something is given.
	HandReach = 8
	// DigReach is how near, in metres, a digger must be.
	DigReach = 3
	// MaxCount bounds a stack.
	MaxCount = 1000

	// restores is what eating one gives back.
	restores = 20
)

// Item is one that exists once. A stack is one item with a count.
type Item struct {
	Serial uint64 // never used twice, never 0
	Kind   uint32
	Count  uint32 // 1 or more
}

// Inventory is what an entity carries, by serial, as the store has it.
type Inventory struct{ Items []Item }

// Lies is an item that lies in the world: the entity only shows it.
type Lies struct{ Item Item }

// Rewrite is a change that an entity makes to what it carries: some items end, others begin.
type Rewrite struct {
	Remove []uint64 // serials
	Add    []Item   // with the serial of a removed one, or 0 for a new one
	// Then is called when the store has it.
	Then func()
}

// ItemEnv is what moves items. Nothing has happened when a method returns: the engine writes it to the store first, and then
// tells the input that waits for it. An error says that nothing will happen; ErrNotNow that it could at another time.
type ItemEnv interface {
	// Await says what will decide the input that is being carried out; Act returns nil then.
	Await(w route.Waiting)
	// Ground is whom to send orders to the ground of a place, and the index of its region.
	Ground(at torus.Pos) (ground ecs.EntityID, home int)
	// Move gives an item of an entity to another entity, or to a ground, where it will lie at a place. home is the region of
	// the receiver, as far as known.
	Move(from ecs.EntityID, serial uint64, to ecs.EntityID, home int, at torus.Pos) (movement uint64, err error)
	// Rewrite changes what an entity carries.
	Rewrite(id ecs.EntityID, w Rewrite) (movement uint64, err error)
	// OthersNear reports whether somebody may be within reach of a place who is not on this node.
	OthersNear(at torus.Pos) bool
}

// GroundBit is set in the id of a ground, and in that of no entity.
const GroundBit = 1 << 63

// ErrNotNow: the store is away, or too much is on its way already.
var ErrNotNow = errors.New("the store does not answer, or too much is on its way: try again later")

// MovesItems reports whether an input is about items.
func MovesItems(in *wire.Input) bool {
	switch in.Action.(type) {
	case *wire.Input_Pick, *wire.Input_Drop, *wire.Input_Give, *wire.Input_Use, *wire.Input_Dig, *wire.Input_Split, *wire.Input_Merge:
		return true
	}
	return false
}

// handle carries out an input about items; nil: its result will be told.
func (g *Game) handle(id ecs.EntityID, in *wire.Input) *wire.InputResult {
	err := g.start(id, in)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotNow):
		return &wire.InputResult{Number: in.Number, Code: wire.InputResult_CODE_UNAVAILABLE, Detail: err.Error()}
	}
	return result(in, err)
}

func (g *Game) start(id ecs.EntityID, in *wire.Input) error {
	p := g.Position.Get(id)
	if p == nil || !g.Account.Has(id) {
		return fmt.Errorf("entity %v has no hands", id)
	}
	switch a := in.Action.(type) {
	case *wire.Input_Pick:
		return g.pick(id, p.At, a.Pick)
	case *wire.Input_Drop:
		ground, home := g.env.Ground(p.At)
		return g.await(g.env.Move(id, a.Drop.Serial, ground, home, p.At))
	case *wire.Input_Give:
		return g.give(id, p.At, a.Give)
	case *wire.Input_Use:
		return g.use(id, a.Use)
	case *wire.Input_Dig:
		return g.dig(id, p.At, a.Dig)
	case *wire.Input_Split:
		return g.split(id, a.Split)
	case *wire.Input_Merge:
		return g.merge(id, a.Merge)
	}
	return errors.New("an input this version does not know")
}

// await lets the input wait for a movement.
func (g *Game) await(movement uint64, err error) error {
	if err == nil {
		g.env.Await(route.Waiting{Movement: movement})
	}
	return err
}

// request sends an order that decides an input.
func (g *Game) request(id, to ecs.EntityID, home int, order *wire.Order) error {
	number, err := g.env.Command(id, to, home, order)
	if err != nil {
		return ErrNotNow
	}
	g.env.Await(route.Waiting{Target: uint64(to), Command: number})
	return nil
}

// near reads a place of an input, and wants it within reach.
func (g *Game) near(from torus.Pos, x, y uint32, reach int64) (torus.Pos, error) {
	at, ok := Canonical(g.grid, x, y, int32(from.Z))
	if !ok {
		return at, fmt.Errorf("%d,%d is not on the torus of %d x %d m", x, y, g.grid.SizeX(), g.grid.SizeY())
	}
	return at, g.within(from, at, reach)
}

func (g *Game) within(from, at torus.Pos, reach int64) error {
	if d := g.grid.Chebyshev(from, at); d > reach {
		return fmt.Errorf("it is %d m away: go to within %d m", d, reach)
	}
	return nil
}

func (g *Game) pick(id ecs.EntityID, from torus.Pos, m *wire.Pick) error {
	at, err := g.near(from, m.At.GetX(), m.At.GetY(), HandReach)
	if err != nil {
		return err
	}
	if m.Entity == 0 {
		return errors.New("a pick needs the entity that lies there")
	}
	_, home := g.env.Ground(at)
	return g.request(id, ecs.EntityID(m.Entity), home, &wire.Order{Order: &wire.Order_Pick{Pick: &wire.PickOrder{At: WirePosition(from)}}})
}

func (g *Game) give(id ecs.EntityID, from torus.Pos, m *wire.Give) error {
	if err := g.mayGive(id, from, m.To); err != nil {
		return err
	}
	_, home := g.env.Ground(from)
	return g.await(g.env.Move(id, m.Serial, ecs.EntityID(m.To), home, from))
}

// mayGive reports why nothing can be given to somebody, as far as is known here; nil: whoever has the receiver decides. What is
// refused here costs no write, and the receiver need not remember that it refused.
func (g *Game) mayGive(id ecs.EntityID, from torus.Pos, to uint64) error {
	p := g.Position.Get(ecs.EntityID(to))
	switch {
	case to == 0 || to == uint64(id):
		return errors.New("an item is given to somebody else")
	case to&GroundBit != 0:
		return errors.New("the ground is given nothing: drop it")
	case p == nil && g.env.OthersNear(from):
		return nil
	case p == nil:
		return errors.New("nobody of that name is near")
	}
	return errors.Join(g.hasHands(ecs.EntityID(to)), g.within(from, p.At, HandReach))
}

// hasHands reports why an entity carries nothing; nil: it may carry something.
func (g *Game) hasHands(id ecs.EntityID) error {
	if !g.Account.Has(id) && !g.Bestia.Has(id) {
		return fmt.Errorf("entity %v carries nothing", id)
	}
	return nil
}

func (g *Game) dig(id ecs.EntityID, from torus.Pos, m *wire.Dig) error {
	at, err := g.near(from, m.X, m.Y, DigReach)
	if err != nil {
		return err
	}
	ground, home := g.env.Ground(at)
	return g.request(id, ground, home, &wire.Order{Order: &wire.Order_Dig{Dig: &wire.DigOrder{X: m.X, Y: m.Y}}})
}

// Carried is an item that an entity carries.
func (g *Game) Carried(id ecs.EntityID, serial uint64) (Item, error) {
	if inv := g.Inventory.Get(id); inv != nil {
		for _, item := range inv.Items {
			if item.Serial == serial {
				return item, nil
			}
		}
	}
	return Item{}, fmt.Errorf("item %d is not carried", serial)
}

func (g *Game) use(id ecs.EntityID, m *wire.Use) error {
	item, err := g.Carried(id, m.Serial)
	switch {
	case err != nil:
		return err
	case item.Kind == KindStone:
		return errors.New("a stone is good for nothing")
	}
	w := Rewrite{Remove: []uint64{item.Serial}, Then: func() { g.refresh(id) }}
	if item.Count--; item.Count > 0 {
		w.Add = []Item{item}
	}
	return g.await(g.env.Rewrite(id, w))
}

func (g *Game) refresh(id ecs.EntityID) {
	if s := g.Stamina.Get(id); s != nil {
		s.Current = min(s.Current+restores, s.Max)
		g.env.Changed(id, NumberStamina)
	}
}

func (g *Game) split(id ecs.EntityID, m *wire.Split) error {
	item, err := g.Carried(id, m.Serial)
	switch {
	case err != nil:
		return err
	case m.Count == 0 || m.Count >= item.Count:
		return fmt.Errorf("of %d, 1 to %d can be split off", item.Count, item.Count-1)
	}
	rest := item
	rest.Count -= m.Count
	return g.await(g.env.Rewrite(id, Rewrite{Remove: []uint64{item.Serial}, Add: []Item{rest, {Kind: item.Kind, Count: m.Count}}}))
}

func (g *Game) merge(id ecs.EntityID, m *wire.Merge) error {
	from, err := g.Carried(id, m.From)
	if err != nil {
		return err
	}
	into, err := g.Carried(id, m.Into)
	switch {
	case err != nil:
		return err
	case from.Serial == into.Serial || from.Kind != into.Kind:
		return errors.New("only two stacks of a kind can be merged")
	case from.Count+into.Count > MaxCount:
		return fmt.Errorf("a stack holds %d", MaxCount)
	}
	into.Count += from.Count
	return g.await(g.env.Rewrite(id, Rewrite{Remove: []uint64{from.Serial, into.Serial}, Add: []Item{into}}))
}

// MayPick reports why an item that lies in the world may not be taken by somebody who stands at a place; nil: it may.
func (g *Game) MayPick(id ecs.EntityID, order *wire.PickOrder) error {
	p := g.Position.Get(id)
	if p == nil || !g.Lies.Has(id) {
		return fmt.Errorf("entity %v is no item", id)
	}
	from, ok := Canonical(g.grid, order.At.GetX(), order.At.GetY(), order.At.GetZ())
	if !ok {
		return errors.New("who picks it stands nowhere")
	}
	return g.within(p.At, from, HandReach)
}

// MayReceive reports why an entity may not be given an item by somebody at a place, or take it from there; nil: it may.
// carried is how many items it has, with those on their way.
func (g *Game) MayReceive(id ecs.EntityID, carried int, m *wire.Receive) error {
	p := g.Position.Get(id)
	if p == nil || g.hasHands(id) != nil {
		return fmt.Errorf("entity %v carries nothing", id)
	}
	if carried >= MaxHeld {
		return fmt.Errorf("%d items are carried, there is no room for more", carried)
	}
	if m.Picked != 0 {
		return nil // it was within reach when it was taken
	}
	from, ok := Canonical(g.grid, m.At.GetX(), m.At.GetY(), m.At.GetZ())
	if !ok {
		return errors.New("the giver stands nowhere")
	}
	return g.within(p.At, from, HandReach)
}

// DigYield is what a place yields that is dug for the first time: the same for all who ask.
func DigYield(g torus.Grid, at torus.Pos) (kind, count uint32) {
	h := mix(uint64(at.X*g.SizeY() + at.Y))
	return KindStone + uint32(h%3), 1 + uint32(h>>8%3)
}

// SpawnItem gives a new entity the components of an item that lies in the world.
func (g *Game) SpawnItem(id ecs.EntityID, item Item, at torus.Pos) {
	g.Position.Set(id, Position{at})
	g.Visual.Set(id, Visual{Kind: wire.Visual_KIND_ITEM})
	g.Lies.Set(id, Lies{item})
}

func wireItem(m *wire.Item, item Item) {
	m.Serial, m.Kind, m.Count = item.Serial, item.Kind, item.Count
}

// WireItem is an item as it travels.
func WireItem(item Item) *wire.Item {
	m := &wire.Item{}
	wireItem(m, item)
	return m
}

// ReadItem reads an item from outside; false if it cannot be one.
func ReadItem(m *wire.Item) (Item, bool) {
	item := Item{m.GetSerial(), m.GetKind(), m.GetCount()}
	return item, item.Serial != 0 && item.Count > 0 && item.Count <= MaxCount
}
