package child

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the test binary play the parent that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CHILD_TEST_PARENT"); dir != "" {
		parent(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// parent starts a child that has a child of its own, prints both pids and waits to be killed.
func parent(dir string) {
	k, err := NewKeeper(dir)
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("sh", "-c", "sleep 600 & echo $$ $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if _, err := k.Start(cmd, "child"); err != nil {
		panic(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	fmt.Print(line)
	select {}
}

func within(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		<-tick.C
	}
}

func alive(pid int) bool { _, err := startTicks(pid); return err == nil }

// killedParent runs a parent, lets before act on its pids, kills it and returns its child and grandchild.
func killedParent(t *testing.T, dir string, before func(parent int)) (child, grandchild int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CHILD_TEST_PARENT="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if _, err := fmt.Sscanf(line, "%d %d", &child, &grandchild); err != nil {
		t.Fatalf("the parent says %q: %v", line, err)
	}
	if !alive(child) || !alive(grandchild) {
		t.Fatal("child or grandchild do not run")
	}
	before(cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return child, grandchild
}

func TestNothingOutlivesAParentKilledWithNine(t *testing.T) {
	child, grandchild := killedParent(t, t.TempDir(), func(int) {})
	within(t, "the child lives on", func() bool { return !alive(child) })
	within(t, "the grandchild lives on", func() bool { return !alive(grandchild) })
}

func TestSweepFindsWhatEvenTheWatchdogMissed(t *testing.T) {
	dir := t.TempDir()
	child, grandchild := killedParent(t, dir, func(parent int) {
		for _, pid := range marked(dir) {
			cmdline, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			if strings.Contains(string(cmdline), "while read") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	within(t, "the child lives on", func() bool { return !alive(child) })
	if !alive(grandchild) {
		t.Fatal("the watchdog was to be dead")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := Sweep(ctx, dir)
	if err != nil || n == 0 || alive(grandchild) { // the killed watchdog may still be dying, and be counted too
		t.Errorf("swept %d, %v; grandchild alive: %v", n, err, alive(grandchild))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "run", "*.json")); len(left) > 0 {
		t.Errorf("records left: %v", left)
	}
}

func TestSweepLeavesARecycledPidAlone(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	id := identify(cmd.Process.Pid, "somebody else")
	id.Start--
	if err := os.MkdirAll(recordsDir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := id.save(dir); err != nil {
		t.Fatal(err)
	}
	if n, err := Sweep(context.Background(), dir); err != nil || n != 0 || !alive(id.PID) {
		t.Errorf("swept %d, %v", n, err)
	}
}

func newKeeper(t *testing.T) *Keeper {
	t.Helper()
	k, err := NewKeeper(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func TestExitTellsCodeAndSignal(t *testing.T) {
	k := newKeeper(t)
	for script, want := range map[string]Exit{
		"exit 0": {}, "exit 7": {Code: 7}, "kill -9 $$": {Code: 137, Signal: syscall.SIGKILL},
	} {
		p, err := k.Start(exec.Command("sh", "-c", script), script)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Exit(); got.Code != want.Code || got.Signal != want.Signal || got.At.IsZero() {
			t.Errorf("%s: %+v", script, got)
		}
	}
}

func TestTheGroupGoesWithItsLeader(t *testing.T) {
	k := newKeeper(t)
	cmd := exec.Command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
	var out strings.Builder
	cmd.Stdout = &out
	p, err := k.Start(cmd, "leader")
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the rest of the group lives on", func() bool { return !alive(pid) })
	if len(Recorded(k.dir)) != 0 {
		t.Error("the record is still there")
	}
}

func TestTerminateKillsAfterTheGrace(t *testing.T) {
	k := newKeeper(t)
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo set; while :; do sleep 0.05; done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := k.Start(cmd, "stubborn")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.Terminate(200 * time.Millisecond)
	if e := p.Exit(); e.Signal != syscall.SIGKILL || time.Since(began) < 200*time.Millisecond {
		t.Errorf("%+v after %v", e, time.Since(began))
	}
}

func TestSupervisorRestartsUntilStopped(t *testing.T) {
	k := newKeeper(t)
	log := filepath.Join(t.TempDir(), "log")
	lines := make(chan string, 16)
	s := k.NewSupervisor(Spec{Name: "crasher", Binary: "/bin/sh", Args: []string{"-c", "echo once more; exit 3"}, LogFile: log}, func(l string) { lines <- l })
	s.Start()
	s.Start() // a second start changes nothing
	first := <-lines
	<-lines
	s.Stop()
	if s.PID() != 0 || s.Restarts() < 2 || !strings.Contains(first, "exit code 3") || !strings.Contains(first, log) {
		t.Errorf("pid %d, %d restarts, %q", s.PID(), s.Restarts(), first)
	}
	raw, _ := os.ReadFile(log)
	if strings.Count(string(raw), "once more") < 2 {
		t.Errorf("the log says %q", raw)
	}
}

func TestParseStatSurvivesAName(t *testing.T) {
	got, err := parseStat("7 (a) b (c) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1")
	if err != nil || got != 4242 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := parseStat("7 (x) Z 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1"); err == nil {
		t.Error("a zombie counts as alive")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("7 (a) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1")
	f.Add(") ")
	f.Fuzz(func(_ *testing.T, s string) { _, _ = parseStat(s) })
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"pid":7,"start":1,"label":"x"}`))
	f.Add([]byte(`{"pid":-1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if id, err := parseRecord(raw); err == nil && id.PID <= 1 {
			t.Errorf("pid %d taken: a signal to it would hit many", id.PID)
		}
	})
}
