package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spatialcells/spatialcells/hack/localcluster"
)

const endPatience = 60 * time.Second

func lockFile(dir string) string { return filepath.Clean(dir) + ".lock" }

// takeLock makes this the only demo in a folder. The kernel gives the lock back however the process ends.
func takeLock(dir string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(lockFile(dir)), 0o755); err != nil {
		return nil, fmt.Errorf("making the demo's folder: %w", err)
	}
	f, err := os.OpenFile(lockFile(dir), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the demo's folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &trouble{
			cause:  fmt.Errorf("another demo is running (pid %s)", holder(dir)),
			remedy: "use that one, or end it with `make demo-down`",
		}
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("writing the demo's lock: %w", err)
	}
	return f, nil
}

// holder is the pid in the lock.
func holder(dir string) string {
	b, err := os.ReadFile(lockFile(dir))
	if pid := strings.TrimSpace(string(b)); err == nil && len(pid) < 16 && pid != "" {
		return pid
	}
	return "unknown"
}

// endOther asks a demo that runs elsewhere to end, waits, and ends what is left of it.
func endOther(ctx context.Context, dir string) error {
	asked, deadline := false, time.Now().Add(endPatience)
	for {
		f, err := takeLock(dir)
		if err == nil {
			return endRest(ctx, dir, f)
		}
		pid, parseErr := strconv.Atoi(holder(dir))
		if parseErr != nil || pid <= 1 {
			return err
		}
		switch { // it takes a second SIGTERM for impatience
		case !asked:
			asked = true
			_ = syscall.Kill(pid, syscall.SIGTERM) // gone already is as good
		case time.Now().After(deadline):
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err := pause(ctx, pollPeriod); err != nil {
			return err
		}
	}
}

// endRest ends what a demo that is gone left behind, while nobody else can start one.
func endRest(ctx context.Context, dir string, lock *os.File) error {
	defer lock.Close()
	if err := localcluster.Stop(ctx, dir); err != nil && !errors.Is(err, localcluster.ErrNoCluster) {
		return fmt.Errorf("ending what a demo left: %w", err)
	}
	return nil
}
