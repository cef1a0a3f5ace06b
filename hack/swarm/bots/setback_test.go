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
		own = &client.Seen{Marks: 2, Resets: 1, Walk: motion.Walk{At: torus.Pos{X: c.x, Y: 500}}, Since: 600, Updated: 600, Dated: 600}
		b.followed(m, own, 600, start.Add(30*time.Second))
		if s.count.violations != c.want {
			t.Errorf("%s: %d violations: %v", name, s.count.violations, s.kept)
		}
		if !b.appeared.Equal(start) && !b.appeared.IsZero() || !b.whereabouts.heard.Equal(start.Add(30*time.Second)) {
			t.Errorf("%s: it appeared at %v", name, b.appeared)
		}
	}
}

// TestACrashUndoesNoCornerOfMoreThanFiveSecondsAgo: a bot that walked east has turned south; its way back is not far.
func TestACrashUndoesNoCornerOfMoreThanFiveSecondsAgo(t *testing.T) {
	g := grid(t, 4, 4, 15)
	start := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		at   torus.Pos // where it is found; heard of last at 560, 520, 5 s after the corner
		want int
	}{
		"further on its way": {torus.Pos{X: 560, Y: 524}, 0},
		"after the corner":   {torus.Pos{X: 560, Y: 505}, 0},
		"just before it":     {torus.Pos{X: 556, Y: 500}, 0},
		"long before it":     {torus.Pos{X: 540, Y: 500}, 1},
	} {
		s := &Swarm{kinds: map[client.ViolationKind]int{}, opts: Options{Grid: g}}
		b := &bot{swarm: s, hands: newHands()}
		m := &client.Model{Grid: g}
		own := &client.Seen{Walk: motion.Walk{At: torus.Pos{X: 520, Y: 500}, Speed: motion.DefaultSpeed, Waypoints: []torus.Pos{{X: 560, Y: 500}, {X: 560, Y: 560}}}}
		now := start
		for tick := uint64(0); tick <= 300; tick += 2 { // 15 s: 10 s to the corner, 5 s beyond
			now = start.Add(time.Duration(tick) * tickTime)
			own.Updated, own.Dated = tick, tick
			b.followed(m, own, tick, now)
		}
		if at := b.whereabouts.walk.At; at.X != 560 || at.Y != 520 {
			t.Fatalf("it is at %v", at)
		}
		b.followed(m, &client.Seen{Marks: 1, Resets: 1, Walk: motion.Walk{At: c.at}, Since: 320, Updated: 320, Dated: 320}, 320, now.Add(time.Second))
		if s.count.violations != c.want {
			t.Errorf("%s: %d violations: %v; undone %v", name, s.count.violations, s.kept, s.count.undone)
		}
	}
}

// TestAWordThatWaitedIsOld: owner and gateway stand still, the gateway first. When it goes on it tells what the owner said before, with
// its age, so the bot is shown where its walk would have led; then the owner goes on, and the bot with it.
func TestAWordThatWaitedIsOld(t *testing.T) {
	g := grid(t, 4, 4, 15)
	start := time.Unix(1000, 0)
	s := &Swarm{kinds: map[client.ViolationKind]int{}, opts: Options{Grid: g}}
	b := &bot{swarm: s, hands: newHands()}
	m := &client.Model{Grid: g}
	walk := motion.Walk{At: torus.Pos{X: 500, Y: 500}, Speed: motion.DefaultSpeed, Waypoints: []torus.Pos{{X: 560, Y: 500}}}
	b.followed(m, &client.Seen{Walk: walk}, 0, start)
	thaw := start.Add(20 * time.Second)
	b.followed(m, &client.Seen{Walk: walk, Marks: 1, Resets: 1, Updated: 400, Dated: 2}, 400, thaw)
	b.followed(m, &client.Seen{Walk: walk, Since: 402, Marks: 2, Resets: 2, Updated: 402, Dated: 402}, 402, thaw.Add(100*time.Millisecond))
	if s.count.violations != 0 {
		t.Errorf("%d violations: %v", s.count.violations, s.kept)
	}
}
