package simtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/simtest/leases"
	"github.com/spatialcells/spatialcells/node/simtest/vault"
	"github.com/spatialcells/spatialcells/node/zone"
)

// kube is the control of a Nasty cluster: leases, watches and operators.
type kube struct {
	c         *Cluster
	api       *leases.API
	processes []*leases.Process
}

// restartDelay is after how long the container of a process that ended by itself is started again.
const restartDelay = time.Second

func (c *Cluster) buildNasty() error {
	o := c.options
	v := vault.New(vault.Options{Timeline: &c.Timeline, Rand: rand.New(rand.NewPCG(o.Seed, 2)), Delay: o.StoreDelay})
	for _, r := range o.Records {
		v.Put(r)
	}
	c.storage = &vaultStore{v}
	c.control = &kube{c: c, processes: make([]*leases.Process, o.Nodes), api: leases.New(leases.Options{
		Timeline: &c.Timeline, Rand: rand.New(rand.NewPCG(o.Seed, 3)), World: World, Grid: c.Grid, Nodes: o.Nodes, Owner: o.Owner,
		Operators: max(o.Operators, 1),
	})}
	return nil
}

func (k *kube) start(n *Node) error {
	var p *leases.Process
	current := func() bool { return k.processes[n.Ordinal] == p }
	p = k.api.Start(n.Ordinal, fmt.Sprintf("pod-%d-%d", n.Ordinal, n.pods), &n.clock, leases.Events{
		Acquired: func(_ string, incarnation int32) {
			if err := n.begin(incarnation); err != nil {
				panic("simtest: " + err.Error())
			}
		},
		Lost: func() {
			k.c.say("%s has lost its session", n.Session())
			n.end()
			k.c.After(restartDelay, func() {
				if current() {
					_ = k.start(n)
				}
			})
		},
		Table: func(t *partition.Table) { n.inbox.Table, n.table = t, t; n.hurry() },
		Dead:  func(session string) { k.c.net.over(n, session) },
		Live: func(session string) {
			n.live[session] = true
			for _, other := range k.c.Nodes {
				if other.Engine != nil && other.Session() == session {
					k.c.net.knows(n, other)
				}
			}
		},
	})
	k.processes[n.Ordinal] = p
	return nil
}

func (k *kube) deadline(n *Node) time.Duration { return k.processes[n.Ordinal].Deadline() }

func (k *kube) kill(n *Node) { k.processes[n.Ordinal].Kill() }

func (k *kube) pause(n *Node, paused bool) {
	if paused {
		k.processes[n.Ordinal].Pause()
	} else {
		k.processes[n.Ordinal].Resume()
	}
}

func (k *kube) raise(n *Node, r zone.RaiseRequest) { k.processes[n.Ordinal].Raise(r.Region, r.AtLeast) }

func (k *kube) commit(n *Node, r zone.CommitRequest, done func(zone.CommitAnswer)) {
	k.processes[n.Ordinal].Commit(r.Region, r.Epoch, r.To, r.Stage, func(kept bool, reason string) {
		done(zone.CommitAnswer{Region: r.Region, Stage: r.Stage, Kept: kept, Reason: reason})
	})
}

func (k *kube) holder(region int) string {
	session, _ := k.api.Holder(region)
	return session
}

// vaultStore is the store of a Nasty cluster.
type vaultStore struct{ *vault.Vault }

func (s *vaultStore) client(session string) storeClient { return s.Client(session) }

func (s *vaultStore) record(id ecs.EntityID) (zone.Record, bool) { return s.Record(id) }
