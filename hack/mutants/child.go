package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// childPatience is how long a program may take to end when it is asked to.
const childPatience = 5 * time.Second

// child is a program that is asked to end with ctx, with all that it started; so go removes what it built half.
func child(ctx context.Context, dir string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = childPatience
	return cmd
}

// ownThread keeps the goroutine on its thread while a child runs: the kernel ends the child with the thread that forked it.
func ownThread() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
