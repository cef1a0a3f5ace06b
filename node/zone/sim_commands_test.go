package zone

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/handoff"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	farMaster = ecs.EntityID(5000) // lives elsewhere
	ownBestia = ecs.EntityID(5001) // is here
	neighbour = "w-zone-1#1"
)

// keep is an engine with one bestia in it, whose master lives elsewhere.
func keep(tb testing.TB) *Engine {
	tb.Helper()
	e := crowd(tb, 1)
	e.bestia(tb, ownBestia, farMaster, torus.Pos{X: 100, Y: 100})
	return e
}

func (e *Engine) bestia(tb testing.TB, id, master ecs.EntityID, at torus.Pos) {
	tb.Helper()
	if err := e.sim.world.Create(id); err != nil {
		tb.Fatal(err)
	}
	e.sim.game.SpawnBestia(id, master, 1, "bestia", at)
	e.sim.adopt(id, ecs.Epoch{}, torus.RegionPos{}, false)
}

func follow(number, after, x uint64) *wire.Command {
	order, err := proto.Marshal(&wire.Order{Order: &wire.Order_Follow{Follow: &wire.Follow{
		To: &wire.Position{X: uint32(x), Y: 100}, SpeedMmPerTick: motion.DefaultSpeed,
	}}})
	if err != nil {
		panic(err)
	}
	m := &wire.Command{Sender: uint64(farMaster), Target: uint64(ownBestia), Number: &wire.CommandNumber{N: number}, Order: order}
	if after > 0 {
		m.After = &wire.CommandNumber{N: after}
	}
	return m
}

// hear lets the engine receive messages of a peer and returns what it says to that.
func (e *Engine) hear(tb testing.TB, messages ...*wire.PeerMessage) (said []*wire.PeerMessage) {
	tb.Helper()
	in := &Inbox{}
	for _, m := range messages {
		b, err := proto.Marshal(m)
		if err != nil {
			tb.Fatal(err)
		}
		in.Reliable = append(in.Reliable, PeerBytes{Session: neighbour, Bytes: b})
	}
	for _, b := range e.step(tb, in).Reliable {
		m := &wire.PeerMessage{}
		if err := proto.Unmarshal(b.Bytes, m); err != nil || b.Session != neighbour {
			tb.Fatalf("said to %s: %v", b.Session, err)
		}
		said = append(said, m)
	}
	return said
}

// commanded is the one answer to a command.
func (e *Engine) commanded(tb testing.TB, m *wire.Command) *wire.CommandAnswer {
	tb.Helper()
	said := e.hear(tb, &wire.PeerMessage{Message: &wire.PeerMessage_Command{Command: m}})
	if len(said) != 1 || said[0].GetCommandAnswer() == nil {
		tb.Fatalf("%v is answered %v", m, said)
	}
	return said[0].GetCommandAnswer()
}

func (e *Engine) pathEnd(id ecs.EntityID) torus.Pos {
	points := e.sim.game.Path.Get(id).Waypoints
	if len(points) == 0 {
		return e.sim.game.Position.Get(id).At
	}
	return points[len(points)-1]
}

func TestACommandIsExecutedOnceWhateverComesTwiceOrTooEarly(t *testing.T) {
	e := keep(t)
	executed := map[uint64]int{}
	e.cfg.Probe = func(h Happened) {
		if h.Point == CommandExecuted {
			executed[h.Number]++
		}
	}
	for _, c := range []struct {
		name          string
		number, after uint64
		code          wire.CommandAnswer_Code
		last          uint64
	}{
		{"the first", 3, 0, wire.CommandAnswer_CODE_DONE, 3},
		{"the first again", 3, 0, wire.CommandAnswer_CODE_DONE, 3},
		{"one before its predecessor", 9, 5, wire.CommandAnswer_CODE_GAP, 3},
		{"the predecessor", 5, 0, wire.CommandAnswer_CODE_DONE, 5},
		{"now that one", 9, 5, wire.CommandAnswer_CODE_DONE, 9},
		{"one from long ago", 4, 3, wire.CommandAnswer_CODE_DONE, 9},
	} {
		a := e.commanded(t, follow(c.number, c.after, 100+10*c.number))
		if a.Code != c.code || a.Last.GetN() != c.last || a.Number.GetN() != c.number {
			t.Errorf("%s: answered %v", c.name, a)
		}
	}
	if fmt.Sprint(executed) != "map[3:1 5:1 9:1]" || e.pathEnd(ownBestia).X != 190-3 {
		t.Errorf("executed %v; the bestia goes to %v", executed, e.pathEnd(ownBestia))
	}
}

func TestABestiaObeysNobodyButItsMaster(t *testing.T) {
	e := keep(t)
	m := follow(1, 0, 200)
	m.Sender++
	var res wire.OrderResult
	if a := e.commanded(t, m); proto.Unmarshal(a.Result, &res) != nil || res.Code != wire.OrderResult_CODE_REFUSED {
		t.Errorf("a stranger's order came out as %v", &res)
	}
	if e.pathEnd(ownBestia).X != 100 {
		t.Error("it follows a stranger")
	}
}

func TestWhoDoesNotHaveTheTargetSaysWhatItKnows(t *testing.T) {
	e := keep(t)
	e.sim.world.Frozen.Set(ownBestia, ecs.Frozen{})
	if a := e.commanded(t, follow(1, 0, 200)); a.Code != wire.CommandAnswer_CODE_WAIT {
		t.Errorf("frozen: answered %v", a)
	}
	e.sim.evict(ownBestia)
	if a := e.commanded(t, follow(1, 0, 200)); a.Code != wire.CommandAnswer_CODE_NOT_HERE {
		t.Errorf("not here: answered %v", a)
	}
	e.sim.known.Bury(e.tick, ownBestia, handoff.Tombstone{Region: 0, To: neighbour})
	if a := e.commanded(t, follow(1, 0, 200)); a.Code != wire.CommandAnswer_CODE_MOVED || a.Region != 0 {
		t.Errorf("handed on: answered %v", a)
	}
}

// answerStore lets the engine read what the store says to its requests of one kind.
func (e *Engine) answerStore(tb testing.TB, out *Outbox, op StoreOp, answer StoreAnswer) *Outbox {
	tb.Helper()
	in := &Inbox{}
	for _, r := range out.Store {
		if r.Op == op {
			answer.ID, answer.Op = r.ID, op
			in.Store = append(in.Store, answer)
		}
	}
	return e.step(tb, in)
}

// TestCommandsToNobodyAreGivenUp: a master that is alone with the name of a bestia asks the store a few times.
func TestCommandsToNobodyAreGivenUp(t *testing.T) {
	e := crowd(t, 1)
	e.sim.game.Team.Set(1, game.Team{Members: []game.Member{{Bestia: 99}}})
	e.sim.game.Act(1, &wire.Input{Action: &wire.Input_Stop{Stop: &wire.Stop{}}})
	out := e.step(t, &Inbox{})
	for range 4 * TicksPerSecond {
		out = e.answerStore(t, out, StoreLoad, StoreAnswer{Code: StoreMissing})
	}
	if s := e.Stats(); s.CommandsMade != 1 || s.CommandsGivenUp != 1 || s.CommandsOpen != 0 {
		t.Errorf("%d commands, %d given up, %d open", s.CommandsMade, s.CommandsGivenUp, s.CommandsOpen)
	}
	for range 10 * TicksPerSecond {
		e.step(t, &Inbox{})
	}
	if n := e.Stats().CommandsMade; n != 1 {
		t.Errorf("nobody was called %d times", n)
	}
}

// TestABestiaThatIsNowhereComesBackFromItsRecord, when its master has missed it for a while.
func TestABestiaThatIsNowhereComesBackFromItsRecord(t *testing.T) {
	e := crowd(t, 1)
	rec, err := BestiaRecord(e.grid, 99, 1, 1, "bestia", torus.Pos{X: 100, Y: 100})
	if err != nil {
		t.Fatal(err)
	}
	e.sim.game.Team.Set(1, game.Team{Members: []game.Member{{Bestia: 99}}})
	out := e.step(t, &Inbox{})
	asked := e.tick
	for range 8 * TicksPerSecond {
		if e.sim.world.Alive(99) && e.tick-asked < wakePatience {
			t.Fatalf("it came after %d ticks: somebody may have brought it", e.tick-asked)
		}
		out = e.answerStore(t, e.answerStore(t, out, StoreLoad, StoreAnswer{Code: StoreOK, Record: &rec}), StoreClaim, StoreAnswer{Code: StoreOK, Record: &rec})
	}
	if !e.sim.world.Owned(99) {
		t.Fatal("it never came")
	}
	if s := e.Stats(); s.CommandsOpen != 0 || s.CommandsDone == 0 || s.CommandsGivenUp != 0 {
		t.Errorf("%d commands open, %d executed, %d given up", s.CommandsOpen, s.CommandsDone, s.CommandsGivenUp)
	}
}

// TestOpenCommandsTravelWithTheirSender: what is handed over is sent again by the new owner at once, under its number.
func TestOpenCommandsTravelWithTheirSender(t *testing.T) {
	from := crowd(t, 1)
	for i := range 3 {
		if _, err := from.sim.Command(1, 99, 0, &wire.Order{Order: &wire.Order_Follow{Follow: &wire.Follow{Place: uint32(i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	blobs := from.sim.blobs(1, false)
	to := keep(t)
	to.sim.evict(1)
	var sent []uint64
	to.cfg.Probe = func(h Happened) {
		if h.Point == CommandElsewhere && h.Sender == 1 {
			sent = append(sent, h.Number)
		}
	}
	if err := to.sim.compose(1, blobs); err != nil {
		t.Fatal(err)
	}
	to.sim.adopt(1, ecs.Epoch{Transfers: 1}, torus.RegionPos{}, false)
	to.step(t, &Inbox{})
	var want []uint64
	for _, target := range from.sim.commands.queues.Get(1).Targets() {
		target.Send(0, "x", func(c route.Command, _ route.Number) { want = append(want, c.Number.N) })
	}
	if len(want) != 3 || !slices.Equal(sent, want) {
		t.Errorf("the new owner sent %v, want %v", sent, want)
	}
	if _, err := to.sim.Command(1, 99, 0, &wire.Order{}); err != nil || to.sim.commandFloor(1) <= want[2] {
		t.Errorf("the new owner's numbers are above %d, those of before reach %d: %v", to.sim.commandFloor(1), want[2], err)
	}
}

func TestATickWithoutOpenCommandsCostsNothingForThem(t *testing.T) {
	e := keep(t)
	if n := testing.AllocsPerRun(100, e.sim.sendCommands); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzCommands: whatever a peer says about commands, the engine neither panics nor stops.
func FuzzCommands(f *testing.F) {
	for _, m := range []*wire.PeerMessage{
		{Message: &wire.PeerMessage_Command{Command: follow(1, 0, 200)}},
		{Message: &wire.PeerMessage_Command{Command: follow(2, 7, 1<<30)}},
		{Message: &wire.PeerMessage_Command{Command: &wire.Command{Sender: 1, Target: 1, Number: &wire.CommandNumber{Life: 9, N: 1}, Region: 1 << 31}}},
		{Message: &wire.PeerMessage_Command{Command: &wire.Command{Sender: 1, Target: 77, Number: &wire.CommandNumber{N: 1}}}},
		{Message: &wire.PeerMessage_CommandAnswer{CommandAnswer: &wire.CommandAnswer{Sender: 1, Target: 99, Code: wire.CommandAnswer_CODE_MOVED, Region: 1 << 31}}},
		{Message: &wire.PeerMessage_CommandAnswer{CommandAnswer: &wire.CommandAnswer{Sender: 1, Target: 99, Number: &wire.CommandNumber{N: 1}, Code: wire.CommandAnswer_CODE_DONE}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	e := keep(f)
	e.sim.game.Team.Set(1, game.Team{Members: []game.Member{{Bestia: 99}, {Bestia: ownBestia}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		e.step(t, &Inbox{Reliable: []PeerBytes{{Session: neighbour, Bytes: b}}})
		e.step(t, &Inbox{})
		if s := e.Stats(); s.Panics > 0 {
			t.Fatal("a command makes a system fail")
		}
	})
}

// The record of who carried an item is older than what it has: it was saved before the target answered. By now the target may have
// forgotten the movement, and have given the item to somebody else.
func TestWhoComesBackDoesNotCarryWhatIsNoLongerOnItsWay(t *testing.T) {
	for what, c := range map[string]struct {
		out  []OutEntry
		open int
	}{
		"the movement is over":  {nil, 0},
		"the item is still out": {[]OutEntry{{Movement: 70, Item: Item{Serial: 7, Kind: 1, Count: 1}, To: Holder{Entity: farMaster}}}, 1},
	} {
		e := crowd(t, 0)
		s := e.sim
		order, err := proto.Marshal(&wire.Order{Order: &wire.Order_Receive{Receive: &wire.Receive{Movement: 70, Item: game.WireItem(Item{Serial: 7, Kind: 1, Count: 1})}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.world.Create(ownBestia); err != nil {
			t.Fatal(err)
		}
		s.game.SpawnBestia(ownBestia, farMaster, 1, "bestia", torus.Pos{X: 100, Y: 100})
		q := s.commands.queues.Set(ownBestia, route.CommandQueue{})
		if _, err := q.Add(uint64(farMaster), 0, 1, 0, order); err != nil {
			t.Fatal(err)
		}
		s.adopt(ownBestia, ecs.Epoch{Recoveries: 1}, torus.RegionPos{}, true)
		s.adoptContents(ownBestia, Contents{Moves: 3, Out: c.out})
		e.step(t, &Inbox{})
		if n := s.commands.queues.Get(ownBestia).Open(); n != c.open {
			t.Errorf("%s: %d commands are open, want %d", what, n, c.open)
		}
	}
}
