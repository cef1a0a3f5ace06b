package simtest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

var (
	seeds       = flag.Int("seeds", 24, "how many seeds the soak runs")
	firstSeed   = flag.Int64("first-seed", 1, "the first of them")
	replaySeed  = flag.Int64("seed", 0, "the seed that Replay runs, with its trace")
	stopAtFirst = flag.Bool("stop-at-first", false, "end the soak with the first seed that breaks something, without shrinking it")
	coverage    = flag.Bool("coverage", false, "print how often each transition was met under each class of fault, and fail if one never was")
	loseStore   = flag.Bool("lose-store", false, "let the store lose all it has in some seeds, as make soak does: nodes must put back what they hold")
	shrinkTries = flag.Int("shrink", 150, "how many smaller plans are tried when a seed breaks something")
	around      = flag.String("around", "", "run only worlds that are made around this situation, see situations.go; \"every\": around each in turn")
	workers     = flag.Int("workers", runtime.GOMAXPROCS(0), "how many seeds run at the same time")
)

// gapSeeds is after how many seeds the soak looks for gaps again.
const gapSeeds = 100

// soak runs seeds side by side; each run is single-threaded and a function of its seed alone.
type soak struct {
	mu       sync.Mutex
	coverage Coverage
	done     int
	closed   int // after how many seeds there was no gap any more
	steps    int
	failed   []int64
	lossy    int // worlds whose store lost what it had acknowledged and that did not get over it
}

func (s *soak) run(list []int64) {
	next := make(chan int64)
	var running sync.WaitGroup
	for range max(*workers, 1) {
		running.Go(func() {
			for seed := range next {
				s.seed(seed)
			}
		})
	}
	for i, seed := range list {
		if *stopAtFirst && s.anyFailed() {
			break
		}
		next <- seed
		if i > 0 && i%1000 == 0 {
			s.progress(i, len(list))
		}
	}
	close(next)
	running.Wait()
}

func (s *soak) progress(done, of int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(os.Stderr, "soak: %d of %d seeds, %d broke something", done, of, len(s.failed))
	if *coverage {
		fmt.Fprintf(os.Stderr, ", %d gaps", len(s.coverage.Gaps()))
	}
	fmt.Fprintln(os.Stderr)
}

func (s *soak) anyFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failed) > 0
}

func (s *soak) seed(seed int64) {
	o := Try(plan(seed), false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coverage.Add(o.Coverage)
	if s.done++; *coverage && s.closed == 0 && s.done%gapSeeds == 0 && len(s.coverage.Gaps()) == 0 {
		s.closed = s.done
	}
	s.steps += o.Ticks
	switch {
	case o.Broken == nil:
	case o.Excused():
		s.lossy++
	default:
		s.failed = append(s.failed, seed)
		fmt.Printf("simtest: seed %d broke %s: %s\n", seed, o.Broken.What(), o.Broken.Error())
	}
}

// TestSoak runs many seeds. Nothing may break; with -coverage nothing may be left out.
func TestSoak(t *testing.T) {
	var list []int64
	for i := range *seeds {
		list = append(list, *firstSeed+int64(i))
	}
	var s soak
	start := time.Now()
	s.run(list)
	t.Logf("%d seeds, %d node steps, %v", len(list), s.steps, time.Since(start).Round(time.Millisecond))
	if s.lossy > 0 {
		t.Logf("%d worlds whose store came back empty, or behind, did not get over it; README.md says what is promised then", s.lossy)
	}
	if *coverage {
		fmt.Println(s.coverage.String())
		gaps := s.coverage.Gaps()
		for _, gap := range gaps {
			t.Error(gap)
		}
		if len(gaps) > 0 {
			t.Errorf("%d pairs of a transition and a class of fault were never met in %d seeds: run more of them, 20000 are enough", len(gaps), len(list))
		}
		if s.closed > 0 {
			t.Logf("there was no gap any more after %d seeds", s.closed)
		}
	}
	for _, seed := range s.failed {
		t.Errorf("replay it with: go test ./node/simtest -v -run Replay -seed %d -lose-store=%v -around=%s", seed, *loseStore, *around)
	}
	if len(s.failed) > 0 && !*stopAtFirst {
		report(t, s.failed[0])
	}
}

// report shrinks a seed that broke something and prints the plan that is left with its trace.
func report(t *testing.T, seed int64) {
	p := Shrink(plan(seed), *shrinkTries)
	o := Try(p, true)
	t.Logf("seed %d cut down to:\n%s\n%s", seed, p, tail(o.Trace, 20000))
}

// plan draws the plan of a seed; without -lose-store the store of no seed loses what it has acknowledged.
func plan(seed int64) *Plan {
	p := draw(uint64(seed))
	if !*loseStore {
		p.Actions = slices.DeleteFunc(p.Actions, losesStore)
	}
	return p
}

func draw(seed uint64) *Plan {
	if *around == "" {
		return Generate(seed)
	}
	p := Around(*around, seed)
	if p == nil {
		panic("simtest: there is no situation " + *around)
	}
	return p
}

func tail(s string, n int) string {
	if len(s) > n {
		return "...\n" + s[len(s)-n:]
	}
	return s
}

// TestReplay runs one seed with its trace. It is the same to the byte each time.
func TestReplay(t *testing.T) {
	seed := *replaySeed
	if seed == 0 {
		seed = *firstSeed
	}
	first, second := Try(plan(seed), true), Try(plan(seed), true)
	if first.Trace != second.Trace {
		t.Error("the same seed gave two traces")
	}
	if *replaySeed != 0 {
		fmt.Print(plan(seed), first.Trace)
	}
	if first.Broken != nil {
		t.Errorf("seed %d: %v", seed, first.Broken)
		if *replaySeed != 0 {
			report(t, seed)
		}
	}
}
