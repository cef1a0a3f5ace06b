package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

const (
	// crowdSize is how many entities stand in one region.
	crowdSize = 2000
	// crowdPatience bounds each step of it.
	crowdPatience = 30 * time.Second
	// longestRecovery is how long the recovery of the crowd may take, longestCut how long the region may stand still when it moves.
	longestRecovery, longestCut = 500 * time.Millisecond, 100 * time.Millisecond
	// firstOfCrowd is the first id and account of the crowd, which no bot has.
	firstOfCrowd = 1 << 40
)

// crowd fills a region of node 0 with entities, by way of the store: its node is killed, and finds them when it recovers the region.
// Then the region moves to the next node. Both have to be quick.
func (d *demo) crowd(ctx context.Context, f fault) error {
	was, err := d.regions(ctx)
	if err != nil {
		return err
	}
	index := slices.IndexFunc(was, func(r region) bool { return r.node == d.known()[0].name })
	if index < 0 {
		return errors.New("node 0 has no region")
	}
	place := d.grid.RegionAt(index)
	d.say(fmt.Sprintf("fault %v: %d entities in region %v; expected: recovered within %v, moved with a cut of at most %v", f, crowdSize, place, longestRecovery, longestCut))
	if err := d.stockCrowd(ctx, place); err != nil {
		return err
	}
	d.swarm.Excuse(time.Now().Add(2 * crowdPatience))
	d.watch.ask(ctx, d.known())
	before := d.watch.sum()
	if err := d.strike(ctx, fault{kind: faultKill, node: 0}); err != nil {
		return err
	}
	if err := d.awaitCrowd(ctx, 0); err != nil {
		return err
	}
	want := make([]int, len(was))
	for i, r := range was {
		_, want[i], _ = v1alpha1.ParseNodeName(r.node)
	}
	want[index] = 1
	if err := d.assign(ctx, want); err != nil {
		return err
	}
	if err := d.awaitCrowd(ctx, 1); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil { // what nodes count is shown twice a second
		return err
	}
	d.watch.ask(ctx, d.known())
	gain := gains(before, d.watch.sum())
	recovery, cut := gain.quantile(metricRecovery, 1), gain.quantile(metricCut, 1)
	d.say(fmt.Sprintf("fault %v: recovered within %s, the cut took %s", f, quick(recovery), quick(cut)))
	if recovery > longestRecovery.Seconds() || cut > longestCut.Seconds() || gain.counts[metricCut] == 0 {
		return fmt.Errorf("the recovery of %d entities took %s and their cut %s; want at most %v and %v", crowdSize, quick(recovery), quick(cut), longestRecovery, longestCut)
	}
	return nil
}

// stockCrowd writes the crowd's records: bestias that stand all over the region.
func (d *demo) stockCrowd(ctx context.Context, place torus.RegionPos) error {
	c, err := d.site.storeConfig(ctx)
	if err != nil {
		return err
	}
	credentials, err := c.Credentials()
	if err != nil {
		return err
	}
	password := filepath.Join(d.dir, "store-password")
	if err := os.WriteFile(password, []byte(credentials.Password), 0o600); err != nil {
		return fmt.Errorf("writing the store's password down: %w", err)
	}
	defer func() { _ = os.Remove(password) }()
	answers := make(chan zone.StoreAnswer, crowdSize)
	driver, err := store.Open(ctx, c.URL, password, func(a zone.StoreAnswer) { answers <- a }, store.Options{})
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	defer func() { _ = driver.Close() }()
	edge := int64(d.grid.RegionEdgeChunks()) * torus.ChunkEdge
	corner := torus.Pos{X: int64(place.Column) * edge, Y: int64(place.Row) * edge}
	for i := range int64(crowdSize) {
		at := d.grid.Add(corner, edge/4+(i%50)*edge/100, edge/4+(i/50)*edge/100)
		r, err := zone.BestiaRecord(d.grid, ecs.EntityID(firstOfCrowd+i), firstOfCrowd, firstOfCrowd, "crowd", at)
		if err != nil {
			return err
		}
		driver.Submit(zone.StoreRequest{ID: uint64(i + 1), Op: zone.StoreCreate, Record: r})
	}
	for range crowdSize {
		select {
		case a := <-answers:
			if a.Code != zone.StoreOK {
				return fmt.Errorf("the store took no record of the crowd: answer %d", a.Code)
			}
		case <-time.After(crowdPatience):
			return errors.New("the store does not take the crowd")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// awaitCrowd waits until a node has the crowd.
func (d *demo) awaitCrowd(ctx context.Context, node int) error {
	for began := time.Now(); time.Since(began) < crowdPatience; {
		if err := pause(ctx, pollPeriod); err != nil {
			return err
		}
		nodes, err := d.site.nodes(ctx, len(d.known()))
		if err != nil {
			continue
		}
		d.remember(nodes)
		d.watch.ask(ctx, nodes)
		if d.watch.gauge(nodes[node].name, metricEntities) >= crowdSize {
			return nil
		}
	}
	return fmt.Errorf("node %d does not have the crowd within %v", node, crowdPatience)
}
