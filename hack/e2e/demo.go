package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopPatience is how long a demo may take to end after it was interrupted.
const stopPatience = 60 * time.Second

// process is a running demo.
type process struct {
	cmd  *exec.Cmd
	dir  string
	log  string
	done chan struct{}
	err  error

	mu  sync.Mutex
	out bytes.Buffer
}

// start starts the demo in a folder of its own.
func (b *bench) start(ctx context.Context, name string, args ...string) (*process, error) {
	p := &process{dir: filepath.Join(b.dir, name), log: filepath.Join(b.dir, name+".log"), done: make(chan struct{})}
	file, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("making the log of the demo: %w", err)
	}
	p.cmd = exec.CommandContext(ctx, b.demo, append([]string{"-dir", p.dir}, args...)...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGINT) }
	p.cmd.WaitDelay = stopPatience
	p.cmd.Stdout = io.MultiWriter(file, p)
	p.cmd.Stderr = p.cmd.Stdout
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the demo: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		_ = file.Close()
		close(p.done)
	}()
	return p, nil
}

// Write keeps what the demo prints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// wait waits for the demo's end.
func (p *process) wait(ctx context.Context, patience time.Duration) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("the demo did not end within %v; its output is in %s", patience, p.log)
	}
}

// says waits until the demo has printed a text.
func (p *process) says(ctx context.Context, text string, patience time.Duration) error {
	deadline := time.After(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.output(), text) {
		select {
		case <-p.done:
			return fmt.Errorf("the demo ended before it said %q; its output is in %s", text, p.log)
		case <-deadline:
			return fmt.Errorf("the demo did not say %q within %v; its output is in %s", text, patience, p.log)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// good runs a demo to its end: it must find nothing wrong, and leave nothing behind.
func (b *bench) good(ctx context.Context, name string, patience time.Duration, args ...string) (*process, error) {
	p, err := b.start(ctx, name, args...)
	if err != nil {
		return nil, err
	}
	if err := p.wait(ctx, patience); err != nil {
		return p, err
	}
	if p.err != nil {
		return p, fmt.Errorf("%w\n%s", p.err, tail(p.output(), 25))
	}
	return p, p.leftNothing()
}

// leftNothing looks for processes that still belong to a demo's folder.
func (p *process) leftNothing() error {
	full, err := filepath.Abs(p.dir)
	if err != nil {
		return fmt.Errorf("finding the demo's folder: %w", err)
	}
	var left []string
	for range 50 { // a process that was told to end is gone in a moment
		if left, err = processesOf(full); err != nil || len(left) == 0 {
			return err
		}
		time.Sleep(100 * time.Millisecond) // a poll: there is nothing to wait on for a process of somebody else
	}
	return fmt.Errorf("processes are left: %s", strings.Join(left, "; "))
}

// processesOf lists processes whose command line names a folder.
func processesOf(folder string) ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("reading the process table: %w", err)
	}
	var found []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if errors.Is(err, os.ErrNotExist) || len(line) == 0 {
			continue
		}
		if strings.Contains(string(line), folder+"/") {
			found = append(found, fmt.Sprintf("%d %s", pid, tail(strings.ReplaceAll(string(line), "\x00", " "), 1)))
		}
	}
	return found, nil
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
