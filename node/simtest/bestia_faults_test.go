package simtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// astray is a pack around a corner of four regions on three nodes that are cut off from each other and killed by chance.
type astray struct {
	*pack
	rand *rand.Rand
	mend [3]int // ticks until the link to the next node is mended
	dead *Node
	back int // ticks until the dead node is back
}

func (a *astray) place() torus.Pos {
	return a.Grid.Add(torus.Pos{}, a.rand.Int64N(260)-130, a.rand.Int64N(260)-130)
}

func (a *astray) running() *Node {
	for {
		if n := a.Nodes[a.rand.IntN(3)]; n.Running() {
			return n
		}
	}
}

// play lets the player walk about, and come back whenever its socket is lost.
func (a *astray) play() {
	switch cl := a.master; {
	case !cl.Open && cl.Welcome == nil:
		a.login(cl, a.running(), nil)
	case !cl.Open:
		a.Resume(cl, a.running())
	case cl.Own() != nil && a.rand.IntN(60) == 0:
		a.WalkTo(cl, a.place())
	}
}

func (a *astray) breakSomething() {
	i := a.rand.IntN(3)
	switch n := a.Nodes[i]; {
	case a.rand.IntN(150) == 0 && a.mend[i] == 0:
		a.Cut(n, a.Nodes[(i+1)%3])
		a.mend[i] = 1 + a.rand.IntN(100)
	case a.rand.IntN(400) == 0 && a.dead == nil:
		a.Kill(n)
		a.dead, a.back = n, 20+a.rand.IntN(200)
	}
}

func (a *astray) repair() {
	a.t.Helper()
	for i, n := range a.Nodes {
		if a.mend[i]--; a.mend[i] <= 0 {
			a.Mend(n, a.Nodes[(i+1)%3])
			a.mend[i] = 0
		}
	}
	if a.back--; a.dead == nil || a.back > 0 {
		return
	}
	session := a.dead.Session()
	if err := a.Start(a.dead); err != nil {
		a.t.Fatal(err)
	}
	a.Revoke(session, a.running())
	a.dead = nil
}

// TestATeamIsFoundAgainAfterEverything: when all faults are over, the master calls and all five come.
func TestATeamIsFoundAgainAfterEverything(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			delay := func(most int) time.Duration { return time.Duration(1+r.IntN(most)) * time.Millisecond }
			a := &astray{rand: r, pack: &pack{t: t, Cluster: start(t, Options{
				Columns: 2, Rows: 2, RegionEdgeChunks: 15, Nodes: 3, Seed: seed, LinkDelay: delay(90), LinkJitter: delay(30), StoreDelay: delay(150),
				Owner: func(region int) int { return (region + int(seed)) % 3 },
			})}}
			a.stock(a.place)
			a.master = a.Login(a.Nodes[0], 1, nil)
			for range 1500 {
				a.play()
				a.breakSomething()
				a.repair()
				run(t, a.Cluster, 1)
			}
			for range 300 {
				a.play()
				a.repair()
				run(t, a.Cluster, 1)
			}
			until(t, a.Cluster, 600, "the player is in the world", func() bool { return a.master.Open && a.master.Own() != nil })
			a.WalkTo(a.master, a.place())
			until(t, a.Cluster, 4000, "the team is with its master, and all commands are answered", func() bool {
				return a.together() && a.Stats(func(s zone.Stats) uint64 { return uint64(s.CommandsOpen) }) == 0
			})
		})
	}
}
