package simtest

import (
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// inheritance: a node dies that has given players away, and a third one recovers its region from the store, while who took
// them cannot reach the store: there they are still where they came from.
func (g *generator) inheritance() {
	g.strip(2, 3)
	g.pacers(5, func() int64 { return 2 }, false)
	at := 140 + g.IntN(20)
	g.add(at, "order", 0, 2)
	g.add(at, "storecut", 1, 200+g.ticks(200))
	g.add(at, "when", int64(zone.HandoffAccepted), g.ticks(3), int64(faultKilled), 250+g.ticks(150), 0, 0, 1)
	for tick := at + 400; tick < g.p.Ticks; tick += 150 {
		g.add(tick, "storecut", g.node(), 40+g.ticks(100))
		g.add(tick+g.IntN(40), "deleteregion", g.region())
	}
}

// revolvingDoor: players leave on the way somewhere, and are back before the store has them at rest. Some stay away, and the
// store is slow.
func (g *generator) revolvingDoor() {
	g.strip(2, 2+g.IntN(2))
	g.p.StoreDelay = time.Duration(30+g.IntN(120)) * time.Millisecond
	for account := int64(1); account <= 5; account++ {
		y, side := g.heartY+g.Int64N(60), 1-2*g.Int64N(2)
		g.add(g.IntN(20), "login", account, g.node(), g.heartX-side*(40+g.Int64N(100)), y)
		for tick := 80 + g.IntN(60); tick < g.p.Ticks; tick += 70 + g.IntN(50) {
			g.add(tick, "walk", account, g.heartX+side*(60+g.Int64N(60)), y)
			if side = -side; g.IntN(3) == 0 {
				continue
			}
			g.add(tick+10, "logout", account)
			if g.IntN(5) > 0 {
				g.add(tick+10+g.IntN(2), "login", account, g.node(), g.heartX, y)
				g.add(tick+14+g.IntN(10), "chatter", account, 20)
			}
		}
	}
	for tick := 100 + g.IntN(60); tick < g.p.Ticks; tick += 120 + g.IntN(60) {
		g.add(tick, "storeslow", 2+g.ticks(8), 40+g.ticks(40))
	}
}

// bazaar: players stand on both sides of a border and deal with items all the time.
func (g *generator) bazaar() {
	g.strip(2, 2+g.IntN(2))
	for account := int64(1); account <= 5; account++ {
		g.add(g.IntN(20), "login", account, g.node(), g.heartX-4+g.Int64N(8), g.heartY+g.Int64N(6))
		for tick := 50; tick < g.p.Ticks; tick += 100 {
			g.add(tick+g.IntN(20), "tinker", account, 90)
		}
		if account <= 2 {
			side := 1 - 2*g.Int64N(2)
			for tick := 120; tick < g.p.Ticks; tick += 190 + g.IntN(30) {
				g.add(tick, "walk", account, g.heartX+side*(overhang+3), g.heartY)
				g.add(tick+95, "walk", account, g.heartX, g.heartY)
				side = -side
			}
		}
	}
	for tick := 150 + g.IntN(60); tick < g.p.Ticks; tick += 100 + g.IntN(100) {
		switch g.IntN(7) {
		case 4, 5, 6: // its writes may land when its next life, or its heir, has read what there is
			n := g.node()
			g.add(tick, "storetimeouts", 60, 40)
			g.add(tick+10+g.IntN(20), "kill", n, 2+g.ticks(8), 0)
		case 0:
			g.add(tick, "storeslow", 2+g.ticks(8), 20+g.ticks(60))
		case 1:
			g.add(tick, "kill", g.node(), 5+g.ticks(60), g.Int64N(2))
		case 2:
			g.add(tick, "storecut", g.node(), 10+g.ticks(60))
		case 3:
			g.add(tick, "failoverall")
		}
	}
}

// leaveTaking: those whom something is given leave at that moment, or are full, and the store is slow.
func (g *generator) leaveTaking() {
	g.strip(2, 2)
	g.p.StoreDelay = time.Duration(20+g.IntN(100)) * time.Millisecond
	for account := int64(1); account <= 4; account++ {
		g.add(g.IntN(20), "login", account, g.node(), g.heartX-3+g.Int64N(6), g.heartY+g.Int64N(4))
		for tick := 50; tick < g.p.Ticks; tick += 60 {
			g.add(tick, "tinker", account, 60)
		}
		for tick := 120 + g.IntN(100); account <= 2 && tick < g.p.Ticks; tick += 160 + g.IntN(60) {
			if g.IntN(2) == 0 {
				g.whenFor(tick, zone.ItemPut, g.ticks(2), faultKilled, 20+g.ticks(60), 0)
			}
			g.add(tick, "logout", account)
			g.add(tick+40+g.IntN(40), "login", account, g.node(), g.heartX-3+g.Int64N(6), g.heartY)
		}
	}
}

// relocation: regions move from node to node, and back, while players pace the borders between them and handle items.
func (g *generator) relocation() {
	g.strip(2+g.IntN(2), 3)
	g.pacers(6, g.node, false)
	for account := int64(1); account <= 2; account++ {
		g.add(60+g.IntN(60), "tinker", account, 60+g.ticks(200))
	}
	if g.IntN(2) == 0 { // offers are on their way for long
		for a := range int64(3) {
			g.add(50, "slow", a, (a+1)%3, g.slowly(), int64(g.p.Ticks))
		}
	}
	for tick := 60 + g.IntN(40); tick < g.p.Ticks; tick += 20 + g.IntN(40) {
		g.add(tick, "move", g.region(), g.node())
	}
}

// removal: somebody dies, is cut off, is not answered or loses its Lease in the middle of a move, and the order is changed then, too.
func (g *generator) removal() {
	g.strip(2, 3)
	g.pacers(4, g.node, g.IntN(2) == 0)
	trouble := []struct {
		at     zone.Point
		faults []Fault
	}{
		{zone.MoveStaged, []Fault{faultAPIErrors, faultAPIErrors, faultNodeCut, faultAPIAway, faultStalled, faultWatchLag}},
		{zone.MoveCut, []Fault{faultKilled, faultStalled, faultCut, faultOneWay, faultStoreAway, faultFenced}},
		{zone.StageCompleted, []Fault{faultKilled, faultAPIErrors, faultCut, faultStalled}},
		{zone.StageActivated, []Fault{faultKilled, faultCrashed, faultStoreTimeouts, faultNodeCut, faultLeaseDeleted}},
		{zone.MoveCommitted, []Fault{faultKilled, faultCrashed, faultCut, faultLeaseDeleted}},
		{zone.MoveBegan, []Fault{faultKilled, faultSlow, faultStoreAway, faultLeaseDeleted}},
	}
	for tick := 80 + g.IntN(40); tick < g.p.Ticks; tick += 50 + g.IntN(50) {
		region, t := g.region(), &trouble[g.IntN(len(trouble))]
		g.add(tick, "move", region, g.node())
		for nth := range int64(2) {
			g.whenFor(tick, t.at, 1+nth, t.faults[g.IntN(len(t.faults))], 5+g.ticks(80), g.IntN(2))
		}
		switch g.IntN(4) {
		case 0, 1:
			g.add(tick+1+g.IntN(8), "move", region, g.node())
		case 2: // who hands it over hears neither from the API server nor from who has it what came of it
			g.whenFor(tick, zone.MoveStaged, 1, faultNodeCut, 40+g.ticks(60), 0)
			g.whenFor(tick, zone.MoveStaged, 1, faultCut, 40+g.ticks(60), 1)
		}
	}
}

// flicker: connections break all the time, while players pace the border and talk.
func (g *generator) flicker() {
	g.strip(2, 2+g.IntN(2))
	g.pacers(5, g.node, true)
	for tick := 60 + g.IntN(40); tick < g.p.Ticks; tick += 10 + g.IntN(40) {
		a, b := g.node(), g.node()
		if g.IntN(2) == 0 {
			g.add(tick, "reset", a, b)
		} else {
			g.add(tick, "cut", a, b, g.ticks(15))
		}
	}
}
