package fence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// pausedChild, in the environment, makes this test binary the process that is stopped; its value is how it commits.
const pausedChild = "FENCE_PAUSED_CHILD"

// runPausedChild holds a session that it can renew no more, and prints the boot time of each commit in nanoseconds.
func runPausedChild(how string) {
	api := newModelAPI()
	api.create(sessionLease(1))
	c := dial(api)
	cfg := testConfig(1, "1", BootClock{})
	cfg.LeaseDuration, cfg.RenewDeadline, cfg.RenewPeriod = time.Second, 400*time.Millisecond, 50*time.Millisecond
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	s, err := Acquire(ctx, Clients{Session: c}, cfg)
	if err != nil {
		panic(err)
	}
	c.will(func(string, string) plan { return plan{fail: errors.New("no route")} })
	go func() { _ = s.Run(ctx) }()
	var flag atomic.Bool // what the fence does without: another goroutine looks at the clock
	go func() {
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			flag.Store(s.Deadline().Passed(cfg.Clock.Boottime()))
		}
	}()
	out := bufio.NewWriter(os.Stdout)
	for ; ctx.Err() == nil; time.Sleep(200 * time.Microsecond) {
		now := cfg.Clock.Boottime()
		if how == "flag" && flag.Load() || how == "deadline" && s.Deadline().Passed(now) {
			continue
		}
		_, _ = fmt.Fprintln(out, int64(now))
		_ = out.Flush()
	}
}

// stoppedPastItsDeadline stops such a process until its deadline is over, lets it go on, and counts what it committed before
// and after.
func stoppedPastItsDeadline(t *testing.T, how string) (before, after int) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), pausedChild+"="+how)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the process committed nothing")
	}
	signal := func(s syscall.Signal) {
		if err := child.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	time.Sleep(600 * time.Millisecond) // real time: the process has none to inject
	resumed := BootClock{}.Boottime()
	signal(syscall.SIGCONT)
	time.AfterFunc(200*time.Millisecond, func() { _ = child.Process.Kill() })
	for before = 1; lines.Scan(); {
		at, err := strconv.ParseInt(lines.Text(), 10, 64)
		switch {
		case err != nil: // the line in which it was killed
		case time.Duration(at) >= resumed:
			after++
		default:
			before++
		}
	}
	_ = child.Wait()
	return before, after
}

func TestProcessThatWasStoppedPastItsDeadlineCommitsNothing(t *testing.T) {
	for range 5 {
		if before, after := stoppedPastItsDeadline(t, "deadline"); after > 0 {
			t.Errorf("%d commits after it went on, %d before", after, before)
		}
	}
}

func TestFlagOfAnotherGoroutineIsStaleAfterAStop(t *testing.T) {
	for range 20 {
		if _, after := stoppedPastItsDeadline(t, "flag"); after > 0 {
			return
		}
	}
	t.Error("no stop in 20 shows it: the test of stopped processes shows nothing")
}
