package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	shortFence = "hack/e2e/testdata/short-fence.yaml"
	drillBots  = "40"
)

// failover ends nodes in every way and shows how long their regions stood still.
func failover(ctx context.Context, b *bench) error {
	return b.drill(ctx, "failover", 16*time.Minute)
}

// drill runs a drill of the demo, and shows what it found, whatever that is.
func (b *bench) drill(ctx context.Context, name string, patience time.Duration) error {
	p, err := b.good(ctx, name, patience, "-"+name, "-bots", drillBots, "-world", shortFence)
	if p != nil {
		_, summary, _ := strings.Cut(p.output(), "\nsummary")
		found, _, _ := strings.Cut(summary, "at rest ")
		fmt.Println("summary" + found)
	}
	return err
}
