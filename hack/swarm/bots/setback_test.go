package bots

import (
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/torus"
)

// TestACrashUndoesFiveSecondsOfAWalk: a bot that walked east is found somewhere after the crash of its owner.
func TestACrashUndoesFiveSecondsOfAWalk(t *testing.T) {
	g := grid(t, 4, 4, 15)
	start := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		x    int64         // where it is found; it was heard of at 500 last
		away time.Duration // of the store
		want int
	}{
		"where it was":                 {500, 0, 0},
		"further on its way":           {530, 0, 0},
		"at its goal":                  {560, 0, 0},
		"5 s of walking back":          {480, 0, 0},
		"more":                         {470, 0, 1},
		"more, but the store was away": {470, 2 * time.Second, 0},
		"beyond its goal":              {590, 0, 1},
	} {
		s := &Swarm{kinds: map[client.ViolationKind]int{}, opts: Options{Grid: g}}
		b := &bot{swarm: s, hands: newHands()}
		if c.away > 0 {
			s.outages = []*outage{{start.Add(-c.away), start}}
		}
		m := &client.Model{Grid: g}
		own := &client.Seen{Walk: motion.Walk{At: torus.Pos{X: 500, Y: 500}, Speed: motion.DefaultSpeed, Waypoints: []torus.Pos{{X: 560, Y: 500}}}}
		b.followed(m, own, 0, start)
		// the full set that follows the crash shows where the walk would have led
		b.followed(m, &client.Seen{Marks: 1, Walk: own.Walk, Updated: 400}, 400, start.Add(20*time.Second))
		own = &client.Seen{Marks: 2, Resets: 1, Walk: motion.Walk{At: torus.Pos{X: c.x, Y: 500}}, Since: 600, Updated: 600}
		b.followed(m, own, 600, start.Add(30*time.Second))
		if s.count.violations != c.want {
			t.Errorf("%s: %d violations: %v", name, s.count.violations, s.kept)
		}
		if !b.appeared.Equal(start) && !b.appeared.IsZero() || b.whereabouts.heard != start.Add(30*time.Second) {
			t.Errorf("%s: it appeared at %v", name, b.appeared)
		}
	}
}

// TestACrashUndoesNoTurnOfMoreThanFiveSecondsAgo: a bot that walked east has turned west.
func TestACrashUndoesNoTurnOfMoreThanFiveSecondsAgo(t *testing.T) {
	g := grid(t, 4, 4, 15)
	start := time.Unix(1000, 0)
	walk := func(x, goal int64) motion.Walk {
		return motion.Walk{At: torus.Pos{X: x, Y: 500}, Speed: motion.DefaultSpeed, Waypoints: []torus.Pos{{X: goal, Y: 500}}}
	}
	for name, c := range map[string]struct {
		west  time.Duration // for how long it was seen walking west
		again int64         // where it walks after the crash
		want  int
	}{
		"on its way west":       {8 * time.Second, 400, 0},
		"it turned just before": {6 * time.Second, 560, 0},
		"it turned long before": {7 * time.Second, 560, 1},
	} {
		s := &Swarm{kinds: map[client.ViolationKind]int{}, opts: Options{Grid: g}}
		b := &bot{swarm: s, hands: newHands()}
		m := &client.Model{Grid: g}
		b.followed(m, &client.Seen{Walk: walk(550, 560)}, 0, start)
		b.followed(m, &client.Seen{Walk: walk(560, 400), Since: 100, Updated: 100}, 100, start.Add(5*time.Second))
		heard := start.Add(5*time.Second + c.west)
		b.followed(m, &client.Seen{Walk: walk(560-c.west.Milliseconds()/250, 400), Since: 200, Updated: 200}, 200, heard)
		b.followed(m, &client.Seen{Marks: 1, Resets: 1, Walk: walk(550, c.again), Since: 300, Updated: 300}, 300, heard.Add(2*time.Second))
		if s.count.violations != c.want {
			t.Errorf("%s: %d violations: %v", name, s.count.violations, s.kept)
		}
	}
}
