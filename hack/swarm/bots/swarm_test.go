package bots

import (
	"context"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

func (w *world) swarm(t *testing.T, n int) *Swarm {
	t.Helper()
	s, err := New(w.options(n))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) options(bots int) Options {
	return Options{
		Gateways: w.gateways(), Key: testKey, World: testWorld, Bots: bots, Grid: w.grid, Rate: 200, Seed: 7, Loopback: true,
		Owner: func(region int) string { return w.owner(region).session },
	}
}

func runFor(t *testing.T, s *Swarm, d time.Duration) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	r := s.Run(ctx)
	t.Log("\n" + r.Summary())
	return r
}

func TestBotsOfASoundWorldHaveNothingToReport(t *testing.T) {
	w := newWorld(t, 4, 4, 4)
	r := runFor(t, w.swarm(t, 40), 25*time.Second)
	if why := r.Failed(); len(why) > 0 {
		t.Error(why)
	}
	if r.Connected != 40 || len(r.Gateways) != 4 {
		t.Errorf("%d bots are connected through %v", r.Connected, r.Gateways)
	}
	for what, n := range map[string]uint64{
		"handoffs": w.stats(func(s zone.Stats) uint64 { return s.Handoffs }),
		"seam x":   w.stats(func(s zone.Stats) uint64 { return s.CrossedSeamX }),
		"seam y":   w.stats(func(s zone.Stats) uint64 { return s.CrossedSeamY }),
		"corner":   w.stats(func(s zone.Stats) uint64 { return s.CrossedCorner }),
		"heard":    uint64(r.Heard),
	} {
		if n == 0 {
			t.Errorf("%s: none", what)
		}
	}
}

func TestBotsThatTinkerLeaveTheStoreAsTheyKnowIt(t *testing.T) {
	w := newWorld(t, 2, 2, 4)
	o := w.options(30)
	o.Tinker = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := runFor(t, s, 30*time.Second)
	if why := r.Failed(); len(why) > 0 {
		t.Error(why)
	}
	again := s.Return(t.Context())
	if why := again.Failed(); len(why) > 0 || again.Connected != 30 || again.Restless != 0 {
		t.Errorf("after their return %d are connected: %v", again.Connected, why)
	}
	for _, a := range []action{digs, picks, drops, gives, uses, splits, merges} {
		if r.Items.Done[string(a)] == 0 {
			t.Errorf("%s: none", a)
		}
	}
	x := s.Expectation()
	if len(x.Present) == 0 || len(x.Absent) == 0 || len(r.Items.Unknown) > 0 {
		t.Errorf("%d must exist, %d must not, %v is not known", len(x.Present), len(x.Absent), r.Items.Unknown)
	}
	held := w.held()
	for _, serial := range x.Present {
		if held[serial] != 1 {
			t.Errorf("item %d is in %d places", serial, held[serial])
		}
	}
	for _, serial := range x.Absent {
		if held[serial] != 0 {
			t.Errorf("item %d has ended and is in %d places", serial, held[serial])
		}
	}
}

// held counts in how many places of the store each item is.
func (w *world) held() map[uint64]int {
	places := map[uint64]int{}
	for _, c := range w.store.EachHolder {
		for _, item := range c.Items {
			places[item.Serial]++
		}
		for _, o := range c.Out {
			places[o.Item.Serial]++
		}
	}
	return places
}
