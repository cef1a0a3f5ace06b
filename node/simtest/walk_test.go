package simtest

import (
	"fmt"
	"testing"

	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

func start(t *testing.T, o Options) *Cluster {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("\n" + c.Notes())
		}
	})
	return c
}

func run(t *testing.T, c *Cluster, ticks int) {
	t.Helper()
	if err := c.Run(ticks); err != nil {
		t.Fatal(err)
	}
}

// until runs until a fact holds, at most so many ticks.
func until(t *testing.T, c *Cluster, ticks int, what string, fact func() bool) {
	t.Helper()
	for range ticks {
		if fact() {
			return
		}
		run(t, c, 1)
	}
	if !fact() {
		t.Fatalf("after %d ticks still not: %s", ticks, what)
	}
}

func settled(cl *Client) func() bool {
	return func() bool { return cl.Own() != nil && len(cl.Chunks) >= 121 }
}

// TestAPlayerWalksOverABorder: a line of two nodes; the walker is handed over, the watcher sees one entity all the time.
func TestAPlayerWalksOverABorder(t *testing.T) {
	c := start(t, Options{Columns: 2, Rows: 1, RegionEdgeChunks: 15, Nodes: 2})
	size := int64(15 * 32)
	walker := c.Login(c.Nodes[0], 1, &torus.Pos{X: size - 20, Y: 100})
	watcher := c.Login(c.Nodes[1], 2, &torus.Pos{X: size + 20, Y: 110})
	until(t, c, 200, "both are in the world", func() bool { return settled(walker)() && settled(watcher)() })
	c.Walk(walker, torus.Pos{X: size + 40, Y: 100}, torus.Pos{X: size + 100, Y: 100})
	until(t, c, 1200, "the walker has arrived", func() bool { return walker.At(walker.Own(), walker.Tick).X == size+100 })
	run(t, c, 100)
	if n := c.Stats(func(s zone.Stats) uint64 { return s.Handoffs }); n != 1 {
		t.Errorf("%d handoffs, want 1", n)
	}
	seen := watcher.Entities[walker.Own().ID]
	if seen == nil {
		t.Fatal("the watcher does not see the walker")
	}
	if at := watcher.At(seen, watcher.Tick); at.X != size+100 {
		t.Errorf("the watcher sees the walker at %v", at)
	}
	if s := walker.Own().Stamina; s == nil || s.Current >= 100 {
		t.Errorf("the walker's own stamina is %v, want it spent", s)
	}
	if seen.Stamina != nil {
		t.Error("the watcher was told the walker's stamina, which is for its owner only")
	}
}

// TestCrossingsOfSeamsAndACorner: four nodes around a corner, which is the seam as well; everybody walks in circles
// around it and sees everybody all the time.
func TestCrossingsOfSeamsAndACorner(t *testing.T) {
	c := start(t, Options{Columns: 2, Rows: 2, RegionEdgeChunks: 15, Nodes: 4})
	g := c.Grid
	var players []*Client
	for i := range 8 {
		at := g.Add(torus.Pos{}, int64(i%2)*90-45, int64(i/2%2)*90-45)
		players = append(players, c.Login(c.Nodes[i%4], uint64(i+1), &at))
	}
	for _, p := range players {
		until(t, c, 300, "all are in the world", settled(p))
	}
	around := [][2]int64{{-70, -70}, {70, 70}, {70, -70}, {-70, 70}, {-70, -70}, {70, -70}, {70, 70}, {-70, 70}}
	for step := range 12 {
		for i, p := range players {
			to := around[(step+i)%len(around)]
			c.WalkTo(p, g.Add(torus.Pos{}, to[0], to[1]))
			c.Say(p, fmt.Sprint(step))
		}
		run(t, c, 1000)
	}
	stats := func(f func(zone.Stats) uint64) uint64 { return c.Stats(f) }
	if n := stats(func(s zone.Stats) uint64 { return s.CrossedCorner }); n == 0 {
		t.Error("nobody crossed the corner of four nodes diagonally")
	}
	if n := stats(func(s zone.Stats) uint64 { return s.Handoffs }); n < 20 {
		t.Errorf("%d handoffs, want at least 20", n)
	}
	for _, p := range players {
		if len(p.Entities) != len(players) {
			t.Errorf("player %d sees %d of %d", p.Account, len(p.Entities), len(players))
		}
	}
}

// TestTinyWorlds: a node is its own neighbour, and one peer borders twice.
func TestTinyWorlds(t *testing.T) {
	for _, o := range []Options{
		{Columns: 1, Rows: 1, RegionEdgeChunks: 15, Nodes: 1},
		{Columns: 2, Rows: 1, RegionEdgeChunks: 15, Nodes: 1},
		{Columns: 2, Rows: 1, RegionEdgeChunks: 15, Nodes: 2},
	} {
		t.Run(fmt.Sprintf("%dx%d on %d", o.Columns, o.Rows, o.Nodes), func(t *testing.T) {
			c := start(t, o)
			a := c.Login(c.Nodes[0], 1, &torus.Pos{X: 10, Y: 10})
			b := c.Login(c.Nodes[len(c.Nodes)-1], 2, &torus.Pos{X: 20, Y: 10})
			until(t, c, 300, "both are in the world", func() bool { return settled(a)() && settled(b)() })
			for lap := range 3 { // once around the world along x, a few times
				at := a.At(a.Own(), a.Tick)
				for x := int64(0); x < c.Grid.SizeX(); x += 60 {
					at = c.Grid.Add(at, -60, 0)
					c.Walk(a, at)
					run(t, c, 60*5+1)
				}
				_ = lap
			}
			run(t, c, 60)
			if b.Entities[a.Own().ID] == nil && c.Grid.Chebyshev(a.At(a.Own(), a.Tick), b.At(b.Own(), b.Tick)) < 100 {
				t.Error("they stand side by side and do not see each other")
			}
		})
	}
}
