package bots

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/gateway"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	// sayEvery is how often a bot says something, give or take a half.
	sayEvery = 4 * time.Second
	// legPatience is how long a bot may take for a leg beyond what its length needs, before it walks it again.
	legPatience = 10 * time.Second
	// maxConfirmed bounds what a bot remembers of its own words.
	maxConfirmed = 8
)

// bot is one player. All fields but dialled belong to the goroutine that drives the swarm.
type bot struct {
	swarm   *Swarm
	index   int
	account uint64
	name    string
	spot    Spot
	rng     *rand.Rand
	client  *client.Client // set once, by dialled
	dialled chan *client.Client

	leg     int
	goal    torus.Pos
	walking bool
	arrive  time.Time // when the leg should be over

	nextSay   time.Time
	said      int            // the last number
	saying    map[uint64]int // input number -> what it says
	confirmed []words
	breaks    int // how often numbers of ours may have been left out

	logins     int
	region     int // index of the region it stands in; -1 unknown
	violations int // of the model, already taken
	resyncs    int // the same
	truth      truth
	views      map[int]*view             // by index of the bot that is seen
	hearing    map[ecs.EntityID]*hearing // by speaker
	openSince  time.Time                 // when it began to wait for results
	acked      uint64
	absent     time.Time
	stalled    time.Time
	complete   time.Time // since when its set is complete
	vanished   []client.Vanish
	marks      int       // of its own entity
	marked     time.Time // when its own entity was marked last: it goes on from an earlier place
	refusals   []refusal // not judged yet
	stats      client.Stats
	connected  bool

	hands       hands
	nextTinker  time.Time
	whereabouts whereabouts
	appeared    time.Time // when its own entity came into its sight
	left        bool      // it logged out, which saves it as it is
	node        string    // pod of its gateway
}

// words are a number that was said, and when its result came.
type words struct {
	number int
	at     time.Time
}

// refusal is an input that the world did not carry out.
type refusal struct {
	at     time.Time
	result *wire.InputResult
}

// markSlack is how far apart a refusal and a mark may be and still belong together: a move that was planned from a place
// which a crash undid is refused before or after the bot learns of it.
const markSlack = 5 * time.Second

// truth is what a bot knows of itself.
type truth struct {
	ok     bool // it is connected, lives and hears
	entity ecs.EntityID
	at     torus.Pos
}

// name of a bot: unique in the run, and read back by the others.
func botName(run string, index int) string { return fmt.Sprintf("%s-%d", run, index) }

// indexOf reads a bot's name.
func indexOf(run, name string) (int, bool) {
	rest, found := strings.CutPrefix(name, run+"-")
	n, err := strconv.Atoi(rest)
	return n, found && err == nil && n >= 0
}

// dial logs the bot in; it returns at once.
func (b *bot) dial(ctx context.Context) {
	o := b.swarm.opts
	gateways := append(append([]string{}, o.Gateways[b.index%len(o.Gateways):]...), o.Gateways[:b.index%len(o.Gateways)]...)
	opts := client.Options{Version: "swarm", Ping: o.Ping}
	if o.Loopback {
		opts.From = loopback(b.index)
	}
	c, err := client.Dial(ctx, gateways, b.token, opts)
	if err != nil {
		b.swarm.failedLogin(b, err)
		return
	}
	b.dialled <- c
}

// loopback gives each bot a source address of its own, so that nobody runs out of ports.
func loopback(index int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 200 + byte(index/62500%50), byte(index / 250 % 250), byte(index%250 + 1)})
}

func (b *bot) token(context.Context) (string, error) {
	claims := gateway.Claims{World: b.swarm.opts.World, Name: b.name, Spawn: fmt.Sprintf("%d,%d", b.spot.Spawn.X, b.spot.Spawn.Y)}
	claims.Subject = strconv.FormatUint(b.account, 10)
	return gateway.SignDevelopment(b.swarm.opts.Key, claims)
}

// look takes what the client has learned since the last look, and the truth about itself.
func (b *bot) look(now time.Time) {
	b.stats = b.client.Stats()
	b.connected = b.client.Connected()
	b.relogged(now)
	b.client.Do(func(m *client.Model, tick uint64) {
		b.results(m.TakeResults(), now)
		b.listen(m.TakeHeard())
		b.vanished = append(b.vanished, m.TakeVanished()...)
		b.modelViolations(m)
		if m.Resyncs > b.resyncs {
			b.swarm.count.resyncs += m.Resyncs - b.resyncs
			b.resyncs = m.Resyncs
		}
		b.watchAcks(m.Acked(), now)
		if m.Acked() > 0 {
			b.swarm.items.unanswered(b, m.Acked(), now) // their results would have come
		}
		if m.Welcome != nil {
			b.node = m.Welcome.Node
		}
		b.truth = truth{}
		if own := m.Own(); own != nil && own.Marks != b.marks {
			b.marks, b.marked = own.Marks, now
		}
		b.judgeRefusals(now)
		if own := m.Own(); own != nil && own.Placed() {
			b.truth = truth{b.connected && b.hears(now), own.ID, m.At(own, tick)}
		}
		if !m.Complete {
			b.complete = time.Time{}
		} else if b.complete.IsZero() {
			b.complete = now
		}
		if own := m.Own(); b.truth.entity != 0 {
			b.followed(m, own, tick, now)
			b.inventory(own, now)
		}
	})
	if b.truth.entity != 0 {
		b.crossed()
	}
}

// hears reports whether the world spoke lately. A bot that walks, and so everybody who sees it, hears of it every 8 steps:
// 2.8 s when they are diagonal.
func (b *bot) hears(now time.Time) bool { return now.Sub(b.stats.Batch) < 4*time.Second }

// relogged: after a fresh login numbers of inputs start anew, and what was unanswered is gone.
func (b *bot) relogged(now time.Time) {
	if b.stats.Logins == b.logins {
		return
	}
	if b.logins > 0 {
		b.breaks++
		b.swarm.items.unanswered(b, 0, now)
	}
	b.logins = b.stats.Logins
	b.saying, b.walking, b.acked = map[uint64]int{}, false, 0
}

func (b *bot) results(list []*wire.InputResult, now time.Time) {
	for _, r := range list {
		n, speech := b.saying[r.Number]
		delete(b.saying, r.Number)
		b.swarm.count.results++
		if b.swarm.items.answered(b, r, now) {
			continue
		}
		switch {
		case r.Code != wire.InputResult_CODE_OK:
			b.refusals = append(b.refusals, refusal{now, r})
			b.walking = false
			if speech {
				b.breaks++
			}
		case speech:
			b.confirmed = append(b.confirmed, words{n, now})
			b.confirmed = b.confirmed[max(len(b.confirmed)-maxConfirmed, 0):]
		}
	}
}

// judgeRefusals counts the refusals that no mark has excused in time.
func (b *bot) judgeRefusals(now time.Time) {
	kept := b.refusals[:0]
	for _, r := range b.refusals {
		switch {
		case r.at.Sub(b.marked).Abs() < markSlack:
			b.swarm.count.excusedRefusals++
		case now.Sub(r.at) < markSlack:
			kept = append(kept, r)
		default:
			b.swarm.refused(r.result)
		}
	}
	b.refusals = kept
}

// watchAcks notes since when the oldest input waits.
func (b *bot) watchAcks(acked uint64, now time.Time) {
	if acked != b.acked {
		b.acked, b.openSince = acked, now
	}
}

// crossed counts crossings by what the bot knows.
func (b *bot) crossed() {
	g := b.swarm.opts.Grid
	now := g.RegionIndexOf(b.truth.at)
	if b.region >= 0 && b.region != now {
		from, to := g.RegionAt(b.region), g.RegionAt(now)
		c := &b.swarm.count
		c.crossings++
		if d := max(from.Column-to.Column, to.Column-from.Column); d > 1 {
			c.seamX++
		}
		if d := max(from.Row-to.Row, to.Row-from.Row); d > 1 {
			c.seamY++
		}
	}
	b.region = now
}

// act walks and talks, and handles items where that is wanted.
func (b *bot) act(now time.Time) {
	if !b.connected || b.truth.entity == 0 {
		return
	}
	if now.After(b.nextSay) {
		b.nextSay = now.Add(sayEvery/2 + b.chance(sayEvery))
		b.say()
	}
	if b.swarm.opts.Tinker && b.truth.ok {
		b.tinker(now)
	}
	switch {
	case b.walking && b.truth.at.X == b.goal.X && b.truth.at.Y == b.goal.Y:
		b.walking = false
		b.leg++
		b.walk(now)
	case !b.walking:
		b.walk(now)
	case now.After(b.arrive):
		b.swarm.count.lateLegs++
		b.walk(now)
	}
}

// chance is a random time below d.
func (b *bot) chance(d time.Duration) time.Duration { return time.Duration(b.rng.Int64N(int64(d))) }

func (b *bot) say() {
	n, err := b.client.Say("#" + strconv.Itoa(b.said+1))
	if err != nil {
		return
	}
	b.said++
	b.sent(n)
	b.saying[n] = b.said
	b.swarm.count.said++
}

// sent notes that an input is on its way.
func (b *bot) sent(number uint64) {
	if number == b.acked+1 {
		b.openSince = time.Now()
	}
	b.swarm.count.inputs++
}

// walk sets out for the goal of the present leg.
func (b *bot) walk(now time.Time) {
	g := b.swarm.opts.Grid
	if len(b.spot.Route) > 0 {
		b.goal = b.spot.Route[b.leg%len(b.spot.Route)]
	} else if !b.walking {
		b.goal = g.Add(b.spot.Spawn, b.rng.Int64N(2*wanderRadius)-wanderRadius, b.rng.Int64N(2*wanderRadius)-wanderRadius)
	}
	n, err := b.client.Move(way(g, b.truth.at, b.goal)...)
	if err != nil {
		return
	}
	b.sent(n)
	b.walking = true
	// 4 m/s; a diagonal metre takes 1.4 times as long
	b.arrive = now.Add(time.Duration(g.Chebyshev(b.truth.at, b.goal))*360*time.Millisecond + legPatience)
}
