package simtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

var (
	metamorphicSeeds = flag.Int("metamorphic-seeds", 8, "how many scenes the metamorphic test plays on every layout")
	metamorphicFirst = flag.Uint64("metamorphic-first", 1, "the seed of the first of them")
)

// plain is the layout that knows no border and no seam: one node has all, and the scene is in the middle.
var plain = layout{name: "one region", regions: 1, owners: []int{0}}

// layouts are where a scene must look as it does on the plain one. Those of a seed differ in the shifts only.
//
// What a client sees depends on where chunks end: it holds whole chunks around its own. So a scene in which players come
// into sight and leave it is shifted by whole chunks. One in which all are close is shifted by any metres as well.
func (s *scene) layouts() []layout {
	r := rand.New(rand.NewPCG(s.seed, 13))
	one, two, four := []int{0, 0, 0, 0}, []int{0, 0, 1, 1}, []int{0, 1, 2, 3}
	chunks := func() int64 { return torus.ChunkEdge * r.Int64N(sceneChunks) }
	list := []layout{
		{"one region, the scene on the seam", 1, []int{0}, sceneHeart, sceneHeart},
		{"four regions of one node", 2, one, 0, 0},
		{"two nodes, one above the other", 2, two, 0, 0},
		{"two nodes in stripes, the scene on the seam of y", 2, []int{0, 1, 0, 1}, 0, sceneHeart},
		{"four nodes, the scene on the corner", 2, four, 0, 0},
		{"four nodes, the scene on the corner on the seam", 2, four, sceneHeart, sceneHeart},
		{"four nodes, shifted by whole chunks", 2, four, chunks(), chunks()},
	}
	if s.close {
		list = append(list,
			layout{"four nodes, shifted by metres", 2, four, r.Int64N(sceneMetres), r.Int64N(sceneMetres)},
			layout{"four nodes, somebody rests on the seam", 2, four, -s.rests.X, -s.rests.Y})
	}
	return list
}

// do carries out one action of a scene: those of a plan, and two more inputs.
func (s *scene) do(r *Run, a Action) {
	cl := r.byAccount(uint64(a.Args[0]))
	switch a.Verb {
	case "stop":
		r.Send(cl, &wire.Input{Action: &wire.Input_Stop{Stop: &wire.Stop{}}})
	case "wrong": // farther than a leg may reach
		r.Walk(cl, r.Grid.Add(cl.At(cl.Own(), cl.Tick), 200, 0))
	default:
		r.Do(a)
	}
}

// met counts what scenes were about, so that a test of nothing is seen.
type met struct {
	mu                            sync.Mutex
	handoffs, seams, corners      uint64
	comings, words, refused, lost int
}

// TestAScenePlaysTheSameOnEveryLayout: cut and shifted in any way, a scene gives every client the same trace.
func TestAScenePlaysTheSameOnEveryLayout(t *testing.T) {
	var m met
	t.Run("scenes", func(t *testing.T) {
		for i := range *metamorphicSeeds {
			seed := *metamorphicFirst + uint64(i)
			t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
				t.Parallel()
				m.everywhere(t, writeScene(seed))
			})
		}
	})
	t.Logf("%d handoffs, %d of them with the scene on the seam, %d over a corner; clients saw %d comings and goings, heard %d words, were refused %d inputs, lost %d sockets",
		m.handoffs, m.seams, m.corners, m.comings, m.words, m.refused, m.lost)
	if *metamorphicSeeds >= 20 && (m.handoffs < 300 || m.seams < 100 || m.corners < 10 || m.comings < 500 || m.words < 500 || m.refused < 50 || m.lost < 50) {
		t.Error("the scenes are too quiet to say anything")
	}
}

// everywhere plays a scene on the plain layout and on all others.
func (m *met) everywhere(t *testing.T, s *scene) {
	want, err := s.play(plain)
	if err != nil {
		t.Fatalf("on %s: %v", plain.name, err)
	}
	m.count(want, s)
	var worst lag
	for _, l := range s.layouts() {
		got, err := s.play(l)
		if err != nil {
			t.Errorf("on %s, shifted by %d,%d: %v", l.name, l.shiftX, l.shiftY, err)
		}
		m.crossed(got.r.Cluster, l)
		for _, line := range s.differences(want.traces, got.traces, &worst) {
			t.Errorf("on %s, shifted by %d,%d: %s", l.name, l.shiftX, l.shiftY, line)
		}
	}
	t.Logf("the largest lag was %d ticks and %d m", worst.ticks, worst.metres)
}

func (m *met) count(rec *recorder, s *scene) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range rec.traces {
		for _, list := range t.sights {
			m.comings += len(list)
		}
		for _, list := range t.heard {
			m.words += len(list)
		}
		for _, r := range t.results {
			if strings.HasSuffix(r, wire.InputResult_CODE_INVALID.String()) {
				m.refused++
			}
		}
	}
	for _, gaps := range s.deaf {
		m.lost += len(gaps)
	}
}

func (m *met) crossed(c *Cluster, l layout) {
	m.mu.Lock()
	defer m.mu.Unlock()
	handoffs := c.Stats(func(s zone.Stats) uint64 { return s.Handoffs + s.HandoffsLocal })
	if m.handoffs += handoffs; l.shiftX == sceneHeart || l.shiftY == sceneHeart {
		m.seams += handoffs
	}
	m.corners += c.Stats(func(s zone.Stats) uint64 { return s.CrossedCorner })
}

// differences compares the traces of all clients.
func (s *scene) differences(want, got map[uint64]*clientTrace, worst *lag) (lines []string) {
	for account := uint64(1); account <= uint64(len(want)); account++ {
		if got[account] == nil {
			lines = append(lines, fmt.Sprintf("account %d saw nothing", account))
			continue
		}
		d := diff{want: want[account], got: got[account], deaf: s.deaf[account], worst: worst}
		for _, line := range d.lines() {
			lines = append(lines, fmt.Sprintf("account %d %s", account, line))
		}
	}
	return lines
}
