package simtest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/torus"
)

// The world of a scene, however it is cut: 960 m each way.
const (
	sceneChunks = 30
	sceneMetres = sceneChunks * torus.ChunkEdge
	// sceneHeart is the middle of the world, where nothing wraps: what happens here on one node is how it should be.
	sceneHeart = sceneMetres / 2
)

// scene is what players do, in a world that is not cut yet. Nothing in it depends on the cut.
type scene struct {
	seed    uint64
	teams   map[uint64]int
	actions []Action
	deaf    map[uint64][]span // by account: when it had no socket
	delay   time.Duration
	ticks   int
	rests   torus.Pos // where somebody stands in the end, one with bestias if there is one
	// close: all stay within so few metres of each other that they see each other wherever the borders of chunks are.
	close bool
}

// span is a time, in ticks.
type span struct{ from, to int }

// about reports whether a tick lies in it, or near it.
func (s span) about(tick int) bool { return tick > s.from-slackTicks && tick < s.to+slackTicks }

// sceneWriter draws one player's part. It computes along where the player is, so that it can avoid what a lag of some
// ticks decides: nobody turns or stops near the border of a chunk, where a metre more or less lets somebody see a chunk
// of which he would know nothing otherwise.
type sceneWriter struct {
	*rand.Rand
	s       *scene
	g       torus.Grid
	account int64
	tick    int
	walk    motion.Walk
}

const (
	sceneBegins = 100  // all are in the world
	sceneTurns  = 1300 // the last action
	sceneRest   = 250  // teams gather
)

// writeScene draws the scene of a seed: players of whom some have bestias walk around a corner, turn and stop on their way,
// speak, order what cannot be done, lose their sockets and resume.
func writeScene(seed uint64) *scene {
	r := rand.New(rand.NewPCG(seed, 11))
	g, err := torus.NewGrid(1, 1, sceneChunks)
	if err != nil {
		panic(err)
	}
	s := &scene{
		seed: seed, teams: map[uint64]int{}, deaf: map[uint64][]span{}, close: seed%2 == 0,
		delay: time.Duration(1+r.IntN(20)) * time.Millisecond,
	}
	for account := range int64(3 + r.IntN(4)) {
		w := &sceneWriter{Rand: r, s: s, g: g, account: account + 1}
		w.play()
		s.ticks = max(s.ticks, w.tick+sceneRest)
	}
	slices.SortStableFunc(s.actions, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
	return s
}

func (w *sceneWriter) do(verb string, args ...int64) {
	w.s.actions = append(w.s.actions, Action{w.tick, verb, append([]int64{w.account}, args...)})
}

// wait lets the player go on with what it does.
func (w *sceneWriter) wait(ticks int) {
	w.tick += ticks
	w.walk.Ticks(w.g, ticks)
}

func (w *sceneWriter) play() {
	if w.IntN(3) == 0 {
		w.s.teams[uint64(w.account)] = 1 + w.IntN(3)
	}
	w.walk = motion.Walk{At: torus.Pos{X: w.somewhere(sceneHeart), Y: w.somewhere(sceneHeart)}, Speed: motion.DefaultSpeed}
	w.tick = w.IntN(20)
	w.do("login", w.account, w.walk.At.X, w.walk.At.Y)
	w.tick = sceneBegins + w.IntN(20)
	for w.tick < sceneTurns {
		switch k := w.IntN(20); {
		case k < 9:
			w.setOut()
		case k < 15:
			w.do("say")
			w.wait(1 + w.IntN(30))
		case k < 17:
			w.do("wrong")
			w.wait(1 + w.IntN(10))
		case k < 19:
			w.loseSocket()
		default:
			w.do("stop")
			w.walk.Waypoints = nil
			w.wait(10)
		}
		w.settleSteps()
	}
	w.setOut()
	w.arrive()
	if w.s.rests == (torus.Pos{}) || w.s.teams[uint64(w.account)] > 0 {
		w.s.rests = w.walk.At
	}
}

// somewhere is a coordinate near another, in the middle of a chunk.
func (w *sceneWriter) somewhere(near int64) int64 {
	lowest, highest := int64(-6), int64(5)
	if w.s.close {
		lowest, highest = -2, 1
	}
	at := (near - sceneHeart) >> 5
	lowest, highest = max(lowest, at-2), min(highest, at+2)
	return sceneHeart + torus.ChunkEdge*(lowest+w.Int64N(highest-lowest+1)) + 10 + w.Int64N(12)
}

// setOut walks somewhere; most arrive.
func (w *sceneWriter) setOut() {
	to := torus.Pos{X: w.somewhere(w.walk.At.X), Y: w.somewhere(w.walk.At.Y)}
	if w.g.Chebyshev(w.walk.At, to) < 20 {
		return
	}
	w.do("walk", to.X, to.Y)
	w.walk.Waypoints, w.walk.Progress = []torus.Pos{to}, 0
	if w.IntN(3) > 0 {
		w.arrive()
	} else {
		w.wait(w.IntN(200))
	}
}

// arrive waits until the player stands, wherever it was handed over on its way.
func (w *sceneWriter) arrive() {
	for !w.walk.Standing() {
		w.wait(1)
	}
	w.tick += slackTicks
}

// settleSteps waits until the player is in the middle of a chunk.
func (w *sceneWriter) settleSteps() {
	middle := func(v int64) bool { return v%torus.ChunkEdge >= 7 && v%torus.ChunkEdge <= 24 }
	for !middle(w.walk.At.X) || !middle(w.walk.At.Y) {
		w.wait(1)
	}
}

func (w *sceneWriter) loseSocket() {
	w.wait(20) // all inputs are answered, wherever the owner is
	gone := span{from: w.tick}
	w.do("drop")
	w.wait(20 + w.IntN(60))
	w.do("resume", w.account+1+w.Int64N(3))
	w.wait(60)
	gone.to = w.tick
	w.s.deaf[uint64(w.account)] = append(w.s.deaf[uint64(w.account)], gone)
}

// layout is one way to cut the world among nodes, and to put the scene into it.
type layout struct {
	name           string
	regions        int // each way
	owners         []int
	shiftX, shiftY int64
}

// plan is the world of a scene on a layout, before anything has happened.
func (s *scene) plan(l layout) *Plan {
	return &Plan{
		Seed: s.seed, Columns: l.regions, Rows: l.regions, EdgeChunks: sceneChunks / l.regions, Nodes: slices.Max(l.owners) + 1,
		Owners: l.owners, LinkDelay: s.delay, LinkJitter: s.delay / 2, StoreDelay: 5 * time.Millisecond, Teams: s.teams,
		ShiftX: l.shiftX, ShiftY: l.shiftY, Ticks: s.ticks, SettleTicks: 200, Actions: s.actions,
	}
}

// play carries the scene out and returns what each client saw. The error is a *Broken.
func (s *scene) play(l layout) (*recorder, error) {
	r, err := NewRun(s.plan(l))
	if err != nil {
		return nil, err
	}
	rec := newRecorder(r)
	next := 0
	for r.ticks < s.ticks {
		for ; next < len(s.actions) && s.actions[next].At <= r.ticks; next++ {
			s.do(r, s.actions[next])
		}
		if err := r.Run(1); err != nil {
			return rec, err
		}
		rec.look()
	}
	if err := r.Settle(); err != nil {
		return rec, err
	}
	return rec, rec.finish()
}
