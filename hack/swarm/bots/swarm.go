package bots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	// beat is the period in which every bot is driven; checkBeats how many of them pass between two checks.
	beat       = 100 * time.Millisecond
	checkBeats = 3
	// starved is how late a beat may be before what it sees is not judged: the swarm itself had no processor.
	starved = 500 * time.Millisecond
	// dialling bounds the logins under way.
	dialling = 64
	// loginPatience bounds one login, farewellPatience the log outs of all.
	loginPatience    = 60 * time.Second
	farewellPatience = 10 * time.Second
	// maxKept bounds the violations that are kept whole; of a kind that is rare some are kept in any case.
	maxKept    = 200
	keptOfKind = 20
	// farewell is how long the world is watched at the end while nobody acts: everything said is heard, all results come.
	farewell = 2*settle + Grace
)

// Options of a swarm. Gateways, Key, World, Bots and Grid are required.
type Options struct {
	// Gateways are the addresses of gateways, host:port; the bots are dealt out to them.
	Gateways []string
	// Key signs development tokens.
	Key   []byte
	World string
	Bots  int
	Grid  torus.Grid
	// Owner names the owner of a region by index, so that bots cross borders between owners; nil: all borders are alike.
	Owner func(region int) string
	// FirstAccount is the account of bot 0; 0 takes one by the time, so that each run has fresh masters.
	FirstAccount uint64
	// Rate is how many bots log in per second; 50 if 0.
	Rate float64
	// Ping is the period of pings; 5 s if 0.
	Ping time.Duration
	// Seed of all chance; 0 takes one by the time.
	Seed uint64
	// Tinker lets the bots handle items as they walk: dig, pick up, drop, give, eat, split, merge.
	Tinker bool
	// Rest bounds how long Run waits at the end until the world is at rest: all bots are connected and everything is
	// answered. Whoever injects faults wants some; without, a few seconds must do.
	Rest time.Duration
	// Loopback gives each bot a source address of its own in 127.200.0.0/8; for gateways on this computer.
	Loopback bool
}

// Swarm is a crowd of bots. Run runs it; the other methods may be called meanwhile.
type Swarm struct {
	opts     Options
	run      string
	bots     []*bot
	places   map[int][]*bot
	byEntity map[ecs.EntityID]*bot
	started  time.Time
	excused  time.Time
	items    *ledger
	outages  []*outage
	restless int
	hurry    bool
	slots    chan struct{}
	logins   sync.WaitGroup

	mu       sync.Mutex // guards everything above and below while Run drives
	count    counts
	failures map[*bot]error
	kinds    map[client.ViolationKind]int
	kept     []Violation
	refusals map[string]int
}

// counts of a run.
type counts struct {
	inputs, results, said, heard                     int
	crossings, seamX, seamY                          int
	resyncs, lateLegs, starved                       int
	violations, refused, excusedRefusals, loginFails int
	setback                                          int64 // the longest, in metres
	undone                                           time.Duration
}

// New plans a swarm; nothing is connected yet.
func New(o Options) (*Swarm, error) {
	switch {
	case len(o.Gateways) == 0:
		return nil, errors.New("swarm: at least one gateway is required")
	case o.World == "" || o.Bots < 1 || o.Grid.Regions() == 0:
		return nil, errors.New("swarm: a world, its grid and at least one bot are required")
	}
	now := time.Now()
	if o.FirstAccount == 0 {
		o.FirstAccount = uint64(now.UnixMilli()) << 16
	}
	if o.Rate <= 0 {
		o.Rate = 50
	}
	if o.Ping <= 0 {
		o.Ping = 5 * time.Second
	}
	if o.Seed == 0 {
		o.Seed = uint64(now.UnixNano())
	}
	if o.Owner == nil {
		o.Owner = func(int) string { return "" }
	}
	s := &Swarm{
		opts: o, run: fmt.Sprintf("bot%x", o.FirstAccount>>16&0xfffffff), places: map[int][]*bot{}, byEntity: map[ecs.EntityID]*bot{},
		started: now, slots: make(chan struct{}, dialling), failures: map[*bot]error{}, kinds: map[client.ViolationKind]int{}, refusals: map[string]int{},
	}
	s.items = newLedger(func(b, other *bot, kind client.ViolationKind, detail string) {
		s.violate(b, other, kind, b.truth.entity, detail)
	})
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	for i, spot := range Plan(o.Grid, o.Owner, o.Bots, rng) {
		b := &bot{
			swarm: s, index: i, account: o.FirstAccount + uint64(i), name: botName(s.run, i), spot: spot, rng: rand.New(rand.NewPCG(o.Seed, uint64(i)+2)),
			dialled: make(chan *client.Client, 1), region: -1, saying: map[uint64]int{}, views: map[int]*view{}, hearing: map[ecs.EntityID]*hearing{},
			hands: newHands(),
		}
		s.bots = append(s.bots, b)
		s.places[spot.Place] = append(s.places[spot.Place], b)
	}
	return s, nil
}

// Run logs the bots in, drives them until ctx ends, lets the world settle, and logs them out. It returns the report.
func (s *Swarm) Run(ctx context.Context) Report {
	dials, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	s.mu.Lock()
	s.started = time.Now()
	s.mu.Unlock()
	s.logins.Add(1)
	go s.login(ctx, dials)
	s.drive(ctx, func(now time.Time, b *bot) { b.act(now) })
	hangUp()
	s.logins.Wait()
	s.rest()
	r := s.Report()
	s.logout()
	return r
}

// rest watches until the world has been at rest for a while, and judges what only shows then.
func (s *Swarm) rest() {
	quiet, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	busy := began
	s.drive(quiet, func(now time.Time, b *bot) {
		if !b.atRest() {
			busy = now
		}
		if now.Sub(busy) > farewell || now.Sub(began) > s.opts.Rest+farewell || s.hurry {
			cancel()
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items.finish(s.bots, time.Now())
	s.restless = 0
	for _, b := range s.bots {
		if !b.atRest() {
			s.restless++
		}
	}
}

// Hurry ends the wait for rest: what is found then is not the truth.
func (s *Swarm) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurry = true
}

// atRest reports whether nothing of the bot is on its way, itself included.
func (b *bot) atRest() bool {
	if b.client == nil {
		return !b.left || b.swarm.failures[b] != nil
	}
	return b.connected && b.truth.entity != 0 && !b.complete.IsZero() && len(b.hands.doings) == 0 && len(b.hands.due) == 0 && b.client.Unanswered() == 0
}

// Return logs the bots in again after Run, and out once they are at rest or the time to rest is over: each must be where it was,
// and carry what it carried. In the report connections are those of the return, everything else is of both. Bots that never
// got in stay away.
func (s *Swarm) Return(ctx context.Context) Report {
	s.mu.Lock()
	for _, b := range s.bots {
		if b.client != nil {
			b.leave()
		}
	}
	s.mu.Unlock()
	dials, hangUp := context.WithCancel(ctx)
	s.logins.Add(1)
	go s.login(ctx, dials)
	s.rest()
	hangUp()
	s.logins.Wait()
	r := s.Report()
	s.logout()
	return r
}

// leave forgets the client that has logged out, not what it knew.
func (b *bot) leave() {
	b.client, b.left, b.connected, b.truth = nil, true, false, truth{}
	b.logins, b.acked, b.violations, b.resyncs, b.marks = 0, 0, 0, 0, 0
	b.complete, b.region = time.Time{}, -1
	clear(b.views)
	clear(b.saying)
	clear(b.hearing)
	b.confirmed = nil
}

// Expectation lists the items that must be in the store after the run, and those that must not.
func (s *Swarm) Expectation() Expectation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items.expectation()
}

// login dials the bots at the given rate.
func (s *Swarm) login(ctx, dials context.Context) {
	defer s.logins.Done()
	tick := time.NewTicker(time.Duration(float64(time.Second) / s.opts.Rate))
	defer tick.Stop()
	for _, b := range s.bots {
		if s.failed(b) {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return
		case s.slots <- struct{}{}:
		}
		s.logins.Add(1)
		go func() {
			defer s.logins.Done()
			defer func() { <-s.slots }()
			one, cancel := context.WithTimeout(dials, loginPatience)
			defer cancel()
			b.dial(one)
		}()
	}
}

// failedLogin records why a bot could not log in. A login that the end of the run cut off is no failure.
func (s *Swarm) failedLogin(b *bot, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.loginFails++
	s.failures[b] = err
}

// failed reports whether a bot could not log in.
func (s *Swarm) failed(b *bot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures[b] != nil
}

// drive looks after all bots until ctx ends.
func (s *Swarm) drive(ctx context.Context, act func(time.Time, *bot)) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	last := time.Now()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		s.step(now, now.Sub(last) > starved, n, act)
		last = now
	}
}

// step looks at every bot, then lets it act, and checks a part of them.
func (s *Swarm) step(now time.Time, late bool, n int, act func(time.Time, *bot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bots {
		s.pickUp(b)
		if b.client != nil {
			b.look(now)
			s.know(b)
		}
	}
	if late { // what is compared was not seen at one time
		s.count.starved++
	}
	if n%checkBeats == 0 {
		s.items.judgeAll(now, false)
	}
	for i, b := range s.bots {
		if b.client == nil {
			act(now, b)
			continue
		}
		s.items.judge(b, now, false)
		if late {
			clear(b.views)
		} else if (i+n)%checkBeats == 0 {
			b.check(now, s.places[b.spot.Place])
		}
		act(now, b)
	}
}

// pickUp takes over a client that was dialled.
func (s *Swarm) pickUp(b *bot) {
	select {
	case c := <-b.dialled:
		b.client = c
		b.openSince = time.Now()
		b.nextSay = time.Now().Add(b.chance(sayEvery))
	default:
	}
}

// know keeps the map from entities to bots.
func (s *Swarm) know(b *bot) {
	if id := b.truth.entity; id != 0 && s.byEntity[id] != b {
		s.byEntity[id] = b
	}
}

// Excuse says that until then the world may hang: a fault was injected. Nothing else is excused by it.
func (s *Swarm) Excuse(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.excused) {
		s.excused = until
	}
}

func refusalKey(r *wire.InputResult) string { return fmt.Sprintf("%v: %s", r.Code, r.Detail) }

// refused counts an input that the world did not carry out; called with mu held.
func (s *Swarm) refused(r *wire.InputResult) {
	s.count.refused++
	if key := refusalKey(r); len(s.refusals) < maxKept || s.refusals[key] > 0 {
		s.refusals[key]++
	}
}

// violate records a violation; called with mu held.
func (s *Swarm) violate(b, other *bot, kind client.ViolationKind, entity ecs.EntityID, detail string) {
	s.count.violations++
	s.kinds[kind]++
	if len(s.kept) < maxKept || s.kinds[kind] <= keptOfKind {
		s.kept = append(s.kept, s.describe(b, other, kind, entity, detail))
	}
}

// logout ends all clients.
func (s *Swarm) logout() {
	ctx, cancel := context.WithTimeout(context.Background(), farewellPatience)
	defer cancel()
	var wg sync.WaitGroup
	s.mu.Lock()
	defer wg.Wait()
	defer s.mu.Unlock()
	for _, b := range s.bots {
		s.pickUp(b)
		if b.client == nil {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			_ = b.client.Logout(ctx) // it ends in any case
		}()
	}
}
