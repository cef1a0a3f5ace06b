package leases

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/simtest/timeline"
	"github.com/spatialcells/spatialcells/node/torus"
)

// stage is a World in calm weather: 4 nodes, 16 regions in rows, one operator.
type stage struct {
	*API
	t  testing.TB
	tl *timeline.Timeline
}

// player is a process that keeps what it was told.
type player struct {
	*Process
	table      *partition.Table
	lost       bool
	live, dead []string
}

func newStage(t testing.TB) *stage {
	grid, err := torus.NewGrid(4, 4, 20)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, tl: &timeline.Timeline{}}
	s.API = New(Options{
		Timeline: s.tl, Rand: rand.New(rand.NewPCG(1, 1)), World: "sim", Grid: grid, Nodes: 4,
		Owner: func(region int) int { return region / 4 }, Operators: 1,
	})
	return s
}

func (s *stage) enter(ordinal int, pod string) *player {
	p := &player{}
	p.Process = s.Start(ordinal, pod, &DriftClock{Timeline: s.tl, Offset: time.Hour, Rate: 1}, Events{
		Lost:  func() { p.lost = true },
		Table: func(t *partition.Table) { p.table = t },
		Live:  func(session string) { p.live = append(p.live, session) },
		Dead:  func(session string) { p.dead = append(p.dead, session) },
	})
	return p
}

// everybody starts all nodes and waits until they hold what is theirs.
func (s *stage) everybody() []*player {
	var players []*player
	for ordinal := range 4 {
		players = append(players, s.enter(ordinal, "first"))
	}
	s.pass(3 * time.Second)
	return players
}

func (s *stage) pass(d time.Duration) { s.tl.Advance(s.tl.Now() + d) }

// passUntil lets time pass until something is so, and returns how long it took.
func (s *stage) passUntil(most time.Duration, so func() bool) time.Duration {
	s.t.Helper()
	began := s.tl.Now()
	for !so() {
		if s.tl.Now() > began+most {
			s.t.Fatalf("still not so after %v", most)
		}
		s.pass(10 * time.Millisecond)
	}
	return s.tl.Now() - began
}

func (p *player) holds() []int {
	if p.table == nil {
		return nil
	}
	return p.table.AppendRegionsOf(nil, p.Session())
}

func within(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s took %v, want %v to %v", what, got, least, most)
	}
}

func TestNodesTakeWhatIsOrderedForThem(t *testing.T) {
	s := newStage(t)
	for ordinal, p := range s.everybody() {
		if got, want := p.holds(), []int{4 * ordinal, 4*ordinal + 1, 4*ordinal + 2, 4*ordinal + 3}; !slices.Equal(got, want) {
			t.Errorf("node %d holds %v, want %v", ordinal, got, want)
		}
		if len(p.live) != 3 || len(p.dead) != 0 {
			t.Errorf("node %d was told %v live and %v dead, want its 3 peers live", ordinal, p.live, p.dead)
		}
	}
	if session, epoch := s.Holder(5); session != "sim-zone-1#1" || epoch != 2 || s.Holding(1) != session {
		t.Errorf("region 5 is held by %q, epoch %d; node 1 holds %q", session, epoch, s.Holding(1))
	}
}

func TestANextContainerOfThePodTakesOverAtOnce(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	players[1].Kill()
	p := s.enter(1, "first")
	within(t, "taking over", s.passUntil(time.Minute, func() bool { return len(p.holds()) == 4 }), 0, 2*time.Second)
	if session, epoch := s.Holder(5); session != "sim-zone-1#2" || epoch != 3 {
		t.Errorf("region 5 is held by %q, epoch %d, want an inherited one", session, epoch)
	}
	if !slices.Contains(players[0].dead, "sim-zone-1#1") || !slices.Contains(players[0].live, "sim-zone-1#2") {
		t.Errorf("node 0 was told %v live and %v dead", players[0].live, players[0].dead)
	}
}

func TestANextPodWaitsUntilItsPredecessorIsSilentForCertain(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	players[1].Kill()
	p := s.enter(1, "second")
	took := s.passUntil(time.Minute, func() bool { return p.Session() != "" })
	within(t, "acquiring", took, LeaseDuration*9/10-RenewPeriod, LeaseDuration*11/10+2*readPeriod)
}

func TestAPodThatIsKnownDeadIsRevokedAtOnce(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	players[1].Kill()
	s.PodDied(1)
	within(t, "revoking", s.passUntil(time.Minute, func() bool { return s.Holding(1) == "" }), 200*time.Millisecond, 3500*time.Millisecond)
	if s.Counters().RevokedAtOnce != 1 {
		t.Errorf("%+v", s.Counters())
	}
}

func TestRegionsOfADeadNodeGoToItsNeighbours(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	players[1].Kill()
	took := s.passUntil(time.Minute, func() bool {
		return len(players[0].holds())+len(players[2].holds())+len(players[3].holds()) == 16
	})
	within(t, "redistribution", took, 18*time.Second, 30*time.Second)
	for _, p := range []*player{players[0], players[2], players[3]} {
		if n := len(p.holds()); n < 5 || n > 6 {
			t.Errorf("node %d holds %d regions, want an even share", p.ordinal, n)
		}
	}
	back := s.enter(1, "second")
	s.pass(time.Minute)
	if got := back.holds(); len(got) != 0 {
		t.Errorf("the node that came back holds %v, want nothing before a migration", got)
	}
}

func TestAnOrderMovesOnlyAFreeRegion(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	s.Order(5, 3)
	s.pass(10 * time.Second)
	if session, _ := s.Holder(5); session != players[1].Session() {
		t.Errorf("region 5 is held by %q, want it to stay", session)
	}
	players[1].Kill()
	s.passUntil(time.Minute, func() bool { session, _ := s.Holder(5); return session == players[3].Session() })
}

func TestAnOutageFreezesAndThawsInPlace(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	s.SetOutage(true)
	s.passUntil(time.Minute, func() bool { return players[1].passed() })
	s.pass(time.Minute)
	s.SetOutage(false)
	s.passUntil(10*time.Second, func() bool { return !players[1].passed() })
	if players[1].lost || len(players[1].holds()) != 4 || players[1].Session() != "sim-zone-1#1" {
		t.Errorf("%s holds %v after the outage", players[1].Session(), players[1].holds())
	}
}

func TestANodeThatIsCutOffLosesItsSession(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	s.CutNode(1, true)
	silent := s.passUntil(time.Minute, func() bool { return players[1].passed() })
	within(t, "falling silent", silent, RenewDeadline-RenewPeriod, RenewDeadline)
	revoked := silent + s.passUntil(time.Minute, func() bool { return s.Holding(1) == "" })
	late := 6 * time.Second // a renewal that was under way may land
	within(t, "revoking", revoked, LeaseDuration*9/10-RenewPeriod, late+LeaseDuration*11/10+2*readPeriod)
	if players[1].lost {
		t.Error("lost what it cannot know")
	}
	s.CutNode(1, false)
	s.passUntil(10*time.Second, func() bool { return players[1].lost })
	if players[1].Deadline() != 0 {
		t.Errorf("deadline %v after the loss", players[1].Deadline())
	}
}

func TestAStoppedProcessFindsItsDeadlinePassed(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	before := players[1].table
	players[1].Pause()
	s.pass(time.Minute)
	if players[1].table != before || !players[1].passed() || len(players[1].holds()) != 4 {
		t.Error("a stopped process was told something, or has time left")
	}
	players[1].Resume()
	s.passUntil(10*time.Second, func() bool { return players[1].lost })
}

func TestAKilledProcessIsToldNothingAndItsRequestsLand(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	s.SetWeather(Weather{Stuck: 1})
	s.pass(RenewPeriod)
	before := s.leases[1].version
	players[1].Kill()
	s.pass(mostStuck)
	if s.leases[1].version == before || s.Counters().LandedLate == 0 || players[1].lost {
		t.Errorf("the renewal under way did not land, or was answered: %+v", s.Counters())
	}
}

func TestADeletedSessionLeaseIsFreeAgainAfterAFullDuration(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	s.pass(5 * time.Second) // reported
	if !s.DeleteLease("sim-zone-1") || s.DeleteLease("sim-zone-1") {
		t.Fatal("want it deleted, once")
	}
	s.passUntil(time.Second, func() bool { return s.leases[1].exists() })
	s.passUntil(10*time.Second, func() bool { return players[1].lost })
	p := s.enter(1, "first")
	if took := s.passUntil(time.Minute, func() bool { return p.Session() != "" }); took < LeaseDuration*9/10-RenewPeriod {
		t.Errorf("its node's next process took it after %v", took)
	}
	s.passUntil(10*time.Second, func() bool { return len(p.holds()) == 4 })
	if p.Session() != "sim-zone-1#1003" { // above 1001, which was the bound of all numbers
		t.Errorf("the next session is %s", p.Session())
	}
}

func TestANodeThatIsStoppedWhileItsSessionLeaseIsDeletedIsOverForNobodyBeforeItsDeadline(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		s := newStage(t)
		players := s.everybody()
		s.pass(RenewPeriod)
		players[1].Pause()
		s.DeleteLease("sim-zone-1")
		if restarted {
			s.RestartOperator(0)
		}
		players[0].Kill()
		s.enter(1, "second") // the pod is replaced, and the process of the first is not known to have ended
		next := s.enter(0, "first")
		acts := func() bool { session, _ := s.Holder(5); return session == players[1].Session() }
		for !players[1].passed() {
			if s.pass(10 * time.Millisecond); !acts() || slices.Contains(players[2].dead, players[1].Session()) {
				t.Fatalf("region 5 is taken, or %v are told dead", players[2].dead)
			}
		}
		if len(next.live) != 3 || len(next.dead) != 0 {
			t.Errorf("the process that began meanwhile was told %v live and %v dead", next.live, next.dead)
		}
		s.passUntil(time.Minute, func() bool { return !acts() && slices.Contains(players[2].dead, players[1].Session()) })
	}
}

func TestASessionThatWasRevokedBeforeItsLeaseWasLostIsNotLiveByWordOfItsRegion(t *testing.T) {
	s := newStage(t)
	region := lease{uid: 9, holder: "sim-zone-1#3", life: life{1, 3}, transitions: 7, target: 1}
	for _, c := range []struct {
		revoked bool
		live    int32
	}{{true, 0}, {false, 3}} {
		v := newView(&line{api: s.API}, func() {})
		if c.revoked {
			v.enter(1, lease{uid: 8, version: 1, transitions: 3})
		}
		region.version = 2
		v.enter(s.regionSlot(5), region)
		v.enter(1, lease{version: 3})
		if got := v.live()[1]; got != c.live {
			t.Errorf("revoked %v: %d is live, want %d", c.revoked, got, c.live)
		}
		v.enter(1, lease{uid: 10, version: 4, holder: lostHolder, transitions: 1001})
		if got := v.live()[1]; got != c.live {
			t.Errorf("revoked %v, and made again: %d is live, want %d", c.revoked, got, c.live)
		}
	}
}

func TestAProcessThatBeginsWaitsUntilTheLeasesNameEverybody(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	s.pass(5 * time.Second)
	s.CutOperator(0, true) // nobody makes it again
	s.DeleteLease("sim-zone-1")
	players[0].Kill()
	next := s.enter(0, "first")
	s.pass(20 * time.Second)
	if next.Session() == "" || next.table != nil {
		t.Fatalf("%q begins while the session Lease of a holder is missing", next.Session())
	}
	s.CutOperator(0, false)
	s.passUntil(time.Minute, func() bool { return next.table != nil })
}

func TestAProcessThatBeginsWhenNothingNamesWhoActsWaitsUntilThatIsOver(t *testing.T) {
	for _, spoilt := range []bool{false, true} {
		s := newStage(t)
		s.mutant.beginsAtOnce = spoilt
		players := s.everybody()
		s.pass(RenewPeriod)
		players[1].Pause()
		for _, name := range []string{"sim-zone-1", "sim-r-0-1", "sim-r-1-1", "sim-r-2-1", "sim-r-3-1"} {
			if !s.DeleteLease(name) {
				t.Fatalf("no lease %s", name)
			}
		}
		s.RestartOperator(0)
		players[0].Kill()
		next, unknown := s.enter(0, "first"), false
		for !players[1].passed() {
			s.pass(10 * time.Millisecond)
			unknown = unknown || next.table != nil && !slices.Contains(next.live, players[1].Session())
		}
		if unknown != spoilt {
			t.Errorf("spoilt %v: began without a word of who acts %v", spoilt, unknown)
		}
		s.passUntil(3*time.Minute, func() bool { return len(next.holds()) > 4 })
	}
}

func TestADeletedRegionLeaseComesBackAboveEveryEpoch(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	bound := s.highest
	s.DeleteLease("sim-r-1-1")
	s.passUntil(10*time.Second, func() bool { return s.leases[s.regionSlot(5)].exists() })
	s.passUntil(10*time.Second, func() bool { return slices.Contains(players[1].holds(), 5) })
	if session, epoch := s.Holder(5); epoch != uint64(bound)+1 || session != players[1].Session() {
		t.Errorf("held by %q at epoch %d, want %q to hold it above %d", session, epoch, players[1].Session(), bound)
	}
}

// heir is a World in which node 3 holds region 5, which is assigned to node 0. Its Lease is deleted, and node 3 is told late.
func (s *stage) heir() []*player {
	players := s.everybody()
	s.Order(5, 3)
	players[1].Kill()
	s.passUntil(time.Minute, func() bool { return slices.Contains(players[3].holds(), 5) })
	s.Order(5, 0)
	s.pass(5 * time.Second)
	s.SetWeather(Weather{Lag: 5 * time.Second})
	s.DeleteLease("sim-r-1-1")
	s.SetWeather(Weather{})
	return players
}

// owners watches region 5 for a while, and returns by how many it was held at most, and by whom in the end.
func (s *stage) owners(players []*player, long time.Duration) (most int, last *player) {
	for end := s.tl.Now() + long; s.tl.Now() < end; s.pass(10 * time.Millisecond) {
		n := 0
		for _, p := range players {
			if !p.Process.dead && !p.passed() && slices.Contains(p.holds(), 5) {
				n, last = n+1, p
			}
		}
		most = max(most, n)
	}
	return most, last
}

func TestALostRegionStaysWithItsHolder(t *testing.T) {
	s := newStage(t)
	players := s.heir()
	most, last := s.owners(players, time.Minute)
	if _, epoch := s.Holder(5); most != 1 || last != players[3] || epoch < 1000 {
		t.Errorf("%d owners at once, the last %s at epoch %d", most, last.Session(), epoch)
	}
}

func TestALostRegionThatANewOperatorFindsIsOrderedOnlyWhenNobodyCanActForIt(t *testing.T) {
	for _, spoilt := range []bool{false, true} {
		s := newStage(t)
		s.mutant.doubtless = spoilt
		players := s.heir()
		s.RestartOperator(0)
		most, last := s.owners(players, time.Minute)
		if last != players[0] || spoilt != (most > 1) {
			t.Errorf("spoilt %v: %d owners at once, the last %s", spoilt, most, last.Session())
		}
		if s.Counters().Doubted != 1 {
			t.Errorf("%+v", s.Counters())
		}
	}
}

func TestAnEpochIsRaisedByItsHolderOnly(t *testing.T) {
	s := newStage(t)
	players := s.everybody()
	players[1].Raise(5, 40)
	players[2].Raise(6, 40)
	s.pass(time.Second)
	if _, epoch := s.Holder(5); epoch != 40 || players[1].table.At(5).Epoch != 40 {
		t.Errorf("epoch %d, and %d in the table, want 40", epoch, players[1].table.At(5).Epoch)
	}
	if _, epoch := s.Holder(6); epoch != 2 {
		t.Errorf("epoch %d of a region of another node, want 2", epoch)
	}
}

func TestWhatNoKubeletDoesIsRefused(t *testing.T) {
	for name, do := range map[string]func(*stage){
		"a pod reported dead while its process runs": func(s *stage) { s.PodDied(1) },
		"two processes at once in one pod":           func(s *stage) { s.enter(1, "first") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.everybody()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			do(s)
		})
	}
}

func BenchmarkCalmMinute(b *testing.B) {
	for b.Loop() {
		s := newStage(b)
		for ordinal := range 4 {
			s.enter(ordinal, "first")
		}
		s.pass(time.Minute)
	}
}

func TestACalmMinuteCostsLittle(t *testing.T) {
	s := newStage(t)
	s.everybody()
	before := s.Counters().Requests
	allocs := testing.AllocsPerRun(1, func() { s.pass(time.Minute) })
	if n := (s.Counters().Requests - before) / 2; n > 200 || allocs > 5000 {
		t.Errorf("%d requests and %.0f allocations for a minute of 4 nodes", n, allocs)
	}
}
