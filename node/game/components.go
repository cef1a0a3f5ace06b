package game

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Component numbers: fields of wire.ComponentUpdate.
const (
	NumberPosition = 1
	NumberPath     = 2
	NumberVisual   = 3
	NumberStamina  = 5

	NumberInventory = 6
	NumberItem      = 7
)

// Position is where an entity stands: canonical metres.
type Position struct{ At torus.Pos }

// Path is what it still has to walk, and how it walks.
type Path struct {
	Waypoints []torus.Pos
	Speed     int32 // millimetres a tick
	Progress  int32 // millimetres towards the next metre
	Steps     int32 // since the position was published
	told      int   // how many waypoints the path had when it was published
	news      int   // positions published since
	// Halted: something holds the entity where it stands. Observers are told a speed of 0, so that none walks it on. It
	// is not handed over: at its new owner the entity goes on.
	Halted bool
}

// Visual is what it looks like.
type Visual struct {
	Kind wire.Visual_Kind
	Name string
}

// Stamina is spent by walking and comes back by standing.
type Stamina struct {
	Current, Max uint32
	// Spent counts metres towards the next point, Rest ticks towards the next point back.
	Spent, Rest int32
}

// Account says whose entity it is. Only a player's master has one; a bestia names its player itself.
type Account struct{ ID uint64 }

// Session is the account's connection: where its messages go.
type Session struct {
	Gateway string // session of the gateway node
	Epoch   uint64
	// Lost counts the ticks since the socket was lost; 0: it is connected.
	Lost int32
}

// Components are the stores of the game.
type Components struct {
	Position *ecs.Store[Position]
	Path     *ecs.Store[Path]
	Visual   *ecs.Store[Visual]
	Stamina  *ecs.Store[Stamina]
	Account  *ecs.Store[Account]
	Session  *ecs.Store[Session]
	Calls    *ecs.Store[route.Log]
	Bestia   *ecs.Store[Bestia]
	Team     *ecs.Store[Team]

	Inventory *ecs.Store[Inventory]
	Lies      *ecs.Store[Lies]
}

const (
	maxNameBytes    = 128
	maxGatewayBytes = 253
)

// Register registers the game's components. A component that is added and not handed over fails ecs.World.Check at boot.
func Register(w *ecs.World, g torus.Grid) *Components {
	c := &Components{
		Position: ecs.Register[Position](w, ecs.Meta{Name: "position", Sync: "Position", Audience: ecs.PublicInRange, Durable: true}),
		Path:     ecs.Register[Path](w, ecs.Meta{Name: "path", Sync: "Path", Audience: ecs.PublicInRange}),
		Visual:   ecs.Register[Visual](w, ecs.Meta{Name: "visual", Sync: "Visual", Audience: ecs.PublicInRange, Durable: true}),
		Stamina:  ecs.Register[Stamina](w, ecs.Meta{Name: "stamina", Sync: "Stamina", Audience: ecs.OwnerOnly, Durable: true}),
		Account:  ecs.Register[Account](w, ecs.Meta{Name: "account", Durable: true}),
		Session:  ecs.Register[Session](w, ecs.Meta{Name: "session"}),
		Calls:    ecs.Register[route.Log](w, ecs.Meta{Name: "calls", Durable: true}),
		Bestia:   ecs.Register[Bestia](w, ecs.Meta{Name: "bestia", Durable: true}),
		Team:     ecs.Register[Team](w, ecs.Meta{Name: "team", Durable: true}),
		Inventory: ecs.Register[Inventory](w, ecs.Meta{
			Name: "inventory", Sync: "Inventory", Audience: ecs.OwnerOnly, NotHandedOver: "it shows the contents, which are handed over",
		}),
		Lies: ecs.Register[Lies](w, ecs.Meta{
			Name: "lies", Sync: "Item", Audience: ecs.PublicInRange, NotHandedOver: "what lies stays in its region, whose heir reads it from the store",
		}),
	}
	c.Position.HandOver(encodePosition, func(b []byte, p *Position) error { return decodePosition(g, b, p) })
	c.Path.HandOver(encodePath, func(b []byte, p *Path) error { return decodePath(g, b, p) })
	c.Visual.HandOver(encodeVisual, decodeVisual)
	c.Stamina.HandOver(encodeStamina, decodeStamina)
	c.Account.HandOver(encodeAccount, decodeAccount)
	c.Session.HandOver(encodeSession, decodeSession)
	c.Calls.HandOver(
		func(dst []byte, l *route.Log) []byte { return l.Append(dst) },
		func(b []byte, l *route.Log) error { return l.Decode(b) })
	c.Bestia.HandOver(encodeBestia, decodeBestia)
	c.Team.HandOver(encodeTeam, func(b []byte, t *Team) error { return decodeTeam(g, b, t) })
	return c
}

// WirePosition is a position as it travels.
func WirePosition(p torus.Pos) *wire.Position {
	return &wire.Position{X: uint32(p.X), Y: uint32(p.Y), Z: int32(p.Z)}
}

// Canonical reads a position from outside; false if it is not on the torus in canonical form.
func Canonical(g torus.Grid, x, y uint32, z int32) (torus.Pos, bool) {
	p := torus.Pos{X: int64(x), Y: int64(y), Z: int64(z)}
	return p, g.Wrap(p) == p
}

// PathMessage fills the public form of a path.
func PathMessage(m *wire.Path, at torus.Pos, p *Path) {
	if m.From == nil {
		m.From = &wire.Position{}
	}
	m.From.X, m.From.Y, m.From.Z = uint32(at.X), uint32(at.Y), int32(at.Z)
	m.SpeedMmPerTick, m.ProgressMm = uint32(p.Speed), uint32(p.Progress)
	if p.Halted {
		m.SpeedMmPerTick = 0
	}
	m.Waypoints = appendWaypoints(m.Waypoints[:0], p.Waypoints)
}

func appendWaypoints(dst []uint32, points []torus.Pos) []uint32 {
	for _, w := range points {
		dst = append(dst, uint32(w.X), uint32(w.Y))
	}
	return dst
}

// Waypoints reads x, y pairs; an error says what is wrong with them.
func Waypoints(g torus.Grid, from torus.Pos, pairs []uint32) ([]torus.Pos, error) {
	if len(pairs)%2 != 0 || len(pairs) > 2*motion.MaxWaypoints {
		return nil, fmt.Errorf("waypoints must be 1 to %d pairs of x and y", motion.MaxWaypoints)
	}
	points := make([]torus.Pos, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		p, ok := Canonical(g, pairs[i], pairs[i+1], int32(from.Z))
		if !ok {
			return nil, fmt.Errorf("waypoint %d,%d is not on the torus of %d x %d m", pairs[i], pairs[i+1], g.SizeX(), g.SizeY())
		}
		if g.Chebyshev(from, p) > motion.MaxLeg {
			return nil, fmt.Errorf("waypoint %d,%d is more than %d m from the one before", p.X, p.Y, motion.MaxLeg)
		}
		points, from = append(points, p), p
	}
	return points, nil
}

// The handover codecs reuse the messages of the wire where those hold all; what a message leaves out is added.

func encodePosition(dst []byte, p *Position) []byte { return appendMessage(dst, WirePosition(p.At)) }

func decodePosition(g torus.Grid, b []byte, p *Position) error {
	var m wire.Position
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	at, ok := Canonical(g, m.X, m.Y, m.Z)
	if !ok {
		return fmt.Errorf("position %d,%d is not on the torus", m.X, m.Y)
	}
	p.At = at
	return nil
}

func encodePath(dst []byte, p *Path) []byte {
	return appendMessage(dst, &wire.PathState{
		Waypoints: appendWaypoints(nil, p.Waypoints), SpeedMmPerTick: uint32(p.Speed), ProgressMm: uint32(p.Progress), Steps: uint32(p.Steps),
	})
}

func decodePath(g torus.Grid, b []byte, p *Path) error {
	var m wire.PathState
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	if m.SpeedMmPerTick > motion.MaxSpeed || m.ProgressMm > 4*motion.MaxSpeed || m.Steps > motion.ResyncSteps {
		return errors.New("path beyond its limits")
	}
	if len(m.Waypoints) >= 2 {
		first := torus.Pos{X: int64(m.Waypoints[0]), Y: int64(m.Waypoints[1])}
		points, err := Waypoints(g, first, m.Waypoints)
		if err != nil {
			return fmt.Errorf("path: %w", err)
		}
		p.Waypoints = points
	}
	p.Speed, p.Progress, p.Steps = int32(m.SpeedMmPerTick), int32(m.ProgressMm), int32(m.Steps)
	return nil
}

func encodeVisual(dst []byte, v *Visual) []byte {
	return appendMessage(dst, &wire.Visual{Kind: v.Kind, Name: v.Name})
}

func decodeVisual(b []byte, v *Visual) error {
	var m wire.Visual
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	if len(m.Name) > maxNameBytes {
		return fmt.Errorf("name of %d bytes", len(m.Name))
	}
	v.Kind, v.Name = m.Kind, m.Name
	return nil
}

func encodeStamina(dst []byte, s *Stamina) []byte {
	return appendMessage(dst, &wire.StaminaState{Current: s.Current, Max: s.Max, Spent: s.Spent, Rest: s.Rest})
}

func decodeStamina(b []byte, s *Stamina) error {
	var m wire.StaminaState
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	if m.Current > m.Max {
		return fmt.Errorf("stamina %d of %d", m.Current, m.Max)
	}
	*s = Stamina{m.Current, m.Max, m.Spent, m.Rest}
	return nil
}

func encodeAccount(dst []byte, a *Account) []byte {
	return appendMessage(dst, &wire.SessionState{Account: a.ID})
}

func decodeAccount(b []byte, a *Account) error {
	var m wire.SessionState
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	a.ID = m.Account
	return nil
}

func encodeSession(dst []byte, s *Session) []byte {
	return appendMessage(dst, &wire.SessionState{Gateway: s.Gateway, Epoch: s.Epoch, LostTicks: s.Lost})
}

func decodeSession(b []byte, s *Session) error {
	var m wire.SessionState
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	if len(m.Gateway) > maxGatewayBytes {
		return fmt.Errorf("gateway name of %d bytes", len(m.Gateway))
	}
	*s = Session{m.Gateway, m.Epoch, m.LostTicks}
	return nil
}

func appendMessage(dst []byte, m proto.Message) []byte {
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		panic("game: encoding " + string(m.ProtoReflect().Descriptor().Name()) + ": " + err.Error()) // only invalid UTF-8 can fail, and names are checked
	}
	return out
}
