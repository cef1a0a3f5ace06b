package bots

import (
	"context"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

func (w *world) swarm(t *testing.T, n int) *Swarm {
	t.Helper()
	s, err := New(Options{
		Gateways: w.gateways(), Key: testKey, World: testWorld, Bots: n, Grid: w.grid, Rate: 200, Seed: 7, Loopback: true,
		Owner: func(region int) string { return w.owner(region).session },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
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
