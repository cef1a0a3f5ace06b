package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/store/storetest"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// mover is a node that moves items between the holders that it has, as nodes do: take, put, clear, forget.
type mover struct {
	t     *testing.T
	store storetest.Store
	rng   *rand.Rand
	// number makes ids: serials, movements, writes, entities.
	number  func() uint64
	region  torus.RegionPos
	holders []zone.Holder
	has     map[zone.Holder]*zone.Contents
	epochs  map[zone.Holder]zone.Epoch
	writes  *atomic.Uint64
}

func newMover(t *testing.T, addr string, n int, writes *atomic.Uint64) *mover {
	answers := make(chan zone.StoreAnswer, 16)
	d, err := store.New(context.Background(), "redis://"+addr, "", func(a zone.StoreAnswer) { answers <- a }, store.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	next := uint64(n) << 32
	m := &mover{
		t: t, store: storetest.Synchronous(t, d.Submit, answers), rng: rand.New(rand.NewPCG(uint64(n), 1)), region: torus.RegionPos{Column: int32(n)},
		number: func() uint64 { next++; return next },
		has:    map[zone.Holder]*zone.Contents{}, epochs: map[zone.Holder]zone.Epoch{}, writes: writes,
	}
	m.do(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: m.region, RegionEpoch: 1})
	m.add(zone.Holder{Region: m.region})
	for range 8 {
		m.create()
	}
	return m
}

func (m *mover) add(h zone.Holder) {
	m.holders = append(m.holders, h)
	m.has[h] = &zone.Contents{}
}

func (m *mover) do(req zone.StoreRequest) {
	if a := m.store.Do(req); a.Code != zone.StoreOK {
		m.t.Errorf("%+v is answered %+v", req, a)
	}
}

// create makes an entity with an account and an item.
func (m *mover) create() {
	id := m.number()
	h := zone.Holder{Entity: ecs.EntityID(id)}
	m.add(h)
	*m.has[h] = zone.Contents{Items: []zone.Held{{Item: zone.Item{Serial: m.number(), Kind: 1, Count: 1}}}, Made: 1}
	m.do(zone.StoreRequest{Op: zone.StoreCreate, Record: zone.Record{Entity: h.Entity, Home: m.region, Account: id, Blob: []byte("b"), Contents: store.CloneContents(*m.has[h])}})
}

func (m *mover) write(h zone.Holder, ch zone.Change) {
	c := m.has[h]
	m.do(zone.StoreRequest{Op: zone.StoreWrite, Holder: h, Expect: m.epochs[h], RegionEpoch: 1, Write: m.number(), Moves: c.Moves, Change: &ch})
	if err := store.Apply(c, &ch, h.OnGround()); err != nil {
		m.t.Error(err)
	}
	m.writes.Add(1)
}

// step does one thing that a node does.
func (m *mover) step() {
	from, to := m.holders[m.rng.IntN(len(m.holders))], m.holders[m.rng.IntN(len(m.holders))]
	c := m.has[from]
	switch m.rng.IntN(12) {
	case 0:
		m.write(from, zone.Change{AddItems: []zone.Held{m.held(from, zone.Item{Serial: m.number(), Kind: 1, Count: 1})}, Made: 1})
	case 1:
		if len(c.Items) > 3 {
			m.write(from, zone.Change{RemoveItems: []uint64{c.Items[0].Serial}, Ended: 1})
		}
	case 2:
		m.claim(from)
	case 3:
		if len(m.holders) < 40 {
			m.create()
		}
	default:
		if from != to && len(c.Items) > 0 {
			m.move(from, to, c.Items[m.rng.IntN(len(c.Items))].Item, m.rng.IntN(4) == 0)
		}
	}
}

func (m *mover) held(h zone.Holder, i zone.Item) zone.Held {
	if h.OnGround() {
		return zone.Held{Item: i, Lying: zone.Lying{Entity: 1, At: torus.Pos{X: 1, Y: 1, Z: 1}}}
	}
	return zone.Held{Item: i}
}

func (m *mover) move(from, to zone.Holder, item zone.Item, refused bool) {
	movement := m.number()
	m.write(from, zone.Change{RemoveItems: []uint64{item.Serial}, AddOut: []zone.OutEntry{{Movement: movement, Item: item, To: to}}})
	put := zone.Change{AddIn: []zone.InEntry{{Movement: movement, From: from, Void: refused}}}
	clear := zone.Change{RemoveOut: []uint64{movement}}
	if refused {
		clear.AddItems = []zone.Held{m.held(from, item)}
	} else {
		put.AddItems = []zone.Held{m.held(to, item)}
	}
	m.write(to, put)
	m.write(from, clear)
	m.write(to, zone.Change{RemoveIn: []uint64{movement}})
}

// claim lets an entity walk to another region and back.
func (m *mover) claim(h zone.Holder) {
	if h.OnGround() {
		return
	}
	for _, home := range []torus.RegionPos{{Column: m.region.Column, Row: 1 + m.rng.Int32N(5)}, m.region} {
		before := m.epochs[h]
		after := zone.Epoch{Recoveries: before.Recoveries, Transfers: before.Transfers + 1}
		m.do(zone.StoreRequest{Op: zone.StoreClaim, Expect: before, Record: zone.Record{Entity: h.Entity, Epoch: after, Home: home}})
		m.epochs[h] = after
	}
}

// runMovers lets some nodes write until the function returned is called, which waits for them.
func runMovers(t *testing.T, addr string, writes *atomic.Uint64) func() {
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for n := range 3 {
		m := newMover(t, addr, n+1, writes)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					m.step()
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(stop); wg.Wait() })
}

// eachServer runs a test on the embedded server, and on one that is installed.
func eachServer(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("embedded", func(t *testing.T) { test(t, newShelf(t).Addr()) })
	t.Run("installed", func(t *testing.T) { test(t, storetest.NewServer(t).Addr) })
}

// TestNodesThatWriteRaiseNoFalseAlarm: many audits, while items move all the time, records change homes and come into being.
func TestNodesThatWriteRaiseNoFalseAlarm(t *testing.T) {
	eachServer(t, func(t *testing.T, addr string) {
		client, err := Client(connect.Config{URL: "redis://" + addr})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		quiet(t, client)
		var writes atomic.Uint64
		stop := runMovers(t, addr, &writes)
		defer stop()
		audits, passes, inUse := 0, 0, 0
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
			before := writes.Load()
			r, err := Run(t.Context(), client, Options{Wait: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Faults {
				t.Errorf("after %d writes: %v", writes.Load()-before, f)
			}
			if t.Failed() {
				return
			}
			audits, passes, inUse = audits+1, passes+r.Passes, max(inUse, r.Busy)
		}
		stop()
		r, err := Run(t.Context(), client, Options{})
		if err != nil || r.Found != 0 || r.Passes != 1 || r.Open != 0 || r.Leftovers != 0 {
			t.Errorf("at rest: %+v, %v", r, err)
		}
		t.Logf("%d audits in %d passes, at most %d holders in use, during %d writes", audits, passes, inUse, writes.Load())
	})
}

// TestAFaultIsFoundWhileNodesWrite: and is found each time.
func TestAFaultIsFoundWhileNodesWrite(t *testing.T) {
	s := newShelf(t)
	var writes atomic.Uint64
	stop := runMovers(t, s.Addr(), &writes)
	defer stop()
	s.record(5, "i:77", "1 1").record(6, "i:77", "1 1", "made", "1").record(7, "made", "1")
	for range 5 {
		r := s.audit()
		if r.Found != 2 || r.Faults[0].Kind != Twice || r.Faults[0].Serial != 77 || r.Faults[1].Kind != Lost {
			t.Fatalf("faults %v", r.Faults)
		}
	}
}

// quiet fills a store with records that nobody writes, so that reading all takes some time.
func quiet(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	pipe := client.Pipeline()
	for i := range 2000 {
		id := uint64(1)<<50 + uint64(i)
		pipe.HSet(t.Context(), fmt.Sprintf("{e:%d}", id), "format", "2", "recoveries", "0", "transfers", "0", "column", "9", "row", "9",
			"account", "0", "resting", "1", "blob", "b", "version", "1", "made", "1", "ended", "0", "moves", "0", fmt.Sprintf("i:%d", id), "1 1")
		pipe.HSet(t.Context(), "{r:9,9}:index", id, "0 0")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}
