package ghost

import (
	"fmt"
	"slices"
	"testing"
)

// The generated proof of what doc.go promises: the streams of different owners reach an observer in any order; whatever it
// is, a client sees the entity without a break.

// orders counts and judges the orders of a test.
type orders struct {
	t       *testing.T
	count   int
	failed  int
	perTick int // items that one tick of the observer takes
	pause   int // before this item the streams stand still for longer than frames are held; -1: never
}

func newOrders(t *testing.T) *orders {
	o := &orders{t: t, perTick: 1, pause: -1}
	t.Cleanup(func() { t.Logf("%d orders", o.count) })
	return o
}

// maxReported bounds the orders that are printed.
const maxReported = 3

// all judges every order of the streams.
func (o *orders) all(name string, s *story, streams ...[]item) {
	whole := o.pause < 0 && !slices.ContainsFunc(streams, lossy)
	eachOrder(streams, func(order []item) {
		if o.failed >= maxReported {
			return
		}
		o.count++
		if at, wrong := o.run(s, order, whole); wrong != "" {
			o.failed++
			o.t.Errorf("%s: %s\n%s", name, wrong, lines(order, at))
		}
	})
}

// run tells an observer an order and returns what was wrong first, and at which item.
func (o *orders) run(s *story, order []item, whole bool) (at int, wrong string) {
	w := newObserver(asked(order)...)
	w.mayGo, w.client.whole = s.over, whole
	for i := range order {
		if i == o.pause {
			w.wait()
		}
		if i%o.perTick == 0 {
			w.tick++
		}
		w.meet(&order[i])
		if (i+1)%o.perTick == 0 || i+1 == len(order) {
			w.settle()
		}
		if w.client.wrong != "" {
			return i, w.client.wrong
		}
	}
	w.wait()
	w.answerAgain(s)
	w.wait()
	w.judgeEnd(s)
	return len(order), w.client.wrong
}

// lossy reports whether the observer does not get all that an owner told from the beginning.
func lossy(stream []item) bool {
	return stream[0].known > 0 || slices.ContainsFunc(stream, func(it item) bool { return it.broken || it.dies || it.asks })
}

// asked are the owners that the observer asks from the start.
func asked(order []item) (owners []string) {
	later := map[string]bool{}
	for _, it := range order {
		later[it.owner] = later[it.owner] || it.asks
	}
	for _, owner := range []string{"a", "b", "c", "h"} {
		if asks, meets := later[owner]; meets && !asks {
			owners = append(owners, owner)
		}
	}
	return owners
}

// wait lets the longest hold pass.
func (o *observer) wait() {
	for range HoldTicks + 1 {
		o.tick++
		o.settle()
	}
	if len(o.doubts) > 0 { // the home before has not said that it has not come back
		o.tick += graveTicks
		o.settle()
	}
}

// answerAgain: what was asked again meanwhile is answered last.
func (o *observer) answerAgain(s *story) {
	again := o.again
	o.again = nil
	for _, u := range again {
		for _, it := range s.snapshot(u.Owner, s.of(u.Owner), true) {
			if it.marks[0] == u.Chunk {
				o.meet(&it)
			}
		}
	}
	o.tick++
	o.settle()
}

func (o *observer) awaitsAny() bool {
	for _, owners := range o.awaited {
		if slices.ContainsFunc(owners, func(owner string) bool { return !o.dead[owner] }) {
			return true
		}
	}
	return false
}

// judgeEnd holds the replica against the truth, and the store against leaks.
func (o *observer) judgeEnd(s *story) {
	c, r, want := &o.client, o.Get(id), s.last
	switch {
	case len(o.again) > 0:
		c.fault("news came of an entity that is not here: %v", o.again)
	case len(o.holding) > 0:
		c.fault("%d are still said to hold frames", len(o.holding))
	case len(o.doubts) > 0:
		c.fault("%d are doubted", len(o.doubts))
	case len(o.missing)+len(o.unheard) > 0 || o.awaitsAny():
		c.fault("%d owners' snapshots still lack something, %d are not heard of, %v are awaited", len(o.missing), len(o.unheard), o.awaited)
	case s.over && (o.Len() > 0 || len(o.In(1))+len(o.In(2))+len(o.In(3)) > 0):
		c.fault("it is over, and the observer still has %+v", r)
	case s.over:
	case r == nil || o.Len() != 1:
		c.fault("it is not here in the end")
	case len(r.held) > 0 || r.missing:
		c.fault("in the end %d frames are held, missing is %v", len(r.held), r.missing)
	case r.Owner != want.owner || r.Epoch != want.frame.Epoch || r.Chunk != want.frame.Chunk || r.Home != want.frame.Home:
		c.fault("in the end it is owned by %s with %v in chunk %d, home %d; want %s, %v, %d, %d", r.Owner, r.Epoch, r.Chunk, r.Home,
			want.owner, want.frame.Epoch, want.frame.Chunk, want.frame.Home)
	case len(o.In(r.Chunk)) != 1:
		c.fault("it is not indexed in its chunk")
	case c.x != want.frame.Components[len(want.frame.Components)-1]:
		c.fault("in the end it is in state %d, want %v", c.x, want.frame.Components)
	case c.heard != s.said && !c.marked:
		c.fault("the last word heard is %d of %d, and nothing marks the hole", c.heard, s.said)
	}
}

var (
	over        = []string{"a says", "a says", "b takes", "a signs off", "b says", "b says"}
	overAndBack = []string{"a says", "b takes", "a signs off", "b says", "a takes", "b signs off", "a says"}
	overAndOn   = []string{"a says", "b takes", "a signs off", "b says", "c takes", "b signs off", "c says"}
)

// owners are those of a story.
func (s *story) owners() (list []string) {
	for _, owner := range []string{"a", "b", "c", "h"} {
		if len(s.of(owner)) > 0 || owner == s.first.owner {
			list = append(list, owner)
		}
	}
	return list
}

// choose visits every choice of one stream for each owner.
func choose(choices [][][]item, visit func(streams [][]item)) {
	streams := make([][]item, len(choices))
	var pick func(i int)
	pick = func(i int) {
		if i == len(choices) {
			visit(streams)
			return
		}
		for _, stream := range choices[i] {
			streams[i] = stream
			pick(i + 1)
		}
	}
	pick(0)
}

// subscribed are the streams of an owner for each moment at which the subscription takes effect there.
func (s *story) subscribed(owner string, chunkByChunk bool) (streams [][]item) {
	for from := range len(s.of(owner)) + 1 {
		streams = append(streams, s.stream(owner, from, chunkByChunk))
	}
	return streams
}

// interrupted are the streams of an owner that break once: after so many items what is under way is lost, and at a later
// act of the owner, at most so many on, the new subscription takes effect.
func (s *story) interrupted(owner string, from, lost int, chunkByChunk bool) (streams [][]item) {
	whole := s.stream(owner, from, chunkByChunk)
	snapshot := len(whole) - len(s.of(owner)) + from
	for got := range len(whole) + 1 {
		first := from + max(got-snapshot, 0)
		for again := first; again <= min(len(s.of(owner)), first+lost); again++ {
			stream := append(slices.Clone(whole[:got]), item{owner: owner, broken: true, upTo: s.limit(owner, again)})
			streams = append(streams, append(stream, s.stream(owner, again, chunkByChunk)...))
		}
	}
	return streams
}

// mortal are the streams of an owner that dies after any item of any of them.
func (s *story) mortal(owner string) (streams [][]item) {
	for _, whole := range s.subscribed(owner, false) {
		for got := range len(whole) + 1 {
			streams = append(streams, append(slices.Clone(whole[:got]), item{owner: owner, dies: true}))
		}
	}
	return streams
}

func TestEveryOrderOfAHandoverLooksTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		script       []string
		chunkByChunk bool
	}{
		"a to b":                 {over, false},
		"a to b, slow snapshots": {over, true},
		"a to b and back":        {overAndBack, false},
		"a to b and back, slow":  {overAndBack, true},
		"a to b and on to c":     {overAndOn, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, s := newOrders(t), play(c.script...)
			var choices [][][]item
			for _, owner := range s.owners() {
				choices = append(choices, s.subscribed(owner, c.chunkByChunk))
			}
			choose(choices, func(streams [][]item) { o.all(name, &s, streams...) })
		})
	}
}

// TestWhatComesInOneTickIsToldInOrder: a gateway's tick takes several batches; the mark of a hole stands before what comes
// after it.
func TestWhatComesInOneTickIsToldInOrder(t *testing.T) {
	o := newOrders(t)
	for _, script := range [][]string{over, overAndBack, overAndOn} {
		s := play(script...)
		for _, o.perTick = range []int{2, 100} {
			var choices [][][]item
			for _, owner := range s.owners() {
				choices = append(choices, s.subscribed(owner, false))
			}
			choose(choices, func(streams [][]item) { o.all(fmt.Sprintf("%v, %d a tick", script, o.perTick), &s, streams...) })
		}
	}
}

// TestAStreamThatStallsIsNotWaitedForLongerThanASecond, and what it brings after that changes nothing.
func TestAStreamThatStallsIsNotWaitedForLongerThanASecond(t *testing.T) {
	o := newOrders(t)
	for _, script := range [][]string{over, overAndBack, overAndOn} {
		s := play(script...)
		var choices [][][]item
		for _, owner := range s.owners() {
			choices = append(choices, s.subscribed(owner, false)[:4-len(s.owners())])
		}
		choose(choices, func(streams [][]item) {
			items := 0
			for _, stream := range streams {
				items += len(stream)
			}
			for o.pause = range items {
				o.all(fmt.Sprintf("%v, a pause before %d", script, o.pause+1), &s, streams...)
			}
		})
	}
}

// TestAStreamThatBreaksOnceIsMarked: what was under way is lost, the rest is right.
func TestAStreamThatBreaksOnceIsMarked(t *testing.T) {
	for name, c := range map[string]struct {
		script       []string
		chunkByChunk bool
	}{
		"a to b":                 {over, false},
		"a to b, slow snapshots": {over[1:], true},
		"a to b and back":        {overAndBack, false},
		"a to b and on to c":     {overAndOn[1:], false},
	} {
		t.Run(name, func(t *testing.T) {
			o, s := newOrders(t), play(c.script...)
			for _, breaks := range s.owners() {
				starts, lost := len(s.of(breaks))+1, len(s.acts)
				if len(s.owners()) > 2 {
					starts, lost = 1, 1
				}
				for from := range starts {
					var choices [][][]item
					for _, owner := range s.owners() {
						switch {
						case owner == breaks:
							choices = append(choices, s.interrupted(owner, from, lost, c.chunkByChunk))
						case starts == 1:
							choices = append(choices, s.subscribed(owner, false)[:1])
						default:
							choices = append(choices, s.subscribed(owner, false))
						}
					}
					choose(choices, func(streams [][]item) { o.all(breaks+"'s stream breaks, "+name, &s, streams...) })
				}
			}
		})
	}
}

// TestMoreThanCanBeHeldIsMarked: what waits for a sign-off is bounded, and what it costs is no silent hole.
func TestMoreThanCanBeHeldIsMarked(t *testing.T) {
	script := []string{"a says", "b takes", "a signs off"}
	for range maxHeld + 20 {
		script = append(script, "b says")
	}
	s := play(script...)
	a, b := s.stream("a", 0, false), s.stream("b", 0, false)
	for early := range b {
		o := newObserver("a", "b")
		o.tick++
		for _, items := range [][]item{a[:2], b[:early], a[2:], b[early:]} {
			for i := range items {
				o.meet(&items[i])
			}
			o.settle()
		}
		o.wait()
		if o.judgeEnd(&s); o.client.wrong != "" {
			t.Fatalf("%d items of b before a's sign-off: %s", early, o.client.wrong)
		}
	}
}

// TestAnOwnersDeathNeitherHidesNorDoublesWhatLivesOn, whatever of it was under way.
func TestAnOwnersDeathNeitherHidesNorDoublesWhatLivesOn(t *testing.T) {
	for name, c := range map[string]struct {
		dies   string
		script []string
	}{
		"a dies with it":                              {"a", []string{"a says", "a says", "h recovers", "h says"}},
		"a dies with it, b inherits":                  {"a", []string{"a says", "a says", "b recovers", "b says"}},
		"a dies before it signs off":                  {"a", []string{"a says", "b takes", "b says", "h recovers others"}},
		"a dies when it has signed off":               {"a", over},
		"b dies with it":                              {"b", []string{"a says", "b takes", "a signs off", "b says", "h recovers", "h says"}},
		"b dies with it, a inherits":                  {"b", []string{"a says", "b takes", "a signs off", "b says", "a recovers", "a says"}},
		"b dies with it and h accepts in its place":   {"b", []string{"a says", "b takes", "b says", "h recovers", "a signs off to h", "h says"}},
		"b dies with it and a offers it to h":         {"b", []string{"a says", "b takes", "a signs off", "h takes over", "h says"}},
		"b dies when it came back":                    {"b", overAndBack},
		"b dies before it signs off back":             {"b", []string{"a says", "b takes", "a signs off", "b says", "a takes", "a says"}},
		"a dies when it has it back":                  {"a", append(slices.Clone(overAndBack), "h recovers", "h says")},
		"b dies before it signs off on to c":          {"b", []string{"a says", "b takes", "a signs off", "b says", "c takes", "c says"}},
		"a dies before it signs off, b hands it on":   {"a", []string{"a says", "b takes", "b says", "c takes", "b signs off", "c says"}},
		"a dies with what is not durable":             {"a", []string{"a says", "h recovers nothing"}},
		"a dies with what is not durable, b inherits": {"a", []string{"a says", "b recovers nothing"}},
		"b dies with what is not durable":             {"b", []string{"a says", "b takes", "a signs off", "b says", "h recovers nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, s := newOrders(t), play(c.script...)
			s.dies = c.dies
			for _, o.perTick = range []int{1, 2} {
				var choices [][][]item
				for _, owner := range s.owners() {
					streams := s.subscribed(owner, false)
					switch {
					case owner == c.dies:
						streams = s.mortal(owner)
					case owner == "h":
						streams = named(streams, c.dies)
					case len(s.owners()) > 2:
						streams = streams[:2]
					}
					choices = append(choices, streams)
				}
				choose(choices, func(streams [][]item) { o.all(name, &s, streams...) })
			}
		})
	}
}

// named are the streams of an heir, which is asked when the table names it, after the death.
func named(streams [][]item, dies string) (asked [][]item) {
	for _, s := range streams {
		asked = append(asked, append([]item{{owner: "h", asks: true, after: dies}}, s...))
	}
	return asked
}

// TestWhatIsGoneStaysGone: late news of an owner before do not bring it back.
func TestWhatIsGoneStaysGone(t *testing.T) {
	for name, script := range map[string][]string{
		"b ends it":        {"a says", "b takes", "a signs off", "b says", "b ends it"},
		"it leaves b":      {"a says", "b takes", "a signs off", "b says", "b leaves"},
		"back and it ends": append(slices.Clone(overAndBack), "a ends it"),
		"it leaves c":      append(slices.Clone(overAndOn), "c leaves"),
	} {
		t.Run(name, func(t *testing.T) {
			o, s := newOrders(t), play(script...)
			var choices [][][]item
			for _, owner := range s.owners() {
				choices = append(choices, s.subscribed(owner, false))
			}
			choose(choices, func(streams [][]item) { o.all(name, &s, streams...) })
		})
	}
}
