package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestEachClockOfARunningProcessJumpsByItself(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may write the memory of another process")
	}
	inRoot(t)
	binary := filepath.Join(t.TempDir(), "clocks")
	build := exec.Command("go", "build", "-o", binary, "./hack/demo/testdata/clocks")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(binary)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(pipe)
	read := func() (wall, boot int64) {
		t.Helper()
		for range 5 { // what was printed before is passed over
			if !lines.Scan() {
				t.Fatal("the process has ended")
			}
		}
		f := strings.Fields(lines.Text())
		wall, _ = strconv.ParseInt(f[0], 10, 64)
		boot, _ = strconv.ParseInt(f[1], 10, 64)
		return wall - time.Now().Unix(), boot
	}
	_, before := read()
	c, err := crook(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	near := func(got, want int64) bool { return got >= want-3 && got <= want+3 }
	if wall, boot := read(); !near(wall, 0) || !near(boot, before) {
		t.Errorf("prepared only: the wall clock is off by %d s, the other by %d s", wall, boot-before)
	}
	if err := c.jumpWall(-time.Hour); err != nil {
		t.Fatal(err)
	}
	if wall, boot := read(); !near(wall, -3600) || !near(boot, before) {
		t.Errorf("wall clock back by an hour: it is off by %d s, the other by %d s", wall, boot-before)
	}
	if err := c.jumpBoot(time.Hour); err != nil {
		t.Fatal(err)
	}
	if wall, boot := read(); !near(wall, -3600) || !near(boot, before+3600) {
		t.Errorf("clock since boot on by an hour: off by %d s, the wall clock by %d s", boot-before, wall)
	}
}
