package game

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	maxStamina   = 100
	metresAPoint = 20 // walked for one point of stamina
	restTicks    = 40 // standing for one point back
	pathNews     = 2  // with every second position the path is told again
)

// Env is what systems tell the engine.
type Env interface {
	// Changed: the component of that number has a new value that its audience must see.
	Changed(id ecs.EntityID, number int)
	// Moved: the entity stands elsewhere.
	Moved(id ecs.EntityID)
	// Offside reports whether an entity of that home may not go on from a position: its handoff is due.
	Offside(id ecs.EntityID, at torus.Pos) bool
	// Teleport takes the entity elsewhere, as soon as whoever owns that place takes it in.
	Teleport(id ecs.EntityID, to torus.Pos)
	// Emit publishes an event to all that observe the entity.
	Emit(id ecs.EntityID, event *wire.EntityEvent)
	// Command sends an order from an entity to another one, wherever that lives; home is the index of its home region as far
	// as the sender knows. The target obeys once, in the order in which it was commanded; Obeyed or Unreachable will say how
	// it came out. The error is that too many are unanswered: then nothing is sent. Not to be called within a query.
	Command(from, to ecs.EntityID, home int, order *wire.Order) (route.Number, error)
	ItemEnv
	// Failed: a system panicked on an entity. The entity is left out this tick, the others go on.
	Failed(system string, id ecs.EntityID, cause any)
}

// Game runs the systems over a world.
type Game struct {
	*Components
	grid    torus.Grid
	env     Env
	walking *ecs.Query
	tired   *ecs.Query
	leading *ecs.Query
	calling []ecs.EntityID
}

// New registers the game in a world.
func New(w *ecs.World, g torus.Grid, env Env) *Game {
	c := Register(w, g)
	return &Game{
		Components: c, grid: g, env: env,
		walking: ecs.NewQuery(w).With(c.Position, c.Path),
		tired:   ecs.NewQuery(w).With(c.Stamina, c.Path),
		leading: ecs.NewQuery(w).With(c.Team, c.Position, c.Path),
	}
}

// Run runs one tick: movement, recovery, then teams.
func (g *Game) Run() {
	ecs.Each2(g.walking, g.Position, g.Path, func(id ecs.EntityID, p *Position, path *Path) {
		defer g.contain("walk", id)
		g.walk(id, p, path)
	})
	ecs.Each2(g.tired, g.Stamina, g.Path, func(id ecs.EntityID, s *Stamina, path *Path) {
		defer g.contain("recover", id)
		g.recover(id, s, path)
	})
	g.gather()
}

// contain keeps a panic to the entity it happened on. Deferred by each system, per entity.
func (g *Game) contain(system string, id ecs.EntityID) {
	if cause := recover(); cause != nil {
		g.env.Failed(system, id, cause)
	}
}

// walk moves an entity along its path. It publishes the position every ResyncSteps steps and where the path ends, so that
// observers who computed along stay exact.
func (g *Game) walk(id ecs.EntityID, p *Position, path *Path) {
	if len(path.Waypoints) == 0 {
		return
	}
	w := motion.Walk{At: p.At, Waypoints: path.Waypoints, Speed: path.Speed, Progress: path.Progress}
	if g.env.Offside(id, p.At) { // not further; only back
		if next, found := w.Next(g.grid); !found || g.env.Offside(id, next) {
			return
		}
	}
	steps := w.Tick(g.grid, func(at torus.Pos) bool { return g.env.Offside(id, at) })
	p.At, path.Waypoints, path.Progress = w.At, w.Waypoints, w.Progress
	if steps == 0 {
		return
	}
	g.env.Moved(id)
	if path.Halted {
		path.Halted = false
		g.env.Changed(id, NumberPath)
	}
	g.tire(id, int32(steps))
	path.Steps += int32(steps)
	if path.Steps >= motion.ResyncSteps || w.Standing() {
		path.Steps = 0
		g.env.Changed(id, NumberPosition)
		// Whoever is behind or ahead would turn back to a waypoint that was passed, or leave one out: clocks differ.
		if path.news++; !w.Standing() && (path.news >= pathNews || len(path.Waypoints) != path.told) {
			path.told, path.news = len(path.Waypoints), 0
			g.env.Changed(id, NumberPath)
		}
	}
	if w.Standing() {
		path.Waypoints, path.told = nil, 0
		g.env.Changed(id, NumberPath)
	}
}

func (g *Game) tire(id ecs.EntityID, steps int32) {
	s := g.Stamina.Get(id)
	if s == nil {
		return
	}
	s.Rest = 0
	s.Spent += steps
	if s.Spent >= metresAPoint {
		s.Spent -= metresAPoint
		if s.Current > 0 {
			s.Current--
			g.env.Changed(id, NumberStamina)
		}
	}
}

func (g *Game) recover(id ecs.EntityID, s *Stamina, path *Path) {
	if len(path.Waypoints) > 0 || s.Current >= s.Max {
		return
	}
	if s.Rest++; s.Rest >= restTicks {
		s.Rest = 0
		s.Current++
		g.env.Changed(id, NumberStamina)
	}
}

// SpawnMaster gives a new entity the components of a player's character.
func (g *Game) SpawnMaster(id ecs.EntityID, account uint64, name string, at torus.Pos) {
	g.Position.Set(id, Position{at})
	g.Path.Set(id, Path{Speed: motion.DefaultSpeed})
	g.Visual.Set(id, Visual{wire.Visual_KIND_MASTER, name})
	g.Stamina.Set(id, Stamina{Current: maxStamina, Max: maxStamina})
	g.Account.Set(id, Account{account})
}

// Halt says that the entity stands where it is until it moves again.
func (g *Game) Halt(id ecs.EntityID) {
	path := g.Path.Get(id)
	if path == nil || path.Halted || len(path.Waypoints) == 0 {
		return
	}
	path.Halted, path.Progress = true, 0
	g.env.Changed(id, NumberPosition)
	g.env.Changed(id, NumberPath)
}

// Wake gives an entity that comes from the store what is not stored.
func (g *Game) Wake(id ecs.EntityID) {
	if !g.Path.Has(id) {
		g.Path.Set(id, Path{Speed: motion.DefaultSpeed})
	}
}

// Act carries out a client's input on its entity; nil: what was awaited will tell the result.
func (g *Game) Act(id ecs.EntityID, in *wire.Input) *wire.InputResult {
	switch a := in.Action.(type) {
	case *wire.Input_Move:
		return result(in, g.move(id, a.Move))
	case *wire.Input_Stop:
		return result(in, g.stop(id))
	case *wire.Input_Recall:
		return result(in, g.goHome(id))
	case *wire.Input_Say:
		g.env.Emit(id, &wire.EntityEvent{Event: &wire.EntityEvent_Said{Said: &wire.Said{Text: a.Say.Text}}})
		return result(in, nil)
	}
	if MovesItems(in) {
		return g.handle(id, in)
	}
	return result(in, fmt.Errorf("an input without an action this version knows"))
}

func result(in *wire.Input, err error) *wire.InputResult {
	if err != nil {
		return &wire.InputResult{Number: in.Number, Code: wire.InputResult_CODE_INVALID, Detail: err.Error()}
	}
	return &wire.InputResult{Number: in.Number, Code: wire.InputResult_CODE_OK}
}

func (g *Game) move(id ecs.EntityID, m *wire.Move) error {
	p, path := g.Position.Get(id), g.Path.Get(id)
	if p == nil || path == nil {
		return fmt.Errorf("entity %v cannot walk", id)
	}
	from, kept := p.At, 0
	if m.Append && len(path.Waypoints) > 0 {
		kept = len(path.Waypoints)
		from = path.Waypoints[kept-1]
	}
	points, err := Waypoints(g.grid, from, m.Waypoints)
	switch {
	case err != nil:
		return err
	case len(points) == 0:
		return fmt.Errorf("a move needs at least one waypoint")
	case kept+len(points) > motion.MaxWaypoints:
		return fmt.Errorf("a path may have %d waypoints; this one would have %d", motion.MaxWaypoints, kept+len(points))
	}
	if kept > 0 {
		points = append(append(make([]torus.Pos, 0, kept+len(points)), path.Waypoints...), points...)
	} else {
		path.Progress = 0
	}
	path.Waypoints, path.told, path.news = points, len(points), 0
	g.env.Changed(id, NumberPath)
	g.lead(id)
	return nil
}

// Birthplace is where the master of an account enters the world, unless its login says otherwise, and where it is recalled
// to.
func Birthplace(g torus.Grid, account uint64) torus.Pos {
	h := mix(account)
	return torus.Pos{X: int64(h>>32) % g.SizeX(), Y: int64(h&0xffffffff) % g.SizeY()}
}

// mix spreads account numbers evenly: the finalizer of splitmix64 (Steele, Lea, Flood 2014).
func mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// goHome recalls a master. It stands until it is there.
func (g *Game) goHome(id ecs.EntityID) error {
	acc := g.Account.Get(id)
	if acc == nil {
		return fmt.Errorf("entity %v has no birthplace", id)
	}
	if err := g.stop(id); err != nil {
		return err
	}
	g.env.Teleport(id, Birthplace(g.grid, acc.ID))
	return nil
}

func (g *Game) stop(id ecs.EntityID) error {
	path := g.Path.Get(id)
	if path == nil {
		return fmt.Errorf("entity %v cannot walk", id)
	}
	path.Waypoints, path.Progress = nil, 0
	g.env.Changed(id, NumberPosition)
	g.env.Changed(id, NumberPath)
	g.lead(id)
	return nil
}

// Encoder encodes components and events as they travel to clients: the body of a ComponentUpdate or EntityEvent. It
// reuses its messages; one Encoder belongs to one engine.
type Encoder struct {
	game    *Game
	update  wire.ComponentUpdate
	pos     wire.ComponentUpdate_Position
	path    wire.ComponentUpdate_Path
	visual  wire.ComponentUpdate_Visual
	stamina wire.ComponentUpdate_Stamina
	item    wire.ComponentUpdate_Item
}

// NewEncoder returns an encoder for the game's components.
func NewEncoder(g *Game) *Encoder {
	return &Encoder{
		game:    g,
		pos:     wire.ComponentUpdate_Position{Position: &wire.Position{}},
		path:    wire.ComponentUpdate_Path{Path: &wire.Path{}},
		visual:  wire.ComponentUpdate_Visual{Visual: &wire.Visual{}},
		stamina: wire.ComponentUpdate_Stamina{Stamina: &wire.Stamina{}},
		item:    wire.ComponentUpdate_Item{Item: &wire.Item{}},
	}
}

// AppendComponent appends the body of a component's update; nothing if the entity has no such component.
func (e *Encoder) AppendComponent(dst []byte, id ecs.EntityID, number int) []byte {
	switch number {
	case NumberPosition:
		p := e.game.Position.Get(id)
		if p == nil {
			return dst
		}
		e.pos.Position.X, e.pos.Position.Y, e.pos.Position.Z = uint32(p.At.X), uint32(p.At.Y), int32(p.At.Z)
		e.update.Component = &e.pos
	case NumberPath:
		p, path := e.game.Position.Get(id), e.game.Path.Get(id)
		if p == nil || path == nil {
			return dst
		}
		PathMessage(e.path.Path, p.At, path)
		e.update.Component = &e.path
	case NumberVisual:
		v := e.game.Visual.Get(id)
		if v == nil {
			return dst
		}
		e.visual.Visual.Kind, e.visual.Visual.Name = v.Kind, v.Name
		e.update.Component = &e.visual
	case NumberStamina:
		s := e.game.Stamina.Get(id)
		if s == nil {
			return dst
		}
		e.stamina.Stamina.Current, e.stamina.Stamina.Max = s.Current, s.Max
		e.update.Component = &e.stamina
	case NumberInventory:
		inv := e.game.Inventory.Get(id)
		if inv == nil {
			return dst
		}
		m := &wire.Inventory{}
		for _, item := range inv.Items {
			m.Items = append(m.Items, WireItem(item))
		}
		e.update.Component = &wire.ComponentUpdate_Inventory{Inventory: m}
	case NumberItem:
		l := e.game.Lies.Get(id)
		if l == nil {
			return dst
		}
		wireItem(e.item.Item, l.Item)
		e.update.Component = &e.item
	default:
		return dst
	}
	return appendMessage(dst, &e.update)
}

// AppendEvent appends the body of an event.
func (e *Encoder) AppendEvent(dst []byte, ev proto.Message) []byte { return appendMessage(dst, ev) }

// AudienceOf is who gets the component of that number, for an entity with or without an account.
func (e *Encoder) AudienceOf(number int, hasAccount bool) ecs.Audience {
	switch number {
	case NumberPosition:
		return e.game.Position.Meta().AudienceOf(hasAccount)
	case NumberPath:
		return e.game.Path.Meta().AudienceOf(hasAccount)
	case NumberVisual:
		return e.game.Visual.Meta().AudienceOf(hasAccount)
	case NumberStamina:
		return e.game.Stamina.Meta().AudienceOf(hasAccount)
	case NumberInventory:
		return e.game.Inventory.Meta().AudienceOf(hasAccount)
	case NumberItem:
		return e.game.Lies.Meta().AudienceOf(hasAccount)
	}
	return ecs.None
}

// Numbers are the components that are shown to anybody, in the order of a snapshot.
var Numbers = [...]int{NumberVisual, NumberPosition, NumberPath, NumberItem, NumberStamina, NumberInventory}

// OwnerNumbers is the mask of those that only the entity's own account gets: whoever attaches to it needs them all.
const OwnerNumbers = 1<<NumberStamina | 1<<NumberInventory
