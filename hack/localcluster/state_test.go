package localcluster

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/hack/localcluster/child"
)

func TestATakenPortIsNamedWithItsOwner(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = freePort(port, map[int]bool{})
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(port)) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Error(err)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	taken := map[int]bool{}
	for range 20 {
		before := len(taken)
		p, err := freePort(0, taken)
		if err != nil || len(taken) != before+1 || p < firstPort || p > lastPort {
			t.Fatalf("%d, %v", p, err)
		}
	}
}

func TestLanesAreTakenOnce(t *testing.T) {
	a, err := takeLane(-1)
	if err != nil {
		t.Fatal(err)
	}
	defer a.hold.Close()
	b, err := takeLane(-1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.hold.Close()
	if a.number == b.number || a.serviceRange() == b.serviceRange() || a.machine(0) == b.machine(0) {
		t.Errorf("lanes %d and %d", a.number, b.number)
	}
	_, err = takeLane(a.number)
	if err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("a taken lane: %v", err)
	}
}

func TestOneClusterPerFolder(t *testing.T) {
	dir := t.TempDir()
	l, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := (State{Owner: child.Self("the test")}).save(dir); err != nil {
		t.Fatal(err)
	}
	_, err = Up(context.Background(), Options{Dir: dir, Binaries: "/nowhere"})
	if err == nil || !strings.Contains(err.Error(), "the test") {
		t.Error(err)
	}
	if err := Stop(context.Background(), dir); err == nil {
		t.Error("a process stopped itself from outside")
	}
}

func TestUpThatFailsLeavesNothing(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho "+name+" cannot; sleep 600 & exit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Up(context.Background(), Options{Dir: dir, Binaries: bin})
	if err == nil || !strings.Contains(err.Error(), "cannot") {
		t.Errorf("the error does not show the log: %v", err)
	}
	if left := marked(dir); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	l, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestStopEndsWhatADeadOwnerLeft(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sleep", "600")
	cmd.Env = []string{"SPATIALCELLS_LOCALCLUSTER=" + dir}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	if err := (State{Owner: child.Identity{PID: 1 << 22, Start: 1}}).save(dir); err != nil {
		t.Fatal(err)
	}
	if err := Stop(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err := Purge(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is still there")
	}
	if err := Stop(context.Background(), dir); err != nil {
		t.Errorf("stopping nothing: %v", err)
	}
}

func TestPurgeLeavesForeignFoldersAlone(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Purge(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error("a folder without a cluster was removed")
	}
}

func TestImagesAreCopiesThatARebuildDoesNotChange(t *testing.T) {
	s := &images{dir: t.TempDir()}
	bin := filepath.Join(t.TempDir(), "node")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(bin, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	if err := s.load("i:v1", bin); err != nil {
		t.Fatal(err)
	}
	write("two")
	if err := s.load("i:v2", bin); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{"i:v1": "one", "i:v2": "two"} {
		file, err := s.find(ref)
		if err != nil {
			t.Fatal(err)
		}
		if raw, _ := os.ReadFile(file); string(raw) != want || filepath.Base(file) != "node" {
			t.Errorf("%s: %s holds %q", ref, file, raw)
		}
	}
	if _, err := s.find("i:v3"); err == nil || !strings.Contains(err.Error(), "--image i:v3=") {
		t.Errorf("an unknown image: %v", err)
	}
	if err := s.load("dir", t.TempDir()); err == nil {
		t.Error("a folder was loaded as an image")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{"no folder": {}, "machines": {Dir: "x", Machines: 99}, "port": {Dir: "x", APIPort: 70000}} {
		if err := o.complete(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestInspectOfNothing(t *testing.T) {
	if _, err := Inspect(t.TempDir()); !errors.Is(err, ErrNoCluster) {
		t.Error(err)
	}
}

func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"lane":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := parseState(raw); err == nil && (s.Lane < 0 || s.Lane >= lanes) {
			t.Errorf("lane %d", s.Lane)
		}
	})
}

func FuzzListener(f *testing.F) {
	f.Add("  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 12345 1", 8080)
	f.Fuzz(func(_ *testing.T, line string, port int) { listener(line, port) })
}
