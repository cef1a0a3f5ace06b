package vault

import (
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

func lying(serial uint64) *zone.Change {
	return &zone.Change{Made: 1, AddItems: []zone.Held{
		{Item: zone.Item{Serial: serial, Count: 1}, Lying: zone.Lying{Entity: ecs.EntityID(serial)}},
	}}
}

func writeGround(region torus.RegionPos, epoch, moves uint64) zone.StoreRequest {
	return zone.StoreRequest{
		ID: 9, Op: zone.StoreWrite, Holder: zone.Holder{Region: region}, RegionEpoch: epoch, Write: moves + 1, Moves: moves,
		Change: lying(moves + 1),
	}
}

func TestWritesInFlightAreRefusedAndCountedWhenAnotherHasTheRegionOrTheRecord(t *testing.T) {
	w := newWorld(1)
	old, heir := w.Client("a#1"), w.Client("b#1")
	w.do(old, create(record(1, "")))
	w.do(old, zone.StoreRequest{Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 1})
	var late []*outcome
	const writes = 20
	for i := range uint64(writes) {
		late = append(late, w.submit(old, writeGround(home, 1, i)))
		hand := writeGround(home, 0, i)
		hand.Holder = zone.Holder{Entity: 1}
		hand.Change = &zone.Change{}
		late = append(late, w.submit(old, hand))
	}
	w.do(heir, zone.StoreRequest{Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 2})
	w.do(heir, claim(1, zone.Epoch{}, zone.Epoch{Recoveries: 1}, home))
	before := w.do(heir, zone.StoreRequest{Op: zone.StorePeek, Holder: zone.Holder{Region: home}}).Contents.Moves
	w.pass(time.Minute)
	done, refused := uint64(0), uint64(0)
	for _, o := range late {
		switch o.Code {
		case zone.StoreOK:
			done++
		case zone.StoreConflict:
			refused++
		default:
			t.Errorf("a late write is answered %d", o.Code)
		}
	}
	rec, _ := w.Record(1)
	if after, _, _ := w.contentsOf(zone.Holder{Region: home}); after.Moves != before || done != before+rec.Contents.Moves {
		t.Errorf("%d writes were answered OK; the ground had %d when it was loaded and has %d, the record %d",
			done, before, after.Moves, rec.Contents.Moves)
	}
	if refused == 0 || w.Counters().Fenced != refused {
		t.Errorf("%d writes were refused, %d are counted", refused, w.Counters().Fenced)
	}
}

func TestAFailoverTakesAWriteToTheGroundBackTogetherWithTheFenceOfItsRegion(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	w.do(c, zone.StoreRequest{Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 1})
	w.do(c, writeGround(home, 1, 0))
	w.submit(c, zone.StoreRequest{Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 2})
	for w.Fence(home) != 2 {
		w.pass(100 * time.Microsecond)
	}
	w.submit(c, writeGround(home, 2, 1))
	for i := 0; ; i++ {
		if g, _, _ := w.contentsOf(zone.Holder{Region: home}); g.Moves == 2 {
			break
		}
		w.pass(50 * time.Microsecond)
	}
	w.Failover(keyOfRegion(home).slot())
	g, written, _ := w.contentsOf(zone.Holder{Region: home})
	if g.Moves != 1 || written != 1 || len(g.Items) != 1 {
		t.Errorf("the ground has %+v after write %d", g, written)
	}
}

func TestContentsThatWereReadStayAsTheyAreWhenTheVaultGoesOn(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	w.do(c, writeGround(home, 0, 0))
	var before zone.Contents
	for _, contents := range w.EachHolder {
		before = contents
	}
	kept := store.CloneContents(before)
	w.do(c, writeGround(home, 0, 1))
	w.do(c, zone.StoreRequest{
		ID: 1, Op: zone.StoreWrite, Holder: zone.Holder{Region: home}, Write: 3, Moves: 2,
		Change: &zone.Change{RemoveItems: []uint64{1}, Ended: 1},
	})
	if before.Items[0] != kept.Items[0] || len(before.Items) != 1 || before.Moves != 1 {
		t.Errorf("what was read has become %+v", before)
	}
}
