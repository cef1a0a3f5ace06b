package zone

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ghost"
)

// The same proof as in package ghost, with real engines: what each owner sent to an observing node reaches it in every
// interleaving; the client behind it is the judge.

// play is a story on the stage as one observer got it.
type play struct {
	*stage
	observer *actor
	start    int // from this tick on the streams are interleaved,
	end      int // and from this one they come as they are sent
}

// record plays a story to its end: the walker enters when the watcher has been there for so many ticks.
func record(t *testing.T, holders [4]string, gateway string, enters, crossings int) *play {
	t.Helper()
	s := newStage(t, holders, gateway)
	s.whole = enters >= settled
	end := s.run(enters, crossings)
	return &play{stage: s, observer: s.actor(gateway), start: enters + 6, end: end}
}

// run plays a story: the walker enters after so many ticks, is handed over, and goes on until all has arrived. It returns
// the tick in which that was over.
func (s *stage) run(enters, crossings int) (end int) {
	for range enters {
		s.step()
	}
	s.enter()
	for _, region := range []int{1, 3}[:crossings] {
		for range 10 {
			s.step()
		}
		for s.owner() == nil && s.tick < 10*settled {
			s.step()
		}
		s.cross(region)
	}
	for range 10 {
		s.step()
	}
	end = s.tick
	for range 3 * ghost.HoldTicks {
		s.step()
	}
	s.quiet = true
	for range 3 * ghost.HoldTicks {
		s.step()
	}
	if o := s.owner(); o == nil || int(o.sim.authority.Get(walker).epoch.Transfers) < crossings {
		s.t.Fatalf("the walker did not make %d crossings", crossings)
	}
	return end
}

// groups splits what a sender sent from the start on into so many groups, around what matters of the walker.
func (p *play) groups(from string, count int) (groups []group) {
	alone := false
	for i, in := range p.observer.read[p.start:p.end] {
		for _, b := range in.Replication {
			if b.Session != from {
				continue
			}
			tick, text := p.start+i, describe(b.Bytes)
			matters := strings.Contains(text, "SNAPSHOT") || strings.Contains(text, "TRANSFERRED") || strings.Contains(text, "mark")
			if len(groups) == 0 || matters || alone {
				groups = append(groups, group{from: from, first: tick})
			}
			g := &groups[len(groups)-1]
			g.last, g.batches, alone = tick, append(g.batches, b), matters
		}
	}
	return split(groups, count)
}

// split divides the longest groups until there are so many, and merges the last ones when there are more.
func split(groups []group, count int) []group {
	for len(groups) < count {
		long := 0
		for i := range groups {
			if len(groups[i].batches) > len(groups[long].batches) {
				long = i
			}
		}
		g := groups[long]
		half := len(g.batches) / 2
		if half == 0 {
			break
		}
		rest := group{g.from, g.first + half, g.last, g.batches[half:]}
		groups[long].batches, groups[long].last = g.batches[:half], g.first+half-1
		groups = slices.Insert(groups, long+1, rest)
	}
	for len(groups) > count {
		last := groups[len(groups)-1]
		groups = groups[:len(groups)-1]
		g := &groups[len(groups)-1]
		g.batches, g.last = append(g.batches, last.batches...), last.last
	}
	return groups
}

// perform makes the observer anew, gives it what it read before the start, then the groups in their order, each as early as
// it can be there. Nothing else of the others reaches it from the start on.
func (p *play) perform(order []group) *actor {
	o := p.newActor(p.observer.session, len(p.actors)-1)
	o.model = &client.Model{}
	now := p.observer.read[0].Boot
	var late []PeerBytes
	for tick := 0; tick < len(p.observer.read) || len(order) > 0; tick++ {
		in := Inbox{}
		if tick < len(p.observer.read) {
			in = p.observer.read[tick]
		}
		switch {
		case tick < p.start:
		case len(order) > 0:
			if tick >= p.end {
				late = append(late, in.Replication...)
			}
			in.Replication = nil
			if order[0].last <= tick {
				in.Replication, order = order[0].batches, order[1:]
			}
		case tick < p.end:
			in.Replication = nil
		default:
			in.Replication, late = append(late, in.Replication...), nil
		}
		o.step(p.t, now, &in)
		now += TickDuration
	}
	for range 2 * ghost.HoldTicks {
		o.step(p.t, now, &Inbox{})
		now += TickDuration
	}
	return o
}

// judge says what is wrong at an observer in the end, "" if nothing is.
func (s *stage) judge(o *actor) string {
	owner := s.owner()
	a, r, m := owner.sim.authority.Get(walker), o.e.gate.replicas.Get(walker), o.model
	if m.ViolationCount > 0 {
		v := m.Violations[0]
		return fmt.Sprintf("the client saw a %s of %v at tick %d: %s", v.Kind, v.Entity, v.Tick, v.Detail)
	}
	if r == nil {
		return "the observer has no replica in the end"
	}
	if r.Owner != owner.self || r.Epoch != a.epoch || r.Chunk != a.chunk {
		return fmt.Sprintf("the replica is of %s, %v, chunk %d; the truth is %s, %v, chunk %d", r.Owner, r.Epoch, r.Chunk, owner.self, a.epoch, a.chunk)
	}
	seen := m.Entities[walker]
	if seen == nil {
		return "the client does not see the walker in the end"
	}
	if at, want := m.At(seen, uint64(o.e.tick)), owner.sim.game.Position.Get(walker).At; s.grid.Chebyshev(at, want) > client.Slack {
		return fmt.Sprintf("the client sees the walker at %v, it is at %v", at, want)
	}
	if vanished := m.TakeVanished(); len(vanished) > 0 {
		return fmt.Sprintf("it vanished: %+v", vanished)
	}
	return s.judgeHeard(o, seen)
}

// judgeHeard: what the walker said is heard in order, each word once, and every hole is marked. There is none where nothing
// is lost or later than frames are held.
func (s *stage) judgeHeard(o *actor, seen *client.Seen) string {
	m := o.model
	last := client.Said{Appeared: seen.Appeared}
	whole := s.whole && o.e.Stats().ReplicaExpired == 0
	words := append(m.Heard, client.Said{Speaker: walker, Text: fmt.Sprint(s.said + 1), Appeared: seen.Appeared, Marks: seen.Marks})
	for i, h := range words {
		if h.Speaker != walker {
			continue
		}
		was, _ := strconv.Atoi(last.Text)
		is, _ := strconv.Atoi(h.Text)
		switch {
		case is <= was:
			return fmt.Sprintf("word %d was heard after %d", is, was)
		case i > 0 && is > was+1 && (whole || last.Marks == h.Marks && last.Appeared == h.Appeared):
			return fmt.Sprintf("word %d of %d came after %d, and nothing marks the hole", is, s.said, was)
		}
		last = h
	}
	if len(words) == 1 && seen.Marks == 0 {
		return "nothing was heard"
	}
	return ""
}

// interleave visits every merge of the streams.
func interleave(streams [][]group, visit func(order []group)) {
	var order []group
	next := make([]int, len(streams))
	var merge func()
	merge = func() {
		done := true
		for i, s := range streams {
			if next[i] == len(s) {
				continue
			}
			done = false
			order = append(order, s[next[i]])
			next[i]++
			merge()
			next[i]--
			order = order[:len(order)-1]
		}
		if done {
			visit(order)
		}
	}
	merge()
}

func TestAThirdNodeSeesACrossingInEveryInterleaving(t *testing.T) {
	for name, c := range map[string]struct {
		holders   [4]string
		crossings int
		groups    map[string]int
	}{
		"a to b":             {[4]string{"a", "b", "o", "b"}, 1, map[string]int{"a": 5, "b": 5}},
		"a to b and back":    {[4]string{"a", "b", "o", "a"}, 2, map[string]int{"a": 6, "b": 5}},
		"a to b and on to c": {[4]string{"a", "b", "o", "c"}, 2, map[string]int{"a": 3, "b": 3, "c": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			p := record(t, c.holders, "o", settled, c.crossings)
			if wrong := p.judge(p.observer); wrong != "" {
				t.Fatalf("nothing is late: %s", wrong)
			}
			p.everyOrder(t, c.groups)
		})
	}
}

// settled is after how many ticks the watcher has all that it may see.
const settled = 45

// TestAThirdNodeThatComesMeanwhileSeesACrossing: its subscriptions take effect before, in and after it.
func TestAThirdNodeThatComesMeanwhileSeesACrossing(t *testing.T) {
	for enters := 2; enters < settled; enters += 3 {
		p := record(t, [4]string{"a", "b", "o", "a"}, "o", enters, 1+enters%2)
		p.everyOrder(t, map[string]int{"a": 4, "b": 4})
	}
}

// TestAnOwnerSeesACrossingThoughTheOthersStreamIsLate: the observer is one of the two; its own stream is never late, and
// the other's by up to more than a second, in each part of the story by another time.
func TestAnOwnerSeesACrossingThoughTheOthersStreamIsLate(t *testing.T) {
	for name, c := range map[string]struct {
		holders   [4]string
		gateway   string
		crossings int
	}{
		"the old one":                    {[4]string{"a", "b", "a", "b"}, "a", 1},
		"the new one":                    {[4]string{"a", "b", "b", "b"}, "b", 1},
		"the first one, and it is back":  {[4]string{"a", "b", "a", "a"}, "a", 2},
		"the second one, and it is back": {[4]string{"a", "b", "b", "a"}, "b", 2},
		"the second one, and it goes on": {[4]string{"a", "b", "b", "c"}, "b", 2},
	} {
		t.Run(name, func(t *testing.T) {
			late, runs := []int{0, 3, 25}, 0
			for n := range 3 * 3 * 3 * 3 {
				parts := []int{late[n%3], late[n/3%3], late[n/9%3], late[n/27]}
				runs++
				s := newStage(t, c.holders, c.gateway)
				s.whole = true
				s.delay = func(_, to string, tick int) int {
					if part := (tick - settled - 8) / 5; to == c.gateway && part >= 0 && part < len(parts) {
						return parts[part]
					}
					return 0
				}
				s.run(settled, c.crossings)
				if wrong := s.judge(s.actor(c.gateway)); wrong != "" {
					t.Fatalf("late by %v ticks in the parts: %s", parts, wrong)
				}
			}
			t.Logf("%d runs", runs)
		})
	}
}

// TestALinkThatBreaksOnceInACrossingIsMarked, whichever it is, in each tick of the story.
func TestALinkThatBreaksOnceInACrossingIsMarked(t *testing.T) {
	runs := 0
	for _, link := range [][2]string{{"a", "o"}, {"b", "o"}, {"c", "o"}, {"a", "b"}, {"b", "c"}} {
		for at := settled + 4; at < settled+34; at++ {
			for _, ticks := range []int{1, 4, 25} {
				runs++
				s := newStage(t, [4]string{"a", "b", "o", "c"}, "o")
				s.before = func() {
					if s.tick == at {
						s.cut(link[0], link[1], ticks)
					}
				}
				s.run(settled, 2)
				if wrong := s.judge(s.actor("o")); wrong != "" {
					t.Fatalf("the link of %v breaks in tick %d for %d ticks: %s", link, at, ticks, wrong)
				}
			}
		}
	}
	t.Logf("%d runs", runs)
}

func (p *play) everyOrder(t *testing.T, count map[string]int) {
	var streams [][]group
	for _, a := range p.actors {
		if n := count[a.session]; n > 0 {
			streams = append(streams, p.groups(a.session, n))
		}
	}
	orders, failed := 0, 0
	interleave(streams, func(order []group) {
		if failed >= 3 {
			return
		}
		orders++
		if wrong := p.judge(p.perform(order)); wrong != "" {
			failed++
			t.Error(wrong + "\n" + listed(order))
		}
	})
	t.Logf("%d orders", orders)
}

func listed(order []group) string {
	text := ""
	for i, g := range order {
		text += fmt.Sprintf("\t%2d  %v\n", i+1, g)
	}
	return text
}
