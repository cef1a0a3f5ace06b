package ghost

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
)

func position(x uint32) []byte {
	body, err := proto.Marshal(&wire.ComponentUpdate{Component: &wire.ComponentUpdate_Position{Position: &wire.Position{X: x, Y: 1}}})
	if err != nil {
		panic(err)
	}
	return AppendComponent(nil, body, 0)
}

func said(text string) []byte {
	body, err := proto.Marshal(&wire.EntityEvent{Event: &wire.EntityEvent_Said{Said: &wire.Said{Text: text}}})
	if err != nil {
		panic(err)
	}
	return AppendEvent(nil, body)
}

// world is a store that observes chunks 1 and 2, and remembers what its clients were told.
type world struct {
	*Store
	tick    int64
	dead    map[string]bool
	heard   []string
	x       uint32
	blinked bool
}

func newWorld() *world {
	w := &world{dead: map[string]bool{}}
	w.Store = New(func(s string) bool { return w.dead[s] }, func(chunk, _ uint64) bool { return chunk <= 2 })
	return w
}

type step struct {
	from  string
	frame Frame
}

// deliver applies the frames of one tick and settles it.
func (w *world) deliver(t *testing.T, steps ...step) {
	t.Helper()
	w.tick++
	for i := range steps {
		w.Apply(w.tick, steps[i].from, &steps[i].frame)
	}
	w.Expire(w.tick)
	for _, r := range w.Touched() {
		if w.Get(r.Entity) != r {
			continue
		}
		var u wire.EntityUpdate
		if err := proto.Unmarshal(r.AppendUpdate(nil, w.tick), &u); err != nil {
			t.Fatal(err)
		}
		for _, c := range u.Components {
			if p := c.GetPosition(); p != nil {
				w.x = p.X
			}
		}
		for _, e := range u.Events {
			w.heard = append(w.heard, e.GetSaid().GetText())
		}
	}
	w.blinked = w.blinked || len(w.Store.Vanished()) > 0
	w.Settle()
}

const id = ecs.EntityID(7)

func snapshot(epoch uint32, chunk uint64, x uint32) Frame {
	return Frame{Entity: id, Kind: wire.EntityFrame_KIND_SNAPSHOT, Epoch: ecs.Epoch{Transfers: epoch}, Chunk: chunk, Components: position(x)}
}

func update(epoch uint32, chunk uint64, x uint32, text string) Frame {
	return Frame{Entity: id, Epoch: ecs.Epoch{Transfers: epoch}, Chunk: chunk, Components: position(x), Events: said(text)}
}

func transferred(epoch uint32, chunk uint64, to string) Frame {
	return Frame{Entity: id, Kind: wire.EntityFrame_KIND_TRANSFERRED, Epoch: ecs.Epoch{Transfers: epoch}, Chunk: chunk, To: to}
}

// merges returns all ways to merge sequences that keep the order of each.
func merges(sequences ...[]step) [][]step {
	var out [][]step
	rest := false
	for i, s := range sequences {
		if len(s) == 0 {
			continue
		}
		rest = true
		next := append([][]step(nil), sequences...)
		next[i] = s[1:]
		for _, tail := range merges(next...) {
			out = append(out, append([]step{s[0]}, tail...))
		}
	}
	if !rest {
		return [][]step{nil}
	}
	return out
}

// TestEveryOrderOfATransferLooksTheSame: the frames of each owner come in their order, those of different owners in any
// order; whatever it is, the client hears everything once and in order, and sees no vanish.
func TestEveryOrderOfATransferLooksTheSame(t *testing.T) {
	a := []step{{"a", update(0, 1, 10, "1")}, {"a", transferred(1, 2, "b")}}
	b := []step{{"b", snapshot(1, 2, 20)}, {"b", update(1, 2, 21, "2")}}
	back := []step{{"b", transferred(2, 1, "a")}}
	again := []step{{"a", snapshot(2, 1, 30)}, {"a", update(2, 1, 31, "3")}}
	on := []step{{"c", snapshot(2, 1, 30)}, {"c", update(2, 1, 31, "3")}}
	toC := []step{{"b", transferred(2, 1, "c")}}
	for name, c := range map[string]struct {
		orders [][]step
		heard  string
		x      uint32
		owner  string
	}{
		"a to b":             {merges(a, b), "[1 2]", 21, "b"},
		"a to b and back":    {merges(append(append([]step(nil), a...), again...), append(append([]step(nil), b...), back...)), "[1 2 3]", 31, "a"},
		"a to b and on to c": {merges(a, append(append([]step(nil), b...), toC...), on), "[1 2 3]", 31, "c"},
	} {
		for _, order := range c.orders {
			w := newWorld()
			w.deliver(t, step{"a", snapshot(0, 1, 9)})
			for _, s := range order {
				w.deliver(t, s)
			}
			trace := ""
			for _, s := range order {
				trace += fmt.Sprintf(" %s:%v@%d", s.from, s.frame.Kind, s.frame.Epoch.Transfers)
			}
			switch {
			case w.blinked:
				t.Errorf("%s,%s: it vanished", name, trace)
			case fmt.Sprint(w.heard) != c.heard:
				t.Errorf("%s,%s: heard %v, want %s", name, trace, w.heard, c.heard)
			case w.x != c.x || w.Get(id).Owner != c.owner:
				t.Errorf("%s,%s: at %d owned by %s", name, trace, w.x, w.Get(id).Owner)
			}
		}
	}
}

func TestFramesOfAStaleEpochAreDropped(t *testing.T) {
	w := newWorld()
	w.deliver(t, step{"a", snapshot(3, 1, 10)})
	w.deliver(t, step{"a", update(2, 1, 99, "late")}, step{"b", update(2, 1, 98, "later")})
	if w.x != 10 || len(w.heard) > 0 || w.Counters.Stale != 2 {
		t.Errorf("at %d, heard %v, stale %d", w.x, w.heard, w.Counters.Stale)
	}
}

func TestTheNewOwnerIsHeardAfterASecondWithoutSignOff(t *testing.T) {
	w := newWorld()
	w.deliver(t, step{"a", snapshot(0, 1, 10)})
	w.deliver(t, step{"b", snapshot(1, 2, 20)})
	for range HoldTicks - 1 {
		w.deliver(t)
	}
	if w.x != 10 {
		t.Fatal("the new owner was heard before the old one signed off")
	}
	w.deliver(t)
	if w.x != 20 || w.Counters.HoldExpired != 1 {
		t.Errorf("at %d after the hold, expired %d", w.x, w.Counters.HoldExpired)
	}
}

func TestTheNewOwnerIsHeardAtOnceWhenTheOldOneIsDead(t *testing.T) {
	w := newWorld()
	w.deliver(t, step{"a", snapshot(0, 1, 10)})
	w.dead["a"] = true
	recovered := snapshot(0, 1, 8)
	recovered.Epoch = ecs.Epoch{Recoveries: 1}
	w.deliver(t, step{"b", recovered})
	if w.x != 8 || w.blinked {
		t.Errorf("at %d, blinked %v", w.x, w.blinked)
	}
}

func TestReplicasOfTheDeadStayUntilASnapshotCoversTheirHome(t *testing.T) {
	w := newWorld()
	f := snapshot(0, 1, 10)
	f.Home = 5
	w.deliver(t, step{"a", f})
	w.dead["a"] = true
	w.EndSnapshot(1, "b", []uint32{4})
	w.Sweep("b")
	w.deliver(t)
	if w.Get(id) == nil {
		t.Fatal("it vanished by a snapshot that does not speak of its home")
	}
	w.EndSnapshot(1, "b", []uint32{4, 5})
	w.Sweep("b")
	w.deliver(t)
	if w.Get(id) == nil {
		t.Fatal("it vanished before who else has it could say so")
	}
	for range HoldTicks {
		w.deliver(t)
	}
	if w.Get(id) != nil || !w.blinked {
		t.Fatal("it stays though its home's new holder does not have it")
	}
}

// An item that the dead owner gave to somebody with its last write lies in no snapshot of the heir: nobody can have it elsewhere.
func TestWhatNeverMovesGoesWithTheFirstSnapshotThatLacksIt(t *testing.T) {
	w := newWorld()
	f := snapshot(0, 1, 10)
	f.Home, f.Fixed = 5, true
	w.deliver(t, step{"a", f})
	w.dead["a"] = true
	w.BeginSnapshot(2, "b") // a chunk that b owes says nothing of this one
	w.EndSnapshot(1, "b", []uint32{4})
	w.deliver(t)
	if w.Get(id) == nil {
		t.Fatal("it vanished by a snapshot that does not speak of its home")
	}
	w.EndSnapshot(1, "b", []uint32{5})
	if w.Get(id) != nil {
		t.Fatal("it stays though its home's new holder does not have it")
	}
}

func TestASnapshotRemovesOnlyWhatItsOwnerDidNotConfirm(t *testing.T) {
	w := newWorld()
	w.deliver(t, step{"a", snapshot(0, 1, 10)})
	w.BeginSnapshot(1, "b")
	w.EndSnapshot(1, "b", []uint32{0})
	w.Sweep("b")
	if w.Get(id) == nil {
		t.Fatal("a snapshot of b removed a replica of a")
	}
	w.BeginSnapshot(1, "a")
	w.deliver(t, step{"a", snapshot(0, 1, 11)})
	w.EndSnapshot(1, "a", []uint32{0})
	w.Sweep("a")
	if w.Get(id) == nil {
		t.Fatal("it was confirmed and removed")
	}
	w.BeginSnapshot(1, "a")
	w.EndSnapshot(1, "a", []uint32{0})
	if w.Get(id) == nil {
		t.Fatal("it went before the other snapshots of its owner were here")
	}
	w.Sweep("a")
	if w.Get(id) != nil {
		t.Fatal("it was not confirmed and stays")
	}
}

func TestAgesAreRestamped(t *testing.T) {
	w := newWorld()
	body, err := proto.Marshal(&wire.ComponentUpdate{Component: &wire.ComponentUpdate_Path{Path: &wire.Path{SpeedMmPerTick: 200}}})
	if err != nil {
		t.Fatal(err)
	}
	f := Frame{Entity: id, Kind: wire.EntityFrame_KIND_SNAPSHOT, Chunk: 1, Components: AppendComponent(nil, body, 4)}
	w.deliver(t, step{"a", f})
	for range 10 {
		w.deliver(t)
	}
	var u wire.EntityUpdate
	if err := proto.Unmarshal(w.Get(id).AppendAll(nil, w.tick), &u); err != nil {
		t.Fatal(err)
	}
	if got := u.Components[0].AgeTicks; got != 14 {
		t.Errorf("a late viewer is told an age of %d ticks, want 14", got)
	}
}

func TestARemovedComponentIsAMessageAndNotInTheNextSnapshot(t *testing.T) {
	w := newWorld()
	w.deliver(t, step{"a", snapshot(0, 1, 10)})
	w.Apply(w.tick, "a", &Frame{Entity: id, Chunk: 1, Components: AppendRemoved(nil, 1)})
	var u wire.EntityUpdate
	if err := proto.Unmarshal(w.Get(id).AppendUpdate(nil, w.tick), &u); err != nil {
		t.Fatal(err)
	}
	if len(u.Components) != 1 || u.Components[0].Removed != 1 || len(w.Get(id).AppendAll(nil, w.tick)) != 0 {
		t.Errorf("removal was told as %v", &u)
	}
}

func TestForwardingAllocatesNothing(t *testing.T) {
	w := newWorld()
	f := update(0, 1, 11, "x")
	first := snapshot(0, 1, 10)
	w.Apply(1, "a", &first)
	buf := make([]byte, 0, 1024)
	tick := int64(1)
	if n := testing.AllocsPerRun(200, func() {
		tick++
		w.Apply(tick, "a", &f)
		for _, r := range w.Touched() {
			buf = r.AppendUpdate(buf[:0], tick)
		}
		w.Settle()
	}); n != 0 {
		t.Errorf("%v allocations per forwarded update", n)
	}
}

// The dead owner may have given it to a neighbour that died as well, and whose heir has yet to speak.
func TestReplicasOfTheDeadStayWhileANeighbourHasYetToSpeak(t *testing.T) {
	w := newWorld()
	spoken := false
	w.Complete = func(uint64) bool { return spoken }
	f := snapshot(0, 1, 10)
	f.Home = 5
	w.deliver(t, step{"a", f})
	w.dead["a"] = true
	w.EndSnapshot(1, "b", []uint32{5})
	w.Sweep("b")
	for range 3 * graveTicks {
		w.deliver(t)
	}
	if w.Get(id) == nil {
		t.Fatal("it vanished though the neighbour may have it")
	}
	spoken = true
	for range HoldTicks + 1 {
		w.deliver(t)
	}
	if w.Get(id) != nil {
		t.Fatal("it stays though everybody has spoken")
	}
}

// An owner that lost its region for a while has no more what it had offered to a neighbour, which may have died since.
func TestWhatItsOwnerHasNoMoreStaysWhileANeighbourHasYetToSpeak(t *testing.T) {
	w := newWorld()
	spoken := false
	w.Complete = func(uint64) bool { return spoken }
	f := snapshot(0, 1, 10)
	w.deliver(t, step{"a", f})
	w.BeginSnapshot(1, "a")
	w.EndSnapshot(1, "a", []uint32{0})
	w.Sweep("a")
	w.deliver(t)
	if w.Get(id) == nil {
		t.Fatal("it vanished though the neighbour may have it")
	}
	w.deliver(t, step{"b", snapshot(1, 1, 11)})
	if r := w.Get(id); r == nil || r.Owner != "b" || w.blinked {
		t.Fatalf("%+v, blinked %v: who does not have it cannot sign it off", r, w.blinked)
	}
	spoken = true
	w.BeginSnapshot(1, "b")
	w.EndSnapshot(1, "b", []uint32{0})
	w.Sweep("b")
	if w.deliver(t); w.Get(id) != nil {
		t.Fatal("it stays though everybody has spoken")
	}
}

// Who took it may have died before the store had it there: it may come back from the home before, however late that is recovered.
func TestReplicasOfTheDeadStayUntilTheHomeBeforeHasSpoken(t *testing.T) {
	w := newWorld()
	watched := true
	w.Observed = func(uint32) bool { return watched }
	f := snapshot(0, 1, 10)
	f.Home = 4
	w.EndSnapshot(1, "a", []uint32{4})
	w.deliver(t, step{"a", f})
	g := transferred(1, 1, "b")
	g.Home = 5
	w.deliver(t, step{"a", g})
	w.dead["a"], w.dead["b"] = true, true
	w.EndSnapshot(1, "c", []uint32{5})
	w.Sweep("c")
	for range 2 * graveTicks {
		w.deliver(t)
	}
	if w.Get(id) == nil {
		t.Fatal("it vanished before the home before was recovered")
	}
	watched = false // nobody here will hear of that
	for range HoldTicks + 1 {
		w.deliver(t)
	}
	if w.Get(id) != nil {
		t.Fatal("it stays though nobody here will hear of the home before")
	}
}

// A player jumps to another node's region at the moment in which its line breaks. Its gateway has the replica no longer for its sake,
// but somebody else there sees where it has come to.
func TestWhatANewOwnerSaidIsNotLostWithTheReplica(t *testing.T) {
	w := newWorld()
	w.deliver(t, step{"a", snapshot(0, 1, 10)})
	w.deliver(t, step{"b", snapshot(1, 2, 20)})
	left := snapshot(0, 3, 10)
	left.Kind = wire.EntityFrame_KIND_LEFT
	w.deliver(t, step{"a", left})
	if r := w.Get(id); r == nil || r.Owner != "b" || w.x != 20 {
		t.Errorf("%+v, seen at %d", w.Get(id), w.x)
	}
}

// An owner lost its region, and lives. The heir has the entity elsewhere, where nobody here looks.
func TestReplicasOfAnOwnerThatLostItsRegionGo(t *testing.T) {
	w := newWorld()
	w.deliver(t, step{"a", snapshot(0, 1, 10)})
	w.EndSnapshot(1, "b", []uint32{0})
	w.Sweep("b")
	for range 2 * HoldTicks {
		w.deliver(t)
	}
	if w.Get(id) == nil {
		t.Fatal("it vanished though its owner holds its home")
	}
	w.Passed(0, "a", "b")
	for range HoldTicks + 1 {
		w.deliver(t)
	}
	if w.Get(id) != nil {
		t.Fatal("it stays though its home is another's, who does not have it here")
	}
}

// A region goes back to an owner that had it before, and the table is late. Who gave it back speaks for it no more.
func TestReplicasOfAnOwnerThatHasARegionAgainStay(t *testing.T) {
	w := newWorld()
	f := snapshot(0, 1, 10)
	f.Home = 4
	w.Passed(5, "b", "a")
	w.EndSnapshot(1, "a", []uint32{4, 5})
	w.deliver(t, step{"a", f})
	g := transferred(1, 1, "b")
	g.Home = 5
	w.deliver(t, step{"a", g})
	for range 2 * HoldTicks {
		w.EndSnapshot(1, "a", []uint32{4})
		w.deliver(t)
	}
	if w.Get(id) == nil {
		t.Fatal("it vanished though who said whose it is has spoken for its home only before")
	}
	w.EndSnapshot(1, "a", []uint32{4, 5}) // it took the region back, and does not have it here
	for range HoldTicks + 1 {
		w.deliver(t)
	}
	if w.Get(id) != nil {
		t.Fatal("it stays though its home is another's, who does not have it here")
	}
}

// An owner was silent for a while. What says where its entity goes came late, so the entity is ahead of where observers have it until
// it is said again; a word in between, which says nothing of that, corrects nothing.
func TestWhatCameLateIsMarkedUntilItIsCorrected(t *testing.T) {
	w := newWorld()
	w.Leads = func(number uint32) bool { return number == 1 } // the position
	w.deliver(t, step{"a#1", snapshot(1, 1, 5)})
	reset := func(f Frame) bool {
		w.Apply(w.tick, "a#1", &f)
		r := w.Get(id).Reset
		w.Settle()
		return r
	}
	w.tick++
	w.Late(w.tick, "a#1")
	if !reset(update(1, 1, 6, "late")) {
		t.Error("what comes after a silence is not marked")
	}
	w.tick += HoldTicks + 1
	if reset(Frame{Entity: id, Epoch: ecs.Epoch{Transfers: 1}, Chunk: 1, Events: said("on time")}) {
		t.Error("a word is marked that cannot jump")
	}
	if !reset(update(1, 1, 12, "here I am")) {
		t.Error("the first place that is on time is not marked")
	}
	if reset(update(1, 1, 13, "and on")) {
		t.Error("the next one is marked, too")
	}
}

func TestAnAccountThatItsEntityHasNoMoreIsForgotten(t *testing.T) {
	w := newWorld()
	f := Frame{Entity: 9, Kind: wire.EntityFrame_KIND_SNAPSHOT, Chunk: 1, Account: 3, Components: position(1)}
	w.deliver(t, step{"a", f})
	f.Account = 0
	w.deliver(t, step{"a", f})
	w.deliver(t, step{"a", Frame{Entity: 9, Kind: wire.EntityFrame_KIND_GONE, Chunk: 1}})
	w.DropAccount(3)
	if len(w.accounts) > 0 {
		t.Errorf("accounts %v have an entity here", w.accounts)
	}
}

// What lies somewhere is brought by nobody: it goes although something else may yet come back to its region.
func TestOnlyWhatLiesThereGoesWhileTheRestIsOpen(t *testing.T) {
	w := newWorld()
	item := Frame{Entity: 7, Kind: wire.EntityFrame_KIND_SNAPSHOT, Chunk: 1, Home: 5, Fixed: true, Components: position(1)}
	master := Frame{Entity: 8, Kind: wire.EntityFrame_KIND_SNAPSHOT, Chunk: 1, Home: 5, Components: position(2)}
	w.deliver(t, step{"a", item}, step{"a", master})
	w.dead["a"] = true
	w.BeginSnapshot(1, "b")
	w.EndGround(1, "b", []uint32{4})
	if w.Get(7) == nil {
		t.Error("it is in a region that was not told of")
	}
	w.EndGround(1, "b", []uint32{5})
	if w.Get(7) != nil || w.Get(8) == nil {
		t.Errorf("the item is here: %v, the master: %v", w.Get(7) != nil, w.Get(8) != nil)
	}
}
