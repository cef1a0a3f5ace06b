package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// settings are the flags.
type settings struct {
	root     string // of the repository
	seeds    seeds
	parallel int
	limit    time.Duration // of one run
}

// result is what became of one mutant.
type result struct {
	mutant
	outcome
	Found bool // by one of the checks that it names
	Took  time.Duration
}

// campaign runs mutants and tells how it goes.
type campaign struct {
	settings
	temp string
	out  io.Writer
	mu   sync.Mutex // of out
	done int
}

// run judges the sound cluster, then every mutant. The results are in the order of the mutants. An error means that there
// is nothing to report: the sound cluster fails, or the work was interrupted.
func (c *campaign) run(ctx context.Context, mutants []mutant) ([]result, error) {
	temp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, fmt.Errorf("making a folder to build in: %w", err)
	}
	defer os.RemoveAll(temp)
	c.temp = temp
	if err := c.soundFirst(ctx, mutants); err != nil {
		return nil, err
	}
	results := make([]result, len(mutants))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.parallel)
	for i := range mutants {
		group.Go(func() error {
			began := time.Now()
			o, err := c.mutate(ctx, &mutants[i])
			if err != nil {
				return err
			}
			results[i] = judged(mutants[i], o, time.Since(began))
			c.progress(&results[i], len(mutants))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return results, nil
}

// soundFirst runs the cluster without a defect: what it reports of a mutant means nothing if it reports this one, too.
func (c *campaign) soundFirst(ctx context.Context, mutants []mutant) error {
	kinds := worlds(mutants)
	fmt.Fprintf(c.out, "the cluster without a defect: %d seeds from %d, of %d kinds of worlds\n", c.seeds.count, c.seeds.first, len(kinds))
	binary, err := compile(ctx, c.root, c.temp, "")
	if err != nil {
		return fmt.Errorf("the unmutated cluster: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.parallel)
	for _, kind := range kinds {
		for _, part := range c.seeds.split(c.parallel) {
			group.Go(func() error { return c.sound(ctx, binary, kind, part) })
		}
	}
	return group.Wait()
}

func (c *campaign) sound(ctx context.Context, binary, worlds string, part seeds) error {
	o, err := c.soak(ctx, binary, worlds, part)
	switch {
	case err != nil:
		return err
	case o.Verdict == broke:
		return fmt.Errorf("the unmutated cluster fails at seed %d%s: fix that first (%s: %s)", o.Seed, aroundWhat(worlds), o.What, o.Detail)
	case o.Verdict != passed:
		return fmt.Errorf("the unmutated cluster cannot be judged%s: %s", aroundWhat(worlds), o.Detail)
	}
	return nil
}

// worlds are the kinds of worlds that mutants are looked for in, sorted.
func worlds(mutants []mutant) []string {
	var list []string
	for i := range mutants {
		list = append(list, mutants[i].Worlds)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func aroundWhat(worlds string) string {
	if worlds == "" {
		return ""
	}
	return " around " + worlds
}

// split deals seeds out in parts of equal size, give or take one.
func (s seeds) split(parts int) []seeds {
	var list []seeds
	for i := range parts {
		if n := s.count*(i+1)/parts - s.count*i/parts; n > 0 {
			list = append(list, seeds{s.first + int64(s.count*i/parts), n})
		}
	}
	return list
}

func (c *campaign) soak(ctx context.Context, binary, worlds string, s seeds) (outcome, error) {
	return soak(ctx, binary, filepath.Join(c.root, "node", "simtest"), worlds, s, c.limit)
}

// mutate builds a mutant and runs it.
func (c *campaign) mutate(ctx context.Context, m *mutant) (outcome, error) {
	dir := filepath.Join(c.temp, m.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return outcome{}, fmt.Errorf("making a folder to build in: %w", err)
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(c.root, dir)
	if err != nil {
		return outcome{Verdict: failed, Detail: err.Error()}, nil
	}
	binary, err := compile(ctx, c.root, dir, overlay)
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	if err != nil {
		return outcome{Verdict: failed, Detail: err.Error()}, nil
	}
	return c.soak(ctx, binary, m.Worlds, c.seeds)
}

// judged says whether the right check found a mutant.
func judged(m mutant, o outcome, took time.Duration) result {
	return result{mutant: m, outcome: o, Found: o.Verdict == broke && slices.Contains(m.By, o.What), Took: took}
}

func (c *campaign) progress(r *result, of int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	fmt.Fprintf(c.out, "%*d/%d  %s: %s\n", len(fmt.Sprint(of)), c.done, of, r.Name, r.story())
}
