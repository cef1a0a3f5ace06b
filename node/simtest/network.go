package simtest

import (
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// network is the links between the lives of nodes. A pair has one connection at a time with two streams each way.
// Replication is lost with the connection; reliable messages are kept by their sender until they arrived, and go on with
// the next connection without loss or repeat. Messages of one stream and direction stay in order, others need not.
type network struct {
	c     *Cluster
	links map[pair]*wireLink
	order []*wireLink
}

// pair names a link; a is the smaller session.
type pair struct{ a, b string }

func pairOf(a, b string) pair { return pair{min(a, b), max(a, b)} }

// wireLink is the link of two sessions.
type wireLink struct {
	pair
	nodes [2]*Node
	life  int     // counts the connections
	up    [2]bool // as each end believes
	// known: each end knows the other session to live, so it connects. dead: an end knows it to be over.
	known, dead [2]bool
	// blocked: what is sent by this end does not arrive. parted: no connection is made.
	blocked [2]bool
	parted  bool
	slow    int
	lanes   [2][2]lane // by sending end, by stream
}

const (
	streamReplication = iota
	streamReliable
)

type packet struct {
	bytes []byte
	life  int
	due   time.Duration
}

// lane holds what is on its way, in order.
type lane struct {
	queue []packet
	last  time.Duration
}

func newNetwork(c *Cluster) *network { return &network{c: c, links: map[pair]*wireLink{}} }

// link returns the link of two nodes' present sessions, and the end that the first one is.
func (w *network) link(a, b *Node) (l *wireLink, end int) {
	p := pairOf(a.Session(), b.Session())
	l = w.links[p]
	if l == nil {
		l = &wireLink{pair: p, nodes: [2]*Node{a, b}, slow: 1}
		if p.a != a.Session() {
			l.nodes = [2]*Node{b, a}
		}
		w.links[p] = l
		w.order = append(w.order, l)
	}
	if p.a != a.Session() {
		end = 1
	}
	return l, end
}

// session is whose end it is.
func (l *wireLink) session(end int) string {
	if end == 0 {
		return l.a
	}
	return l.b
}

func (l *wireLink) alive(end int) bool {
	n := l.nodes[end]
	return n.Engine != nil && n.Session() == l.session(end)
}

// knows tells a node of another session that lives: once both know each other they connect.
func (w *network) knows(n, other *Node) {
	l, end := w.link(n, other)
	l.known[end] = true
	w.connect(l)
}

// over tells a node that a session is dead: nothing of it arrives any more.
func (w *network) over(n *Node, session string) {
	if l := w.links[pairOf(n.Session(), session)]; l != nil {
		end := 0
		if l.a != n.Session() {
			end = 1
		}
		l.dead[end], l.up[end] = true, false
	}
	n.peer(session, zone.PeerDead)
}

// connect makes a connection if nothing is in its way.
func (w *network) connect(l *wireLink) {
	if l.up[0] || l.up[1] || l.parted || l.blocked[0] || l.blocked[1] || !l.known[0] || !l.known[1] || l.dead[0] || l.dead[1] || !l.alive(0) || !l.alive(1) {
		return
	}
	l.life++
	for end := range 2 {
		l.up[end] = true
		l.lanes[end][streamReplication].queue = nil
		l.nodes[end].connected(l.session(1-end), l.life)
		l.nodes[end].peer(l.session(1-end), zone.PeerUp)
	}
	for end := range 2 {
		for i := range l.lanes[end][streamReliable].queue {
			l.lanes[end][streamReliable].queue[i].due = w.c.Now() + w.c.options.LinkDelay
		}
		w.pump(l, end, streamReliable)
	}
}

// disconnect ends the connection as one end sees it: at once, or when it notices.
func (w *network) disconnect(l *wireLink, end int) {
	if !l.up[end] {
		return
	}
	l.up[end] = false
	l.lanes[1-end][streamReplication].queue = nil
	if l.alive(end) {
		l.nodes[end].peer(l.session(1-end), zone.PeerDown)
	}
}

// broken: a process has died, its peers see their connections reset.
func (w *network) broken(n *Node) {
	for _, l := range w.order {
		for end := range 2 {
			if l.nodes[end] == n && l.session(end) == n.Session() {
				l.up[end] = false
				w.c.After(w.delay(l), func() { w.disconnect(l, 1-end) })
			}
		}
	}
	w.order = slices.DeleteFunc(w.order, func(l *wireLink) bool {
		gone := !l.alive(0) && !l.alive(1)
		if gone {
			delete(w.links, l.pair)
		}
		return gone
	})
}

// delay draws how long a message takes.
func (w *network) delay(l *wireLink) time.Duration {
	d := w.c.options.LinkDelay
	if j := w.c.options.LinkJitter; j > 0 {
		d += time.Duration(w.c.rand.Int64N(int64(j)))
	}
	return d * time.Duration(l.slow)
}

// replicate sends a batch on the stream that the sender had when it made it.
func (w *network) replicate(from *Node, b zone.PeerBytes, stream int) {
	l, end := w.find(from, b.Session)
	if l == nil || !l.up[end] || l.life != stream {
		return
	}
	w.send(l, end, streamReplication, b.Bytes)
}

// tell sends a reliable message; without a connection it waits for one.
func (w *network) tell(from *Node, b zone.PeerBytes) {
	if l, end := w.find(from, b.Session); l != nil {
		w.send(l, end, streamReliable, b.Bytes)
	}
}

func (w *network) find(from *Node, session string) (l *wireLink, end int) {
	l = w.links[pairOf(from.Session(), session)]
	if l != nil && l.a != from.Session() {
		end = 1
	}
	return l, end
}

func (w *network) send(l *wireLink, end, stream int, b []byte) {
	q := &l.lanes[end][stream]
	q.last = max(q.last, w.c.Now()+w.delay(l))
	q.queue = append(q.queue, packet{b, l.life, q.last})
	if len(q.queue) == 1 {
		w.pump(l, end, stream)
	}
}

// pump delivers the head of a lane when it is due, and goes on with the next.
func (w *network) pump(l *wireLink, end, stream int) {
	q := &l.lanes[end][stream]
	if len(q.queue) == 0 {
		return
	}
	life := l.life
	w.c.At(q.queue[0].due, func() {
		if l.life == life {
			w.arrive(l, end, stream)
		}
	})
}

// arrive hands over what is due. What is blocked waits for unblock; without a connection replication is lost.
func (w *network) arrive(l *wireLink, end, stream int) {
	q := &l.lanes[end][stream]
	if l.blocked[end] || l.parted || !l.up[1-end] || !l.alive(1-end) {
		return
	}
	to, due := l.nodes[1-end], 0
	for due < len(q.queue) && q.queue[due].due <= w.c.Now() {
		p := zone.PeerBytes{Session: l.session(end), Bytes: q.queue[due].bytes, At: to.clock.Boottime()}
		due++
		if stream == streamReplication {
			to.inbox.Replication = append(to.inbox.Replication, p)
		} else {
			to.inbox.Reliable = append(to.inbox.Reliable, p)
			if zone.Urgent(p.Bytes) {
				to.hurry()
			}
		}
	}
	q.queue = slices.Delete(q.queue, 0, due)
	w.pump(l, end, stream)
}

// Cut breaks the link of two nodes at once, and no other is made until Mend.
func (c *Cluster) Cut(a, b *Node) {
	if a.Engine == nil || b.Engine == nil || a == b {
		return
	}
	l, _ := c.net.link(a, b)
	if l.parted {
		return
	}
	c.say("link %s - %s is cut", l.a, l.b)
	l.parted = true
	c.net.disconnect(l, 0)
	c.net.disconnect(l, 1)
}

// Block lets nothing of what a sends to b arrive, while the other direction works. Each end gives the connection up when it
// has noticed, some time later.
func (c *Cluster) Block(a, b *Node) {
	if a.Engine == nil || b.Engine == nil || a == b {
		return
	}
	l, end := c.net.link(a, b)
	if l.blocked[end] {
		return
	}
	c.say("nothing of %s arrives at %s", a.Session(), b.Session())
	l.blocked[end] = true
	life := l.life
	for side := range 2 {
		c.After(noticeSoonest+time.Duration(c.rand.Int64N(int64(noticeLatest-noticeSoonest))), func() {
			if l.blocked[end] && l.life == life {
				c.net.disconnect(l, side)
			}
		})
	}
}

// A connection on which nothing arrives is given up after this long.
const (
	noticeSoonest = 500 * time.Millisecond
	noticeLatest  = 3 * time.Second
)

// Reset breaks the connection of two nodes; the next one is made soon.
func (c *Cluster) Reset(a, b *Node) {
	c.Cut(a, b)
	if l, _ := c.net.find(a, b.Session()); l != nil {
		c.After(20*time.Millisecond, func() { c.net.mend(l) })
	}
}

// Slow lets the messages of two nodes take that many times as long; 1 is normal.
func (c *Cluster) Slow(a, b *Node, factor int) {
	if a.Engine == nil || b.Engine == nil || a == b {
		return
	}
	l, _ := c.net.link(a, b)
	l.slow = factor
	c.say("link %s - %s is %d times as slow", l.a, l.b, factor)
}

// Mend ends Cut and Block between the present sessions of two nodes.
func (c *Cluster) Mend(a, b *Node) {
	if a == b {
		return
	}
	if l, _ := c.net.find(a, b.Session()); l != nil {
		c.net.mend(l)
	}
}

func (w *network) mend(l *wireLink) {
	if !l.parted && !l.blocked[0] && !l.blocked[1] {
		return
	}
	w.c.say("link %s - %s is mended", l.a, l.b)
	l.parted, l.blocked = false, [2]bool{}
	if l.up[0] != l.up[1] { // one end has given it up: the other hears of it now
		w.disconnect(l, 0)
		w.disconnect(l, 1)
	}
	if l.up[0] && l.up[1] { // nobody noticed: what was blocked arrives
		for end := range 2 {
			w.arrive(l, end, streamReplication)
			w.arrive(l, end, streamReliable)
		}
		return
	}
	w.connect(l)
}

// calm reports whether two nodes have an undisturbed link.
func (w *network) calm(a, b *Node) bool {
	if a == b {
		return true
	}
	l, _ := w.find(a, b.Session())
	for end := range 2 {
		for stream := range 2 {
			if l != nil && l.lanes[end][stream].last > w.c.Now()+w.c.options.LinkDelay+w.c.options.LinkJitter {
				return false // what was sent while it was slow is still on its way
			}
		}
	}
	return l != nil && l.up[0] && l.up[1] && !l.parted && !l.blocked[0] && !l.blocked[1] && l.slow == 1
}
