package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verdict is what became of a run.
type verdict string

const (
	// passed: all seeds, and nothing was found.
	passed verdict = "passed"
	// broke: a checker, or an assertion of the engine, reported something.
	broke verdict = "broke"
	// late: the time limit ended it.
	late verdict = "late"
	// failed: it ended otherwise; Detail says how. It proves nothing.
	failed verdict = "failed"
)

// outcome is what a run of seeds came to.
type outcome struct {
	Verdict verdict
	What    string // of broke: "invariant 1" to "invariant 7", "liveness", "assertion"
	Seed    int64  // of broke; 0 of a panic, which names none
	Detail  string
	Seeds   int // that it took, this one counted; 0 if that is not known
}

// seeds are those that a run tries.
type seeds struct {
	first int64
	count int
}

// What a run prints; -test.v makes it say that the test was run and passed.
var (
	brokeLine = regexp.MustCompile(`simtest: seed (-?\d+) broke ([a-z0-9 ]+): (.*)`)
	passLine  = regexp.MustCompile(`^--- PASS: TestSoak `)
)

const (
	panicPrefix = "panic: "
	// engineFrame is in the stack of every panic of an engine: everything in it happens in a step.
	engineFrame = "/node/zone.(*Engine).Step("
	// tailLines is how much of a run's end is kept for those that cannot be judged.
	tailLines = 5
)

// transcript judges what a run prints, line by line.
type transcript struct {
	outcome
	panicked string
	inEngine bool
	complete bool // the test said that it passed
	tail     []string
}

// line takes the next one and reports whether the rest may matter.
func (t *transcript) line(line string) bool {
	if m := brokeLine.FindStringSubmatch(line); m != nil {
		t.Verdict, t.Seed, t.What, t.Detail = broke, number(m[1]), m[2], strings.TrimSpace(m[3])
		return false
	}
	if t.panicked == "" && strings.HasPrefix(line, panicPrefix) {
		t.panicked = strings.TrimPrefix(line, panicPrefix)
	}
	t.inEngine = t.inEngine || t.panicked != "" && strings.Contains(line, engineFrame)
	t.complete = t.complete || passLine.MatchString(line)
	if strings.TrimSpace(line) != "" {
		t.tail = append(t.tail, strings.TrimSpace(line))
		t.tail = t.tail[max(0, len(t.tail)-tailLines):]
	}
	return true
}

func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64) // digits by the expressions above
	return n
}

// judge is the outcome of a run that ended with err.
func (t *transcript) judge(s seeds, err error) outcome {
	o := t.outcome
	switch {
	case o.Verdict == broke:
		o.Seeds = int(o.Seed-s.first) + 1
		if named := slices.ContainsFunc(knownChecks(), func(c string) bool { return c == o.What }); !named {
			o.Verdict, o.Detail = failed, fmt.Sprintf("the test names a check that this tool does not know: %q", o.What)
		}
	case t.panicked != "" && t.inEngine:
		o.Verdict, o.What, o.Detail = broke, "assertion", t.panicked
	case t.panicked != "":
		o.Verdict, o.Detail = failed, "a panic outside of the engine: "+t.panicked
	case err == nil && t.complete:
		o.Verdict, o.Seeds = passed, s.count
	default:
		o.Verdict, o.Detail = failed, "the test did not say what it found: "+strings.Join(t.tail, " | ")
	}
	return o
}

func knownChecks() []string {
	var names []string
	for _, name := range checks {
		names = append(names, name)
	}
	return names
}

// soak runs seeds in a built cluster until one breaks something. The error is of the context only.
// around is the situation that the worlds are made around, or "".
func soak(ctx context.Context, binary, dir, around string, s seeds, limit time.Duration) (outcome, error) {
	defer ownThread()()
	run, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := child(run, dir, []string{"GOMAXPROCS=1"}, binary, "-test.run", "^TestSoak$", "-test.v",
		"-seeds", strconv.Itoa(s.count), "-first-seed", strconv.FormatInt(s.first, 10), "-stop-at-first", "-around", around)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return outcome{Verdict: failed, Detail: "it cannot be started: " + err.Error()}, nil
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		in.Close()
		ended <- err
	}()
	var t transcript
	enough := follow(out, &t)
	if enough {
		cancel()
	}
	out.Close() // what it says after that is of no use
	err := <-ended
	switch {
	case ctx.Err() != nil:
		return outcome{}, ctx.Err()
	case !enough && errors.Is(run.Err(), context.DeadlineExceeded):
		o := t.outcome
		o.Verdict, o.Detail = late, fmt.Sprintf("the time limit of %v ended it", limit)
		return o, nil
	}
	return t.judge(s, err), nil
}

// follow reads lines until the transcript has enough, or the end.
func follow(r io.Reader, t *transcript) (enough bool) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" && !t.line(strings.TrimSuffix(line, "\n")) {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// compile builds the simulated cluster into dir, with an overlay or, if that is "", as it is.
func compile(ctx context.Context, root, dir, overlay string) (binary string, err error) {
	defer ownThread()()
	binary = filepath.Join(dir, "simtest.test")
	args := []string{"test", "-c", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := child(ctx, root, nil, "go", append(args, "./node/simtest")...)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return binary, nil
}
