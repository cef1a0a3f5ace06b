package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// mutantsFolder is where the defects are, from the root of the repository.
const mutantsFolder = "node/simtest/mutants"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := start(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// start returns the exit code: 0 all are found, 1 not all are, 2 a wrong flag, 130 interrupted.
func start(ctx context.Context, args []string, out io.Writer) int {
	began := time.Now()
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	run := flags.String("run", "", "only mutants whose name matches this regular expression")
	count := flags.Int("seeds", 200, "how many seeds a mutant may take to be found")
	first := flags.Int64("first-seed", 27, "the first of them")
	parallel := flags.Int("parallel", 2, "how many mutants are built and run at a time")
	limit := flags.Duration("limit", 10*time.Minute, "how long one run may take")
	list := flags.Bool("list", false, "print the mutants and end")
	to := flags.String("json", "", "also write the results as JSON to this file")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	match, err := regexp.Compile(*run)
	if err != nil || flags.NArg() > 0 || *count < 1 || *parallel < 1 {
		fmt.Fprintln(os.Stderr, "mutants: -run must be a regular expression, -seeds and -parallel at least 1, and nothing may follow the flags")
		return 2
	}
	root, mutants, err := ready(match)
	if err != nil {
		return trouble(ctx, err)
	}
	if *list {
		show(out, mutants)
		return 0
	}
	c := &campaign{settings: settings{root: root, seeds: seeds{*first, *count}, parallel: *parallel, limit: *limit}, out: out}
	results, err := c.run(ctx, mutants)
	if err != nil {
		return trouble(ctx, err)
	}
	took := time.Since(began)
	all := table(out, results, took)
	if *to != "" {
		if err := writeReport(*to, c.seeds, results, took); err != nil {
			return trouble(ctx, err)
		}
	}
	if !all {
		return 1
	}
	return 0
}

func trouble(ctx context.Context, err error) int {
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "mutants: interrupted; nothing is left running")
		return 130
	}
	fmt.Fprintln(os.Stderr, "mutants: "+err.Error())
	return 1
}

// ready reads the mutants and makes sure that all of them fit the code, before an hour is spent on some.
func ready(match *regexp.Regexp) (root string, mutants []mutant, err error) {
	if root, err = findRoot(); err != nil {
		return "", nil, err
	}
	mutants, err = readMutants(filepath.Join(root, filepath.FromSlash(mutantsFolder)), match)
	failed := []error{err}
	for i := range mutants {
		_, err := mutants[i].patched(root)
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return "", nil, err
	}
	if len(mutants) == 0 {
		return "", nil, errors.New("there is no such mutant")
	}
	return root, mutants, nil
}

// findRoot is the folder of go.mod, from here upwards.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working folder: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("run it inside of the repository: there is no go.mod from here upwards")
		}
		dir = up
	}
}

func show(out io.Writer, mutants []mutant) {
	for i := range mutants {
		m := &mutants[i]
		fmt.Fprintf(out, "%s\n    %s (%s)\n", m.Name, m.Defect, strings.Join(m.By, ", "))
	}
}
