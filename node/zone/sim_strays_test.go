package zone

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// alone is the engine of a#1 in a world of two regions, who knows nothing yet.
func alone(t *testing.T) *Engine {
	t.Helper()
	grid, err := torus.NewGrid(2, 1, 15)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Grid: grid, Session: "a#1", Node: "a", Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// show gives it a table of who has the regions, the first at epoch 1, the second at 2.
func (e *Engine) show(t *testing.T, sessions ...string) {
	t.Helper()
	var rows []partition.Row
	for i, session := range sessions {
		rows = append(rows, partition.Row{Owner: partition.Owner{Session: session, Epoch: uint64(i + 1)}})
	}
	table, err := partition.NewTable(e.grid, rows)
	if err != nil {
		t.Fatal(err)
	}
	e.step(t, &Inbox{Table: table})
}

// twoRegions is an engine that is linked to b#1, with a table of who has the regions.
func twoRegions(t *testing.T, sessions ...string) *Engine {
	t.Helper()
	e := alone(t)
	e.show(t, sessions...)
	e.step(t, &Inbox{Peers: []PeerEvent{{"b#1", PeerUp}}})
	return e
}

// Between two loads of a region the claim of a dead owner takes a record to the region of a neighbour, who has loaded that before: he
// is told.
func TestTheHolderOfAStraysHomeIsTold(t *testing.T) {
	e := twoRegions(t, "a#1", "b#1")
	here, there := torus.RegionPos{}, torus.RegionPos{Column: 1}
	epoch := ecs.Epoch{Recoveries: 1, Transfers: 5}
	stays, goes := Record{Entity: 7, Home: here}, Record{Entity: 8, Home: here}
	r := e.sim.regions[0]
	e.sim.follow(r, []Record{stays, goes}, []Record{stays})
	e.step(t, &Inbox{})
	asked := e.pending[e.nextID].request
	if asked.Op != StoreLoad || asked.Entity != 8 {
		t.Fatalf("the store is asked %+v", asked)
	}
	out := e.step(t, &Inbox{Store: []StoreAnswer{{ID: asked.ID, Op: StoreLoad, Code: StoreOK, Record: &Record{Entity: 8, Home: there, Epoch: epoch}}}})
	told := false
	for _, m := range out.Reliable {
		var message wire.PeerMessage
		if err := proto.Unmarshal(m.Bytes, &message); err != nil {
			t.Fatal(err)
		}
		if stray := message.GetStray(); stray != nil {
			told = m.Session == "b#1" && stray.Entity == 8 && stray.Region == 1 && epochOf(stray.Epoch) == epoch
		}
	}
	if !told {
		t.Error("the holder of its home is not told")
	}
}

// Who is told of a stray says nothing against it until the store has said where it is, and brings it back.
func TestAStrayIsBroughtBackFromItsRecord(t *testing.T) {
	e := twoRegions(t, "a#1", "b#1")
	r := e.sim.regions[0]
	r.active, r.gaveUp = true, 1<<40
	e.sim.strayed(&wire.Stray{Entity: 8, Region: 0, Epoch: wireEpoch(ecs.Epoch{Recoveries: 1})})
	e.sim.strayed(&wire.Stray{Entity: 8, Region: 9})
	if !e.sim.unsure(0) {
		t.Error("a snapshot denies it")
	}
	record := &Record{Entity: 8, Epoch: ecs.Epoch{Recoveries: 1}}
	for range wakePatience + 3*TicksPerSecond {
		var answers []StoreAnswer
		for _, req := range e.out.Store {
			switch {
			case req.Op == StoreLoad && req.Entity == 8:
				answers = append(answers, StoreAnswer{ID: req.ID, Op: StoreLoad, Code: StoreOK, Record: record})
			case req.Op == StoreClaim && req.Record.Entity == 8:
				return
			}
		}
		e.step(t, &Inbox{Store: answers})
	}
	t.Error("it stays in the store for good")
}
