package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// crowd recovers and moves a region with two thousand entities.
func crowd(ctx context.Context, b *bench) error {
	p, err := b.good(ctx, "crowd", 5*time.Minute, "-duration", "90s", "-bots", "40", "-handoffs", "10", "-fault", "crowd@20s")
	if err != nil {
		return err
	}
	if !strings.Contains(p.output(), "crowd@20s: as expected") {
		return fmt.Errorf("the crowd did not get where it should be in time\n%s", tail(p.output(), 25))
	}
	return nil
}

// moves are the runs of the scenario of that name: a quarter of all regions changes its owner under 200 bots, each time with other
// trouble in the middle of it.
func moves(ctx context.Context, b *bench) error {
	for _, amid := range []string{"", ":node", ":operator", ":api"} {
		fault := "move" + amid + "@25s"
		p, err := b.good(ctx, "moves"+strings.ReplaceAll(amid, ":", "-"), 6*time.Minute, "-duration", "100s", "-bots", "200", "-fault", fault)
		if err != nil {
			return err
		}
		if !strings.Contains(p.output(), fault+": as expected") {
			return fmt.Errorf("the moves did not go as expected\n%s", tail(p.output(), 25))
		}
	}
	return nil
}

// window declares moves that must wait for a window which opens in three minutes and is too short for all of them.
func window(ctx context.Context, b *bench) error {
	p, err := b.good(ctx, "window", 8*time.Minute, "-duration", "290s", "-bots", "40", "-handoffs", "10", "-fault", "window@20s")
	if err != nil {
		return err
	}
	if !strings.Contains(p.output(), "window@20s: as expected") {
		return fmt.Errorf("the window did not go as expected\n%s", tail(p.output(), 25))
	}
	return nil
}
