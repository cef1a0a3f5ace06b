package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script writes a program that plays the built cluster.
func script(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "simtest.test")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+lines), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// says is a script that prints a text and ends with a code.
func says(t *testing.T, text string, code int) string {
	t.Helper()
	return script(t, "cat <<'END'\n"+text+"\nEND\nexit "+strconv.Itoa(code)+"\n")
}

func TestARunIsJudgedByWhatItPrints(t *testing.T) {
	const begun = "=== RUN   TestSoak\n"
	for name, c := range map[string]struct {
		text string
		code int
		want outcome
	}{
		"all seeds pass": {begun + "--- PASS: TestSoak (1.00s)\nPASS", 0, outcome{Verdict: passed, Seeds: 2}},
		"a checker speaks": {
			begun + "simtest: seed 8 broke invariant 1: a and b both act: for c\nsimtest: seed 8 broke invariant 2: later", 1,
			outcome{broke, "invariant 1", 8, "a and b both act: for c", 2},
		},
		"a checker speaks through the log of the test": {
			begun + "    soak_test.go:300: simtest: seed 8 broke liveness: it does not settle", 1,
			outcome{broke, "liveness", 8, "it does not settle", 2},
		},
		"the engine panics": {
			begun + "panic: zone: a fresh id is taken [recovered]\n\ngoroutine 7 [running]:\n" +
				"example.com/node/zone.(*sim).newborn(0x1)\nexample.com/node/zone.(*Engine).Step(0xc0001, 0x2)", 2,
			outcome{Verdict: broke, What: "assertion", Detail: "zone: a fresh id is taken [recovered]"},
		},
		"the test panics": {
			begun + "panic: nil map\n\ngoroutine 7 [running]:\nexample.com/node/simtest.(*soak).life(0x1)", 2,
			outcome{Verdict: failed, Detail: "a panic outside of the engine: nil map"},
		},
		"a check nobody knows": {
			begun + "simtest: seed 8 broke invariant 9: what", 1,
			outcome{failed, "invariant 9", 8, `the test names a check that this tool does not know: "invariant 9"`, 2},
		},
		"a failure without a word": {"one\ntwo", 1, outcome{Verdict: failed, Detail: "the test did not say what it found: one | two"}},
		"no test is run":           {"testing: warning: no tests to run\nPASS", 0, outcome{Verdict: failed, Detail: "the test did not say what it found: testing: warning: no tests to run | PASS"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := soak(t.Context(), says(t, c.text, c.code), t.TempDir(), "", seeds{7, 2}, time.Minute)
			if err != nil || got != c.want {
				t.Errorf("%v, %+v, want %+v", err, got, c.want)
			}
		})
	}
}

func TestARunIsToldItsSeeds(t *testing.T) {
	dir := t.TempDir()
	binary := script(t, `echo "$PWD $GOMAXPROCS $*" > told; echo "--- PASS: TestSoak (0.00s)"`)
	if o, err := soak(t.Context(), binary, dir, "hover", seeds{40, 3}, time.Minute); err != nil || o.Verdict != passed {
		t.Fatalf("%v, %+v", err, o)
	}
	told, err := os.ReadFile(filepath.Join(dir, "told"))
	want := dir + " 1 -test.run ^TestSoak$ -test.v -seeds 3 -first-seed 40 -stop-at-first -around hover\n"
	if err != nil || string(told) != want {
		t.Errorf("%v: told %q, want %q", err, told, want)
	}
}

// hanging is a cluster that never ends, and has a child of its own.
const hanging = "sleep 600 & echo $! > child; echo begun > begun; wait\n"

func TestARunThatTakesTooLongIsEndedWithItsChildren(t *testing.T) {
	dir := t.TempDir()
	o, err := soak(t.Context(), script(t, hanging), dir, "", seeds{1, 1}, 300*time.Millisecond)
	if err != nil || o.Verdict != late {
		t.Errorf("%v, %+v", err, o)
	}
	childIsGone(t, dir)
}

func TestAnInterruptEndsARunWithItsChildren(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
				cancel()
				return
			}
			time.Sleep(10 * time.Millisecond) // a poll: the child tells nobody that it runs
		}
	}()
	if _, err := soak(ctx, script(t, hanging), dir, "", seeds{1, 1}, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	childIsGone(t, dir)
}

func TestARunThatHasFailedIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	o, err := soak(t.Context(), script(t, "echo 'simtest: seed 1 broke invariant 5: x'\n"+hanging), dir, "", seeds{1, 1}, time.Minute)
	if err != nil || o.What != "invariant 5" {
		t.Errorf("%v, %+v", err, o)
	}
}

func childIsGone(t *testing.T, dir string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") || syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond) // a poll: the process is not a child of this one
	}
	t.Errorf("process %d goes on", pid)
}
