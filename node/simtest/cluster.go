package simtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/route"
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
	// LinkDelay and StoreDelay are one way, in microseconds of virtual time.
	LinkDelay, StoreDelay time.Duration
}

// Cluster is a world of simulated nodes.
type Cluster struct {
	Grid    torus.Grid
	Now     time.Duration
	Nodes   []*Node
	Clients []*Client
	Store   *store.Memory

	options  Options
	table    *partition.Table
	mail     []letter // by due time, then by sequence
	sequence uint64
	conns    zone.ConnID
	cut      map[pair]bool
	stream   map[pair]int // counts the lives of a link: replication of an earlier one is lost
}

// Node is one simulated node. Its incarnations are numbered; Engine is nil while it is down.
type Node struct {
	Ordinal     int
	Incarnation int32
	Engine      *zone.Engine
	// Paused makes no steps and reads no clock, while the world goes on. Deadline is its fence.
	Paused   bool
	Deadline time.Duration
	// Fenced stops its renewals: the deadline stays.
	Fenced bool
	Notes  []string

	inbox zone.Inbox
	phase time.Duration
}

// Session names the present incarnation.
func (n *Node) Session() string { return fmt.Sprintf("%s#%d", n.name(), n.Incarnation) }

func (n *Node) name() string { return fmt.Sprintf("%s-zone-%d", World, n.Ordinal) }

// Client is a player: a model behind a connection.
type Client struct {
	client.Model
	Account uint64
	Node    *Node
	Conn    zone.ConnID
	Open    bool
	Closed  *zone.ClientClose
	number  uint64

	welcomed *wire.Welcome // that number belongs to
	before   *wire.Welcome // of the connection before
}

// letter is something on its way to a node, of the session it was sent to.
type letter struct {
	due      time.Duration
	sequence uint64
	from, to string // sessions; from is "" for what comes from no peer
	deliver  func(*zone.Inbox)
}

// pair names a link; a is the smaller session.
type pair struct{ a, b string }

func pairOf(a, b string) pair { return pair{min(a, b), max(a, b)} }

// New returns a cluster whose nodes are linked and hold their regions.
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
	c := &Cluster{Grid: g, Store: &store.Memory{}, options: o, Now: time.Second, cut: map[pair]bool{}, stream: map[pair]int{}}
	for i := range o.Nodes {
		n := &Node{Ordinal: i, phase: time.Duration(i) * zone.TickDuration / time.Duration(o.Nodes)}
		c.Nodes = append(c.Nodes, n)
		if err := c.Start(n); err != nil {
			return nil, err
		}
	}
	rows := make([]partition.Row, g.Regions())
	for i := range rows {
		owner := i * o.Nodes / g.Regions()
		if o.Owner != nil {
			owner = o.Owner(i)
		}
		rows[i] = partition.Row{Owner: partition.Owner{Session: c.Nodes[owner].Session(), Node: c.Nodes[owner].name(), Epoch: 1}}
	}
	if c.table, err = partition.NewTable(g, rows); err != nil {
		return nil, err
	}
	for _, n := range c.Nodes {
		n.inbox.Table = c.table
	}
	return c, nil
}

// Start begins a new life of a node and links it with all others that are up.
func (c *Cluster) Start(n *Node) error {
	n.Incarnation++
	engine, err := zone.New(zone.Config{Grid: c.Grid, Session: n.Session(), Node: n.name(), Ordinal: n.Ordinal, Incarnation: n.Incarnation})
	if err != nil {
		return err
	}
	n.Engine, n.inbox, n.Paused, n.Fenced = engine, zone.Inbox{Table: c.table}, false, false
	for _, other := range c.Nodes {
		if other != n && other.Engine != nil {
			other.inbox.Peers = append(other.inbox.Peers, zone.PeerEvent{Session: n.Session(), Kind: zone.PeerUp})
			n.inbox.Peers = append(n.inbox.Peers, zone.PeerEvent{Session: other.Session(), Kind: zone.PeerUp})
		}
	}
	return nil
}

// Kill ends a node's life without a word: its links break, its clients lose their sockets, its session lives on until
// Revoke.
func (c *Cluster) Kill(n *Node) {
	n.Engine = nil
	for _, other := range c.Nodes {
		if other != n && other.Engine != nil {
			other.inbox.Peers = append(other.inbox.Peers, zone.PeerEvent{Session: n.Session(), Kind: zone.PeerDown})
		}
	}
	for _, cl := range c.Clients {
		if cl.Node == n {
			cl.Open = false
		}
	}
}

// Cut breaks the link of two nodes: replication under way is lost, reliable messages wait for Mend.
func (c *Cluster) Cut(a, b *Node) {
	p := pairOf(a.Session(), b.Session())
	if c.cut[p] || a.Engine == nil || b.Engine == nil {
		return
	}
	c.cut[p] = true
	c.stream[p]++
	a.inbox.Peers = append(a.inbox.Peers, zone.PeerEvent{Session: b.Session(), Kind: zone.PeerDown})
	b.inbox.Peers = append(b.inbox.Peers, zone.PeerEvent{Session: a.Session(), Kind: zone.PeerDown})
	for _, n := range []*Node{a, b} {
		n.inbox.Replication = slices.DeleteFunc(n.inbox.Replication, func(x zone.PeerBytes) bool {
			return pairOf(x.Session, n.Session()) == p
		})
	}
}

// Mend makes a new connection of two nodes whose link was cut.
func (c *Cluster) Mend(a, b *Node) {
	p := pairOf(a.Session(), b.Session())
	if !c.cut[p] || a.Engine == nil || b.Engine == nil {
		return
	}
	delete(c.cut, p)
	a.inbox.Peers = append(a.inbox.Peers, zone.PeerEvent{Session: b.Session(), Kind: zone.PeerUp})
	b.inbox.Peers = append(b.inbox.Peers, zone.PeerEvent{Session: a.Session(), Kind: zone.PeerUp})
}

// Revoke declares the session of a killed node dead and gives its regions to others.
func (c *Cluster) Revoke(session string, heir *Node) {
	for _, other := range c.Nodes {
		if other.Engine != nil && other.Session() != session {
			other.inbox.Peers = append(other.inbox.Peers, zone.PeerEvent{Session: session, Kind: zone.PeerDead})
		}
	}
	var changes []partition.Change
	for _, i := range c.table.AppendRegionsOf(nil, session) {
		row := c.table.Row(i)
		row.Owner = partition.Owner{Session: heir.Session(), Node: heir.name(), Epoch: row.Epoch + 1}
		changes = append(changes, partition.Change{Region: i, Row: row})
	}
	c.table = c.table.With(changes...)
	for _, other := range c.Nodes {
		other.inbox.Table = c.table
	}
}

// Table is the region table as the API has it.
func (c *Cluster) Table() *partition.Table { return c.table }

// Login connects a new client to a node. spawn may be nil.
func (c *Cluster) Login(n *Node, account uint64, spawn *torus.Pos) *Client {
	cl := &Client{Account: account}
	c.Clients = append(c.Clients, cl)
	c.connect(cl, n, zone.ClientConnected{Account: account, Name: fmt.Sprintf("bot %d", account), Spawn: spawn})
	return cl
}

// Resume connects a client whose socket is lost to a node, with its resume token.
func (c *Cluster) Resume(cl *Client, n *Node) {
	cl.NextConnection()
	info := zone.ClientConnected{Account: cl.Account, Name: fmt.Sprintf("bot %d", cl.Account), Resume: cl.Welcome.ResumeToken, AckedInput: cl.Acked()}
	for pos, rev := range cl.Chunks {
		info.Held = append(info.Held, &wire.HeldChunk{X: uint32(pos.X), Y: uint32(pos.Y), Revision: rev})
	}
	c.connect(cl, n, info)
}

func (c *Cluster) connect(cl *Client, n *Node, info zone.ClientConnected) {
	c.conns++
	info.FreshSecret = fmt.Sprintf("secret-%d", c.conns)
	cl.Node, cl.Conn, cl.Open, cl.Closed, cl.before = n, c.conns, true, nil, cl.Welcome
	n.inbox.Clients = append(n.inbox.Clients, zone.ClientEvent{Conn: cl.Conn, Connected: &info})
}

// Close loses a client's socket.
func (c *Cluster) Close(cl *Client) {
	cl.Open = false
	cl.Node.inbox.Clients = append(cl.Node.inbox.Clients, zone.ClientEvent{Conn: cl.Conn, Closed: true})
}

// Send sends an input of a client and returns its number; 0 if as many are unanswered as may be.
func (c *Cluster) Send(cl *Client, in *wire.Input) uint64 {
	if cl.Welcome == cl.before {
		return 0 // not welcomed on this connection yet
	}
	if cl.Unanswered() >= route.Window {
		return 0
	}
	cl.number++
	in.Number = cl.number
	c.message(cl, &wire.ClientEnvelope{Message: &wire.ClientEnvelope_Input{Input: in}})
	return in.Number
}

// Unanswered is the number of inputs sent on this login that have no result yet. What a lost connection took with it does
// not count: Welcome says from where to go on.
func (cl *Client) Unanswered() uint64 {
	if cl.Welcome != cl.welcomed {
		cl.welcomed, cl.number = cl.Welcome, cl.Welcome.NextInput-1
	}
	return cl.number - min(cl.Acked(), cl.number)
}

// Walk sends a client's entity along points.
func (c *Cluster) Walk(cl *Client, points ...torus.Pos) {
	m := &wire.Move{}
	for _, p := range points {
		m.Waypoints = append(m.Waypoints, uint32(p.X), uint32(p.Y))
	}
	c.Send(cl, &wire.Input{Action: &wire.Input_Move{Move: m}})
}

// WalkTo sends a client's entity straight to a place, in legs short enough for one path.
func (c *Cluster) WalkTo(cl *Client, to torus.Pos) {
	at := cl.At(cl.Own(), cl.Tick)
	var points []torus.Pos
	for at.X != to.X || at.Y != to.Y {
		dx, dy := c.Grid.Delta(at, to)
		at = c.Grid.Add(at, min(max(dx, -50), 50), min(max(dy, -50), 50))
		points = append(points, at)
	}
	if len(points) > 0 {
		c.Walk(cl, points...)
	}
}

// Say makes a client's entity say something.
func (c *Cluster) Say(cl *Client, text string) {
	c.Send(cl, &wire.Input{Action: &wire.Input_Say{Say: &wire.Say{Text: text}}})
}

func (c *Cluster) message(cl *Client, env *wire.ClientEnvelope) {
	if cl.Open && cl.Node.Engine != nil {
		cl.Node.inbox.Clients = append(cl.Node.inbox.Clients, zone.ClientEvent{Conn: cl.Conn, Message: env})
	}
}

// Run advances the world by ticks and checks it after each. The error is the first broken invariant.
func (c *Cluster) Run(ticks int) error {
	for range ticks {
		start := c.Now
		for _, n := range c.Nodes {
			c.Now = start + n.phase
			c.step(n)
		}
		c.Now = start + zone.TickDuration
		c.askForChunks()
		if err := c.Check(); err != nil {
			return fmt.Errorf("at %v: %w", c.Now, err)
		}
	}
	return nil
}

func (c *Cluster) step(n *Node) {
	if n.Engine == nil || n.Paused {
		return
	}
	if !n.Fenced {
		n.Deadline = c.Now + 10*time.Second
	}
	c.deliver(n)
	in := n.inbox
	in.Boot, in.Deadline, in.WallMillis = c.Now, n.Deadline, ecs.IDEpochMillis+c.Now.Milliseconds()
	out := n.Engine.Step(&in)
	if out == nil {
		return
	}
	n.inbox = zone.Inbox{}
	n.Notes = append(n.Notes, out.Notes...)
	c.collect(n, out)
}

// deliver moves what is due into a node's inbox.
func (c *Cluster) deliver(n *Node) {
	kept := c.mail[:0]
	for _, l := range c.mail {
		if l.to == n.Session() && l.due <= c.Now && (l.from == "" || !c.cut[pairOf(l.from, l.to)]) {
			l.deliver(&n.inbox)
			continue
		}
		kept = append(kept, l)
	}
	c.mail = kept
}

// post sends a letter. Letters of one kind from one sender are given the same delay, so they stay in order.
func (c *Cluster) post(from, to string, delay time.Duration, deliver func(*zone.Inbox)) {
	c.sequence++
	l := letter{c.Now + delay, c.sequence, from, to, deliver}
	i, _ := slices.BinarySearchFunc(c.mail, l, func(a, b letter) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.sequence, b.sequence))
	})
	c.mail = slices.Insert(c.mail, i, l)
}

// collect carries out what a step asked for.
func (c *Cluster) collect(n *Node, out *zone.Outbox) {
	from, now := n.Session(), c.Now
	for _, b := range out.Replication {
		p := pairOf(from, b.Session)
		stream := c.stream[p]
		if c.cut[p] {
			continue
		}
		c.post(from, b.Session, c.options.LinkDelay, func(in *zone.Inbox) {
			if c.stream[p] != stream {
				return
			}
			in.Replication = append(in.Replication, zone.PeerBytes{Session: from, Bytes: b.Bytes, At: now + c.options.LinkDelay})
		})
	}
	for _, b := range out.Reliable {
		c.post(from, b.Session, c.options.LinkDelay, func(in *zone.Inbox) {
			in.Reliable = append(in.Reliable, zone.PeerBytes{Session: from, Bytes: b.Bytes, At: now + c.options.LinkDelay})
		})
	}
	for _, r := range out.Store {
		answer := c.Store.Do(r)
		c.post("", from, c.options.StoreDelay, func(in *zone.Inbox) { in.Store = append(in.Store, answer) })
	}
	for _, r := range out.Raise {
		row := c.table.Row(r.Region)
		if row.Session == from && row.Epoch < r.AtLeast {
			row.Epoch = r.AtLeast
			c.table = c.table.With(partition.Change{Region: r.Region, Row: row})
			for _, other := range c.Nodes {
				other.inbox.Table = c.table
			}
		}
	}
	for _, r := range out.Chunks {
		c.post("", from, 0, func(in *zone.Inbox) {
			in.Chunks = append(in.Chunks, zone.ChunkAnswer{Chunk: r.Chunk, Encoding: wire.ChunkData_ENCODING_RLE, Payload: []byte{1}})
		})
	}
	for _, b := range out.Clients {
		if cl := c.client(n, b.Conn); cl != nil {
			if err := cl.Receive(b.Bytes); err != nil {
				panic("simtest: a server message cannot be read: " + err.Error())
			}
		}
	}
	for _, b := range out.Close {
		if cl := c.client(n, b.Conn); cl != nil {
			cl.Open, cl.Closed = false, &b
		}
	}
}

func (c *Cluster) client(n *Node, conn zone.ConnID) *Client {
	for _, cl := range c.Clients {
		if cl.Open && cl.Node == n && cl.Conn == conn {
			return cl
		}
	}
	return nil
}

// askForChunks lets every client ask for what it was announced.
func (c *Cluster) askForChunks() {
	for _, cl := range c.Clients {
		wanted := cl.TakeWanted()
		if len(wanted) == 0 || !cl.Open {
			continue
		}
		req := &wire.ChunkRequest{}
		for _, pos := range wanted {
			req.Chunks = append(req.Chunks, uint32(pos.X), uint32(pos.Y))
		}
		c.message(cl, &wire.ClientEnvelope{Message: &wire.ClientEnvelope_ChunkRequest{ChunkRequest: req}})
	}
}

// Check asserts what must hold at every moment: one writer per entity, no violation at any client.
func (c *Cluster) Check() error {
	writers := map[ecs.EntityID]string{}
	for _, n := range c.Nodes {
		if n.Engine == nil || n.Paused || n.Deadline <= c.Now {
			continue
		}
		for _, e := range n.Engine.Entities() {
			if !e.Acting {
				continue
			}
			if other, taken := writers[e.ID]; taken {
				return fmt.Errorf("invariant 1: %s and %s both act for entity %v", other, n.Session(), e.ID)
			}
			writers[e.ID] = n.Session()
		}
	}
	for _, cl := range c.Clients {
		if cl.ViolationCount > 0 {
			v := cl.Violations[0]
			return fmt.Errorf("client %d at tick %d saw a %s of entity %v: %s", cl.Account, v.Tick, v.Kind, v.Entity, v.Detail)
		}
	}
	return nil
}

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
