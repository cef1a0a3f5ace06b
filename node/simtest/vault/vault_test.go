package vault

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/simtest/timeline"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/storetest"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// world is a vault with its time.
type world struct {
	*Vault
	time *timeline.Timeline
}

func newWorld(seed uint64) world {
	tl := &timeline.Timeline{}
	return world{New(Options{Timeline: tl, Rand: rand.New(rand.NewPCG(seed, 1)), Delay: time.Millisecond}), tl}
}

func (w world) pass(d time.Duration) { w.time.Advance(w.time.Now() + d) }

// do waits for the answer to a request.
func (w world) do(c *Client, req zone.StoreRequest) (ans zone.StoreAnswer) {
	answered := false
	c.Submit(req, func(a zone.StoreAnswer) { ans, answered = a, true })
	for i := 0; !answered; i++ {
		if i > 1_000_000 {
			panic("no answer")
		}
		w.pass(100 * time.Microsecond)
	}
	return ans
}

var home, away = torus.RegionPos{Column: 3, Row: 1}, torus.RegionPos{Column: 4}

func record(id ecs.EntityID, blob string) zone.Record {
	return zone.Record{Entity: id, Home: home, Blob: []byte(blob)}
}

func create(r zone.Record) zone.StoreRequest {
	return zone.StoreRequest{ID: 1, Op: zone.StoreCreate, Record: r}
}

func save(r zone.Record) zone.StoreRequest {
	return zone.StoreRequest{ID: 2, Op: zone.StoreSave, Record: r}
}

func claim(id ecs.EntityID, expect, to zone.Epoch, home torus.RegionPos) zone.StoreRequest {
	return zone.StoreRequest{
		ID: 3, Op: zone.StoreClaim, Expect: expect, Record: zone.Record{Entity: id, Epoch: to, Home: home},
	}
}

func session(id, account uint64, secret string) zone.StoreRequest {
	return zone.StoreRequest{ID: id, Op: zone.StoreClaimSession, Account: account, Session: "s", FreshSecret: secret}
}

func load(id ecs.EntityID) zone.StoreRequest {
	return zone.StoreRequest{ID: 4, Op: zone.StoreLoad, Entity: id}
}

type conforming struct {
	world
	client *Client
}

func (c conforming) Do(req zone.StoreRequest) zone.StoreAnswer { return c.do(c.client, req) }

func TestVaultKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store {
		w := newWorld(1)
		return conforming{w, w.Client("a#1")}
	})
}

func TestWithoutFaultsTheAnswersAreThoseOfTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, model := newWorld(rapid.Uint64().Draw(t, "seed")), &store.Memory{}
		clients := []*Client{w.Client("a#1"), w.Client("b#1")}
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			req := storetest.AnyRequest(t, model)
			want, got := model.Do(req), w.do(rapid.SampledFrom(clients).Draw(t, "client"), req)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v\n got %+v %+v\nwant %+v %+v", req, got, got.Record, want, want.Record)
			}
		}
		sameInTheEnd(t, w, model)
	})
}

func sameInTheEnd(t *rapid.T, w world, model *store.Memory) {
	if got, want := w.Records(), model.Records(); !reflect.DeepEqual(got, want) {
		t.Fatalf("in the end\n got %+v\nwant %+v", got, want)
	}
	if got, want := maps.Collect(w.EachHolder), maps.Collect(model.EachHolder); !reflect.DeepEqual(got, want) {
		t.Fatalf("in the end\n got %+v\nwant %+v", got, want)
	}
}

func TestRequestsOfOneKeyAreCarriedOutInTheirOrder(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(seed)
		c := w.Client("a#1")
		var order, others []int
		c.Submit(create(record(1, "0")), func(zone.StoreAnswer) {})
		for i := range 20 {
			c.Submit(save(record(1, fmt.Sprint(i))), func(zone.StoreAnswer) { order = append(order, i) })
			c.Submit(load(ecs.EntityID(100+i)), func(zone.StoreAnswer) { others = append(others, i) })
		}
		w.pass(time.Second)
		sorted := true
		for i := range 20 {
			if order[i] != i {
				t.Fatalf("answers in the order %v", order)
			}
			sorted = sorted && others[i] == i
		}
		if got, _ := w.Record(1); string(got.Blob) != "19" {
			t.Fatalf("the record has save %s", got.Blob)
		}
		if sorted {
			t.Errorf("seed %d: requests of different keys were answered in their order", seed)
		}
	}
}

func TestAnswersAndRequestsShareNoMemoryWithTheVault(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	rec := record(1, "kept")
	c.Submit(create(rec), func(zone.StoreAnswer) {})
	copy(rec.Blob, "lost")
	w.pass(time.Second)
	spoil := func(b []byte) { copy(b, "gone") }
	spoil(w.do(c, load(1)).Record.Blob)
	spoil(w.do(c, zone.StoreRequest{Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 1}).Records[0].Blob)
	spoil(w.do(c, claim(1, zone.Epoch{}, zone.Epoch{Transfers: 1}, home)).Record.Blob)
	spoil(w.do(c, claim(1, zone.Epoch{}, zone.Epoch{Transfers: 9}, home)).Record.Blob)
	spoil(w.Records()[0].Blob)
	got, _ := w.Record(1)
	spoil(got.Blob)
	if got, _ := w.Record(1); string(got.Blob) != "kept" {
		t.Errorf("the record has become %q", got.Blob)
	}
	put := record(2, "kept")
	w.Put(put)
	spoil(put.Blob)
	if got, _ := w.Record(2); string(got.Blob) != "kept" {
		t.Errorf("the record that was put has become %q", got.Blob)
	}
}

func TestContentsShareNoMemoryWithTheVault(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	rec := record(1, "")
	rec.Contents.Items = []zone.Held{{Item: zone.Item{Serial: 5, Count: 1}}}
	c.Submit(create(rec), func(zone.StoreAnswer) {})
	change := &zone.Change{AddItems: []zone.Held{{Item: zone.Item{Serial: 6, Count: 1}}}}
	hand := zone.Holder{Entity: 1}
	c.Submit(zone.StoreRequest{Op: zone.StoreWrite, Holder: hand, Write: 1, Change: change}, func(zone.StoreAnswer) {})
	rec.Contents.Items[0].Serial, change.AddItems[0].Serial = 66, 77
	w.pass(time.Second)
	spoil := func(c *zone.Contents) {
		for i := range c.Items {
			c.Items[i].Serial = 99
		}
	}
	spoil(&w.do(c, load(1)).Record.Contents)
	spoil(&w.do(c, zone.StoreRequest{Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 1}).Records[0].Contents)
	spoil(&w.do(c, claim(1, zone.Epoch{}, zone.Epoch{Transfers: 1}, home)).Record.Contents)
	spoil(w.do(c, zone.StoreRequest{Op: zone.StorePeek, Holder: hand}).Contents)
	spoil(&w.do(c, zone.StoreRequest{Op: zone.StoreWrite, Holder: hand, Write: 2, Change: &zone.Change{}}).Record.Contents)
	if got, _ := w.Record(1); len(got.Contents.Items) != 2 || got.Contents.Items[0].Serial != 5 || got.Contents.Items[1].Serial != 6 {
		t.Errorf("the record has %+v", got.Contents)
	}
	lying := zone.Contents{Items: []zone.Held{{Item: zone.Item{Serial: 5, Count: 1}, Lying: zone.Lying{Entity: 9}}}}
	w.PutGround(home, lying)
	spoil(&lying)
	look := zone.StoreRequest{Op: zone.StorePeek, Holder: zone.Holder{Region: home}}
	spoil(w.do(c, look).Contents)
	if got := w.do(c, look).Contents.Items[0].Serial; got != 5 {
		t.Errorf("on the ground lies item %d", got)
	}
}

func TestWhatWasPutIsThere(t *testing.T) {
	w := newWorld(1)
	rec := record(7, "seven")
	rec.Account = 5
	w.Put(rec)
	c := w.Client("a#1")
	if got := w.do(c, load(7)); !reflect.DeepEqual(*got.Record, rec) {
		t.Errorf("loaded %+v", got.Record)
	}
	other := record(8, "eight")
	other.Account = 5
	if got := w.do(c, create(other)); got.Code != zone.StoreConflict || got.Record.Entity != 7 {
		t.Errorf("a second master is answered %+v", got)
	}
	w.do(c, zone.StoreRequest{Op: zone.StoreLoadRegion, Region: home, RegionEpoch: 6})
	if w.Fence(home) != 6 || w.Fence(away) != 0 {
		t.Errorf("fences are %d and %d", w.Fence(home), w.Fence(away))
	}
}

func BenchmarkSave(b *testing.B) {
	w := newWorld(1)
	c := w.Client("a#1")
	w.Put(record(1, string(make([]byte, 1024))))
	req := save(record(1, string(make([]byte, 1024))))
	for b.Loop() {
		c.Submit(req, func(zone.StoreAnswer) {})
		w.pass(100 * time.Millisecond)
	}
}
