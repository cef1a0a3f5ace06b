package simtest

import (
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/zone"
)

// direct is a control without Kubernetes: sessions are granted at once, tables reach everybody at once, and the test itself
// revokes.
type direct struct {
	c     *Cluster
	table *partition.Table
}

// renewed is how long a node that is not fenced may act after each step.
const renewed = 10 * time.Second

func (d *direct) start(n *Node) error {
	if err := n.begin(n.Incarnation + 1); err != nil {
		return err
	}
	n.Deadline = n.clock.Boottime() + renewed
	n.inbox.Table, n.table = d.table, d.table
	for _, other := range d.c.Nodes {
		if other != n && other.Engine != nil {
			d.c.net.knows(other, n)
			d.c.net.knows(n, other)
		}
	}
	return nil
}

// deal gives every region its first owner.
func (d *direct) deal() error {
	var changes []partition.Change
	for i := range d.c.Grid.Regions() {
		n := d.c.Nodes[d.c.options.Owner(i)]
		changes = append(changes, partition.Change{Region: i, Row: partition.Row{Owner: partition.Owner{Session: n.Session(), Node: n.name(), Epoch: 1}}})
	}
	d.publish(changes)
	return nil
}

func (d *direct) publish(changes []partition.Change) {
	d.table = d.table.With(changes...)
	for _, n := range d.c.Nodes {
		if n.Engine != nil {
			n.inbox.Table, n.table = d.table, d.table
			n.hurry()
		}
	}
}

func (d *direct) deadline(n *Node) time.Duration {
	if !n.Fenced && !n.paused {
		n.Deadline = n.clock.Boottime() + renewed
	}
	return n.Deadline
}

func (d *direct) kill(*Node) {}

func (d *direct) pause(*Node, bool) {}

func (d *direct) raise(n *Node, r zone.RaiseRequest) {
	row := d.table.Row(r.Region)
	if row.Session == n.Session() && row.Epoch < r.AtLeast {
		row.Epoch = r.AtLeast
		d.publish([]partition.Change{{Region: r.Region, Row: row}})
	}
}

func (d *direct) commit(n *Node, r zone.CommitRequest, done func(zone.CommitAnswer)) {
	row := d.table.Row(r.Region)
	a := zone.CommitAnswer{Region: r.Region, Stage: r.Stage}
	if row.Session == n.Session() && row.Epoch == r.Epoch {
		row.Owner, row.Stage = partition.Owner{Session: r.To, Node: row.Target, Epoch: row.Epoch + 1}, r.Stage
		d.publish([]partition.Change{{Region: r.Region, Row: row}})
	}
	done(a)
}

func (d *direct) holder(region int) string { return d.table.At(region).Session }

func (d *direct) revoke(session string, heir *Node) {
	d.c.say("%s is revoked; %s inherits", session, heir.Session())
	for _, other := range d.c.Nodes {
		if other.Engine != nil && other.Session() != session {
			d.c.net.over(other, session)
		}
	}
	var changes []partition.Change
	for _, i := range d.table.AppendRegionsOf(nil, session) {
		row := d.table.Row(i)
		row.Owner, row.Stage = partition.Owner{Session: heir.Session(), Node: heir.name(), Epoch: row.Epoch + 1}, ""
		changes = append(changes, partition.Change{Region: i, Row: row})
	}
	d.publish(changes)
}

// plainStore answers after StoreDelay and fails never.
type plainStore struct{ c *Cluster }

func (p *plainStore) client(string) storeClient { return &plainClient{p.c, new(bool)} }

func (p *plainStore) record(id ecs.EntityID) (zone.Record, bool) {
	a := p.c.Store.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: id})
	if a.Record == nil {
		return zone.Record{}, false
	}
	return *a.Record, true
}

type plainClient struct {
	c    *Cluster
	dead *bool
}

func (p *plainClient) Submit(r zone.StoreRequest, answer func(zone.StoreAnswer)) {
	a := p.c.Store.Do(r)
	p.c.After(p.c.options.StoreDelay, func() {
		if !*p.dead {
			answer(a)
		}
	})
}

func (p *plainClient) Kill() { *p.dead = true }
