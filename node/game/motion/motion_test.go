package motion

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/node/torus"
)

func grid(t interface{ Fatal(...any) }) torus.Grid {
	g, err := torus.NewGrid(2, 2, 15)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAWalkOverTheSeamIsTheSameWalkShifted(t *testing.T) {
	g := grid(t)
	rapid.Check(t, func(t *rapid.T) {
		start := torus.Pos{X: rapid.Int64Range(0, g.SizeX()-1).Draw(t, "x"), Y: rapid.Int64Range(0, g.SizeY()-1).Draw(t, "y")}
		dx, dy := rapid.Int64Range(-400, 400).Draw(t, "dx"), rapid.Int64Range(-400, 400).Draw(t, "dy")
		sx, sy := rapid.Int64Range(0, g.SizeX()-1).Draw(t, "shift x"), rapid.Int64Range(0, g.SizeY()-1).Draw(t, "shift y")
		here := Walk{At: start, Waypoints: []torus.Pos{g.Add(start, dx, dy)}, Speed: DefaultSpeed}
		moved := g.Add(start, sx, sy)
		there := Walk{At: moved, Waypoints: []torus.Pos{g.Add(moved, dx, dy)}, Speed: DefaultSpeed}
		for range rapid.IntRange(0, 4000).Draw(t, "ticks") {
			here.Tick(g, nil)
			there.Tick(g, nil)
			if g.Add(here.At, sx, sy) != there.At || here.Progress != there.Progress {
				t.Fatalf("walks part: %v shifted by %d,%d is not %v", here.At, sx, sy, there.At)
			}
		}
	})
}

func TestAStraightWalkTakesItsTime(t *testing.T) {
	g := grid(t)
	w := Walk{At: torus.Pos{X: 5, Y: 5}, Waypoints: []torus.Pos{{X: 25, Y: 5}}, Speed: DefaultSpeed}
	w.Ticks(g, 99) // 20 m at 4 m/s are 100 ticks
	if w.At.X != 24 {
		t.Fatalf("after 99 ticks at x=%d, want 24", w.At.X)
	}
	w.Ticks(g, 1)
	if w.At.X != 25 || !w.Standing() {
		t.Fatalf("after 100 ticks at x=%d, standing %v", w.At.X, w.Standing())
	}
}

func TestAStoppedWalkKeepsItsWaypoints(t *testing.T) {
	g := grid(t)
	w := Walk{At: torus.Pos{X: 5, Y: 5}, Waypoints: []torus.Pos{{X: 25, Y: 5}}, Speed: 5000}
	steps := w.Tick(g, func(p torus.Pos) bool { return p.X == 7 })
	if steps != 2 || w.At.X != 7 || w.Standing() || w.Progress != 0 {
		t.Fatalf("%d steps to %v, progress %d", steps, w.At, w.Progress)
	}
}

func TestTickingAllocatesNothing(t *testing.T) {
	g := grid(t)
	w := Walk{At: torus.Pos{X: 5, Y: 5}, Waypoints: []torus.Pos{{X: 400, Y: 300}}, Speed: DefaultSpeed}
	if n := testing.AllocsPerRun(100, func() { w.Tick(g, nil) }); n != 0 {
		t.Fatalf("%v allocations a tick", n)
	}
}
