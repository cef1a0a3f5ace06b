package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spatialcells/spatialcells/controllers"
)

// images are what the manifests and the operator call the binaries.
var images = map[string]string{
	"spatialcells/operator:dev":   "operator",
	"spatialcells/zone-node:dev":  "zone-node",
	controllers.DefaultStoreImage: "valkey-server",
}

// build compiles operator, zone-node and what stands in for the image of the store into a folder.
func build(ctx context.Context, into, log string) error {
	out := strings.TrimSuffix(into, "/") + "/"
	return command(ctx, log, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-o", out, "./controllers/cmd/operator", "./node/cmd/zone-node", "./hack/localcluster/valkey-server")
}

// command runs a program to its end; what it says goes to a log, whose end is in the error. It ends with ctx, and dies with
// this process.
func command(ctx context.Context, log string, env []string, name string, args ...string) error {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return fmt.Errorf("making the folder of logs: %w", err)
	}
	f, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer f.Close()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the kernel counts the death of the thread that forked
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &trouble{
			cause:  fmt.Errorf("%s %s failed: %w: %s", name, strings.Join(args, " "), err, lastLine(log)),
			remedy: remedyOf(name, err), log: log,
		}
	}
	return nil
}

func remedyOf(name string, err error) string {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "install " + name
	case name == "go":
		return "it must compile: `go build ./...` says more; on a network error check GOPROXY"
	}
	return "the log says what the API server refused"
}

// lastLine is the last line of a log that says something.
func lastLine(log string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 400)]
}
