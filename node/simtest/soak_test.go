package simtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

var (
	seeds       = flag.Int("seeds", 24, "how many seeds the soak runs")
	firstSeed   = flag.Int64("first-seed", 1, "the first of them")
	replaySeed  = flag.Int64("seed", 0, "the seed that Replay runs, with its trace")
	stopAtFirst = flag.Bool("stop-at-first", false, "end the soak with the first seed that breaks something, without shrinking it")
	coverage    = flag.Bool("coverage", false, "print how often each transition was met under each class of faults, and fail if one never was")
	shrinkTries = flag.Int("shrink", 150, "how many smaller plans are tried when a seed breaks something")
	workers     = flag.Int("workers", runtime.GOMAXPROCS(0), "how many seeds run at the same time")
)

// found are seeds that once showed a defect.
var found = []int64{50737, 51069}

// soak runs seeds side by side; each run is single-threaded and a function of its seed alone.
type soak struct {
	mu       sync.Mutex
	coverage Coverage
	steps    int
	failed   []int64
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
			fmt.Fprintf(os.Stderr, "soak: %d of %d seeds\n", i, len(list))
		}
	}
	close(next)
	running.Wait()
}

func (s *soak) anyFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failed) > 0
}

func (s *soak) seed(seed int64) {
	defer func() { // an engine asserts something itself: the seed is told before the process ends
		if c := recover(); c != nil {
			if stack := debug.Stack(); bytes.Contains(stack, []byte("zone.(*Engine).Step")) {
				fmt.Printf("simtest: seed %d broke assertion: %v\n", seed, c)
			}
			panic(c)
		}
	}()
	o := Try(Generate(uint64(seed)), false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coverage.Add(o.Coverage)
	s.steps += o.Ticks
	if o.Broken != nil {
		s.failed = append(s.failed, seed)
		fmt.Printf("simtest: seed %d broke %s: %s\n", seed, o.Broken.What(), o.Broken.Error())
	}
}

// TestSoak runs many seeds. Nothing may break; with -coverage nothing may be left out.
func TestSoak(t *testing.T) {
	list := append([]int64(nil), found...)
	if *stopAtFirst {
		list = nil
	}
	for i := range *seeds {
		list = append(list, *firstSeed+int64(i))
	}
	var s soak
	start := time.Now()
	s.run(list)
	t.Logf("%d seeds, %d node steps, %v", len(list), s.steps, time.Since(start).Round(time.Millisecond))
	if *coverage {
		fmt.Println(s.coverage.String())
		for _, gap := range s.coverage.Gaps() {
			t.Errorf("never met: %s", gap)
		}
	}
	for _, seed := range s.failed {
		t.Errorf("seed %d: replay it with -test.run Replay -seed %d", seed, seed)
	}
	if len(s.failed) > 0 && !*stopAtFirst {
		report(t, s.failed[0])
	}
}

// report shrinks a seed that broke something and prints the plan that is left with its trace.
func report(t *testing.T, seed int64) {
	p := Shrink(Generate(uint64(seed)), *shrinkTries)
	o := Try(p, true)
	t.Logf("seed %d cut down to:\n%s\n%s", seed, p, tail(o.Trace, 20000))
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
	first, second := Try(Generate(uint64(seed)), true), Try(Generate(uint64(seed)), true)
	if first.Trace != second.Trace {
		t.Error("the same seed gave two traces")
	}
	if *replaySeed != 0 {
		fmt.Print(Generate(uint64(seed)), first.Trace)
	}
	if first.Broken != nil {
		t.Errorf("seed %d: %v", seed, first.Broken)
		if *replaySeed != 0 {
			report(t, seed)
		}
	}
}
