package storetest

import (
	"math"
	"reflect"
	"testing"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

var (
	hand   = zone.Holder{Entity: 77} // of master
	ground = zone.Holder{Region: here}
)

func item(serial uint64) zone.Held {
	return zone.Held{Item: zone.Item{Serial: serial, Kind: 5, Count: 1}}
}

func lying(serial uint64) zone.Held {
	h := item(serial)
	h.Lying = zone.Lying{Entity: ecs.EntityID(1000 + serial), At: torus.Pos{X: 8000, Y: 12, Z: -3}}
	return h
}

func adding(items ...zone.Held) *zone.Change {
	return &zone.Change{AddItems: items, Made: uint64(len(items))}
}

// writeRequest is a write to what master has.
func writeRequest(number, moves uint64, change *zone.Change) zone.StoreRequest {
	return zone.StoreRequest{
		Op: zone.StoreWrite, Holder: hand, Expect: master().Epoch, Write: number, Moves: moves, Change: change,
	}
}

func groundRequest(number, moves, fence uint64, change *zone.Change) zone.StoreRequest {
	return zone.StoreRequest{
		Op: zone.StoreWrite, Holder: ground, RegionEpoch: fence, Write: number, Moves: moves, Change: change,
	}
}

// has expects the contents of a holder, by a peek and by a load.
func (s subject) has(h zone.Holder, fence uint64, want zone.Contents) {
	s.t.Helper()
	ans := s.do(zone.StoreRequest{Op: zone.StorePeek, Holder: h}, zone.StoreOK)
	s.isContents(ans.Contents, want)
	if ans.RegionEpoch != fence || ans.Record != nil {
		s.t.Fatalf("a look at %+v answers %+v", h, ans)
	}
	if h.OnGround() {
		ans := s.do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: h.Region, RegionEpoch: fence}, zone.StoreOK)
		s.isContents(ans.Contents, want)
		return
	}
	s.isContents(&s.do(zone.StoreRequest{Op: zone.StoreLoad, Entity: h.Entity}, zone.StoreOK).Record.Contents, want)
}

func (s subject) isContents(got *zone.Contents, want zone.Contents) {
	s.t.Helper()
	if got == nil || !reflect.DeepEqual(*got, want) {
		s.t.Fatalf("contents\n got %.600v\nwant %.600v", got, want)
	}
}

func (s subject) load(region torus.RegionPos, epoch uint64) {
	s.t.Helper()
	s.do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: region, RegionEpoch: epoch}, zone.StoreOK)
}

func writeChanges(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	s.has(hand, 0, zone.Contents{})
	s.do(writeRequest(1, 0, adding(item(9), item(4))), zone.StoreOK)
	want := zone.Contents{Moves: 1, Items: []zone.Held{item(4), item(9)}, Made: 2}
	s.has(hand, 0, want)

	out := zone.OutEntry{Movement: 70, Item: item(4).Item, To: zone.Holder{Region: there}, Lying: lying(4).Lying}
	more := zone.OutEntry{Movement: 8, Item: item(9).Item, To: zone.Holder{Entity: math.MaxUint64}}
	in := zone.InEntry{Movement: 60, From: zone.Holder{Entity: 12}, Void: true}
	s.do(writeRequest(2, 1, &zone.Change{
		RemoveItems: []uint64{9, 4}, AddOut: []zone.OutEntry{out, more}, AddIn: []zone.InEntry{in, {Movement: 6, From: ground}},
	}), zone.StoreOK)
	want = zone.Contents{
		Moves: 2, Made: 2, Out: []zone.OutEntry{more, out}, In: []zone.InEntry{{Movement: 6, From: ground}, in},
	}
	s.has(hand, 0, want)

	s.do(writeRequest(3, 2, &zone.Change{RemoveOut: []uint64{70}, RemoveIn: []uint64{6, 60}, Ended: 1}), zone.StoreOK)
	s.has(hand, 0, zone.Contents{Moves: 3, Made: 2, Ended: 1, Out: []zone.OutEntry{more}})
	s.do(writeRequest(4, 3, &zone.Change{}), zone.StoreOK)
	s.has(hand, 0, zone.Contents{Moves: 4, Made: 2, Ended: 1, Out: []zone.OutEntry{more}})
}

func writeReplaces(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	s.do(writeRequest(1, 0, adding(item(4))), zone.StoreOK)
	stack := item(4)
	stack.Count, stack.Kind = math.MaxUint32, math.MaxUint32
	s.do(writeRequest(2, 1, &zone.Change{RemoveItems: []uint64{4}, AddItems: []zone.Held{stack}}), zone.StoreOK)
	s.has(hand, 0, zone.Contents{Moves: 2, Made: 1, Items: []zone.Held{stack}})
}

func writeRepeats(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	write := writeRequest(1, 0, adding(item(4)))
	want := zone.Contents{Moves: 1, Made: 1, Items: []zone.Held{item(4)}}
	for range 3 {
		s.do(write, zone.StoreOK)
		s.has(hand, 0, want)
	}
	// Whoever has the record now: the write has taken effect.
	to := zone.Epoch{Transfers: 2}
	s.isContents(&s.do(claimRequest(77, master().Epoch, to, there), zone.StoreOK).Record.Contents, want)
	s.do(write, zone.StoreOK)
	s.has(hand, 0, want)
	// A later write has taken its place: it is not known any more, and not done again.
	later := writeRequest(2, 1, &zone.Change{RemoveItems: []uint64{4}, Ended: 1})
	later.Expect = to
	s.do(later, zone.StoreOK)
	s.do(write, zone.StoreConflict)
	write.Expect = to
	s.do(write, zone.StoreConflict)
	s.has(hand, 0, zone.Contents{Moves: 2, Made: 1, Ended: 1})
}

// refusesWrite expects a refusal that tells what is stored, and changes nothing.
func (s subject) refusesWrite(req zone.StoreRequest, want zone.Contents, fence uint64) {
	s.t.Helper()
	ans := s.do(req, zone.StoreConflict)
	if !req.Holder.OnGround() {
		if ans.Contents != nil || ans.Record == nil || len(ans.Record.Blob) != 0 {
			s.t.Fatalf("a refused write answers %+v", ans)
		}
		s.isContents(&ans.Record.Contents, want)
		rec := *ans.Record
		rec.Contents, rec.Blob = zone.Contents{}, master().Blob
		s.isRecord(&rec, master())
	} else {
		if ans.Record != nil || ans.RegionEpoch != fence {
			s.t.Fatalf("a refused write answers %+v", ans)
		}
		s.isContents(ans.Contents, want)
	}
	s.has(req.Holder, fence, want)
}

func writeOfOther(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	s.do(writeRequest(1, 0, adding(item(4))), zone.StoreOK)
	want := zone.Contents{Moves: 1, Made: 1, Items: []zone.Held{item(4)}}
	for _, epoch := range []zone.Epoch{{}, {Transfers: 2}, {Recoveries: 1, Transfers: 1}} {
		write := writeRequest(2, 1, adding(item(5)))
		write.Expect = epoch
		s.refusesWrite(write, want, 0)
	}
	for _, moves := range []uint64{0, 2} {
		s.refusesWrite(writeRequest(3, moves, adding(item(5))), want, 0)
	}
	s.do(zone.StoreRequest{
		Op: zone.StoreWrite, Holder: zone.Holder{Entity: 5}, Write: 1, Change: adding(item(6)),
	}, zone.StoreMissing)
	s.do(zone.StoreRequest{Op: zone.StorePeek, Holder: zone.Holder{Entity: 5}}, zone.StoreMissing)
}

func writeThatDoesNotFit(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	out := zone.OutEntry{Movement: 7, Item: item(8).Item, To: ground}
	in := zone.InEntry{Movement: 9, From: ground}
	change := adding(item(4))
	change.AddOut, change.AddIn = []zone.OutEntry{out}, []zone.InEntry{in}
	s.do(writeRequest(1, 0, change), zone.StoreOK)
	want := zone.Contents{
		Moves: 1, Made: 1, Items: []zone.Held{item(4)}, Out: []zone.OutEntry{out}, In: []zone.InEntry{in},
	}
	for i, change := range []zone.Change{
		{AddItems: []zone.Held{item(3), item(4)}},
		{AddOut: []zone.OutEntry{out}, RemoveItems: []uint64{4}},
		{AddIn: []zone.InEntry{in}, RemoveItems: []uint64{4}},
		{RemoveItems: []uint64{4, 5}},
		{RemoveItems: []uint64{5}, AddItems: []zone.Held{item(5)}},
		{RemoveOut: []uint64{8}, AddItems: []zone.Held{item(3)}},
		{RemoveIn: []uint64{7, 9}},
	} {
		s.refusesWrite(writeRequest(uint64(10+i), 1, &change), want, 0)
	}
	s.do(writeRequest(10, 1, &zone.Change{RemoveItems: []uint64{4}}), zone.StoreOK) // a refused write may be tried again
}

func heldIsBounded(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	var full []zone.Held
	for i := range uint64(zone.MaxHeld) {
		full = append(full, item(i+1))
	}
	s.do(writeRequest(1, 0, adding(full...)), zone.StoreOK)
	want := zone.Contents{Moves: 1, Made: zone.MaxHeld, Items: full}
	s.refusesWrite(writeRequest(2, 1, adding(item(100))), want, 0)
	s.do(writeRequest(3, 1, &zone.Change{RemoveItems: []uint64{1, 2}, AddItems: []zone.Held{item(1), item(100)}}), zone.StoreOK)
	s.do(writeRequest(4, 2, adding(item(2))), zone.StoreConflict)
	s.do(writeRequest(5, 2, &zone.Change{RemoveItems: []uint64{100}}), zone.StoreOK)
	s.do(writeRequest(6, 3, adding(item(2))), zone.StoreOK)
	s.has(hand, 0, zone.Contents{Moves: 4, Made: zone.MaxHeld + 1, Items: full})
}

func entriesAreBounded(_ *testing.T, s subject) {
	s.do(createRequest(master()), zone.StoreOK)
	var change zone.Change
	for i := range uint64(zone.MaxOpen) {
		change.AddOut = append(change.AddOut, zone.OutEntry{Movement: i + 1, Item: item(i + 1).Item, To: ground})
	}
	for i := range uint64(zone.MaxRemembered) {
		change.AddIn = append(change.AddIn, zone.InEntry{Movement: i + 1, From: ground})
	}
	s.do(writeRequest(1, 0, &change), zone.StoreOK)
	want := zone.Contents{Moves: 1, Out: change.AddOut, In: change.AddIn}
	s.refusesWrite(writeRequest(2, 1, &zone.Change{AddIn: []zone.InEntry{{Movement: 9999, From: hand}}}), want, 0)
	s.refusesWrite(writeRequest(3, 1, &zone.Change{
		AddOut: []zone.OutEntry{{Movement: 9999, Item: item(5).Item, To: ground}},
	}), want, 0)
	s.do(writeRequest(4, 1, &zone.Change{RemoveIn: []uint64{1, 2}, RemoveOut: []uint64{3}}), zone.StoreOK)
	s.do(writeRequest(5, 2, &zone.Change{
		AddIn:  []zone.InEntry{{Movement: 9999, From: hand}},
		AddOut: []zone.OutEntry{{Movement: 9999, Item: item(5).Item, To: ground}},
	}), zone.StoreOK)
}

func groundIsFenced(_ *testing.T, s subject) {
	s.has(ground, 0, zone.Contents{})
	s.load(here, 5)
	s.do(groundRequest(1, 0, 5, adding(lying(4))), zone.StoreOK)
	want := zone.Contents{Moves: 1, Made: 1, Items: []zone.Held{lying(4)}}
	s.has(ground, 5, want)
	for _, fence := range []uint64{0, 4, 6} {
		s.refusesWrite(groundRequest(2, 1, fence, adding(lying(5))), want, 5)
	}
	s.refusesWrite(groundRequest(2, 0, 5, adding(lying(5))), want, 5)
	s.load(here, 6)
	s.refusesWrite(groundRequest(2, 1, 5, adding(lying(5))), want, 6)
	s.do(groundRequest(1, 0, 5, adding(lying(4))), zone.StoreOK) // the repeat
	s.do(groundRequest(3, 1, 6, adding(lying(5))), zone.StoreOK)
	s.has(ground, 6, zone.Contents{Moves: 2, Made: 2, Items: []zone.Held{lying(4), lying(5)}})
	s.has(zone.Holder{Region: there}, 0, zone.Contents{})
}

func groundIsEdited(_ *testing.T, s subject) {
	s.load(here, 1)
	edits := []zone.Edit{{X: 3, Y: 9, Depth: 1}, {X: 20, Y: 1, Depth: 2}, {X: 20, Y: 5, Depth: math.MaxUint32}}
	change := adding(lying(4))
	change.Edits = []zone.Edit{edits[2], edits[0], edits[1]}
	s.do(groundRequest(1, 0, 1, change), zone.StoreOK)
	want := zone.Contents{Moves: 1, Made: 1, Items: []zone.Held{lying(4)}, Edits: edits}
	s.has(ground, 1, want)
	shallower := &zone.Change{Edits: []zone.Edit{{X: 1, Y: 1, Depth: 1}, {X: 20, Y: 1, Depth: 1}}}
	s.refusesWrite(groundRequest(2, 1, 1, shallower), want, 1)
	s.do(groundRequest(3, 1, 1, &zone.Change{Edits: []zone.Edit{{X: 20, Y: 1, Depth: 10}, edits[0]}}), zone.StoreOK)
	want.Moves, want.Edits[1].Depth = 2, 10
	s.has(ground, 1, want)
}

func createdWithContents(_ *testing.T, s subject) {
	r := master()
	r.Contents = zone.Contents{Items: []zone.Held{item(9), item(4)}, Made: 2, Moves: 1}
	s.do(createRequest(r), zone.StoreOK)
	r.Contents.Items = []zone.Held{item(4), item(9)}
	s.loads(r)
	s.do(writeRequest(1, 1, &zone.Change{RemoveItems: []uint64{4}, Ended: 1}), zone.StoreOK)
	s.do(createRequest(r), zone.StoreOK)
	want := zone.Contents{Moves: 2, Made: 2, Ended: 1, Items: []zone.Held{item(9)}}
	s.has(hand, 0, want)
	second := master()
	second.Entity = 78
	s.isContents(&s.do(createRequest(second), zone.StoreConflict).Record.Contents, want)
	s.isContents(&s.do(claimRequest(77, zone.Epoch{Transfers: 9}, zone.Epoch{Transfers: 10}, here), zone.StoreConflict).Record.Contents, want)
	ans := s.do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: here, RegionEpoch: 1}, zone.StoreOK)
	s.isContents(&ans.Records[0].Contents, want)
	// Saves and claims are not about contents; a session is told none.
	r.Blob, r.Contents = []byte("saved"), zone.Contents{Items: []zone.Held{item(66)}}
	s.do(saveRequest(r), zone.StoreOK)
	claim := claimRequest(77, r.Epoch, zone.Epoch{Transfers: 2}, there)
	claim.Record.Contents = r.Contents
	s.isContents(&s.do(claim, zone.StoreOK).Record.Contents, want)
	s.has(hand, 0, want)
	s.isContents(&s.do(sessionRequest(12, "a#1", "", "s1"), zone.StoreOK).Record.Contents, zone.Contents{})
}

// senselessWrites are ones that no store carries out.
func senselessWrites() []zone.StoreRequest {
	create := createRequest(zone.Record{Entity: 1})
	create.Record.Contents.Items = []zone.Held{item(3), item(3)}
	requests := []zone.StoreRequest{
		create,
		{Op: zone.StorePeek, Holder: zone.Holder{Region: torus.RegionPos{Row: -1}}},
		{Op: zone.StorePeek, Holder: zone.Holder{Entity: 1, Region: here}},
		writeRequest(1, 0, nil),
		writeRequest(0, 0, &zone.Change{}),
		groundRequest(1, 0, 1<<53, &zone.Change{}),
	}
	for _, c := range []zone.Change{
		{AddItems: []zone.Held{item(0)}},
		{AddItems: []zone.Held{{Item: zone.Item{Serial: 1}}}},
		{AddItems: []zone.Held{lying(1)}},
		{AddItems: []zone.Held{item(2), item(2)}},
		{AddItems: make([]zone.Held, zone.MaxHeld+1)},
		{RemoveItems: []uint64{0}},
		{RemoveItems: []uint64{1, 1}},
		{AddOut: []zone.OutEntry{{Item: item(1).Item, To: ground}}},
		{AddOut: []zone.OutEntry{{Movement: 1, To: ground}}},
		{AddOut: []zone.OutEntry{{Movement: 1, Item: item(1).Item, To: zone.Holder{Region: torus.RegionPos{Column: 64}}}}},
		{AddOut: []zone.OutEntry{{Movement: 1, Item: item(1).Item, To: ground}}, RemoveOut: []uint64{1}},
		{AddIn: []zone.InEntry{{From: ground}}},
		{AddIn: []zone.InEntry{{Movement: 1, From: ground}}, RemoveIn: []uint64{1}},
		{RemoveIn: []uint64{0}},
		{Edits: []zone.Edit{{X: 1, Depth: 1}}},
		{Made: 1 << 40},
	} {
		requests = append(requests, writeRequest(1, 0, &c))
	}
	for _, c := range []zone.Change{
		{AddItems: []zone.Held{item(1)}},
		{AddItems: []zone.Held{{Item: item(1).Item, Lying: zone.Lying{Entity: 1, At: torus.Pos{X: -1}}}}},
		{Edits: []zone.Edit{{X: 1}}},
		{Edits: []zone.Edit{{X: 1, Depth: 1}, {X: 1, Depth: 2}}},
		{Edits: []zone.Edit{{X: 1, Y: -1, Depth: 1}}},
	} {
		requests = append(requests, groundRequest(1, 0, 0, &c))
	}
	return requests
}
