package simtest

import (
	"fmt"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Node is one simulated pod slot. Its incarnations are numbered; Engine is nil while it is down or has no session yet.
// It does what the loop of the zone node does: step when a step is due, never at or after the deadline, and release what
// the step asked for if the deadline has not passed by then.
type Node struct {
	Ordinal     int
	Incarnation int32
	Engine      *zone.Engine
	// Deadline is its fence, by its own clock. Fenced stops its renewals: the deadline stays; not for a Nasty cluster.
	Deadline time.Duration
	Fenced   bool
	// Notes are what the engine wrote, the last ones.
	Notes []string

	c       *Cluster
	called  string
	session string // of the present incarnation
	clock   clock
	pods    int // counts the pods of this slot
	process int // counts the processes
	paused  bool
	inbox   zone.Inbox
	table   *partition.Table // the last that was delivered
	streams map[string]int   // the life of the link to each session, as the inbox was told; never changed, but replaced
	store   storeClient
	live    map[string]bool // sessions that it was told of, perhaps before they themselves know that they live

	held    *held // what a step asked for and may not be released yet
	hurried bool  // it is about to take in what a move waits for
	stall   bool  // the next step is paused in its middle
	trap    *trap // the process dies at a transition
	due     uint64
}

// held is the outcome of a step that waits.
type held struct {
	out     *zone.Outbox
	streams map[string]int
}

// clock is the boot-time clock of a machine.
type clock struct {
	c      *Cluster
	offset time.Duration
	rate   float64
}

// Boottime is the reading at this moment of virtual time.
func (k *clock) Boottime() time.Duration { return k.at(k.c.Now()) }

func (k *clock) at(now time.Duration) time.Duration {
	if k.rate == 1 {
		return k.offset + now
	}
	return k.offset + time.Duration(float64(now)*k.rate)
}

// when is the virtual time of a reading, rounded up.
func (k *clock) when(boot time.Duration) time.Duration {
	if k.rate == 1 {
		return boot - k.offset
	}
	return time.Duration(float64(boot-k.offset)/k.rate) + 1
}

const maxNotes = 200

func newNode(c *Cluster, ordinal int) *Node {
	n := &Node{
		Ordinal: ordinal, c: c, clock: clock{c: c, rate: 1}, live: map[string]bool{},
		called: fmt.Sprintf("%s-zone-%d", World, ordinal), session: sessionName(ordinal, 0),
	}
	if ordinal < len(c.options.Rates) {
		n.clock.rate = c.options.Rates[ordinal]
		n.clock.offset = time.Duration(ordinal) * time.Hour
	}
	return n
}

func (n *Node) name() string { return n.called }

// Session names the present incarnation.
func (n *Node) Session() string { return n.session }

// Running reports whether the process runs and has its session.
func (n *Node) Running() bool { return n.Engine != nil }

// Acts reports whether the node may act at this moment: its deadline has not passed by its own clock.
func (n *Node) Acts() bool { return n.Engine != nil && n.clock.Boottime() < n.deadline() }

func (n *Node) deadline() time.Duration {
	if n.Engine == nil {
		return 0
	}
	return n.c.control.deadline(n)
}

// begin is the start of a process that has got its session.
func (n *Node) begin(incarnation int32) error {
	n.Incarnation, n.session = incarnation, sessionName(n.Ordinal, incarnation)
	engine, err := zone.New(zone.Config{
		Grid: n.c.Grid, Session: n.Session(), Node: n.name(), Ordinal: n.Ordinal, Incarnation: n.Incarnation, Probe: n.happened,
	})
	if err != nil {
		return err
	}
	n.process++
	n.Engine, n.inbox, n.table, n.Fenced, n.held, n.stall, n.trap = engine, zone.Inbox{}, nil, false, nil, false, nil
	n.streams = nil
	clear(n.live)
	for _, other := range n.c.Nodes {
		if other != n && other.live[n.Session()] {
			n.c.net.knows(other, n)
		}
	}
	n.store = n.c.storage.client(n.Session())
	n.c.say("%s begins", n.Session())
	phase := time.Duration(n.Ordinal) * zone.TickDuration / time.Duration(max(n.c.options.Nodes, 1))
	now := n.c.Now()
	n.wakeAt(now - now%zone.TickDuration + zone.TickDuration + phase)
	return nil
}

// end is the end of the process, at this very moment.
func (n *Node) end() {
	if n.Engine == nil {
		return
	}
	n.c.check.lastSeen(n)
	n.c.control.kill(n)
	n.store.Kill()
	n.Engine, n.held, n.trap, n.stall, n.paused = nil, nil, nil, false, false
	n.due++
	n.c.net.broken(n)
	for _, cl := range n.c.Clients {
		if cl.Node == n {
			cl.Open = false
		}
	}
}

// wakeAt plans the next step; an earlier plan is void.
func (n *Node) wakeAt(when time.Duration) {
	n.due++
	due := n.due
	n.c.At(when, func() {
		if n.due == due && n.Engine != nil && !n.paused {
			n.step()
		}
	})
}

// step is one turn of the loop.
func (n *Node) step() {
	if n.held != nil {
		n.tryRelease()
		return
	}
	in := n.inbox
	in.Boot, in.Deadline = n.clock.Boottime(), n.deadline()
	in.WallMillis = ecs.IDEpochMillis + n.c.Now().Milliseconds()
	out := n.Engine.Step(&in)
	switch {
	case out == nil && in.Boot < in.Deadline:
		n.c.check.broke(7, "%s made no step before its deadline", n.Session())
	case out != nil && in.Boot >= in.Deadline:
		n.c.check.broke(7, "%s made a step %v after its deadline", n.Session(), in.Boot-in.Deadline)
	case out == nil: // frozen: what is in the inbox waits
		n.count(faultFenced)
		n.wakeAt(n.c.Now() + fencePoll)
		return
	}
	n.inbox = zone.Inbox{}
	n.stepped(out)
}

// stepped takes what came of a step.
func (n *Node) stepped(out *zone.Outbox) {
	n.Notes = append(n.Notes, out.Notes...)
	if len(n.Notes) > maxNotes {
		n.Notes = n.Notes[len(n.Notes)-maxNotes:]
	}
	n.held = &held{out: out, streams: n.streams}
	if n.trap != nil && n.trap.sprung {
		n.spring()
		return
	}
	if n.stall {
		n.stall = false
		n.c.Pause(n, true)
		return
	}
	n.tryRelease()
}

// hurry lets the engine take in what a move waits for, without a tick.
func (n *Node) hurry() {
	if n.Engine == nil || n.hurried || !n.Engine.Moving() {
		return
	}
	n.hurried = true
	process := n.process
	n.c.After(0, func() {
		if n.hurried = false; n.process == process && n.Engine != nil && !n.paused && n.held == nil {
			n.between()
		}
	})
}

func (n *Node) between() {
	in := zone.Inbox{
		Boot: n.clock.Boottime(), Deadline: n.deadline(),
		Table: n.inbox.Table, Peers: n.inbox.Peers, Reliable: n.inbox.Reliable, Commits: n.inbox.Commits,
	}
	out := n.Engine.Between(&in)
	if out == nil {
		return
	}
	n.inbox.Table, n.inbox.Peers, n.inbox.Reliable, n.inbox.Commits = nil, nil, nil, nil
	n.stepped(out)
}

// fencePoll is how often a frozen node looks whether it may go on.
const fencePoll = 20 * time.Millisecond

// tryRelease hands the outcome of the last step to the drivers. A step that outlived the deadline is held: it is neither
// thrown away nor released until the same session is renewed.
func (n *Node) tryRelease() {
	h := n.held
	if !h.out.MayGo(n.clock.Boottime(), n.deadline()) {
		n.wakeAt(n.c.Now() + fencePoll)
		return
	}
	n.held = nil
	n.release(h, releaseAll)
	if n.Engine != nil {
		n.wakeAt(max(n.clock.when(n.Engine.Due()), n.c.Now()))
	}
}

// parts of an outbox that a dying process may still get rid of.
type parts uint8

const (
	releaseReplication parts = 1 << iota
	releaseReliable
	releaseStore
	releaseClients
	releaseHalf // of the reliable messages and store requests only the first half

	releaseAll = releaseReplication | releaseReliable | releaseStore | releaseClients
)

// release carries out what a step asked for.
func (n *Node) release(h *held, what parts) {
	if n.clock.Boottime() >= n.deadline() {
		n.c.check.broke(7, "%s released a step after its deadline", n.Session())
	}
	out := h.out
	if what&releaseStore != 0 {
		n.submit(half(out.Store, what))
	}
	if what&releaseReplication != 0 {
		for _, b := range out.Replication {
			n.c.net.replicate(n, b, h.streams[b.Session])
		}
	}
	if what&releaseReliable != 0 {
		for _, b := range half(out.Reliable, what) {
			n.c.net.tell(n, b)
		}
	}
	if what&releaseClients != 0 {
		n.c.serve(n, out)
	}
	for _, r := range out.Raise {
		n.c.control.raise(n, r)
	}
	process := n.process
	for _, r := range out.Commits {
		n.c.control.commit(n, r, func(a zone.CommitAnswer) {
			if n.process == process && n.Engine != nil {
				n.inbox.Commits = append(n.inbox.Commits, a)
				n.hurry()
			}
		})
	}
}

func half[T any](list []T, what parts) []T {
	if what&releaseHalf != 0 {
		return list[:len(list)/2]
	}
	return list
}

func (n *Node) submit(requests []zone.StoreRequest) {
	process := n.process
	for _, r := range requests {
		n.store.Submit(r, func(a zone.StoreAnswer) {
			if n.process == process && n.Engine != nil {
				n.inbox.Store = append(n.inbox.Store, a)
			}
		})
	}
}

// connected notes the life of the link to a session. A step that is held goes on with what it had.
func (n *Node) connected(session string, life int) {
	streams := map[string]int{session: life}
	for other, life := range n.streams {
		if other != session {
			streams[other] = life
		}
	}
	n.streams = streams
}

// peer puts a change of a link or session into the inbox. Replication of a stream that is over is void.
func (n *Node) peer(session string, kind zone.PeerEventKind) {
	if n.Engine == nil {
		return
	}
	if kind != zone.PeerUp {
		kept := n.inbox.Replication[:0]
		for _, b := range n.inbox.Replication {
			if b.Session != session {
				kept = append(kept, b)
			}
		}
		n.inbox.Replication = kept
	}
	n.inbox.Peers = append(n.inbox.Peers, zone.PeerEvent{Session: session, Kind: kind})
}

// Pause stops a process, or lets it go on: the node sees no time pass, the world does.
func (c *Cluster) Pause(n *Node, paused bool) {
	if n.Engine == nil || n.paused == paused {
		return
	}
	c.say("%s %s", n.Session(), map[bool]string{true: "is paused", false: "goes on"}[paused])
	n.paused = paused
	c.control.pause(n, paused)
	if !paused {
		n.wakeAt(c.Now())
	}
}
