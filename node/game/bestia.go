package game

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	// MaxTeam bounds the bestias of one master.
	MaxTeam = 5
	// Reach is how near its master, in metres, a bestia must stand to be with it.
	Reach = 8
	// gatherTicks is after how long a master that stands calls again those who are not with it: 5 s.
	gatherTicks = 100
)

// Bestia says whose a creature is: it belongs to a player, but no session is ever attached to it.
type Bestia struct {
	Master  ecs.EntityID
	Account uint64
}

// Team are the bestias of a master.
type Team struct {
	Members []Member
	to      torus.Pos // where they were called to last
	wait    int32     // ticks until the master may call again
}

// Member is a bestia of a team.
type Member struct {
	Bestia ecs.EntityID
	// Home is the index of its home region, as far as the master knows.
	Home int
	// settled: nothing more is asked of it until the master moves on. It is with the master, or nobody knows it.
	settled bool
}

// formation is where the bestias of a team stand, in metres from their master.
var formation = [MaxTeam][2]int64{{-3, 0}, {0, 3}, {3, 0}, {0, -3}, {2, 2}}

// SpawnBestia gives a new entity the components of a player's bestia.
func (g *Game) SpawnBestia(id, master ecs.EntityID, account uint64, name string, at torus.Pos) {
	g.Position.Set(id, Position{at})
	g.Path.Set(id, Path{Speed: motion.DefaultSpeed})
	g.Visual.Set(id, Visual{wire.Visual_KIND_BESTIA, name})
	g.Bestia.Set(id, Bestia{master, account})
}

// lead sends a master's team after it: it has a new way to go, or stands.
func (g *Game) lead(id ecs.EntityID) {
	team := g.Team.Get(id)
	if team == nil {
		return
	}
	for i := range team.Members {
		team.Members[i].settled = false
	}
	g.call(id, team)
}

// call commands all who are not settled to follow. One that cannot be commanded now is called again.
func (g *Game) call(id ecs.EntityID, team *Team) {
	team.wait = gatherTicks
	to, path := g.Position.Get(id).At, g.Path.Get(id)
	if n := len(path.Waypoints); n > 0 {
		to = path.Waypoints[n-1]
	}
	team.to = to
	for i, m := range team.Members {
		if !m.settled {
			_, _ = g.env.Command(id, m.Bestia, m.Home, &wire.Order{Order: &wire.Order_Follow{Follow: &wire.Follow{
				To: WirePosition(to), SpeedMmPerTick: uint32(path.Speed), Place: uint32(i),
			}}})
		}
	}
}

// gather lets masters that stand call those who are not with them, and all if they stand elsewhere than they said. The
// calls are made after the query: to command is to change components.
func (g *Game) gather() {
	g.calling = g.calling[:0]
	ecs.Each3(g.leading, g.Team, g.Position, g.Path, func(id ecs.EntityID, team *Team, p *Position, path *Path) {
		if team.wait > 0 {
			team.wait--
		} else if len(path.Waypoints) == 0 && (p.At != team.to || team.scattered()) {
			g.calling = append(g.calling, id)
		}
	})
	for _, id := range g.calling {
		g.gatherOne(id)
	}
}

func (g *Game) gatherOne(id ecs.EntityID) {
	defer g.contain("gather", id)
	if team := g.Team.Get(id); g.Position.Get(id).At == team.to {
		g.call(id, team)
	} else {
		g.lead(id)
	}
}

func (t *Team) scattered() bool {
	for _, m := range t.Members {
		if !m.settled {
			return true
		}
	}
	return false
}

func (t *Team) member(id ecs.EntityID) *Member {
	for i := range t.Members {
		if t.Members[i].Bestia == id {
			return &t.Members[i]
		}
	}
	return nil
}

// Obey carries out an order of another entity.
func (g *Game) Obey(id, sender ecs.EntityID, order *wire.Order) *wire.OrderResult {
	var distance int64
	err := errors.New("an order this version does not know")
	if o, ok := order.Order.(*wire.Order_Follow); ok {
		distance, err = g.follow(id, sender, o.Follow)
	}
	if err != nil {
		return &wire.OrderResult{Code: wire.OrderResult_CODE_REFUSED, Detail: err.Error()}
	}
	return &wire.OrderResult{Code: wire.OrderResult_CODE_OK, Distance: uint32(distance)}
}

// Obeyed tells the sender how the latest of its orders to a target came out and where the target is at home; result is nil
// if that is not known, because the answer was lost on the way. last: no other order to it is unanswered.
func (g *Game) Obeyed(id, target ecs.EntityID, home int, result *wire.OrderResult, last bool) {
	team := g.Team.Get(id)
	if team == nil {
		return
	}
	if m := team.member(target); m != nil {
		m.Home = home
		m.settled = last && result != nil && (result.Code != wire.OrderResult_CODE_OK || result.Distance <= Reach)
	}
}

// Unreachable tells the sender that nobody has the target.
func (g *Game) Unreachable(id, target ecs.EntityID) {
	if team := g.Team.Get(id); team != nil {
		if m := team.member(target); m != nil {
			m.settled = true
		}
	}
}

// follow sends a bestia straight to its place beside where its master is going, as far as one path reaches. It returns how
// far away, in metres, the bestia stands now.
func (g *Game) follow(id, master ecs.EntityID, f *wire.Follow) (int64, error) {
	b, p, path := g.Bestia.Get(id), g.Position.Get(id), g.Path.Get(id)
	if b == nil || p == nil || path == nil || b.Master != master {
		return 0, fmt.Errorf("entity %v is no bestia of %v", id, master)
	}
	to, ok := Canonical(g.grid, f.To.GetX(), f.To.GetY(), f.To.GetZ())
	if !ok || f.Place >= MaxTeam {
		return 0, fmt.Errorf("place %d beside %v does not exist", f.Place, to)
	}
	distance := g.grid.Chebyshev(p.At, to)
	aside := formation[f.Place]
	to = g.grid.Add(to, aside[0], aside[1])
	path.Speed = int32(min(max(f.SpeedMmPerTick, 1), motion.MaxSpeed))
	if path.leadsTo(p.At, to) {
		return distance, nil
	}
	path.Waypoints, path.Progress = g.straight(p.At, to), 0
	if len(path.Waypoints) == 0 {
		g.env.Changed(id, NumberPosition)
	}
	g.env.Changed(id, NumberPath)
	return distance, nil
}

// leadsTo reports whether the path ends at a place already.
func (p *Path) leadsTo(at, to torus.Pos) bool {
	if n := len(p.Waypoints); n > 0 {
		at = p.Waypoints[n-1]
	}
	return at.X == to.X && at.Y == to.Y
}

// straight is the way from a place to another in legs that a path may have, as far as it may be long.
func (g *Game) straight(from, to torus.Pos) []torus.Pos {
	var points []torus.Pos
	for len(points) < motion.MaxWaypoints && (from.X != to.X || from.Y != to.Y) {
		dx, dy := g.grid.Delta(from, to)
		legs := (max(dx, -dx, dy, -dy) + motion.MaxLeg - 1) / motion.MaxLeg
		from = g.grid.Add(from, dx/legs, dy/legs)
		points = append(points, from)
	}
	return points
}

func encodeBestia(dst []byte, b *Bestia) []byte {
	return appendMessage(dst, &wire.BestiaState{Master: uint64(b.Master), Account: b.Account})
}

func decodeBestia(b []byte, out *Bestia) error {
	var m wire.BestiaState
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	*out = Bestia{ecs.EntityID(m.Master), m.Account}
	return nil
}

func encodeTeam(dst []byte, t *Team) []byte {
	var m wire.TeamState
	for _, member := range t.Members {
		m.Bestias = append(m.Bestias, uint64(member.Bestia))
		m.Homes = append(m.Homes, uint32(member.Home))
	}
	return appendMessage(dst, &m)
}

func decodeTeam(g torus.Grid, b []byte, t *Team) error {
	var m wire.TeamState
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	if len(m.Bestias) > MaxTeam || len(m.Homes) != len(m.Bestias) {
		return fmt.Errorf("team of %d bestias with %d homes", len(m.Bestias), len(m.Homes))
	}
	for i, id := range m.Bestias {
		if id == 0 || m.Homes[i] >= uint32(g.Regions()) {
			return fmt.Errorf("bestia %d at home in region %d", id, m.Homes[i])
		}
		t.Members = append(t.Members, Member{Bestia: ecs.EntityID(id), Home: int(m.Homes[i])})
	}
	return nil
}
