// Package motion is how things walk: pure, deterministic, the same at the owner, at any observer and in a client. From a
// Path and its age an observer computes the position at any moment.
//
// One walks in steps of one metre to one of the eight neighbours, diagonally while both axes are off, then straight. A
// straight step costs 1000 mm of way, a diagonal one 1414 mm. May import torus; nothing else of this module.
package motion

import "github.com/spatialcells/spatialcells/node/torus"

const (
	// DefaultSpeed is 4 m/s: millimetres in one tick of 50 ms.
	DefaultSpeed = 200
	// MaxSpeed bounds what a Path from outside may say: 40 m/s.
	MaxSpeed = 2000
	// MaxWaypoints bounds a path.
	MaxWaypoints = 64
	// MaxLeg bounds the way between two waypoints, in metres (Chebyshev).
	MaxLeg = 64
	// ResyncSteps is after how many steps the owner publishes the position.
	ResyncSteps = 8

	straight = 1000
	diagonal = 1414
)

// Walk is a position and what is still to walk. Waypoints are canonical.
type Walk struct {
	At        torus.Pos
	Waypoints []torus.Pos
	// Speed in millimetres a tick; Progress is what is walked towards the next metre.
	Speed    int32
	Progress int32
}

// Standing reports whether there is nothing left to walk.
func (w *Walk) Standing() bool { return len(w.Waypoints) == 0 }

// Tick walks for one tick. After each step it asks stop whether to go on; it returns the number of steps made. When the
// walk ends or is stopped, the progress is forgotten.
func (w *Walk) Tick(g torus.Grid, stop func(torus.Pos) bool) (steps int) {
	if w.Standing() {
		return 0
	}
	w.Progress += w.Speed
	for !w.Standing() {
		dx, dy, cost := w.next(g)
		if cost > 0 {
			if w.Progress < cost {
				return steps
			}
			w.Progress -= cost
			w.At = g.Add(w.At, dx, dy)
			steps++
		}
		if w.At.X == w.Waypoints[0].X && w.At.Y == w.Waypoints[0].Y {
			w.Waypoints = w.Waypoints[1:]
		}
		if cost > 0 && stop != nil && stop(w.At) {
			w.Progress = 0
			return steps
		}
	}
	w.Progress = 0
	return steps
}

// Next is where the next step leads; false if there is none.
func (w *Walk) Next(g torus.Grid) (torus.Pos, bool) {
	for i := range w.Waypoints {
		dx, dy := g.Delta(w.At, w.Waypoints[i])
		if dx != 0 || dy != 0 {
			return g.Add(w.At, sign(dx), sign(dy)), true
		}
	}
	return w.At, false
}

// next is the step towards the first waypoint; cost 0: it is reached.
func (w *Walk) next(g torus.Grid) (dx, dy int64, cost int32) {
	dx, dy = g.Delta(w.At, w.Waypoints[0])
	dx, dy = sign(dx), sign(dy)
	switch {
	case dx == 0 && dy == 0:
		return 0, 0, 0
	case dx != 0 && dy != 0:
		return dx, dy, diagonal
	default:
		return dx, dy, straight
	}
}

// Ticks walks for n ticks without anything in the way.
func (w *Walk) Ticks(g torus.Grid, n int) {
	for range n {
		if w.Standing() {
			return
		}
		w.Tick(g, nil)
	}
}

func sign(v int64) int64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return 0
}
