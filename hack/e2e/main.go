package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// scenario is one way to run the demo and what must come of it.
type scenario struct {
	name string
	// expects is for people.
	expects string
	run     func(context.Context, *bench) error
	// long ones run only when they are asked for by name.
	long bool
}

// bench is the built demo and the folder that its runs use.
type bench struct {
	demo string
	dir  string
}

func main() {
	only := flag.String("run", "", "run only the scenarios whose name matches this expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := runAll(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

func runAll(ctx context.Context, only string) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	b := &bench{dir: filepath.Join(".run", "e2e")}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of the runs: %w", err)
	}
	b.demo = filepath.Join(b.dir, "demo.bin")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.demo, "./hack/demo")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the demo: %w; run it in the root of the repository", err)
	}
	passed, failed := 0, 0
	for _, s := range scenarios() {
		if !match.MatchString(s.name) || s.long && only == "" {
			continue
		}
		fmt.Printf("=== %s: %s\n", s.name, s.expects)
		began := time.Now()
		if err := s.run(ctx, b); err != nil {
			failed++
			fmt.Printf("--- FAIL: %s (%.0f s): %v\n", s.name, time.Since(began).Seconds(), err)
			continue
		}
		passed++
		fmt.Printf("--- PASS: %s (%.0f s)\n", s.name, time.Since(began).Seconds())
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	switch {
	case passed+failed == 0:
		return fmt.Errorf("no scenario matches %q", only)
	case failed > 0:
		return fmt.Errorf("%d scenarios failed", failed)
	}
	return nil
}
