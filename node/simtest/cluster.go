package simtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/simtest/timeline"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// World is the name of the simulated world.
const World = "sim"

// Options shape a cluster.
type Options struct {
	Columns, Rows, RegionEdgeChunks int
	Nodes                           int
	// Owner says which node holds a region at the start; nil: they are dealt out row by row.
	Owner func(region int) int
	// LinkDelay and StoreDelay are one way. LinkJitter is added to each message by chance, in order within a stream.
	LinkDelay, StoreDelay, LinkJitter time.Duration
	// Seed decides everything that is left to chance.
	Seed uint64
	// Rates are how fast the nodes' boot-time clocks run, 1 where there is none.
	Rates []float64
	// Nasty: leases, operators, watches and the store are simulated with all that can happen to them. Else sessions and
	// tables are granted and delivered at once, and the store answers after StoreDelay.
	Nasty bool
	// Operators is how many believe to lead; Nasty only.
	Operators int
	// Records are in the store before the world begins.
	Records []zone.Record
}

// Cluster is a world of simulated nodes on virtual time.
type Cluster struct {
	timeline.Timeline
	Grid    torus.Grid
	Nodes   []*Node
	Clients []*Client
	// Store is the store of a cluster that is not Nasty.
	Store *store.Memory

	options Options
	rand    *rand.Rand
	net     *network
	control control
	storage storage
	conns   zone.ConnID
	check   *checker
	trace   *Trace
	faults  faults
	ticks   int
}

// storage is the store of the world.
type storage interface {
	client(session string) storeClient
	record(id ecs.EntityID) (zone.Record, bool)
}

// storeClient is the driver of one life of a node.
type storeClient interface {
	Submit(r zone.StoreRequest, answer func(zone.StoreAnswer))
	Kill()
}

// control is what Kubernetes does for the world.
type control interface {
	// start begins a process; it calls Node.begin when the process holds its session.
	start(n *Node) error
	deadline(n *Node) time.Duration
	kill(n *Node)
	pause(n *Node, paused bool)
	raise(n *Node, r zone.RaiseRequest)
	// commit hands a region's Lease over, and tells the node what came of it.
	commit(n *Node, r zone.CommitRequest, done func(zone.CommitAnswer))
	// holder is who holds a region in truth, "" nobody.
	holder(region int) string
}

// New returns a cluster. One that is not Nasty is linked and holds its regions.
func New(o Options) (*Cluster, error) {
	g, err := torus.NewGrid(o.Columns, o.Rows, o.RegionEdgeChunks)
	if err != nil {
		return nil, err
	}
	if o.LinkDelay == 0 {
		o.LinkDelay = 500 * time.Microsecond
	}
	if o.StoreDelay == 0 {
		o.StoreDelay = time.Millisecond
	}
	if o.Owner == nil {
		o.Owner = func(region int) int { return region * o.Nodes / g.Regions() }
	}
	c := &Cluster{Grid: g, options: o, rand: rand.New(rand.NewPCG(o.Seed, 1))}
	c.Advance(time.Second)
	c.net, c.check = newNetwork(c), newChecker(c)
	if err := c.build(); err != nil {
		return nil, err
	}
	for i := range o.Nodes {
		n := newNode(c, i)
		c.Nodes = append(c.Nodes, n)
		if err := c.Start(n); err != nil {
			return nil, err
		}
	}
	if d, ok := c.control.(*direct); ok {
		return c, d.deal()
	}
	return c, nil
}

// build makes what is around the nodes.
func (c *Cluster) build() error {
	if c.options.Nasty {
		return c.buildNasty()
	}
	c.Store = &store.Memory{}
	for _, r := range c.options.Records {
		c.Store.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: r})
	}
	c.storage = &plainStore{c}
	table, err := partition.NewTable(c.Grid, make([]partition.Row, c.Grid.Regions()))
	c.control = &direct{c: c, table: table}
	return err
}

// Start begins a new life of a node.
func (c *Cluster) Start(n *Node) error {
	c.say("%s starts", n.name())
	return c.control.start(n)
}

// Kill ends a node's life without a word: its links break, its clients lose their sockets, its session lives on until it is
// revoked.
func (c *Cluster) Kill(n *Node) {
	if !n.Running() {
		return
	}
	c.say("%s is killed", n.Session())
	n.end()
}

// Revoke declares the session of a killed node dead and gives its regions to another. Not for a Nasty cluster, which has
// operators.
func (c *Cluster) Revoke(session string, heir *Node) {
	c.control.(*direct).revoke(session, heir)
}

// Table is the region table as the API has it, of a cluster that is not Nasty.
func (c *Cluster) Table() *partition.Table { return c.control.(*direct).table }

// Run advances the world by ticks and checks it after each. The error is the first broken invariant, a *Broken.
func (c *Cluster) Run(ticks int) error {
	for range ticks {
		c.ticks++
		c.Advance(c.Now() + zone.TickDuration)
		c.askForChunks()
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Check asserts what must hold at every moment. The error is a *Broken.
func (c *Cluster) Check() error { return c.check.all() }

// Stats sums a counter over all nodes.
func (c *Cluster) Stats(counter func(zone.Stats) uint64) (sum uint64) {
	for _, n := range c.Nodes {
		if n.Engine != nil {
			sum += counter(n.Engine.Stats())
		}
	}
	return sum
}

// Notes are the lines that the nodes wrote, each with its node.
func (c *Cluster) Notes() string {
	var b strings.Builder
	for _, n := range c.Nodes {
		for _, note := range n.Notes {
			fmt.Fprintf(&b, "%s: %s\n", n.name(), note)
		}
	}
	return b.String()
}

// sessionName is how a life of a node is called.
func sessionName(ordinal int, incarnation int32) string {
	return fmt.Sprintf("%s-zone-%d#%d", World, ordinal, incarnation)
}
