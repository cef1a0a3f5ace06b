package game

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

// stage is a world with a game in it, and remembers what the game says.
type stage struct {
	*Game
	world   *ecs.World
	changed map[ecs.EntityID][]int
	said    []string
	failed  int
	offside func(ecs.EntityID, torus.Pos) bool

	commands []command
	refuse   error // what Command, Move and Rewrite answer
	border   bool  // somebody may be near who is not here

	awaited  []route.Waiting
	moves    [][3]uint64 // from, serial, to
	rewrites []Rewrite
}

type command struct {
	from, to ecs.EntityID
	home     int
	order    *wire.Order
}

func newStage(tb testing.TB) *stage {
	tb.Helper()
	g, err := torus.NewGrid(2, 2, 15)
	if err != nil {
		tb.Fatal(err)
	}
	s := &stage{world: ecs.NewWorld(), changed: map[ecs.EntityID][]int{}, offside: func(ecs.EntityID, torus.Pos) bool { return false }}
	s.Game = New(s.world, g, s)
	if err := s.world.Check(); err != nil {
		tb.Fatal(err)
	}
	return s
}

func (s *stage) Changed(id ecs.EntityID, number int) {
	s.changed[id] = append(s.changed[id], number)
}
func (s *stage) Moved(ecs.EntityID)                         {}
func (s *stage) Offside(id ecs.EntityID, at torus.Pos) bool { return s.offside(id, at) }
func (s *stage) Emit(_ ecs.EntityID, event *wire.EntityEvent) {
	s.said = append(s.said, event.GetSaid().GetText())
}

func (s *stage) Command(from, to ecs.EntityID, home int, order *wire.Order) (route.Number, error) {
	s.commands = append(s.commands, command{from, to, home, order})
	return route.Number{N: uint64(len(s.commands))}, s.refuse
}

func (s *stage) Await(w route.Waiting) { s.awaited = append(s.awaited, w) }

func (s *stage) OthersNear(torus.Pos) bool { return s.border }

func (s *stage) Ground(at torus.Pos) (ecs.EntityID, int) {
	home := s.grid.RegionIndexOf(at)
	return 1<<63 | ecs.EntityID(home), home
}

func (s *stage) Move(from ecs.EntityID, serial uint64, to ecs.EntityID, _ int, _ torus.Pos) (uint64, error) {
	s.moves = append(s.moves, [3]uint64{uint64(from), serial, uint64(to)})
	return uint64(len(s.moves)), s.refuse
}

func (s *stage) Rewrite(_ ecs.EntityID, w Rewrite) (uint64, error) {
	s.rewrites = append(s.rewrites, w)
	return uint64(len(s.rewrites)), s.refuse
}

func (s *stage) Teleport(id ecs.EntityID, to torus.Pos) {
	s.Position.Get(id).At = to
}
func (s *stage) Failed(string, ecs.EntityID, any) { s.failed++ }

func (s *stage) spawn(tb testing.TB, id ecs.EntityID, at torus.Pos) {
	tb.Helper()
	if err := s.world.Create(id); err != nil {
		tb.Fatal(err)
	}
	s.SpawnMaster(id, uint64(id), "walker", at)
}

func move(pairs ...uint32) *wire.Input {
	return &wire.Input{Number: 1, Action: &wire.Input_Move{Move: &wire.Move{Waypoints: pairs}}}
}

func TestAWalkIsPublishedAtItsStartEachEighthStepAndAtItsEnd(t *testing.T) {
	s := newStage(t)
	s.spawn(t, 1, torus.Pos{X: 10, Y: 10})
	if r := s.Act(1, move(30, 10)); r.Code != wire.InputResult_CODE_OK {
		t.Fatalf("refused: %s", r.Detail)
	}
	for range 20 * motion.ResyncSteps {
		s.Run()
	}
	counts := map[int]int{}
	for _, n := range s.changed[1] {
		counts[n]++
	}
	if counts[NumberPath] != 3 || counts[NumberPosition] != 3 { // 20 steps: after 8, 16 (the path as well) and at the end
		t.Errorf("path was published %d times, position %d times", counts[NumberPath], counts[NumberPosition])
	}
	if at := s.Position.Get(1).At; at.X != 30 {
		t.Errorf("it stands at %v", at)
	}
}

func TestWalkingTiresAndStandingRests(t *testing.T) {
	s := newStage(t)
	s.spawn(t, 1, torus.Pos{X: 10, Y: 10})
	s.Act(1, move(60, 10))
	for range 260 {
		s.Run()
	}
	tired := s.Stamina.Get(1).Current
	if tired != maxStamina-2 { // 50 m
		t.Errorf("stamina %d after 50 m", tired)
	}
	for range 3 * restTicks {
		s.Run()
	}
	if got := s.Stamina.Get(1).Current; got != maxStamina {
		t.Errorf("stamina %d after a rest", got)
	}
}

func TestWhoMayNotGoFurtherStandsAndMayTurnBack(t *testing.T) {
	s := newStage(t)
	s.spawn(t, 1, torus.Pos{X: 10, Y: 10})
	s.offside = func(_ ecs.EntityID, at torus.Pos) bool { return at.X >= 15 }
	s.Act(1, move(30, 10))
	for range 100 {
		s.Run()
	}
	if at := s.Position.Get(1).At; at.X != 15 {
		t.Fatalf("it stands at %v, want at the first step beyond", at)
	}
	s.Halt(1)
	e := NewEncoder(s.Game)
	if !bytes.Equal(e.AppendComponent(nil, 1, NumberPath), e.AppendComponent(nil, 1, NumberPath)) || !s.Path.Get(1).Halted {
		t.Error("it is not shown standing")
	}
	s.Act(1, move(10, 10))
	for range 40 {
		s.Run()
	}
	if at := s.Position.Get(1).At; at.X != 10 || s.Path.Get(1).Halted {
		t.Errorf("it could not turn back: at %v, halted %v", at, s.Path.Get(1).Halted)
	}
}

func TestMovesAreChecked(t *testing.T) {
	s := newStage(t)
	s.spawn(t, 1, torus.Pos{X: 10, Y: 10})
	long := make([]uint32, 0, 2*motion.MaxWaypoints+2)
	for range motion.MaxWaypoints + 1 {
		long = append(long, 11, 11)
	}
	for name, c := range map[string]struct {
		input *wire.Input
		says  string
	}{
		"nowhere":      {move(), "at least one"},
		"odd":          {move(1, 2, 3), "pairs"},
		"off the map":  {move(5000, 10), "not on the torus"},
		"too far":      {move(200, 10), "more than 64 m"},
		"too long":     {move(long...), "pairs"},
		"unknown kind": {&wire.Input{Number: 1}, "without an action"},
	} {
		r := s.Act(1, c.input)
		if r.Code != wire.InputResult_CODE_INVALID || !strings.Contains(r.Detail, c.says) {
			t.Errorf("%s: %v %q, want %q", name, r.Code, r.Detail, c.says)
		}
	}
	if len(s.Path.Get(1).Waypoints) != 0 {
		t.Error("a refused move left waypoints behind")
	}
	if r := s.Act(1, move(960-20, 10)); r.Code != wire.InputResult_CODE_OK { // 30 m over the seam
		t.Errorf("a leg over the seam is refused: %s", r.Detail)
	}
}

func TestASystemThatFailsOnOneEntityGoesOnWithTheOthers(t *testing.T) {
	s := newStage(t)
	s.spawn(t, 1, torus.Pos{X: 10, Y: 10})
	s.spawn(t, 2, torus.Pos{X: 10, Y: 10})
	s.Act(1, move(30, 10))
	s.Act(2, move(30, 10))
	s.offside = func(id ecs.EntityID, _ torus.Pos) bool {
		if id == 1 {
			panic("broken")
		}
		return false
	}
	for range 50 {
		s.Run()
	}
	if s.failed != 50 || s.Position.Get(2).At.X == 10 {
		t.Errorf("%d failures; the other stands at %v", s.failed, s.Position.Get(2).At)
	}
}

// TestEveryComponentSurvivesItsWay: what is handed over is what was there.
func TestEveryComponentSurvivesItsWay(t *testing.T) {
	from, to := newStage(t), newStage(t)
	from.spawn(t, 7, torus.Pos{X: 959, Y: 3, Z: -4})
	from.Session.Set(7, Session{Gateway: "w-zone-1#3", Epoch: 9, Lost: 12})
	from.Act(7, move(20, 30))
	for range 7 {
		from.Run()
	}
	log := route.Log{}
	log.Login(4, 0)
	log.Done(1, []byte("done"))
	from.Calls.Set(7, log)
	from.Bestia.Set(7, Bestia{Master: 5, Account: 6})
	from.Team.Set(7, Team{Members: []Member{{Bestia: 8, Home: 3}, {Bestia: 9}}})
	if err := to.world.Create(7); err != nil {
		t.Fatal(err)
	}
	for _, c := range from.world.Components() {
		if m := c.Meta(); m.Codec != nil && m.Codec.Has(7) {
			b := m.Codec.Append(nil, 7)
			other, _ := to.world.Component(m.Name)
			if err := other.Meta().Codec.Decode(7, b); err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
			if again := other.Meta().Codec.Append(nil, 7); !bytes.Equal(b, again) {
				t.Errorf("%s changed on its way", m.Name)
			}
		}
	}
	for range 40 {
		from.Run()
		to.Run()
	}
	if from.Position.Get(7).At != to.Position.Get(7).At {
		t.Errorf("it walks on to %v there and %v here", to.Position.Get(7).At, from.Position.Get(7).At)
	}
}

// TestTheOwnerAloneKnowsStamina: one resolver says who is told of what.
func TestTheOwnerAloneKnowsStamina(t *testing.T) {
	e := NewEncoder(newStage(t).Game)
	for number, want := range map[int]ecs.Audience{
		NumberPosition: ecs.PublicInRange, NumberPath: ecs.PublicInRange, NumberVisual: ecs.PublicInRange, NumberStamina: ecs.OwnerOnly, 99: ecs.None,
	} {
		if got := e.AudienceOf(number, true); got != want {
			t.Errorf("component %d is for %v, want %v", number, got, want)
		}
	}
}

// FuzzCodecs: every decoder that sees bytes of a peer or of the store refuses or keeps its limits.
func FuzzCodecs(f *testing.F) {
	s := newStage(f)
	s.spawn(f, 1, torus.Pos{X: 10, Y: 10})
	s.Bestia.Set(1, Bestia{Master: 5, Account: 6})
	s.Team.Set(1, Team{Members: []Member{{Bestia: 8, Home: 3}, {Bestia: 9}}})
	for i, c := range s.world.Components() {
		if m := c.Meta(); m.Codec != nil && m.Codec.Has(1) {
			f.Add(uint8(i), m.Codec.Append(nil, 1))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		list := s.world.Components()
		m := list[int(which)%len(list)].Meta()
		if m.Codec == nil || m.Codec.Decode(1, b) != nil {
			return
		}
		if p := s.Position.Get(1); p != nil && s.grid.Wrap(p.At) != p.At {
			t.Fatalf("a position off the torus was taken: %v", p.At)
		}
		if p := s.Path.Get(1); p != nil && len(p.Waypoints) > motion.MaxWaypoints {
			t.Fatalf("a path of %d waypoints was taken", len(p.Waypoints))
		}
		if m := s.Team.Get(1); m != nil && len(m.Members) > MaxTeam {
			t.Fatalf("a team of %d was taken", len(m.Members))
		}
		s.commands = nil
		s.Run()
		if s.failed > 0 {
			t.Fatal("a decoded component makes a system fail")
		}
	})
}
