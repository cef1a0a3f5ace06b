// Package audittest has nodes that move items all the time, for tests of what looks at a store meanwhile.
//
// Imported by tests only.
package audittest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/storetest"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Run lets some nodes write to the store at an address until stop is called, which waits for them. They count what they
// write.
func Run(t *testing.T, addr string, writes *atomic.Uint64) (stop func()) {
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for n := range 3 {
		m := newMover(t, addr, n+1, writes)
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					m.step()
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(ended); wg.Wait() })
}

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
	cleared := zone.Change{RemoveOut: []uint64{movement}}
	if refused {
		cleared.AddItems = []zone.Held{m.held(from, item)}
	} else {
		put.AddItems = []zone.Held{m.held(to, item)}
	}
	m.write(to, put)
	m.write(from, cleared)
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
