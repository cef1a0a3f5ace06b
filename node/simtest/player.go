package simtest

import (
	"fmt"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

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
	numbered *wire.Welcome // that login was taken from
	login    uint64
	gaze     gaze
}

// Login connects a new client to a node. spawn may be nil.
func (c *Cluster) Login(n *Node, account uint64, spawn *torus.Pos) *Client {
	cl := &Client{Account: account}
	c.Clients = append(c.Clients, cl)
	c.login(cl, n, spawn)
	return cl
}

// login connects a client anew.
func (c *Cluster) login(cl *Client, n *Node, spawn *torus.Pos) {
	c.connect(cl, n, zone.ClientConnected{Account: cl.Account, Name: fmt.Sprintf("bot %d", cl.Account), Spawn: spawn})
}

// Resume connects a client whose socket is lost to a node, with its resume token.
func (c *Cluster) Resume(cl *Client, n *Node) {
	cl.NextConnection()
	info := zone.ClientConnected{Account: cl.Account, Name: fmt.Sprintf("bot %d", cl.Account), Resume: cl.Welcome.ResumeToken, AckedInput: cl.Acked(), SentInput: cl.number}
	for _, pos := range sortedChunks(&cl.Model) {
		info.Held = append(info.Held, &wire.HeldChunk{X: uint32(pos.X), Y: uint32(pos.Y), Revision: cl.Chunks[pos]})
	}
	c.connect(cl, n, info)
}

func (c *Cluster) connect(cl *Client, n *Node, info zone.ClientConnected) {
	c.conns++
	info.FreshSecret = fmt.Sprintf("secret-%d", c.conns)
	cl.Node, cl.Conn, cl.Open, cl.Closed, cl.before = n, c.conns, true, nil, cl.Welcome
	n.inbox.Clients = append(n.inbox.Clients, zone.ClientEvent{Conn: cl.Conn, Connected: &info})
	c.say("account %d connects to %s, resume %v", cl.Account, n.Session(), info.Resume != "")
}

// Close loses a client's socket.
func (c *Cluster) Close(cl *Client) {
	if !cl.Open {
		return
	}
	c.say("account %d loses its socket", cl.Account)
	cl.Open = false
	if cl.Node.Engine != nil {
		cl.Node.inbox.Clients = append(cl.Node.inbox.Clients, zone.ClientEvent{Conn: cl.Conn, Closed: true})
	}
}

// Logout lets a player leave for good.
func (c *Cluster) Logout(cl *Client) {
	c.say("account %d logs out", cl.Account)
	c.message(cl, &wire.ClientEnvelope{Message: &wire.ClientEnvelope_Logout{Logout: &wire.Logout{}}})
}

// Send sends an input of a client and returns its number; 0 if as many are unanswered as may be.
func (c *Cluster) Send(cl *Client, in *wire.Input) uint64 {
	if !cl.Open || cl.Welcome == cl.before {
		return 0 // not welcomed on this connection yet
	}
	if cl.Unanswered() >= route.Window {
		return 0
	}
	cl.number++
	in.Number = cl.number
	c.check.sent(cl, in.Number, in.GetSay() != nil)
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
func (c *Cluster) Say(cl *Client, text string) uint64 {
	return c.Send(cl, &wire.Input{Action: &wire.Input_Say{Say: &wire.Say{Text: text}}})
}

func (c *Cluster) message(cl *Client, env *wire.ClientEnvelope) {
	if cl.Open && cl.Node.Engine != nil {
		cl.Node.inbox.Clients = append(cl.Node.inbox.Clients, zone.ClientEvent{Conn: cl.Conn, Message: env})
	}
}

// serve delivers what a step has for the clients of a node, and gets the terrain it asks for.
func (c *Cluster) serve(n *Node, out *zone.Outbox) {
	for _, b := range out.Clients {
		if cl := c.client(n, b.Conn); cl != nil {
			if err := cl.Receive(b.Bytes); err != nil {
				c.check.broke(4, "account %d cannot read what %s sent: %v", cl.Account, n.Session(), err)
			}
		}
	}
	for _, b := range out.Close {
		if cl := c.client(n, b.Conn); cl != nil {
			c.say("account %d is closed by %s: %v", cl.Account, n.Session(), b.Reason)
			cl.Open, cl.Closed = false, &b
		}
	}
	for _, r := range out.Chunks {
		n.inbox.Chunks = append(n.inbox.Chunks, zone.ChunkAnswer{Chunk: r.Chunk, Encoding: wire.ChunkData_ENCODING_RLE, Payload: []byte{1}})
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

// byAccount is the latest client of an account, nil if there is none.
func (c *Cluster) byAccount(account uint64) *Client {
	for _, cl := range c.Clients {
		if cl.Account == account {
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
