package main

import (
	"context"
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

func nanos(v int64) time.Duration { return time.Duration(v) }

// loop steps the heart when a step is due, never at or after the deadline. It ends with ctx, or, when the node is
// stopping, once everything is saved.
func (n *node) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !n.halt.Load() {
		wait := n.engine.Due() - n.clock.Boottime()
		if n.engine.Tick() == 0 {
			wait = 0
		}
		timer.Reset(max(wait, 0))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !n.mayAct(ctx) {
			return
		}
		n.step(ctx)
		if n.stopping.Load() && n.engine.Saved() {
			return
		}
	}
}

// mayAct waits while the fence has passed. Fenced is frozen, not dead: the same session may be renewed. False: it is over.
func (n *node) mayAct(ctx context.Context) bool {
	frozen := false
	for n.clock.Boottime() >= n.deadline() {
		if !frozen {
			frozen = true
			n.log.Warn("frozen: the session could not be renewed in time; nothing is simulated, relayed or saved until it is")
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(fencePoll):
		}
	}
	if frozen {
		n.log.Info("thawed: the same session was renewed")
	}
	return ctx.Err() == nil
}

// step makes one step and hands its outcome to the drivers. A step that outlived the deadline is held: it is neither
// thrown away nor released until the same session is renewed.
func (n *node) step(ctx context.Context) {
	now := n.clock.Boottime()
	deadline := n.deadline()
	if now >= deadline {
		return
	}
	in, streams := n.mail.take()
	in.Boot, in.Deadline, in.WallMillis, in.Stopping = now, deadline, time.Now().UnixMilli(), n.stopping.Load()
	out := n.engine.Step(&in)
	n.ticks.step.Observe((n.clock.Boottime() - now).Seconds())
	if !n.mayAct(ctx) {
		return
	}
	n.release(out, streams)
	n.show()
}

// release hands a step's outcome to the drivers, each of which compares the fence with the clock again before it writes.
func (n *node) release(out *zone.Outbox, streams map[string]uint64) {
	for _, b := range out.Reliable {
		if err := n.link.SendReliable(b.Session, b.Bytes); err != nil {
			n.ticks.refused.Inc() // every protocol of the heart repeats what is not answered
		}
	}
	for _, b := range out.Replication {
		n.link.SendReplication(b.Session, streams[b.Session], b.Bytes)
	}
	for _, c := range out.Clients {
		n.gateway.Send(c)
	}
	for _, c := range out.Close {
		n.gateway.CloseConn(c)
	}
	for _, r := range out.Store {
		n.store.Submit(r)
	}
	for _, r := range out.Chunks {
		n.terrain.Request(r)
	}
	for _, note := range out.Notes {
		n.log.Info(note)
	}
}

// show publishes what the heart counts.
func (n *node) show() {
	tick := n.engine.Tick()
	last := n.snapshot.Load()
	if last != nil && tick%snapshotTicks != 0 {
		return
	}
	s := &snapshot{stats: n.engine.Stats(), at: n.clock.Boottime()}
	if last != nil {
		s.regions = last.regions
	}
	if tick%loadTicks == 0 {
		s.regions = n.engine.Regions()
	}
	n.snapshot.Store(s)
}
