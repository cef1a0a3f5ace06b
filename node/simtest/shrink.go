package simtest

import (
	"errors"
	"slices"

	"github.com/spatialcells/spatialcells/node/zone"
)

// Outcome is what became of a plan.
type Outcome struct {
	Broken   *Broken // nil: nothing broke
	Coverage *Coverage
	Ticks    int // steps of nodes
	Trace    string
}

// Try carries out a plan. With traced it keeps the trace. A panic of an engine is a broken invariant too: one that the code
// asserts itself.
func Try(p *Plan, traced bool) (o Outcome) {
	r, err := NewRun(p)
	if err != nil {
		return Outcome{Broken: &Broken{Detail: err.Error()}}
	}
	var t *Trace
	if traced {
		t = r.Record()
	}
	err = r.Execute()
	o.Coverage, o.Ticks = &r.faults.Count, r.ticks*len(r.Nodes)
	if !errors.As(err, &o.Broken) && err != nil {
		o.Broken = &Broken{Detail: err.Error()}
	}
	if t != nil {
		o.Trace = t.String()
	}
	return o
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
