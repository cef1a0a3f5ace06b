package leases

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/simtest/timeline"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	simNodes = 4
	simFault = 4 * time.Minute
	simCalm  = 2 * time.Minute
	simStep  = 20 * time.Millisecond
)

// actor is a process as the checker sees it: what it was told, and its own clock.
type actor struct {
	*Process
	clock *DriftClock
	table *partition.Table
	// acquired is when it took its session.
	acquired time.Duration
	// met and buried are the peers that were told live and dead.
	met, buried map[string]bool
	// frozen are the regions that stand still here, with the epoch at which their Lease is being handed over.
	frozen map[int]uint64
}

// handOver stops to act for each region that is ordered to another node that lives, and hands its Lease over.
func (p *actor) handOver(stage func() string) {
	for region, epoch := range p.frozen { // gone, or it was another's meanwhile
		if row := p.table.Row(region); row.Session != p.Session() || row.Epoch != epoch {
			delete(p.frozen, region)
		}
	}
	for _, region := range p.table.AppendRegionsOf(nil, p.Session()) {
		row, to := p.table.Row(region), ""
		for session := range p.met {
			if !p.buried[session] && strings.HasPrefix(session, row.Target+"#") {
				to = session
			}
		}
		if _, frozen := p.frozen[region]; frozen || row.Target == "" || to == "" {
			continue
		}
		p.frozen[region] = row.Epoch
		p.Commit(region, row.Epoch, to, stage(), func(kept bool, _ string) {
			if kept {
				delete(p.frozen, region)
			}
		})
	}
}

// believes returns the regions that the process would act for at this instant.
func (p *actor) believes(dst []int) []int {
	if p.dead || p.table == nil || p.clock.Boottime() >= p.Deadline() {
		return dst[:0]
	}
	return slices.DeleteFunc(p.table.AppendRegionsOf(dst[:0], p.Session()), func(region int) bool {
		_, frozen := p.frozen[region]
		return frozen
	})
}

// sim is a World with every fault on, from one seed.
type sim struct {
	*API
	tl      *timeline.Timeline
	rand    *rand.Rand
	actors  []*actor // that run, zombies of replaced pods included
	current []*actor // per node, the newest process
	pods    int
	stages  int
	// replacing says whose next pod is on its way.
	replacing [simNodes]bool
	gap       time.Duration // most between two faults
	stopped   bool
	trace     []string
	problems  []string
}

func newSim(seed uint64, spoil func(*mutant)) *sim {
	grid, err := torus.NewGrid(4, 3, 20)
	if err != nil {
		panic(err)
	}
	s := &sim{tl: &timeline.Timeline{}, rand: rand.New(rand.NewPCG(seed, 1)), current: make([]*actor, simNodes)}
	s.gap = time.Duration(2+seed%5*6) * time.Second
	s.API = New(Options{
		Timeline: s.tl, Rand: rand.New(rand.NewPCG(seed, 2)), World: "sim", Grid: grid, Nodes: simNodes,
		Owner: func(region int) int { return region % simNodes }, Operators: 1 + int(seed%2), Redistribution: time.Millisecond + time.Duration(seed%3)*2*time.Second,
	})
	if spoil != nil {
		spoil(&s.mutant)
	}
	for ordinal := range simNodes {
		s.pods++
		s.start(ordinal, fmt.Sprint("pod-", s.pods))
	}
	return s
}

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%v ", s.tl.Now())+fmt.Sprintf(format, args...))
}

func (s *sim) start(ordinal int, pod string) {
	p := &actor{
		met: map[string]bool{}, buried: map[string]bool{}, frozen: map[int]uint64{},
		clock: &DriftClock{Timeline: s.tl, Offset: s.some(time.Hour), Rate: 0.9 + 0.2*s.rand.Float64()},
	}
	s.note("start %d in %s", ordinal, pod)
	p.Process = s.Start(ordinal, pod, p.clock, Events{
		Acquired: func(session string, incarnation int32) {
			p.acquired = s.tl.Now()
			s.note("%s acquired", session)
		},
		Lost: func() {
			s.note("%s lost", p.Session())
			s.restart(p)
		},
		Table: func(t *partition.Table) {
			if p.table == nil {
				s.checkKnown(p)
			}
			p.table = t
			s.note("%s holds %v", p.Session(), t.AppendRegionsOf(nil, p.Session()))
			p.handOver(func() string { s.stages++; return fmt.Sprint(p.Session(), "/", s.stages) })
		},
		Dead: func(session string) {
			s.note("%s: %s is dead", p.Session(), session)
			if !p.met[session] || p.buried[session] {
				s.problems = append(s.problems, session+" died twice or was never live")
			}
			p.buried[session] = true
			s.checkOver(p, session)
		},
		Live: func(session string) {
			s.note("%s: %s is live", p.Session(), session)
			if p.met[session] {
				s.problems = append(s.problems, session+" is live twice")
			}
			p.met[session] = true
		},
	})
	s.actors = append(s.actors, p)
	s.current[ordinal] = p
}

// restart starts a container in the pod of a process that has ended, if that is still the node's pod.
func (s *sim) restart(p *actor) {
	ordinal, pod := p.ordinal, p.pod
	wait := s.some(2 * time.Second)
	if s.rand.IntN(3) == 0 {
		wait = s.some(time.Minute)
	}
	s.tl.After(wait, func() {
		if s.current[ordinal] == p && !s.replacing[ordinal] {
			s.start(ordinal, pod)
		}
	})
}

func (s *sim) some(most time.Duration) time.Duration {
	return time.Duration(s.rand.Int64N(int64(most)))
}

// check looks for two that believe to own one region.
func (s *sim) check() {
	owners := map[int]*actor{}
	s.actors = slices.DeleteFunc(s.actors, func(p *actor) bool { return p.dead })
	var held []int
	for _, p := range s.actors {
		held = p.believes(held)
		for _, region := range held {
			if other := owners[region]; other != nil {
				s.problems = append(s.problems, fmt.Sprintf("%v: %s and %s both own region %d", s.tl.Now(), other.Session(), p.Session(), region))
			}
			owners[region] = p
		}
	}
}

func (s *sim) run(length time.Duration) {
	for end := s.tl.Now() + length; s.tl.Now() < end; {
		s.tl.Advance(s.tl.Now() + simStep)
		s.check()
	}
}

// trouble lets one fault after the other begin, each ending some time later.
func (s *sim) trouble() {
	if s.stopped {
		return
	}
	s.tl.After(s.some(s.gap), s.trouble)
	ordinal := s.rand.IntN(simNodes)
	p := s.current[ordinal]
	if s.replacing[ordinal] {
		return
	}
	switch s.rand.IntN(15) {
	case 0:
		s.note("cut %d", ordinal)
		s.CutNode(ordinal, true)
		s.tl.After(s.some(40*time.Second), func() { s.CutNode(ordinal, false) })
	case 1, 11:
		s.pause(p)
	case 2:
		s.note("kill %s", p.Session())
		p.Kill()
		s.restart(p)
	case 3: // the pod dies, and another comes
		s.note("pod of %d dies", ordinal)
		p.Kill()
		s.PodDied(ordinal)
		s.replace(ordinal, 30*time.Second)
	case 4: // the pod is replaced unseen, its process may run on behind a partition
		s.note("pod of %d is replaced", ordinal)
		p.Cut(true)
		s.tl.After(s.some(30*time.Second), func() { p.Cut(false) })
		s.replace(ordinal, 30*time.Second)
	case 5:
		s.note("outage")
		s.SetOutage(true)
		s.tl.After(s.some(20*time.Second), func() { s.SetOutage(false) })
	case 6:
		s.SetWeather(Weather{Stuck: 0.3 * s.rand.Float64(), Mute: 0.2 * s.rand.Float64(), Refuse409: 0.1, Fail500: 0.1, Slow: 0.4 * s.rand.Float64(), Lag: s.some(5 * time.Second)})
		s.tl.After(s.some(30*time.Second), func() { s.SetWeather(Weather{}) })
	case 7:
		s.delete()
	case 8:
		if s.rand.IntN(2) == 0 {
			s.Order(s.rand.IntN(s.options.Grid.Regions()), ordinal)
		} else {
			s.Move(s.rand.IntN(s.options.Grid.Regions()), ordinal)
		}
	case 9:
		if i := s.rand.IntN(len(s.operators)); s.rand.IntN(2) == 0 {
			s.RestartOperator(i)
		} else {
			s.CutOperator(i, true)
			s.tl.After(s.some(time.Minute), func() { s.CutOperator(i, false) })
		}
	case 10:
		for _, region := range p.believes(nil) {
			_, epoch := s.Holder(region)
			p.Raise(region, epoch+uint64(s.rand.IntN(3)))
		}
	case 12, 13:
		s.deleteUnseen(p)
	case 14:
		s.deleteTwice(ordinal)
	}
}

// pause stops a process. Some machines are slow before they stop, and have no network when they go on.
func (s *sim) pause(p *actor) {
	if s.rand.IntN(3) > 0 {
		s.SetWeather(Weather{Slow: 1})
	}
	start := RenewPeriod + s.some(5*time.Second)
	end := start + s.some(45*time.Second)
	s.tl.After(start, func() {
		s.note("pause %s", p.Session())
		s.SetWeather(Weather{})
		p.Pause()
	})
	s.tl.After(end, p.Resume)
	if s.rand.IntN(3) > 0 {
		s.tl.After(start+s.some(end-start), func() { p.Cut(true) })
		s.tl.After(end+s.some(20*time.Second), func() { p.Cut(false) })
	}
}

// replace starts a node's next pod after a while.
func (s *sim) replace(ordinal int, most time.Duration) {
	s.replacing[ordinal] = true
	s.tl.After(s.some(most), func() {
		s.pods++
		s.replacing[ordinal] = false
		s.start(ordinal, fmt.Sprint("pod-", s.pods))
	})
}

// calm ends every fault.
func (s *sim) calm() {
	s.stopped = true
	s.SetOutage(false)
	s.SetWeather(Weather{})
	for ordinal := range simNodes {
		s.CutNode(ordinal, false)
	}
	for i := range s.operators {
		s.CutOperator(i, false)
	}
	for _, p := range s.actors {
		p.Resume()
		p.Cut(false)
	}
}

// unowned returns the regions that no process acts for.
func (s *sim) unowned() []int {
	owned := make([]bool, s.options.Grid.Regions())
	for _, p := range s.actors {
		for _, region := range p.believes(nil) {
			owned[region] = true
		}
	}
	var missing []int
	for region, o := range owned {
		if !o {
			missing = append(missing, region)
		}
	}
	return missing
}

// simulate runs one seed: faults, then calm.
func simulate(seed uint64, spoil func(*mutant)) *sim {
	s := newSim(seed, spoil)
	s.tl.After(5*time.Second, s.trouble)
	s.run(simFault)
	s.calm()
	s.run(simCalm)
	s.problems = append(s.problems, s.Broken()...)
	if n := s.Counters().NumbersReused; n > 0 {
		s.problems = append(s.problems, fmt.Sprintf("%d sessions have a number that was used before", n))
	}
	if missing := s.unowned(); len(missing) > 0 {
		s.problems = append(s.problems, fmt.Sprintf("regions %v are not owned %v after the last fault", missing, simCalm))
	}
	return s
}

func TestNoTwoProcessesEverOwnOneRegion(t *testing.T) {
	var sum Counters
	for seed := range uint64(60) {
		s := simulate(seed, nil)
		if len(s.problems) > 0 {
			t.Errorf("seed %d: %d problems, the first: %s", seed, len(s.problems), s.problems[0])
		}
		sum.Add(s.Counters())
	}
	v := reflect.ValueOf(sum)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).Uint() < 10 && name != "NumbersReused" && name != "Settled" {
			t.Errorf("%s happened %d times: the simulation shows little about it", name, v.Field(i).Uint())
		}
	}
	t.Logf("%+v", sum)
}

// Commits whose answers do not come, while nothing else is wrong: each is settled, or was taken, and nobody acts beside another.
func TestHandoversOfUnknownOutcomeAreSettled(t *testing.T) {
	var settled uint64
	for seed := range uint64(30) {
		s := newSim(seed, nil)
		s.run(20 * time.Second)
		for range 4 {
			s.SetWeather(Weather{Stuck: 0.7})
			for region := range s.options.Grid.Regions() {
				s.Move(region, s.rand.IntN(simNodes))
			}
			s.run(4 * time.Second)
			s.SetWeather(Weather{})
			s.run(30 * time.Second)
		}
		if missing := s.unowned(); len(s.problems)+len(missing) > 0 {
			t.Errorf("seed %d: %v, and nobody owns %v", seed, s.problems, missing)
		}
		settled += s.Counters().Settled
	}
	if settled < 10 {
		t.Errorf("%d handovers were settled: the simulation shows little about it", settled)
	}
}

func TestTheSimulationNoticesBrokenRules(t *testing.T) {
	for name, spoil := range map[string]func(*mutant){
		"a deadline counted from the answer":      func(m *mutant) { m.deadlineFromAnswer = true },
		"a session revoked after half a duration": func(m *mutant) { m.hastyRevoke = true },
		"a region taken whatever its version is":  func(m *mutant) { m.blindTake = true },
		"a lost region made for whom it is meant": func(m *mutant) { m.blindRemake = true },
		"a lost session made free at once":        func(m *mutant) { m.hastySession = true },
		"a session over when its Lease is gone":   func(m *mutant) { m.absenceIsDeath = true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				if s := simulate(seed, spoil); len(s.problems) > 0 {
					t.Logf("seed %d: %s", seed, s.problems[0])
					return
				}
			}
			t.Error("no seed shows it")
		})
	}
}

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	for seed := range uint64(4) {
		one, two := simulate(seed, nil), simulate(seed, nil)
		if !slices.Equal(one.trace, two.trace) || one.Counters() != two.Counters() {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}
