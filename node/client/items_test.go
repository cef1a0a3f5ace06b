package client_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/torus"
)

func TestItemInputsSayWhatIsMovedAndWhere(t *testing.T) {
	h, doors := world(t, 1)
	c := dial(t, doors, client.Options{})
	place := torus.Pos{X: 41, Y: 42, Z: 3}
	for _, send := range []func() (uint64, error){
		func() (uint64, error) { return c.Pick(9, place) },
		func() (uint64, error) { return c.Drop(5) },
		func() (uint64, error) { return c.Give(5, 8) },
		func() (uint64, error) { return c.Use(5) },
		func() (uint64, error) { return c.Dig(place) },
		func() (uint64, error) { return c.Split(5, 2) },
		func() (uint64, error) { return c.Merge(5, 6) },
	} {
		if _, err := send(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, c, "all are answered", func(m *client.Model) bool { return m.Acked() == 7 })
	want := []*wire.Input{
		{Number: 1, Action: &wire.Input_Pick{Pick: &wire.Pick{Entity: 9, At: &wire.Position{X: 41, Y: 42, Z: 3}}}},
		{Number: 2, Action: &wire.Input_Drop{Drop: &wire.Drop{Serial: 5}}},
		{Number: 3, Action: &wire.Input_Give{Give: &wire.Give{Serial: 5, To: 8}}},
		{Number: 4, Action: &wire.Input_Use{Use: &wire.Use{Serial: 5}}},
		{Number: 5, Action: &wire.Input_Dig{Dig: &wire.Dig{X: 41, Y: 42}}},
		{Number: 6, Action: &wire.Input_Split{Split: &wire.Split{Serial: 5, Count: 2}}},
		{Number: 7, Action: &wire.Input_Merge{Merge: &wire.Merge{From: 5, Into: 6}}},
	}
	h.set(func(h *heart) {
		if !slices.EqualFunc(h.inputs, want, func(a, b *wire.Input) bool { return proto.Equal(a, b) }) {
			t.Errorf("got %v", h.inputs)
		}
	})
}

func TestAnInventoryIsWhatWasToldLast(t *testing.T) {
	m := &client.Model{}
	carry := func(serials ...uint64) *wire.EntityUpdate {
		inv := &wire.Inventory{}
		for _, s := range serials {
			inv.Items = append(inv.Items, &wire.Item{Serial: s, Kind: 1, Count: 1})
		}
		return &wire.EntityUpdate{Entity: 1, Components: []*wire.ComponentUpdate{{Component: &wire.ComponentUpdate_Inventory{Inventory: inv}}}}
	}
	check := func(told int, tick uint64, serials ...uint64) {
		t.Helper()
		own := m.Own()
		var got []uint64
		for _, item := range own.Inventory {
			got = append(got, item.Serial)
		}
		if own.InventoryTold != told || own.Updated != tick || !slices.Equal(got, serials) {
			t.Errorf("told %d times %v at tick %d, want %d times %v at %d", own.InventoryTold, got, own.Updated, told, serials, tick)
		}
	}
	receive := func(list ...*wire.ServerEnvelope) {
		t.Helper()
		if err := m.Receive(frame(list...)); err != nil {
			t.Fatal(err)
		}
	}
	receive(welcome(false, 1), batch(1, 10, false, appear(1, at(5, 5))))
	check(0, 10)
	receive(batch(2, 20, false, carry(3, 4)))
	check(1, 20, 3, 4)
	receive(resync(), batch(3, 30, true, appear(1, at(5, 5))))
	check(1, 30, 3, 4) // the full set does not speak of it
	receive(batch(4, 40, false, carry()))
	check(2, 40)
}
