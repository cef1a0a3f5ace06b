package simtest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/node/simtest/vault"
	"github.com/spatialcells/spatialcells/node/zone"
)

// generator draws a plan from a seed.
type generator struct {
	*rand.Rand
	p *Plan
	// share of ticks at which a fault of each verb strikes, in millionths.
	rates map[string]int
	// heart is where the players of this world like to be: a corner of regions, perhaps the one that is the seam.
	heartX, heartY int64
}

// situationShare is every how many seeds one is made around a situation.
const situationShare = 3

// Generate draws the plan of a seed: the world, players who walk around corners and over borders, say things, lose their
// sockets and log in twice, and a mix of faults that is the seed's own. Every third seed is made around a situation instead,
// in which transitions are common that are rare elsewhere.
func Generate(seed uint64) *Plan {
	g := newGenerator(seed)
	if seed%situationShare == 0 {
		g.situation(int(seed / situationShare))
		g.sort()
		return g.p
	}
	g.mix()
	players := 2 + g.IntN(6)
	for account := 1; account <= players; account++ {
		if g.IntN(3) == 0 {
			g.p.Teams[uint64(account)] = 1 + g.IntN(3)
		}
	}
	for account := 1; account <= players; account++ {
		x, y := g.place()
		g.add(g.IntN(40), "login", int64(account), g.node(), x, y)
		g.player(int64(account))
	}
	for tick := 60; tick < g.p.Ticks; tick++ {
		g.faults(tick)
	}
	if len(g.rates) > 0 {
		g.triggers(int(seed))
	}
	g.tinkerers(players)
	g.movers()
	g.rewinds()
	g.sort()
	return g.p
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), p: &Plan{Seed: seed, EdgeChunks: 15, Teams: map[uint64]int{}}}
	g.world()
	return g
}

// Every is the name that stands for all situations, one after the other from seed to seed.
const Every = "every"

// Around draws the plan of a seed that is made around a situation, by its name; nil if there is none of that name.
func Around(name string, seed uint64) *Plan {
	all := slices.Concat(situations, moving, further, apart)
	if name == Every {
		name, seed = all[seed%uint64(len(all))].name, seed/uint64(len(all))
	}
	i := slices.IndexFunc(all, func(s situation) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	g := newGenerator(seed)
	g.around(&all[i], int(seed))
	g.sort()
	return g.p
}

// tinkerers lets some players handle items for a while. It draws from dice of its own, so what else happens stays as it is.
func (g *generator) tinkerers(players int) {
	dice := rand.New(rand.NewPCG(g.p.Seed, 13))
	for account := 1; account <= players; account++ {
		for tick := 40; tick < g.p.Ticks; tick++ {
			if dice.IntN(600) == 0 {
				g.add(tick, "tinker", int64(account), 20+dice.Int64N(200))
			}
		}
	}
}

// movers lets regions of some worlds move, by dice of their own.
func (g *generator) movers() {
	dice := rand.New(rand.NewPCG(g.p.Seed, 17))
	if dice.IntN(4) > 0 {
		return
	}
	for tick := 60; tick < g.p.Ticks; tick++ {
		if dice.IntN(150) == 0 {
			g.add(tick, "move", dice.Int64N(int64(g.p.Columns*g.p.Rows)), dice.Int64N(int64(g.p.Nodes)))
		}
	}
}

// rewinds lets the store of some worlds fail over to a copy that is behind, by dice of their own.
func (g *generator) rewinds() {
	dice := rand.New(rand.NewPCG(g.p.Seed, 19))
	if dice.IntN(12) > 0 {
		return
	}
	for range 1 + dice.IntN(3) {
		g.add(100+dice.IntN(g.p.Ticks-100), "rewind", 50+dice.Int64N(int64(vault.RewindBy/time.Millisecond)-50))
	}
}

func (g *generator) sort() {
	slices.SortStableFunc(g.p.Actions, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
}

func (g *generator) world() {
	p := g.p
	p.Nodes, p.Columns, p.Rows = 1+g.IntN(4), 1+g.IntN(3), 1+g.IntN(3)
	if g.IntN(40) == 0 {
		p.Nodes, p.Columns, p.Rows = 5+g.IntN(12), 2+g.IntN(7), 2+g.IntN(7)
	}
	for range p.Columns * p.Rows {
		p.Owners = append(p.Owners, g.IntN(p.Nodes))
	}
	for range p.Nodes {
		rate := 1.0
		if g.IntN(2) == 0 {
			rate = 0.9 + 0.2*g.Float64()
		}
		p.Rates = append(p.Rates, rate)
	}
	p.LinkDelay = time.Duration(1+g.IntN(40)) * time.Millisecond
	if g.IntN(2) == 0 {
		p.LinkJitter = time.Duration(1+g.IntN(60)) * time.Millisecond
	}
	p.StoreDelay = time.Duration(1+g.IntN(100)) * time.Millisecond
	p.Nasty, p.Operators = true, 1+g.IntN(2)
	p.Ticks, p.SettleTicks = 400+g.IntN(800), 4000
	edge := int64(p.EdgeChunks) * 32
	g.heartX, g.heartY = int64(g.IntN(p.Columns))*edge, int64(g.IntN(p.Rows))*edge
}

// mix chooses which faults this seed knows, and how often they strike.
func (g *generator) mix() {
	g.rates = map[string]int{}
	kinds := []string{
		"cut", "oneway", "slow", "reset", "kill", "crash", "pause", "stall", "cutapi", "outage", "apierrors", "lag", "deletelease",
		"deleteregion", "storeaway", "storefull", "storereadonly", "storeslow", "storetimeouts", "failover", "failoverall", "order", "outbid", "forget", "outlive", "storelost",
	}
	for range g.IntN(7) {
		g.rates[kinds[g.IntN(len(kinds))]] = 1000 + g.IntN(7000)
	}
	for verb, most := range map[string]int{"kill": 3000, "storelost": 1500, "forget": 1500} {
		if g.rates[verb] > most {
			g.rates[verb] = most
		}
	}
}

func (g *generator) add(at int, verb string, args ...int64) {
	g.p.Actions = append(g.p.Actions, Action{at, verb, args})
}

func (g *generator) node() int64 { return int64(g.IntN(g.p.Nodes)) }

func (g *generator) region() int64 { return int64(g.IntN(g.p.Columns * g.p.Rows)) }

func (g *generator) ticks(most int) int64 { return int64(1 + g.IntN(most)) }

// place is somewhere around the heart; now and then anywhere.
func (g *generator) place() (x, y int64) {
	sizeX, sizeY := int64(g.p.Columns*g.p.EdgeChunks)*32, int64(g.p.Rows*g.p.EdgeChunks)*32
	reach := int64(150)
	if g.IntN(12) == 0 {
		return g.Int64N(sizeX), g.Int64N(sizeY)
	}
	wrap := func(v, size int64) int64 { return ((v % size) + size) % size }
	return wrap(g.heartX+g.Int64N(2*reach)-reach, sizeX), wrap(g.heartY+g.Int64N(2*reach)-reach, sizeY)
}

// player draws what one player does: it walks somewhere, or paces over the border, speaks, and has trouble with its line.
func (g *generator) player(account int64) {
	pacing := g.IntN(4) == 0
	x, y := g.place()
	for tick := 40; tick < g.p.Ticks; tick++ {
		switch k := g.IntN(10000); {
		case k < 120:
			if !pacing || g.IntN(8) == 0 {
				x, y = g.place()
			} else {
				sizeX := int64(g.p.Columns*g.p.EdgeChunks) * 32
				x = (2*g.heartX - x + 2*sizeX) % sizeX
			}
			g.add(tick, "walk", account, x, y)
		case k < 240:
			g.add(tick, "say", account)
		case k < 250:
			g.add(tick, "drop", account)
		case k < 254:
			for range 1 + g.IntN(4)/3*3 { // now and then in several places at once
				g.add(tick, "login", account, g.node(), x, y)
			}
		case k < 256:
			g.add(tick, "logout", account)
		case k < 260:
			g.add(tick, "recall", account)
		}
	}
}

// crashPoints are the transitions of one entity's or region's protocols: where a process may die.
var crashPoints = zone.Points()

func (g *generator) faults(tick int) {
	for _, verb := range faultVerbs {
		if rate := g.rates[verb]; rate == 0 || g.IntN(1_000_000) >= rate {
			continue
		}
		switch verb {
		case "cut", "oneway":
			g.add(tick, verb, g.node(), g.node(), g.ticks(100))
		case "slow":
			g.add(tick, verb, g.node(), g.node(), 2+g.ticks(10), g.ticks(100))
		case "reset":
			g.add(tick, verb, g.node(), g.node())
		case "kill":
			g.add(tick, verb, g.node(), 5+g.ticks(120), int64(g.IntN(3)/2))
		case "crash":
			g.add(tick, verb, g.node(), int64(crashPoints[g.IntN(len(crashPoints))]), g.ticks(3), int64(g.IntN(32)), 5+g.ticks(120), int64(g.IntN(3)/2))
		case "pause", "stall":
			most := 60
			if g.IntN(4) == 0 {
				most = 600
			}
			g.add(tick, verb, g.node(), g.ticks(most))
		case "cutapi":
			g.add(tick, verb, g.node(), g.ticks(500))
		case "outage", "storeaway", "storefull", "storereadonly":
			g.add(tick, verb, g.ticks(300))
		case "apierrors", "storetimeouts":
			g.add(tick, verb, int64(1+g.IntN(40)), g.ticks(300))
		case "lag":
			g.add(tick, verb, int64(1+g.IntN(3000)), g.ticks(300))
		case "storeslow":
			g.add(tick, verb, 2+g.ticks(20), g.ticks(200))
		case "outlive":
			g.add(tick, verb, g.node(), g.ticks(60))
		case "deletelease":
			g.add(tick, verb, g.node())
		case "deleteregion", "forget":
			g.add(tick, verb, g.region())
		case "outbid":
			g.add(tick, verb, g.region(), g.ticks(3)+2000*int64(g.IntN(2)))
		case "order":
			g.add(tick, verb, g.region(), g.node())
		case "failover":
			g.add(tick, verb, int64(g.IntN(16)))
		case "failoverall", "storelost":
			g.add(tick, verb)
		}
	}
}

var faultVerbs = []string{
	"cut", "oneway", "slow", "reset", "kill", "crash", "pause", "stall", "cutapi", "outage", "apierrors", "lag", "deletelease",
	"deleteregion", "storeaway", "storefull", "storereadonly", "storeslow", "storetimeouts", "failover", "failoverall", "order",
	"outbid", "forget", "outlive", "storelost", "when", "chatter",
}
