package zone

import (
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
)

var beyond = torus.RegionPos{Column: 40, Row: 2}

// A world is imported into one that has fewer regions.
func TestAPlayerWhoseRecordIsBeyondTheGridIsToldSo(t *testing.T) {
	d := newDoorway(t)
	claim := d.connect()
	out := d.step(t, &Inbox{Store: []StoreAnswer{{
		ID: claim.ID, Op: claim.Op, Code: StoreOK, SessionEpoch: 1, LoginEpoch: 1, Record: &Record{Entity: 9, Account: player, Home: beyond},
	}}})
	if len(out.Close) != 1 || out.Close[0].Reason != wire.Disconnected_REASON_UNAVAILABLE {
		t.Errorf("closed %v", out.Close)
	}
	if len(out.Store)+len(out.Reliable) > 0 {
		t.Errorf("asked %v, said %v", out.Store, out.Reliable)
	}
	if len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "stays in the store") {
		t.Errorf("noted %q", out.Notes)
	}
}

func TestARecordBeyondTheGridIsNeitherTakenNorMissing(t *testing.T) {
	home := Contents{Out: []OutEntry{{Movement: 5, To: Holder{Region: beyond}}}}
	for what, r := range map[string]Record{
		"its home":                    {Entity: 9, Home: beyond},
		"an item on its way from it":  {Entity: 9, Contents: home},
		"an item that came to it":     {Entity: 9, Contents: Contents{In: []InEntry{{Movement: 5, From: Holder{Region: beyond}}}}},
		"where an item comes to lie ": {Entity: 9, Contents: Contents{Out: []OutEntry{{Movement: 5, Lying: Lying{At: torus.Pos{X: 1 << 40}}}}}},
	} {
		e := crowd(t, 0)
		for range 2 {
			var got StoreAnswer
			e.store(StoreRequest{Op: StoreLoad, Entity: 9}, func(a StoreAnswer) { got = a })
			out := e.step(t, &Inbox{Store: []StoreAnswer{{ID: e.nextID, Op: StoreLoad, Code: StoreOK, Record: &r}}})
			if got.Code != StoreUnfit || got.Record != nil {
				t.Errorf("%s: answered %+v", what, got)
			}
			if len(e.unfit) != 1 || len(out.Notes) > 1 {
				t.Errorf("%s: noted %q", what, out.Notes)
			}
		}
	}
}

// The region is recovered with what fits.
func TestARegionIsRecoveredWithoutWhatIsBeyondTheGrid(t *testing.T) {
	e := crowd(t, 0)
	all := Contents{
		Moves: 3, Items: []Held{{Item: Item{Serial: 1}}},
		Out: []OutEntry{{Movement: 5, To: Holder{Entity: 3}}, {Movement: 6, To: Holder{Region: beyond}}},
	}
	var got StoreAnswer
	e.store(StoreRequest{Op: StoreLoadRegion}, func(a StoreAnswer) { got = a })
	e.step(t, &Inbox{Store: []StoreAnswer{{
		ID: e.nextID, Op: StoreLoadRegion, Code: StoreOK, Records: []Record{{Entity: 9, Home: beyond}, {Entity: 10}}, Contents: &all,
	}}})
	if len(got.Records) != 1 || got.Records[0].Entity != ecs.EntityID(10) {
		t.Errorf("records %v", got.Records)
	}
	if c := got.Contents; c.Moves != 3 || len(c.Items) != 1 || len(c.Out) != 1 || c.Out[0].Movement != 5 {
		t.Errorf("contents %+v", c)
	}
	if len(all.Out) != 2 {
		t.Error("the driver's own contents were changed")
	}
}
