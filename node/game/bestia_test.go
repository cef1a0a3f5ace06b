package game

import (
	"errors"
	"testing"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/torus"
)

// pack is a stage with master 1 and its team of five, 2 to 6.
func pack(tb testing.TB) *stage {
	tb.Helper()
	s := newStage(tb)
	s.spawn(tb, 1, torus.Pos{X: 10, Y: 10})
	var team Team
	for id := ecs.EntityID(2); id <= 1+MaxTeam; id++ {
		if err := s.world.Create(id); err != nil {
			tb.Fatal(err)
		}
		s.SpawnBestia(id, 1, 1, "bestia", torus.Pos{X: 10, Y: 10 + 3*int64(id)})
		team.Members = append(team.Members, Member{Bestia: id})
	}
	s.Team.Set(1, team)
	return s
}

// deliver lets the targets obey what was commanded, and tells the sender.
func (s *stage) deliver() (delivered int) {
	list := s.commands
	s.commands = nil
	for _, c := range list {
		s.Obeyed(c.from, c.to, 2, s.Obey(c.to, c.from, c.order), true)
	}
	return len(list)
}

func (s *stage) run(ticks int) (delivered int) {
	for range ticks {
		s.Run()
		delivered += s.deliver()
	}
	return delivered
}

func (s *stage) far(id ecs.EntityID) int64 {
	return s.grid.Chebyshev(s.Position.Get(1).At, s.Position.Get(id).At)
}

func TestATeamGoesWhereItsMasterGoes(t *testing.T) {
	s := pack(t)
	s.Act(1, move(40, 10, 40, 50))
	if n := s.deliver(); n != MaxTeam {
		t.Fatalf("a move sent %d commands", n)
	}
	s.run(600)
	spots := map[torus.Pos]bool{s.Position.Get(1).At: true}
	for id := ecs.EntityID(2); id <= 1+MaxTeam; id++ {
		if d := s.far(id); d < 2 || d > 4 {
			t.Errorf("bestia %v stands %d m from its master", id, d)
		}
		spots[s.Position.Get(id).At] = true
	}
	if len(spots) != 1+MaxTeam {
		t.Errorf("six stand on %d spots", len(spots))
	}
	if n := s.run(400); n != 0 {
		t.Errorf("%d commands to a team that is with its master", n)
	}
	if home := s.Team.Get(1).Members[0].Home; home != 2 {
		t.Errorf("the master takes its bestia to be at home in region %d", home)
	}
}

func TestATeamStopsWithItsMaster(t *testing.T) {
	s := pack(t)
	s.Act(1, move(70, 10))
	s.run(100)
	s.Act(1, &wire.Input{Action: &wire.Input_Stop{Stop: &wire.Stop{}}})
	s.run(200)
	for id := ecs.EntityID(2); id <= 1+MaxTeam; id++ {
		if d := s.far(id); d > 4 || len(s.Path.Get(id).Waypoints) > 0 {
			t.Errorf("bestia %v is %d m away and walks %v", id, d, s.Path.Get(id).Waypoints)
		}
	}
}

// TestNobodyIsLeftBehind: whatever befell a bestia or the way to it, a master that stands calls it every 5 s.
func TestNobodyIsLeftBehind(t *testing.T) {
	s := pack(t)
	s.refuse = errors.New("full")
	s.Act(1, move(40, 10))
	s.commands = nil
	s.run(10)
	s.refuse = nil
	s.Position.Get(4).At = torus.Pos{X: 500, Y: 500}
	calls := s.run(4000)
	if d := s.far(4); d > 4 {
		t.Errorf("the lost one is %d m away", d)
	}
	if calls < 5 || calls > 4000/gatherTicks*MaxTeam {
		t.Errorf("%d calls in 200 s", calls)
	}
	s.Position.Get(1).At = torus.Pos{X: 300, Y: 300}
	s.run(4000)
	if d := s.far(4); d > 4 {
		t.Errorf("the master was taken elsewhere, and stands %d m from its bestia", d)
	}
}

func TestAWayTooLongForOnePathIsWalkedAsFarAsItReaches(t *testing.T) {
	g, err := torus.NewGrid(4, 1, 250)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{}
	s.Game = &Game{grid: g}
	from := torus.Pos{X: g.SizeX() - 5, Y: 7, Z: 3}
	points := s.straight(from, g.Add(from, 9000, 300))
	if len(points) != motion.MaxWaypoints {
		t.Fatalf("%d waypoints", len(points))
	}
	if _, err := Waypoints(g, from, appendWaypoints(nil, points)); err != nil {
		t.Errorf("a path that a client may not have: %v", err)
	}
	if dx, _ := g.Delta(from, points[len(points)-1]); dx < 4000 {
		t.Errorf("it leads %d m far", dx)
	}
}

func TestOrdersAreChecked(t *testing.T) {
	s := pack(t)
	order := func(f *wire.Follow) *wire.Order { return &wire.Order{Order: &wire.Order_Follow{Follow: f}} }
	for name, r := range map[string]*wire.OrderResult{
		"of a stranger":     s.Obey(2, 7, order(&wire.Follow{To: &wire.Position{X: 20, Y: 20}})),
		"to a master":       s.Obey(1, 1, order(&wire.Follow{To: &wire.Position{X: 20, Y: 20}})),
		"off the map":       s.Obey(2, 1, order(&wire.Follow{To: &wire.Position{X: 5000, Y: 20}})),
		"without a place":   s.Obey(2, 1, order(&wire.Follow{To: &wire.Position{X: 20, Y: 20}, Place: MaxTeam})),
		"of a kind unknown": s.Obey(2, 1, &wire.Order{}),
	} {
		if r.Code != wire.OrderResult_CODE_REFUSED || r.Detail == "" {
			t.Errorf("%s: %v", name, r)
		}
	}
	if len(s.Path.Get(2).Waypoints) != 0 {
		t.Error("a refused order left waypoints behind")
	}
}

func TestOnlyTheAnswerToTheLastCallCounts(t *testing.T) {
	s := pack(t)
	s.Act(1, move(40, 10))
	near := &wire.OrderResult{Code: wire.OrderResult_CODE_OK, Distance: 1}
	s.Obeyed(1, 2, 0, near, false)
	s.Obeyed(1, 3, 0, nil, true)
	s.Obeyed(1, 4, 0, near, true)
	for i, want := range []bool{false, false, true, false, false} {
		if got := s.Team.Get(1).Members[i].settled; got != want {
			t.Errorf("member %d counts as settled: %v", i, got)
		}
	}
}
