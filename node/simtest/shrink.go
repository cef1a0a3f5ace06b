package simtest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/spatialcells/spatialcells/node/zone"
)

// Outcome is what became of a plan.
type Outcome struct {
	Broken   *Broken // nil: nothing broke
	Coverage *Coverage
	Ticks    int // steps of nodes
	// LostStore: the store came back empty in this run.
	LostStore bool
	// Rewound: the store failed over to a copy that was behind.
	Rewound bool
	Trace   string
}

// Excused reports whether what broke is promised no more: the store has lost what it had acknowledged, as only the
// development store may, and neither two act for one entity nor does a fenced node act. Of a store that has only lost its last
// moments less is excused: calls of those moments may be undone, and so be carried out again, and be heard again; and whose claim was
// undone, and whose node then dies, is back only when somebody misses it.
func (o *Outcome) Excused() bool {
	if o.Broken != nil && o.Rewound && (o.Broken.Invariant >= 3 && o.Broken.Invariant <= 5) {
		return true
	}
	return o.Broken != nil && o.LostStore && o.Broken.Invariant != 1 && o.Broken.Invariant != 7 && o.Broken.Invariant != assertion
}

// Try carries out a plan. With traced it keeps the trace. A panic in an engine's step is a broken invariant too: one that the
// code asserts itself. Any other panic, and a plan whose world cannot be built, is a defect of the simulation.
func Try(p *Plan, traced bool) (o Outcome) {
	r, err := NewRun(p)
	if err != nil {
		panic("simtest: a plan without a world: " + err.Error())
	}
	if traced {
		r.Record()
	}
	o.Broken = carryOut(r)
	o.Coverage, o.Ticks, o.LostStore = &r.faults.Count, r.ticks*len(r.Nodes), r.faults.loss.run != nil
	o.Rewound = r.faults.rewound
	if r.trace != nil {
		o.Trace = r.trace.String()
	}
	return o
}

func carryOut(r *Run) (b *Broken) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if !bytes.Contains(debug.Stack(), []byte("zone.(*Engine).Step")) {
			panic(cause)
		}
		b = &Broken{Invariant: assertion, At: r.Now(), Detail: fmt.Sprint(cause)}
	}()
	if err := r.Execute(); err != nil && !errors.As(err, &b) {
		panic("simtest: " + err.Error())
	}
	return b
}

// Shrink cuts a plan down that breaks an invariant: fewer actions, players, nodes and ticks, as long as the same invariant
// breaks. It tries at most so many plans.
func Shrink(p *Plan, tries int) *Plan {
	s := &shrinker{best: p, broken: Try(p, false).Broken, tries: tries}
	if s.broken == nil {
		return p
	}
	s.cutTicks()
	for before := -1; before != len(s.best.Actions) && s.tries > 0; {
		before = len(s.best.Actions)
		s.cutPlayers()
		s.cutVerbs()
		s.cutActions()
		s.cutNodes()
	}
	return s.best
}

type shrinker struct {
	best   *Plan
	broken *Broken
	tries  int
}

// try keeps a smaller plan if it breaks the same invariant.
func (s *shrinker) try(p *Plan) bool {
	if s.tries <= 0 {
		return false
	}
	s.tries--
	b := Try(p, false).Broken
	if b == nil || b.Invariant != s.broken.Invariant {
		return false
	}
	s.best, s.broken = p, b
	return true
}

func (s *shrinker) without(drop func(i int, a Action) bool) *Plan {
	p := *s.best
	p.Actions = nil
	for i, a := range s.best.Actions {
		if !drop(i, a) {
			p.Actions = append(p.Actions, a)
		}
	}
	return &p
}

// cutTicks ends the plan shortly after what broke.
func (s *shrinker) cutTicks() {
	if s.broken.Invariant == 0 {
		return
	}
	last := int(s.broken.At/zone.TickDuration) + 1
	if last >= s.best.Ticks {
		return
	}
	p := s.without(func(_ int, a Action) bool { return a.At > last })
	p.Ticks, p.SettleTicks = last, 0
	s.try(p)
}

func (s *shrinker) cutPlayers() {
	for account := int64(1); account <= maxPlayers; account++ {
		of := func(_ int, a Action) bool {
			return slices.Contains(verbs[a.Verb], "account") && a.arg("account") == account
		}
		if p := s.without(of); len(p.Actions) < len(s.best.Actions) {
			s.try(p)
		}
	}
}

func (s *shrinker) cutVerbs() {
	for _, verb := range append([]string{"say", "recall", "drop", "logout", "walk"}, faultVerbs...) {
		if p := s.without(func(_ int, a Action) bool { return a.Verb == verb }); len(p.Actions) < len(s.best.Actions) {
			s.try(p)
		}
	}
}

// cutActions leaves out ever smaller pieces, as delta debugging does (Zeller, Hildebrandt 2002).
func (s *shrinker) cutActions() {
	for piece := max(len(s.best.Actions)/2, 1); ; piece /= 2 {
		for from := 0; from < len(s.best.Actions) && s.tries > 0; {
			p := s.without(func(i int, _ Action) bool { return i >= from && i < from+piece })
			if !s.try(p) {
				from += piece
			}
		}
		if piece <= 1 || s.tries <= 0 {
			return
		}
	}
}

// cutNodes lets fewer nodes share the regions and the faults.
func (s *shrinker) cutNodes() {
	for s.best.Nodes > 1 {
		p := *s.best
		p.Nodes--
		p.Rates = p.Rates[:p.Nodes]
		if !s.try(&p) {
			return
		}
	}
}
