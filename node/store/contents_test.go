package store

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// held adds an item to an entity, and lying one to a ground.
func held(serial uint64) *zone.Change {
	return &zone.Change{Made: 1, AddItems: []zone.Held{{Item: zone.Item{Serial: serial, Kind: 5, Count: 1}}}}
}

func lying(serial uint64) *zone.Change {
	ch := held(serial)
	ch.AddItems[0].Lying = zone.Lying{Entity: ecs.EntityID(1000 + serial), At: torus.Pos{X: 8000, Y: 12, Z: -3}}
	return ch
}

func TestTheFieldsAreThoseOfTheREADME(t *testing.T) {
	server := embedded(t)
	s := client(t, server.Addr(), patient)
	s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
	change := held(9)
	change.AddOut = []zone.OutEntry{
		{Movement: 70, Item: zone.Item{Serial: 4, Kind: 6, Count: 2}, To: zone.Holder{Region: torus.RegionPos{Column: 3, Row: 1}}, Lying: lying(4).AddItems[0].Lying},
		{Movement: 71, Item: zone.Item{Serial: 3, Kind: 1, Count: 1}, To: zone.Holder{Entity: 12}},
	}
	change.AddIn = []zone.InEntry{{Movement: 60, From: zone.Holder{Entity: 12}, Void: true}, {Movement: 61, From: zone.Holder{}}}
	change.Made, change.Ended = 3, 1
	write := zone.StoreRequest{Op: zone.StoreWrite, Holder: zone.Holder{Entity: 1}, Write: 17, Change: change}
	if a := s.Do(write); a.Code != zone.StoreOK {
		t.Fatalf("answer %+v", a)
	}
	wantFields(t, server.HGet, "{e:1}", map[string]string{
		"format": "2", "moves": "1", "write": "17", "made": "3", "ended": "1", "counts": "1 2 2 0", "version": "2",
		"i:9": "5 1", "o:70": "4 6 2 r3,1 1004 8000 12 -3", "o:71": "3 1 1 e12 0 0 0 0", "n:60": "e12 1", "n:61": "r0,0 0",
	})
	change = lying(9)
	change.Edits = []zone.Edit{{X: 5, Y: 6, Depth: 7}}
	write = zone.StoreRequest{Op: zone.StoreWrite, Holder: zone.Holder{Region: torus.RegionPos{Column: 3, Row: 1}}, Write: 18, Change: change}
	if a := s.Do(write); a.Code != zone.StoreOK {
		t.Fatalf("answer %+v", a)
	}
	wantFields(t, server.HGet, "{r:3,1}:ground", map[string]string{
		"format": "2", "moves": "1", "write": "18", "made": "1", "ended": "0", "counts": "1 0 0 1",
		"i:9": "5 1 1009 8000 12 -3", "c:5,6": "7",
	})
}

func wantFields(t *testing.T, get func(key, field string) string, key string, want map[string]string) {
	t.Helper()
	for field, value := range want {
		if got := get(key, field); got != value {
			t.Errorf("%s of %s is %q, want %q", field, key, got, value)
		}
	}
}

// version1 is a record as format 1 had it.
func version1(hset func(key string, values ...string)) {
	hset("{e:1}", "format", "1", "recoveries", "0", "transfers", "3", "column", "1", "row", "2", "account", "0",
		"resting", "0", "blob", "blob", "version", "4", "writer", "w", "number", "2")
	hset("{r:1,2}:index", "1", "0 3")
}

func TestARecordOfFormat1IsReadWithoutContentsAndUpgradedByAClaimOrAWrite(t *testing.T) {
	want := record(1)
	want.Epoch = zone.Epoch{Transfers: 3}
	for name, c := range map[string]struct {
		upgrade zone.StoreRequest
		format  string
		after   func(*zone.Record)
	}{
		"claim": {claimOf(1, 3, 4, record(1).Home), "2", func(r *zone.Record) { r.Epoch.Transfers = 4 }},
		"write": {
			zone.StoreRequest{Op: zone.StoreWrite, Holder: zone.Holder{Entity: 1}, Expect: want.Epoch, Write: 1, Change: held(9)},
			"2",
			func(r *zone.Record) {
				r.Contents = zone.Contents{Moves: 1, Made: 1, Items: held(9).AddItems}
			},
		},
		"save":            {zone.StoreRequest{Op: zone.StoreSave, Record: want}, "1", func(*zone.Record) {}},
		"a refused claim": {claimOf(1, 2, 4, record(1).Home), "1", func(*zone.Record) {}},
		"a refused write": {
			zone.StoreRequest{Op: zone.StoreWrite, Holder: zone.Holder{Entity: 1}, Write: 1, Change: held(9)},
			"1",
			func(*zone.Record) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := embedded(t)
			version1(func(key string, values ...string) { server.HSet(key, values...) })
			s := client(t, server.Addr(), patient)
			loads := func(want zone.Record) {
				t.Helper()
				load := s.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: 1})
				region := s.Do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: want.Home, RegionEpoch: 1})
				if load.Record == nil || !reflect.DeepEqual(*load.Record, want) || !reflect.DeepEqual(region.Records, []zone.Record{want}) {
					t.Fatalf("loaded %+v and %+v, want %+v", load.Record, region.Records, want)
				}
			}
			loads(want)
			s.Do(c.upgrade)
			after := want
			c.after(&after)
			loads(after)
			if got := server.HGet("{e:1}", "format"); got != c.format {
				t.Errorf("the format is %q, want %q", got, c.format)
			}
		})
	}
}

func TestAWriteThatLandsAfterALaterOneIsRefused(t *testing.T) {
	for _, holder := range []zone.Holder{{Entity: 1}, {Region: torus.RegionPos{Column: 1}}} {
		r := newRunner(t, embedded(t))
		r.do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
		at := func(n uint64) zone.StoreRequest {
			change := held(n + 1)
			if holder.OnGround() {
				change = lying(n + 1)
			}
			return zone.StoreRequest{Op: zone.StoreWrite, Holder: holder, Write: n + 1, Moves: n, Change: change}
		}
		for n := range uint64(3) {
			if a := r.do(at(n)); a.Code != zone.StoreOK {
				t.Fatalf("write %d answers %+v", n, a)
			}
		}
		if a := r.do(at(2)); a.Code != zone.StoreOK {
			t.Errorf("a repeat of the last write is answered %+v", a)
		}
		for n := range uint64(2) {
			out := r.step(write(at(n)))
			if out.answer.Code != zone.StoreConflict || out.refused != refusedByMoves {
				t.Errorf("write %d once more is answered %+v, refused for %q", n, out.answer, out.refused)
			}
		}
		look := r.do(zone.StoreRequest{Op: zone.StorePeek, Holder: holder})
		if look.Contents.Moves != 3 || len(look.Contents.Items) != 3 || look.Contents.Made != 3 {
			t.Errorf("the holder has %+v", look.Contents)
		}
	}
}

func TestAStoreThatForgotRefusesWhatItsOwnersKnowUntilTheyComeAnew(t *testing.T) {
	server := embedded(t)
	s := client(t, server.Addr(), patient)
	region := record(1).Home
	load := zone.StoreRequest{Op: zone.StoreLoadRegion, Region: region, RegionEpoch: 3}
	at := func(moves uint64) zone.StoreRequest {
		return zone.StoreRequest{
			Op: zone.StoreWrite, Holder: zone.Holder{Region: region}, RegionEpoch: 3, Write: moves + 1, Moves: moves, Change: lying(moves + 1),
		}
	}
	s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)})
	s.Do(load)
	for _, req := range []zone.StoreRequest{at(0), numbered(1)} {
		if a := s.Do(req); a.Code != zone.StoreOK {
			t.Fatalf("answer %+v", a)
		}
	}
	server.FlushAll()
	if a := s.Do(at(1)); a.Code != zone.StoreConflict || a.RegionEpoch != 0 || a.Contents == nil || a.Contents.Moves != 0 {
		t.Errorf("a write to the ground is answered %+v", a)
	}
	if a := s.Do(numbered(2)); a.Code != zone.StoreMissing {
		t.Errorf("a write to an entity is answered %+v", a)
	}
	if a := s.Do(load); a.Code != zone.StoreOK || a.Contents == nil || a.Contents.Moves != 0 {
		t.Errorf("a load is answered %+v", a)
	}
	if a := s.Do(at(0)); a.Code != zone.StoreOK {
		t.Errorf("a write anew is answered %+v", a)
	}
}

func TestEntriesThatAreNotCountedYetAreCountedByTheNextWrite(t *testing.T) {
	server := embedded(t)
	s := client(t, server.Addr(), patient)
	rec := record(1)
	for i := range uint64(zone.MaxHeld) {
		rec.Contents.Items = append(rec.Contents.Items, held(i + 1).AddItems[0])
	}
	s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: rec})
	request := zone.StoreRequest{Op: zone.StoreWrite, Holder: zone.Holder{Entity: 1}, Write: 1, Change: held(100)}
	if a := s.Do(request); a.Code != zone.StoreConflict {
		t.Fatalf("one too many is answered %+v", a)
	}
	request.Change = &zone.Change{RemoveItems: []uint64{5}}
	if a := s.Do(request); a.Code != zone.StoreOK || server.HGet("{e:1}", "counts") != "63 0 0 0" {
		t.Fatalf("answer %+v, counts are %q", a, server.HGet("{e:1}", "counts"))
	}
}

func TestALargeChangeIsCarriedOutWhole(t *testing.T) {
	s := client(t, embedded(t).Addr(), patient)
	region := zone.Holder{Region: torus.RegionPos{Column: 1}}
	change := &zone.Change{}
	for i := range uint64(zone.MaxLying) {
		change.AddItems = append(change.AddItems, lying(i + 1).AddItems[0])
	}
	for i := range int64(5000) {
		change.Edits = append(change.Edits, zone.Edit{X: i / 100, Y: i % 100, Depth: 1})
	}
	req := zone.StoreRequest{Op: zone.StoreWrite, Holder: region, Write: 1, Change: change}
	want := zone.Contents{Moves: 1, Items: change.AddItems, Edits: change.Edits}
	check := func() {
		t.Helper()
		if a := s.Do(req); a.Code != zone.StoreOK {
			t.Fatalf("answer %d", a.Code)
		}
		if got := s.Do(zone.StoreRequest{Op: zone.StorePeek, Holder: region}).Contents; !reflect.DeepEqual(*got, want) {
			t.Fatalf("after write %d there are %d items and %d edits", req.Write, len(got.Items), len(got.Edits))
		}
	}
	check()
	req.Moves, req.Write, req.Change = 1, 2, &zone.Change{}
	for _, h := range want.Items {
		req.Change.RemoveItems = append(req.Change.RemoveItems, h.Serial)
	}
	want.Moves, want.Items = 2, nil
	check()
}

// FuzzContents: any field is read as what writes the same field, or refused.
func FuzzContents(f *testing.F) {
	for _, seed := range [][2]string{
		{"i:8", "2 1"},
		{"i:8", "2 1 9 5 6 -7"},
		{"o:9", "8 2 1 e5 0 0 0 0"},
		{"o:9", "8 2 1 r3,1 4 0 0 -1"},
		{"n:4", "r1,2 1"},
		{"n:4", "e18446744073709551615 0"},
		{"c:4,5", "2"},
		{"moves", "3"},
		{"i:08", "2 1"},
		{"i:8", "2 1 "},
		{"n:4", "r-0,1 1"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, ground := range []bool{false, true} {
			fields := contentFields{ground: ground}
			fields.take(name, value)
			c, err := fields.whole()
			if err != nil {
				continue
			}
			again := append(encodeContents(c, ground), encodeEdits(c.Edits)...)
			for name, n := range map[string]uint64{"moves": c.Moves, "made": c.Made, "ended": c.Ended} {
				if n != 0 {
					again = append(again, name, decimal(n))
				}
			}
			if len(again) == 0 {
				if n, err := strconv.Atoi(value); (err != nil || n != 0) && strings.ContainsAny(name, ":") && len(name) > 1 && strings.Contains("iocn", name[:1]) && name[1] == ':' {
					t.Fatalf("%q %q is read as nothing", name, value)
				}
				continue
			}
			if again[0] != name || again[1] != value || len(again) != 2 {
				t.Fatalf("%q %q is read as %q", name, value, again)
			}
		}
	})
}
