package main

import (
	"context"
	"errors"
	"time"

	"github.com/spatialcells/spatialcells/node/fence"
	"github.com/spatialcells/spatialcells/node/zone"
)

// release hands a step's outcome to the drivers, each of which compares the fence with the clock again before it writes. What
// they begin ends with ctx, which is the life of the node.
func (n *node) release(ctx context.Context, out *zone.Outbox, streams map[string]uint64) {
	for _, b := range out.Reliable {
		if err := n.link.SendReliable(b.Session, b.Bytes); err != nil {
			n.ticks.refused.Inc() // if the link is full it begins anew when there is room, and with it every protocol of the heart
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
	for _, r := range out.Raise {
		n.raise(r)
	}
	for _, r := range out.Commits {
		n.handOver(ctx, r)
	}
	for _, r := range out.Chunks {
		n.terrain.Request(r)
	}
	for _, note := range out.Notes {
		n.log.Info("world", "note", note)
	}
}

// raise asks the API server for a higher region epoch, beside the loop; the heart asks again if it does not come.
func (n *node) raise(r zone.RaiseRequest) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), raisePatience)
		defer cancel()
		if _, err := n.regions.RaiseEpoch(ctx, r.Region, r.AtLeast); err != nil {
			n.log.Warn("the epoch of a region could not be raised", "region", n.cfg.grid.RegionAt(r.Region), "error", err)
		}
	}()
}

// handOver hands the Lease of a region over, beside the loop, and tells what came of it once that is known for good. There are as
// many at a time as the heart moves regions.
func (n *node) handOver(ctx context.Context, r zone.CommitRequest) {
	go func() {
		err := n.regions.HandOver(ctx, r.Region, r.Epoch, r.To, r.Stage)
		switch {
		case err == nil || ctx.Err() != nil: // the table tells
		case errors.Is(err, fence.ErrNotHeld):
			n.log.Warn("a region was lost while it was handed over", "region", n.cfg.grid.RegionAt(r.Region), "error", err)
		default:
			n.mail.committed(zone.CommitAnswer{Region: r.Region, Stage: r.Stage, Kept: true, Reason: err.Error()})
		}
	}()
}

// raisePatience bounds one try, and with it the goroutines: a region asks once a second.
const raisePatience = 3 * time.Second

// show publishes what the heart counts.
func (n *node) show(engine *zone.Engine) {
	tick := engine.Tick()
	last := n.snapshot.Load()
	if last != nil && tick%snapshotTicks != 0 {
		return
	}
	s := &snapshot{stats: engine.Stats(), at: n.clock.Boottime()}
	if last != nil {
		s.regions = last.regions
	}
	if last == nil || tick%loadTicks == 0 {
		s.regions = engine.Regions()
	}
	n.snapshot.Store(s)
}
