package simtest

import (
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// situation is what some seeds are made around.
type situation struct {
	name string
	// make draws world, players and what happens to them.
	make func(g *generator)
	// focus are the transitions that are common in it. Each is struck by a fault of each class in turn, from seed to seed.
	focus []zone.Point
}

var situations = []situation{
	{"hover", (*generator).hover, []zone.Point{zone.HandoffTurnedBack, zone.SignOffExpired, zone.HandoffReoffered}},
	{"emptyStore", (*generator).emptyStore, []zone.Point{zone.ClaimMissing, zone.HandoffLocked, zone.SessionStale, zone.ClaimLost}},
	{"outbid", (*generator).outbid, []zone.Point{zone.RecoveryOutbid, zone.RecoveryBlocked, zone.RecoveryLoaded, zone.FrameStale}},
	{"knock", (*generator).knock, []zone.Point{
		zone.OfferBurned, zone.OfferNoRegion, zone.HandoffRefused, zone.CallGap, zone.CallRepeated, zone.CommandGap, zone.CommandRepeated, zone.CallWait,
		zone.ClaimBehind,
	}},
	{"heir", (*generator).heir, []zone.Point{zone.HandoffTakenBack, zone.SessionOwnerLost}},
	{"nextHeir", (*generator).nextHeir, []zone.Point{
		zone.HandoffPassedOn, zone.OfferLeft, zone.RecoverySkipped, zone.ClaimBehind, zone.OfferKnown, zone.SubscriptionUnknown, zone.SubscriptionSwept,
	}},
	{"deaths", (*generator).deaths, []zone.Point{zone.RecoveryExcused, zone.RecoveryBlocked, zone.SessionWoken, zone.SignOffExcused}},
	{"storm", (*generator).storm, []zone.Point{zone.SessionStale, zone.LogRefused, zone.SessionCreated}},
	{"relay", (*generator).relay, []zone.Point{zone.CallMoved, zone.CallRepeated, zone.SignOffExpired, zone.CommandRepeated}},
	{"lastWords", (*generator).lastWords, []zone.Point{zone.HandoffPassedOn, zone.OfferLostSource, zone.OfferTaken}},
	{"forgotten", (*generator).forgotten, []zone.Point{zone.OfferLostSource, zone.RegionSurrendered, zone.HandoffRefused}},
	{"detour", (*generator).detour, []zone.Point{zone.OfferKnown, zone.CallMoved}},
}

// further situations have every fifth number, so that the others keep their seeds.
var further = []situation{
	{"inheritance", (*generator).inheritance, []zone.Point{zone.RecoverySkipped, zone.RecoveryAnswered, zone.ClaimingAnswered}},
	{"bazaar", (*generator).bazaar, []zone.Point{zone.ItemTaken, zone.ItemPut, zone.ItemCleared, zone.ItemReturned, zone.ItemVoid, zone.ItemsAdopted}},
	{"leaveTaking", (*generator).leaveTaking, []zone.Point{zone.ItemSearched, zone.ItemVoid, zone.ItemReturned, zone.ItemForgotten, zone.ItemTaken}},
	{"revolvingDoor", (*generator).revolvingDoor, []zone.Point{zone.SessionRested, zone.SessionWoken, zone.SessionLost}},
}

// moving are situations in which regions move.
var moving = []situation{
	{"removal", (*generator).removal, []zone.Point{zone.MoveCut, zone.MoveStaged, zone.StageActivated, zone.StageDropped, zone.MoveAborted}},
	{"relocation", (*generator).relocation, []zone.Point{
		zone.MoveBegan, zone.MoveDraining, zone.MoveCut, zone.MoveStaged, zone.MoveCommitted, zone.MoveAborted,
		zone.StagePrepared, zone.StageCompleted, zone.StageActivated, zone.StageDropped,
	}},
}

// apart are situations that only -around draws: no plain seed has them.
var apart = []situation{
	{"flicker", (*generator).flicker, []zone.Point{zone.SubscriptionAgain, zone.SubscriptionDropped, zone.SignOffHeld}},
}

// situation draws the plan of a situation.
func (g *generator) situation(number int) {
	list := situations
	switch number % 5 {
	case 2:
		list, number = moving, number/5
	case 4:
		list, number = further, number/5
	}
	g.around(&list[number%len(list)], number/len(list))
}

// around draws the plan of a situation: its focus is struck by faults that differ from round to round.
func (g *generator) around(s *situation, round int) {
	s.make(g)
	for i, point := range s.focus {
		g.when(40, point, g.ticks(2), g.class(round+7*i), g.IntN(2))
		if slices.Contains(scarce, point) { // one chance has to do for several
			for turn := 1; turn < 4; turn++ {
				g.when(40, point, 1, g.class(round+7*i+5*turn), g.IntN(2))
			}
		}
	}
}

// class is the class of fault of a number, each as often as any other.
func (g *generator) class(number int) Fault { return Fault(1 + number%int(faultCount-1)) }

// when arms a trigger at a tick.
func (g *generator) when(tick int, point zone.Point, nth int64, class Fault, peer int) {
	g.whenFor(tick, point, nth, class, g.often(class), peer)
}

func (g *generator) whenFor(tick int, point zone.Point, nth int64, class Fault, ticks int64, peer int) {
	g.add(tick, "when", int64(point), nth, int64(class), ticks, -1, int64(peer), g.Int64N(64))
}

// often is for how many ticks a fault of a class goes on.
func (g *generator) often(class Fault) int64 {
	switch class {
	case faultKilled, faultCrashed:
		return 5 + g.ticks(120)
	case faultNodeCut, faultAPIAway, faultStoreAway:
		return g.ticks(200)
	}
	if g.IntN(8) == 0 {
		return g.ticks(400)
	}
	return g.ticks(80)
}

// rare are transitions that few seeds take: a trigger waits for each in every plain seed that knows faults.
var rare = []zone.Point{
	zone.HandoffLocked, zone.HandoffTurnedBack, zone.HandoffPassedOn, zone.HandoffTakenBack, zone.OfferBurned, zone.OfferLostSource, zone.OfferLeft,
	zone.ClaimBehind, zone.ClaimLost, zone.ClaimMissing, zone.RecoveryOutbid, zone.RecoveryExcused, zone.RecoverySkipped, zone.SignOffExpired,
	zone.FrameStale, zone.SubscriptionUnknown, zone.SubscriptionSwept, zone.CallRepeated, zone.CallGap, zone.CallMoved, zone.CommandGap,
	zone.LogRefused, zone.SessionStale, zone.HandoffRehomed, zone.HandoffTeleported, zone.CallForeign, zone.LogForwarded, zone.CommandRepeated,
	zone.OfferKnown,
}

// brief are classes that hardly last: without a trigger they seldom meet anything.
var brief = []Fault{faultKilled, faultCrashed, faultSlow, faultStoreFailover, faultStoreLost}

// scarce are transitions that are rare even in the situations made for them.
var scarce = []zone.Point{
	zone.CallRepeated, zone.CallGap, zone.CommandGap, zone.ClaimLost, zone.OfferLostSource, zone.OfferBurned,
	zone.HandoffTakenBack, zone.ClaimBehind, zone.CallForeign, zone.FrameStale, zone.SubscriptionUnknown,
	zone.RecoverySkipped,
}

// cells is how many pairs of a transition and a class each plain seed tries to bring together.
const cells = 5

// triggers arms those of a plain seed: some pairs in their turn, and one for each rare transition.
func (g *generator) triggers(seed int) {
	points := zone.Points()
	for i := range cells {
		n := seed*cells + i
		class := g.class(n / len(points))
		tick := g.IntN(200)
		if g.IntN(3) == 0 {
			tick = g.IntN(20) // also those of the beginning
		}
		g.when(tick, points[n%len(points)], g.ticks(3), class, g.IntN(2))
	}
	for _, point := range rare {
		class := g.class(g.IntN(int(faultCount)))
		if g.IntN(3) == 0 {
			class = brief[g.IntN(len(brief))]
		}
		g.when(60, point, g.ticks(2), class, g.IntN(2))
		if slices.Contains(scarce, point) {
			g.when(60, point, 1, g.class(g.IntN(int(faultCount))), g.IntN(2))
			g.when(60, point, 1, g.class(g.IntN(int(faultCount))), g.IntN(2))
		}
	}
}

// strip makes a world of regions in a row, each with a node of its own, and perhaps one node that holds nothing. Its heart
// is the first border.
func (g *generator) strip(regions, nodes int) {
	p := g.p
	p.Columns, p.Rows, p.Nodes, p.Owners, p.Rates = regions, 1, nodes, nil, p.Rates[:0]
	for i := range regions {
		p.Owners = append(p.Owners, i%nodes)
	}
	for range nodes {
		p.Rates = append(p.Rates, 0.97+0.06*g.Float64())
	}
	g.heartX, g.heartY = int64(p.EdgeChunks)*32, 100
	p.Ticks = 500 + g.IntN(300)
}

// slowly is by which factor a link is slow: a message then takes up to 0.8 s, less than new owners wait for a sign-off.
func (g *generator) slowly() int64 {
	return max(2, int64(800*time.Millisecond/(g.p.LinkDelay+g.p.LinkJitter)))
}

// overhang is how far, in metres, entities may stand beyond their border.
const overhang = 32

// pacers log players in at the heart, who walk to and fro over the border there, and talk.
func (g *generator) pacers(players int, gateway func() int64, chatter bool) {
	for account := int64(1); account <= int64(players); account++ {
		if g.IntN(2) == 0 {
			g.p.Teams[uint64(account)] = 1 + g.IntN(3)
		}
		y := g.heartY + g.Int64N(60)
		side := 1 - 2*g.Int64N(2)
		g.add(g.IntN(20), "login", account, gateway(), g.heartX-side*(1+g.Int64N(6)), y)
		g.pacer(account, side, y, chatter)
	}
}

// pacer goes over the border and beyond the overhang as fast as it can, then back; where it halts it turns round now and
// then.
func (g *generator) pacer(account, side, y int64, chatter bool) {
	for tick := 50 + g.IntN(20); tick < g.p.Ticks; {
		g.add(tick, "walk", account, g.heartX+side*(overhang+2+g.Int64N(4)), y)
		if at := tick + 130 + g.IntN(60); chatter {
			g.add(at, "chatter", account, 20+g.ticks(80))
		}
		tick += 190 + g.IntN(30)
		if g.IntN(2) == 0 {
			side = -side
		} else {
			g.add(tick, "walk", account, g.heartX+side*(overhang-12), y)
			tick += 30
		}
	}
}

// hover: players stand at the end of the overhang and step beyond it and back, while the two nodes do not hear each other.
func (g *generator) hover() {
	g.strip(2+g.IntN(2), 2+g.IntN(2))
	for account := int64(1); account <= 4; account++ {
		y := g.heartY + g.Int64N(60)
		side := 1 - 2*g.Int64N(2)
		g.add(g.IntN(20), "login", account, g.node(), g.heartX-side, y)
		g.add(50, "walk", account, g.heartX+side*(overhang-4), y)
		for tick := 190; tick < g.p.Ticks; tick += 20 + g.IntN(40) {
			to := int64(overhang + 3)
			if g.IntN(2) == 0 {
				to = overhang - 8
			}
			if g.IntN(8) == 0 {
				side = -side
			}
			g.add(tick, "walk", account, g.heartX+side*to, y)
		}
	}
	for tick := 170; tick < g.p.Ticks; tick += 150 + g.IntN(80) {
		verb := []string{"cut", "oneway", "pause", "stall"}[g.IntN(4)]
		if verb == "cut" || verb == "oneway" {
			g.add(tick, verb, 0, 1, 60+g.ticks(60))
		} else {
			g.add(tick, verb, g.node(), 40+g.ticks(60))
		}
	}
	g.whenFor(150, zone.SignOffSent, g.ticks(2), faultStalled, 30+g.ticks(40), 0)
	g.whenFor(150, zone.HandoffAccepted, 1+g.ticks(2), []Fault{faultCut, faultOneWay}[g.IntN(2)], 30+g.ticks(40), g.IntN(2))
}

// emptyStore: the store comes back empty while players cross the border, and is not quick to take everything in again. Two
// players leave as it is lost, and have new masters when the news that the old ones may rest arrives.
func (g *generator) emptyStore() {
	g.strip(2, 3)
	g.pacers(3, g.node, false)
	for account := int64(4); account <= 5; account++ {
		g.add(g.IntN(20), "login", account, 2, g.heartX-20-g.Int64N(10), g.heartY)
	}
	at := 130 + g.IntN(20)
	g.add(at-10, "slow", 2, 0, g.slowly(), 40)
	g.add(at, "storelost")
	for account := int64(4); account <= 5; account++ {
		g.add(at+1, "logout", account)
		g.add(at+2+g.IntN(3), "login", account, g.Int64N(2), g.heartX+g.Int64N(10), g.heartY)
	}
	for tick := 220 + g.IntN(60); tick < g.p.Ticks-50; tick += 120 + g.IntN(200) {
		g.add(tick, "storelost")
		g.whenFor(tick, zone.ClaimMissing, 1, []Fault{faultStoreAway, faultStoreRefuses}[g.IntN(2)], 40+g.ticks(120), 0)
	}
	for account := int64(1); account <= 3; account++ {
		g.add(160+g.IntN(300), "login", account, g.node(), g.heartX, g.heartY)
	}
}

// outbid: the store knows higher epochs of regions than their Leases have.
func (g *generator) outbid() {
	g.strip(2, 2)
	g.pacers(3, g.node, false)
	for region := range int64(2) {
		g.add(g.IntN(10), "outbid", region, g.ticks(3))
	}
	for tick := 100 + g.IntN(60); tick < g.p.Ticks; tick += 150 + g.IntN(100) {
		region := g.region()
		g.add(tick, "outbid", region, 2000+g.ticks(3)) // above what a Lease is made anew at
		if g.IntN(2) == 0 {
			g.add(tick, "storeslow", 10+g.ticks(20), g.ticks(200))
		}
		g.add(tick, "deleteregion", region)
	}
}

// corner is a world of four regions around a corner, each with a node of its own. Two of them are near to each other, and the
// other two, but the ways between the pairs are long. Masters walk to and fro at one pair, their gateways and bestias are at
// the other: what is sent to somebody takes longer than its way from node to node.
func (g *generator) corner(players int64) {
	g.strip(2, 4)
	p := g.p
	p.Rows, p.Owners = 2, []int{2, 3, 0, 1}
	p.LinkDelay, p.LinkJitter = time.Duration(5+g.IntN(10))*time.Millisecond, time.Duration(g.IntN(10))*time.Millisecond
	g.heartY = int64(p.EdgeChunks) * 32
	for account := int64(1); account <= players; account++ {
		p.Teams[uint64(account)] = 1 + g.IntN(3)
		g.add(g.IntN(20), "login", account, g.Int64N(2), g.heartX-1-g.Int64N(6), g.heartY-1)
		g.pacer(account, 1, g.heartY-1, false)
	}
	for a := range int64(2) {
		for b := int64(2); b < 4; b++ {
			g.add(60, "slow", a, b, 10+g.ticks(20), int64(p.Ticks))
		}
	}
}

// knock: players who talk all the time stand at the border of a region that is being recovered.
func (g *generator) knock() {
	g.corner(5)
	for tick := 215 + g.IntN(20); tick < g.p.Ticks; tick += 200 + g.IntN(80) {
		for account := range int64(5) {
			g.add(tick+10, "chatter", account+1, 150)
		}
		g.add(tick, "deleteregion", 1)
		g.add(tick, "deleteregion", 3)
		switch g.IntN(3) {
		case 0:
			g.add(tick, "storeaway", 80+g.ticks(100))
		case 1:
			g.add(tick, "storereadonly", 80+g.ticks(100))
		default:
			g.add(tick, "storeslow", 10+g.ticks(20), 80+g.ticks(100))
		}
		class := []Fault{faultCut, faultOneWay, faultStalled, faultPaused}[g.IntN(4)]
		g.whenFor(tick, zone.OfferNoRegion, 2+g.ticks(6), class, 45+g.ticks(40), 0)
	}
}

// heir: the target of an offer dies before it answers, and the source inherits its regions.
func (g *generator) heir() {
	g.strip(2, 2+g.IntN(2))
	g.pacers(4, g.node, false)
	g.add(140, "order", 1, 0)
	g.add(140, "order", 0, 1)
	point := []zone.Point{zone.HandoffOffered, zone.HandoffOffered, zone.HandoffAccepted}[g.IntN(3)]
	g.add(150, "when", int64(point), g.ticks(2), int64(faultKilled), 250+g.ticks(150), -1, 1, 1)
}

// nextHeir: the target of an offer dies when it has taken it and the store does not know that yet; a third node inherits.
func (g *generator) nextHeir() {
	g.strip(2, 3)
	g.pacers(4, g.node, true)
	g.p.StoreDelay = 100 * time.Millisecond
	g.add(150, "storeslow", 4+g.ticks(4), 300)
	g.add(140, "order", 1, 2)
	point := []zone.Point{zone.HandoffAccepted, zone.OfferTaken, zone.HandoffOffered}[g.IntN(3)]
	peer := int64(1)
	if point == zone.OfferTaken {
		peer = 0
	}
	g.add(150, "when", int64(point), g.ticks(2), int64(faultKilled), 250+g.ticks(150), -1, peer, 1)
	g.whenFor(150, zone.RecoveryBegan, 1, []Fault{faultStoreAway, faultStoreSlow}[g.IntN(2)], 40+g.ticks(60), 0)
}

// deaths: nodes die while others recover.
func (g *generator) deaths() {
	g.strip(3, 3+g.IntN(2))
	g.pacers(5, g.node, false)
	for tick := 120 + g.IntN(60); tick < g.p.Ticks; tick += 200 + g.IntN(100) {
		g.add(tick, "kill", g.node(), 5+g.ticks(60), int64(g.IntN(2)))
		g.whenFor(tick, zone.RecoveryAsked, g.ticks(2), []Fault{faultKilled, faultCrashed}[g.IntN(2)], 5+g.ticks(60), 1)
		if g.IntN(2) == 0 {
			g.whenFor(tick, zone.HandoffAccepted, 1, faultKilled, 5+g.ticks(60), g.IntN(2))
		}
	}
}

// storm: accounts log in at several nodes at once, again and again.
func (g *generator) storm() {
	g.strip(2, 2+g.IntN(3))
	g.p.StoreDelay = time.Duration(20+g.IntN(100)) * time.Millisecond
	g.pacers(4, g.node, true)
	for account := int64(1); account <= 5; account++ {
		for tick := 80 + g.IntN(60); tick < g.p.Ticks; tick += 60 + g.IntN(100) {
			for range 2 + g.IntN(4) {
				g.add(tick+g.IntN(6), "login", account, g.node(), g.heartX, g.heartY)
			}
		}
	}
}

// relay: talkers whose gateway is a third node, to which the links are of very different speed, cross the border.
func (g *generator) relay() {
	g.strip(2, 3)
	g.p.LinkDelay, g.p.LinkJitter = time.Millisecond, time.Duration(40+g.IntN(60))*time.Millisecond
	g.pacers(6, func() int64 { return 2 }, true)
	for tick := 150 + g.IntN(40); tick < g.p.Ticks; tick += 80 + g.IntN(40) {
		g.add(tick, "slow", 2, g.Int64N(2), g.slowly(), 40+g.ticks(60))
	}
}

// lastWords: an offer is on a slow line when its sender dies, and arrives after the sender's region was recovered.
func (g *generator) lastWords() {
	g.strip(2, 3)
	g.pacers(5, func() int64 { return 2 }, false)
	g.p.LinkDelay = time.Duration(20+g.IntN(60)) * time.Millisecond
	at := 160 + g.IntN(20)
	g.add(at-20, "order", 0, 2)
	g.add(at, "slow", 0, 1, 80+g.ticks(100), 400)
	g.add(at, "cutapi", 1, 190)
	g.add(at, "when", int64(zone.HandoffOffered), 1, int64(faultKilled), 300, 0, 0, 1)
}

// forgotten: region Leases are lost together with all memory of who held them, while entities are offered.
func (g *generator) forgotten() {
	g.strip(2, 2+g.IntN(2))
	g.pacers(5, g.node, false)
	g.p.LinkDelay, g.p.LinkJitter = 80*time.Millisecond, 0
	g.add(150, "slow", 0, 1, g.slowly(), int64(g.p.Ticks))
	if g.IntN(3) == 0 {
		g.add(150, "lag", 500+1000*g.ticks(3), int64(g.p.Ticks))
	}
	g.add(150, "when", int64(zone.HandoffOffered), g.ticks(3), int64(faultLeaseDeleted), 0, -1, 0, forgetting)
	for tick := 400 + g.IntN(30); tick < g.p.Ticks; tick += 250 + g.IntN(80) {
		region := g.Int64N(2)
		g.add(tick, "forget", region)
		g.add(tick, "order", region, g.node())
	}
}

// detour: players go round a corner of four nodes. Where one of them is taken, the link to who gave it is cut until the next
// has it: then come all the offers that were repeated meanwhile.
func (g *generator) detour() {
	p := g.p
	p.Columns, p.Rows, p.Nodes, p.Owners, p.Rates = 2, 2, 4, []int{0, 1, 2, 3}, []float64{1, 1, 1, 1}
	p.LinkJitter, p.StoreDelay, p.Ticks = 0, time.Duration(1+g.IntN(20))*time.Millisecond, 1200
	g.heartX, g.heartY = int64(p.EdgeChunks)*32, int64(p.EdgeChunks)*32
	around := [4][2]int64{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}}
	for account := int64(1); account <= 4; account++ {
		at := int(account)
		far := overhang + 3 + g.Int64N(4)
		g.add(g.IntN(20), "login", account, g.node(), g.heartX+far*around[at%4][0], g.heartY+far*around[at%4][1])
		for tick := 60 + g.IntN(60); tick < p.Ticks; tick += 380 + g.IntN(30) {
			at++
			g.add(tick, "walk", account, g.heartX+far*around[at%4][0], g.heartY+far*around[at%4][1])
		}
	}
	for tick := 60; tick < p.Ticks-500; tick += 450 {
		g.whenFor(tick, zone.OfferTaken, g.ticks(2), faultCut, 420, 1)
	}
}
