package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

const (
	// fencePoll is how often a frozen node looks whether it may go on.
	fencePoll = 2 * time.Millisecond
	// snapshotTicks is how often the loop shows what it counts: twice a second.
	snapshotTicks = zone.TicksPerSecond / 2
	// loadTicks is how often it shows the regions' load.
	loadTicks = 2 * zone.TicksPerSecond
)

// loop steps the heart. It is the only place where the heart meets the clock.
type loop struct {
	log      *slog.Logger
	engine   *zone.Engine
	boottime func() time.Duration
	deadline func() time.Duration
	renewal  func() time.Duration
	take     func() (zone.Inbox, map[string]uint64)
	// urgent tells that there is something for which a region may stand still; hurry takes that, and nothing else.
	urgent  <-chan struct{}
	hurry   func() (zone.Inbox, map[string]uint64)
	release func(*zone.Outbox, map[string]uint64)
	observe func(step time.Duration)
	show    func(*zone.Engine)

	// stopping: the loop ends by itself once everything is saved. halt: it ends at once.
	stopping, halt atomic.Bool
}

// run steps the heart when a step is due, never at or after the deadline, until ctx ends, or until it may stop.
func (l *loop) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !l.halt.Load() {
		wait := l.engine.Due() - l.boottime()
		if l.engine.Tick() == 0 {
			wait = 0
		}
		timer.Reset(max(wait, 0))
		select {
		case <-ctx.Done():
			return
		case <-l.urgent:
			if !l.between(ctx) {
				return
			}
			continue
		case <-timer.C:
		}
		if !l.mayAct(ctx) {
			return
		}
		l.step(ctx)
		if l.stopping.Load() && l.engine.Saved() {
			return
		}
	}
}

// mayAct waits while the fence has passed. Fenced is frozen, not dead: the same session may be renewed. False: it is over, or the
// stop waits no longer.
func (l *loop) mayAct(ctx context.Context) bool {
	frozen := false
	for l.boottime() >= l.deadline() {
		if l.halt.Load() {
			return false
		}
		if !frozen {
			frozen = true
			l.log.Warn("frozen: the session could not be renewed in time; nothing is simulated, relayed or saved until it is")
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(fencePoll):
		}
	}
	if frozen {
		l.log.Info("thawed: the same session was renewed")
	}
	return ctx.Err() == nil
}

// step makes one step and hands its outcome to the drivers. A step that outlived the deadline is held: it is neither
// thrown away nor released until the same session is renewed.
func (l *loop) step(ctx context.Context) {
	now, deadline := l.boottime(), l.deadline()
	if now >= deadline {
		return
	}
	in, streams := l.take()
	in.Boot, in.Deadline, in.WallMillis, in.Stopping, in.Renewal = now, deadline, time.Now().UnixMilli(), l.stopping.Load(), l.renewal()
	out := l.engine.Step(&in)
	l.observe(l.boottime() - now)
	if l.letGo(ctx, out, streams) {
		l.show(l.engine)
	}
}

// letGo hands an outcome to the drivers as soon as it may go; false: it never may.
func (l *loop) letGo(ctx context.Context, out *zone.Outbox, streams map[string]uint64) bool {
	for !out.MayGo(l.boottime(), l.deadline()) {
		if !l.mayAct(ctx) {
			return false
		}
	}
	l.release(out, streams)
	return true
}

// between takes in what a region stands still for, if one does; false: it is over.
func (l *loop) between(ctx context.Context) bool {
	now, deadline := l.boottime(), l.deadline()
	if now >= deadline || l.engine.Tick() == 0 || !l.engine.Moving() {
		return true // the next step does
	}
	in, streams := l.hurry()
	in.Boot, in.Deadline = now, deadline
	return l.letGo(ctx, l.engine.Between(&in), streams)
}
