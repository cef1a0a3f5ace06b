package moves_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/controllers/moves"
	"github.com/spatialcells/spatialcells/controllers/placement"
)

var now = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// situation builds a World of one row. Each region is "holder>wanted", or "holder~target>wanted" when it is on its way since
// ten seconds; "-" is nobody.
type situation struct{ moves.Situation }

func row(nodes int, regions ...string) situation {
	s := situation{moves.Situation{
		Grid: placement.Grid{Columns: int32(len(regions)), Rows: 1}, Now: now, Limit: 4, Timeout: time.Minute,
	}}
	for range nodes {
		s.Nodes = append(s.Nodes, moves.Node{Live: true, Takes: true, Ready: true})
	}
	for _, text := range regions {
		at, wanted, _ := strings.Cut(text, ">")
		holder, target, ordered := strings.Cut(at, "~")
		r := moves.Region{Holder: node(holder), Target: node(holder), Wanted: node(wanted)}
		if ordered {
			r.Target = node(target)
			r.Note = moves.Note{To: r.Target, At: now.Add(-10 * time.Second)}
		}
		s.Regions = append(s.Regions, r)
	}
	return s
}

func node(text string) int32 {
	if text == "-" {
		return placement.Nobody
	}
	return int32(text[0] - '0')
}

func (s situation) with(change func(*moves.Situation)) situation {
	change(&s.Situation)
	return s
}

func (s situation) note(region int, n moves.Note) situation {
	s.Regions[region].Note = n
	return s
}

// told is a plan in words: what is done, and what the rest waits for.
func told(p moves.Plan) string {
	var words []string
	for _, i := range slices.Sorted(maps.Keys(p.Steps)) {
		step := p.Steps[i]
		switch step.Kind {
		case moves.Order:
			words = append(words, fmt.Sprintf("order %d to %d", i, step.Target))
		case moves.TakeBack:
			words = append(words, fmt.Sprintf("take back %d to %d (%s, %d)", i, step.Target, step.Why, step.Note.Failures))
		case moves.Mend:
			words = append(words, fmt.Sprintf("mend %d to %d", i, step.Target))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(p.Waiting)) {
		words = append(words, fmt.Sprintf("%s %v", why, p.Waiting[why]))
	}
	return strings.Join(words, ", ")
}

func TestWhatIsDecided(t *testing.T) {
	for name, tc := range map[string]struct {
		situation situation
		want      string
	}{
		"all is where it should be":            {row(2, "0>0", "1>1"), ""},
		"a region that is away is ordered":     {row(2, "0>1", "1>1"), "order 0 to 1"},
		"a free region is failover's":          {row(2, "->1", "1>1"), ""},
		"a region that nobody wants stays":     {row(2, "0>-", "1>1"), ""},
		"an order that is still wanted stands": {row(2, "0~1>1", "1>1"), ""},
		"not more than the limit": {
			row(2, "0>1", "0>1", "0~1>1", "0>1", "1>1").with(func(s *moves.Situation) { s.Limit = 2 }), "order 3 to 1, Turn [0 1]",
		},
		"none while the limit is reached": {
			row(2, "0~1>1", "0~1>1", "0>1", "1>1").with(func(s *moves.Situation) { s.Limit = 2 }), "Turn [2]",
		},
		"none too many is taken back when the limit is lowered": {
			row(2, "0~1>1", "0~1>1", "0>1", "1>1").with(func(s *moves.Situation) { s.Limit = 1 }), "Turn [2]",
		},
		"a closed window stops nothing that has started": {
			row(2, "0~1>1", "0>1", "1>1").with(func(s *moves.Situation) { s.Hold = moves.Window }), "Window [1]",
		},
		"an edit back takes the order back": {row(2, "0~1>0", "1>1"), "take back 0 to 0 (NoLongerWanted, 0)"},
		"an edit to a third node takes it back first, and its slot is not used yet": {
			row(3, "0~1>2", "0>2", "1>1", "2>2").with(func(s *moves.Situation) { s.Limit = 1 }),
			"take back 0 to 0 (NoLongerWanted, 0), Turn [0 1]",
		},
		"an edit while paused changes no order": {
			row(2, "0~1>0", "1>0").with(func(s *moves.Situation) { s.Hold = moves.Paused }), "Paused [1]",
		},
		"an order that is too old is taken back, and the region waits": {
			row(2, "0~1>1", "1>1").note(0, moves.Note{To: 1, At: now.Add(-time.Minute)}), "take back 0 to 0 (TimedOut, 1), BackingOff [0]",
		},
		"a second failure in a row is counted": {
			row(2, "0~1>1", "1>1").note(0, moves.Note{To: 1, At: now.Add(-time.Minute), Failures: 1}), "take back 0 to 0 (TimedOut, 2), BackingOff [0]",
		},
		"an order times out while paused too": {
			row(2, "0~1>1", "1>1").note(0, moves.Note{To: 1, At: now.Add(-time.Minute)}).with(func(s *moves.Situation) { s.Hold = moves.Paused }),
			"take back 0 to 0 (TimedOut, 1), BackingOff [0]",
		},
		"it waits for 10 s": {
			row(2, "0>1", "1>1").note(0, moves.Note{To: 1, At: now.Add(-9 * time.Second), Failures: 1}), "BackingOff [0]",
		},
		"and then goes": {
			row(2, "0>1", "1>1").note(0, moves.Note{To: 1, At: now.Add(-10 * time.Second), Failures: 1}), "order 0 to 1",
		},
		"after the third failure it waits for 40 s": {
			row(2, "0>1", "1>1").note(0, moves.Note{To: 1, At: now.Add(-39 * time.Second), Failures: 3}), "BackingOff [0]",
		},
		"never longer than 10 minutes": {
			row(2, "0>1", "1>1").note(0, moves.Note{To: 1, At: now.Add(-10 * time.Minute), Failures: 1000000}), "order 0 to 1",
		},
		"failures with another node do not count": {
			row(3, "0>2", "1>1", "2>2").note(0, moves.Note{To: 1, At: now, Failures: 3}), "order 0 to 2",
		},
		"a target that stopped renewing is no longer waited for": {
			row(2, "0~1>1", "1>1").with(func(s *moves.Situation) { s.Nodes[1].Live = false }), "take back 0 to 0 (NodeAway, 1), BackingOff [0]",
		},
		"a target that drains neither": {
			row(2, "0~1>1", "1>1").with(func(s *moves.Situation) { s.Nodes[1].Takes = false }), "take back 0 to 0 (NodeAway, 1), BackingOff [0]",
		},
		"a target that is not ready for a moment gets what is on its way, and nothing new": {
			row(2, "0~1>1", "0>1", "1>1").with(func(s *moves.Situation) { s.Nodes[1].Ready = false }), "HolderAway [1]",
		},
		"a target that there is not": {row(2, "0>7", "1>1"), "HolderAway [0]"},
		"a slow target gets what is on its way, and nothing new": {
			row(2, "0~1>1", "0>1", "1>1").with(func(s *moves.Situation) { s.Nodes[1].Slow = true }), "NoCapacity [1]",
		},
		"a holder that does not renew gives nothing, and may finish": {
			row(2, "0~1>1", "0>1", "1>1").with(func(s *moves.Situation) { s.Nodes[0].Live = false }), "HolderSilent [1]",
		},
		"an order without a readable note counts from now": {
			row(2, "0~1>1", "1>1").note(0, moves.Note{}), "mend 0 to 1",
		},
		"an order from the future counts from now": {
			row(2, "0~1>1", "1>1").note(0, moves.Note{To: 1, At: now.Add(time.Hour)}), "mend 0 to 1",
		},
		"an order whose writing nobody knows of holds its slot": {
			row(2, "0>1", "0>1", "1>1").with(func(s *moves.Situation) { s.Limit, s.Regions[0].Unsettled = 1, true }), "order 0 to 1, Turn [1]",
		},
		"and is settled by a write when it may not be given any more": {
			row(2, "0>1", "0>1", "1>1").with(func(s *moves.Situation) { s.Hold, s.Regions[0].Unsettled = moves.Window, true }), "mend 0 to 0, Window [0 1]",
		},
		"or is not wanted any more": {
			row(2, "0>0", "0>1", "1>1").with(func(s *moves.Situation) { s.Limit, s.Regions[0].Unsettled = 1, true }), "mend 0 to 0, Turn [1]",
		},
	} {
		if got := told(moves.Decide(tc.situation.Situation)); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestAreasGrowAlongTheirEdges(t *testing.T) {
	// 6 x 4, node 0 has it all but for the west column, and gives its west half.
	g := placement.Grid{Columns: 6, Rows: 4}
	s := moves.Situation{Grid: g, Now: now, Limit: 1, Timeout: time.Minute, Nodes: []moves.Node{{Live: true, Takes: true, Ready: true}, {Live: true, Takes: true, Ready: true}}}
	for i := range g.Size() {
		r := moves.Region{}
		if g.Region(i).Column == 0 {
			r.Holder, r.Target = 1, 1
		}
		if g.Region(i).Column < 3 {
			r.Wanted = 1
		}
		s.Regions = append(s.Regions, r)
	}
	longest, order := 0, []int{}
	for {
		p := moves.Decide(s)
		if len(p.Steps) == 0 {
			break
		}
		for i := range p.Steps {
			order = append(order, i)
			s.Regions[i].Holder, s.Regions[i].Target = 1, 1
		}
		table := make(placement.Table, g.Size())
		for i, r := range s.Regions {
			table[i] = r.Holder
		}
		if g.Pieces(table, 1) != 1 || g.Pieces(table, 0) != 1 {
			t.Fatalf("after %v an area is in pieces", order)
		}
		longest = max(longest, g.Border(table))
	}
	if len(order) != 8 || longest > 10 {
		t.Errorf("moved %v, with a border of up to %d edges", order, longest)
	}
}

func TestMovesAreSpreadOverTheNodes(t *testing.T) {
	s := row(4, "0>1", "0>1", "0>1", "0>1", "2>3", "2>3", "2>3", "2>3", "1>1", "3>3").with(func(s *moves.Situation) { s.Limit = 4 })
	to := map[int32]int{}
	for _, step := range moves.Decide(s.Situation).Steps {
		to[step.Target]++
	}
	if to[1] != 2 || to[3] != 2 {
		t.Errorf("orders by node: %v, want two to each", to)
	}
}

// TestWhateverHappensTheMovesEndWhereTheyShould plays a World with nodes that carry out orders, ignore them, die and come
// back, edits, windows, lost writes and operators that know nothing but what is written.
func TestWhateverHappensTheMovesEndWhereTheyShould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nodes = 4
		g := placement.Grid{Columns: rapid.Int32Range(1, 6).Draw(t, "columns"), Rows: rapid.Int32Range(1, 6).Draw(t, "rows")}
		owner := rapid.Int32Range(0, nodes-1)
		s := moves.Situation{Grid: g, Now: now, Limit: rapid.IntRange(1, 5).Draw(t, "limit"), Timeout: time.Minute, Nodes: make([]moves.Node, nodes)}
		for range g.Size() {
			holder := owner.Draw(t, "holder")
			s.Regions = append(s.Regions, moves.Region{Holder: holder, Target: holder, Wanted: owner.Draw(t, "wanted")})
		}
		calm := func() {
			for i := range s.Nodes {
				s.Nodes[i] = moves.Node{Live: true, Takes: true, Ready: true}
			}
			s.Hold = ""
		}
		calm()
		step := func(lossy bool) {
			before := onTheirWay(s)
			p := moves.Decide(s)
			if len(p.Moving) > max(s.Limit, before) {
				t.Fatalf("%d on their way, the limit is %d", len(p.Moving), s.Limit)
			}
			for i, step := range p.Steps {
				r := &s.Regions[i]
				if step.Kind == moves.Order && (r.Target != r.Holder || !s.Nodes[r.Holder].Live || !s.Nodes[step.Target].Live || s.Hold != "") {
					t.Fatalf("region %d %+v: ordered with %+v", i, *r, s)
				}
				if lossy && rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
					r.Unsettled = true
					continue
				}
				r.Target, r.Note, r.Unsettled = step.Target, moves.ParseNote(step.Note.String()), false
			}
			waits := map[int]int{}
			for _, list := range p.Waiting {
				for _, i := range list {
					waits[i]++
				}
			}
			for _, i := range p.Moving {
				waits[i]++
			}
			for i, r := range s.Regions {
				if away := r.Wanted != r.Holder; away && waits[i] != 1 {
					t.Fatalf("region %d %+v is away and waits for %d reasons: %s", i, r, waits[i], told(p))
				}
			}
		}
		carryOut := func() {
			for i := range s.Regions {
				if r := &s.Regions[i]; r.Target != r.Holder && s.Nodes[r.Holder].Live && s.Nodes[r.Target].Live {
					r.Holder, r.Taken = r.Target, s.Now
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {},
			"operate": func(t *rapid.T) {
				step(true)
				s.Now = s.Now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "s")) * time.Second)
			},
			"edit": func(t *rapid.T) {
				s.Regions[rapid.IntRange(0, g.Size()-1).Draw(t, "region")].Wanted = owner.Draw(t, "wanted")
			},
			"move":    func(*rapid.T) { carryOut() },
			"fail":    func(t *rapid.T) { s.Nodes[owner.Draw(t, "node")] = moves.Node{Live: rapid.Bool().Draw(t, "live")} },
			"recover": func(t *rapid.T) { s.Nodes[owner.Draw(t, "node")] = moves.Node{Live: true, Takes: true, Ready: true} },
			"hold": func(t *rapid.T) {
				s.Hold = rapid.SampledFrom([]moves.Reason{"", moves.Window, moves.Paused}).Draw(t, "hold")
			},
		})
		calm()
		for range 4*g.Size() + 20 {
			step(false)
			carryOut()
			s.Now = s.Now.Add(5 * time.Minute)
		}
		for i, r := range s.Regions {
			if r.Holder != r.Wanted || r.Target != r.Holder {
				t.Fatalf("region %d is not home: %+v", i, r)
			}
		}
		if p := moves.Decide(s); len(p.Steps) != 0 || !p.Next.IsZero() {
			t.Fatalf("at rest there is still something to do: %s", told(p))
		}
	})
}

func onTheirWay(s moves.Situation) (n int) {
	for _, r := range s.Regions {
		if r.Target != r.Holder {
			n++
		}
	}
	return n
}

func TestANoteSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := moves.Note{
			To: rapid.Int32Range(0, 63).Draw(t, "to"), At: now.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "ms")) * time.Millisecond),
			Failures: rapid.IntRange(0, 1000).Draw(t, "failures"), Why: rapid.SampledFrom([]moves.Reason{"", moves.TimedOut}).Draw(t, "why"),
		}
		if got := moves.ParseNote(n.String()); got != n {
			t.Fatalf("%q became %+v, want %+v", n.String(), got, n)
		}
	})
	for _, text := range []string{"", "nonsense", "to=1", "to=x at=2026-12-01T12:00:00.000Z", "to=1 at=now", "to=1 at=2026-12-01T12:00:00.000Z failures=-1"} {
		if n := moves.ParseNote(text); !n.IsZero() {
			t.Errorf("%q was read as %+v", text, n)
		}
	}
}

func TestEstimatesRestOnWhatWasMeasured(t *testing.T) {
	if got := moves.Estimate(row(2, "0>0").Regions, time.Minute); got != moves.DefaultEstimate {
		t.Errorf("without any move %s is expected", got)
	}
	s := row(2, "1>1", "1>1", "1>1", "0>0")
	for i, took := range []time.Duration{1500 * time.Millisecond, 2500 * time.Millisecond, 2 * time.Minute} { // the last is no move
		s.Regions[i].Note = moves.Note{To: 1, At: now}
		s.Regions[i].Taken = now.Add(took)
	}
	s.Regions[3].Note, s.Regions[3].Taken = moves.Note{To: 1, At: now}, now.Add(50*time.Second) // it stayed
	if got := moves.Estimate(s.Regions, time.Minute); got != 2*time.Second {
		t.Errorf("got %s, want the mean of 1.5 s and 2.5 s", got)
	}
	s.Regions[0].Taken, s.Regions[1].Taken = now.Add(310*time.Millisecond), now.Add(330*time.Millisecond)
	if got := moves.Estimate(s.Regions, time.Minute); got != 400*time.Millisecond {
		t.Errorf("got %s, want the mean of 310 ms and 330 ms, rounded up", got)
	}
	s.Regions[0].Taken, s.Regions[1].Taken = now.Add(time.Millisecond), now.Add(2*time.Millisecond)
	if got := moves.Estimate(s.Regions, time.Minute); got != 100*time.Millisecond {
		t.Errorf("got %s, want tenths of a second, at least one", got)
	}
}

func TestTheCostOfAnEdit(t *testing.T) {
	g := placement.Grid{Columns: 4, Rows: 1}
	got := moves.CostOf(g, placement.Table{0, 0, 1, -1}, placement.Table{0, 1, 0, 1}, 2, 5*time.Second)
	want := moves.Cost{Regions: 2, Duration: 5 * time.Second, BorderBefore: 2, BorderAfter: 4}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := moves.CostOf(g, placement.Table{0, 0, 0, 0}, placement.Table{1, 1, 1, 0}, 2, 5*time.Second); got.Duration != 10*time.Second {
		t.Errorf("three moves, two at once, take %s", got.Duration)
	}
}

func BenchmarkDecideForTheLargestWorld(b *testing.B) {
	g := placement.Grid{Columns: 64, Rows: 64}
	s := moves.Situation{Grid: g, Now: now, Limit: 4, Timeout: time.Minute, Nodes: make([]moves.Node, 64)}
	for i := range s.Nodes {
		s.Nodes[i] = moves.Node{Live: true, Takes: true, Ready: true}
	}
	for i := range g.Size() {
		s.Regions = append(s.Regions, moves.Region{Holder: int32(i / 64), Target: int32(i / 64), Wanted: int32(i % 64)})
	}
	for b.Loop() {
		moves.Decide(s)
	}
}
