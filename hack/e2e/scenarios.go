package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func scenarios() []scenario {
	return []scenario{
		{
			"faults", "one node is killed, one paused for longer than its lease, the API server is away for 30 s; nobody sees what is not marked",
			func(ctx context.Context, b *bench) error {
				p, err := b.good(ctx, "faults", 8*time.Minute, "-duration", "275s", "-fault", "kill:1@20s,stop:2@85s+20s,api@170s+30s")
				if err != nil {
					return err
				}
				if n := strings.Count(p.output(), "as expected"); n != 3 {
					return fmt.Errorf("%d of 3 faults went as expected\n%s", n, tail(p.output(), 25))
				}
				return nil
			},
			false,
		},
		{
			"store", "the store is killed: everybody plays on, and it comes back with every record that it had",
			func(ctx context.Context, b *bench) error {
				p, err := b.good(ctx, "store", 5*time.Minute, "-duration", "110s", "-bots", "40", "-handoffs", "20", "-fault", "store@40s")
				if err != nil {
					return err
				}
				if !strings.Contains(p.output(), "store@40s: as expected") {
					return fmt.Errorf("the fault did not go as expected\n%s", tail(p.output(), 25))
				}
				return nil
			},
			false,
		},
		{
			"one-region", "a node is its own neighbour on all sides",
			func(ctx context.Context, b *bench) error {
				_, err := b.good(ctx, "one-region", 4*time.Minute, "-duration", "45s", "-bots", "12", "-handoffs", "0", "-world", "hack/e2e/testdata/one-region.yaml")
				return err
			},
			false,
		},
		{
			"two-regions", "two nodes border each other twice",
			func(ctx context.Context, b *bench) error {
				_, err := b.good(ctx, "two-regions", 4*time.Minute, "-duration", "60s", "-bots", "20", "-handoffs", "10", "-world", "hack/e2e/testdata/two-regions.yaml")
				return err
			},
			false,
		},
		{"twice", "the second demo in one folder says that the first one runs", twice, false},
		{"port-taken", "a demo whose port is taken names it", portTaken, false},
		{"interrupted", "Ctrl-C at any step ends everything", interrupted, false},
		{"crowd", "2000 entities of a region are recovered within half a second, and move with a cut of at most 100 ms", crowd, true},
		{"moves", "a quarter of all regions moves under 200 bots, also with a node, the operator or the API server in trouble", moves, true},
		{"window", "moves wait for a window that opens in three minutes; what starts in it finishes, and the rest waits for the next", window, true},
		{"failover", "nodes end in every way, 20 rounds and more; their regions are simulated again in time, and nothing is lost", failover, true},
		{"fence", "nodes are stopped, cut off and misled about the time; no fenced one writes, relays or changes a lease", fence, true},
	}
}

func twice(ctx context.Context, b *bench) error {
	first, err := b.start(ctx, "twice", "-bots", "1")
	if err != nil {
		return err
	}
	if err := first.says(ctx, "starting etcd", time.Minute); err != nil {
		return err
	}
	second, err := b.start(ctx, "twice", "-bots", "1")
	if err != nil {
		return err
	}
	if err := second.wait(ctx, time.Minute); err != nil {
		return err
	}
	want := fmt.Sprintf("another demo is running (pid %d)", first.cmd.Process.Pid)
	if second.err == nil || !strings.Contains(second.output(), want) {
		return fmt.Errorf("the second ended with %v and did not say %q:\n%s", second.cmd.ProcessState, want, tail(second.output(), 5))
	}
	return first.interrupt(ctx)
}

// interrupt sends Ctrl-C and looks at what is left.
func (p *process) interrupt(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return fmt.Errorf("interrupting the demo: %w", err)
	}
	if err := p.wait(ctx, stopPatience); err != nil {
		return err
	}
	return p.leftNothing()
}

func portTaken(ctx context.Context, b *bench) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("taking a port: %w", err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return fmt.Errorf("reading the port: %w", err)
	}
	p, err := b.start(ctx, "port-taken", "-bots", "1", "-api-port", port)
	if err != nil {
		return err
	}
	if err := p.wait(ctx, 2*time.Minute); err != nil {
		return err
	}
	if p.err == nil || !strings.Contains(p.output(), port) {
		return fmt.Errorf("it ended with %v and did not name port %s:\n%s", p.cmd.ProcessState, port, tail(p.output(), 5))
	}
	return p.leftNothing()
}

// interrupted sends Ctrl-C after different lengths of time: while it builds, starts the control plane, waits for the world,
// and runs bots.
func interrupted(ctx context.Context, b *bench) error {
	var bad []error
	for _, after := range []time.Duration{500 * time.Millisecond, 4 * time.Second, 10 * time.Second, 18 * time.Second, 30 * time.Second} {
		p, err := b.start(ctx, "interrupted-"+strconv.Itoa(int(after.Milliseconds())), "-bots", "4")
		if err != nil {
			return err
		}
		select {
		case <-p.done:
			bad = append(bad, fmt.Errorf("after %v: it had ended by itself: %w\n%s", after, p.err, tail(p.output(), 5)))
			continue
		case <-time.After(after):
		case <-ctx.Done():
		}
		if err := p.interrupt(ctx); err != nil {
			bad = append(bad, fmt.Errorf("after %v: %w", after, err))
		}
	}
	return errors.Join(bad...)
}
