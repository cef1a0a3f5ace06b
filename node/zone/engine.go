package zone

import (
	"fmt"
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	// TickDuration is the fixed step: 20 Hz.
	TickDuration = 50 * time.Millisecond
	// TicksPerSecond counts them.
	TicksPerSecond = int64(time.Second / TickDuration)
	// MaxCatchUp is how many steps may be made back to back to catch up; what is behind further is dropped and counted.
	MaxCatchUp = 3
	// heardTicks is how long ago a peer may have spoken and still be trusted to answer an offer: 1 s.
	heardTicks = TicksPerSecond
	// maxLoop bounds the messages that one step sends to its own node; more is a loop in the protocol.
	maxLoop = 1 << 20
)

// Config is what an engine is born with.
type Config struct {
	Grid torus.Grid
	// Session of this life, "<world>-zone-<ordinal>#<incarnation>"; Node is the part before the #.
	Session     string
	Node        string
	Ordinal     int
	Incarnation int32
	// NotBefore is the Unix time in milliseconds up to which earlier lives of the node can have made ids; 0: there was none.
	NotBefore int64
	// Probe is told of each transition of a protocol, from within Step; it may be nil.
	Probe func(Happened)
}

// Engine is the heart of one zone node: simulation and gateway half. Not safe for concurrent use.
type Engine struct {
	cfg   Config
	grid  torus.Grid
	self  string
	tick  int64
	boot  time.Duration
	due   time.Duration
	wall  int64
	table *partition.Table

	peers map[string]*peer
	order []string // sessions of peers, sorted; self is among them
	past  past     // sessions that are no peers any more

	sim  *sim
	gate *gate

	out     *Outbox
	loop    []*wire.PeerMessage
	pending map[uint64]pendingStore
	nextID  uint64
	stats   Stats
	notes   []string
	unfit   map[ecs.EntityID]bool // records that are refused, each noted once

	stopping bool
	renewal  time.Duration // how long the last one took
	// awaySince is the tick since which the store has answered nothing but that it is not available; 0: it answers.
	awaySince int64
}

// peer is what the engine knows of another session. It knows itself as a peer that is always up.
type peer struct {
	session string
	up      bool
	heard   int64  // tick of its last batch
	batches int    // that came in that tick
	batch   []byte // this tick's ReplicationBatch so far
}

type pendingStore struct {
	request StoreRequest
	done    func(StoreAnswer)
	retry   int64 // tick of the next try; 0: in flight
}

// New returns an engine that holds nothing. It fails if a component was registered without saying how it is handed over.
func New(cfg Config) (*Engine, error) {
	e := &Engine{
		cfg: cfg, grid: cfg.Grid, self: cfg.Session,
		peers: map[string]*peer{}, past: past{}, pending: map[uint64]pendingStore{}, unfit: map[ecs.EntityID]bool{}, out: &Outbox{},
	}
	var err error
	if e.table, err = partition.NewTable(cfg.Grid, nil); err != nil {
		return nil, err
	}
	if e.sim, err = newSim(e); err != nil {
		return nil, fmt.Errorf("starting the engine of %s: %w", cfg.Session, err)
	}
	e.gate = newGate(e)
	me := e.peer(e.self)
	me.up = true
	return e, nil
}

// Step advances the node by one tick. It returns nil, and leaves the inbox untouched, if the fence has passed: a fenced
// node is silent.
func (e *Engine) Step(in *Inbox) *Outbox {
	if in.Boot >= in.Deadline {
		e.stats.FencedSteps++
		return nil
	}
	e.boot, e.wall, e.renewal = in.Boot, in.WallMillis, in.Renewal
	e.keepTime()
	e.out = &Outbox{}
	e.peers[e.self].heard = e.tick

	e.stopping = e.stopping || in.Stopping
	e.read(in)
	e.retryStore()
	e.gate.prepare()
	e.drain()
	e.sim.run()
	e.drain()
	e.flushReplication()
	e.drain()
	e.gate.flush()
	e.out.Notes = e.notes
	e.notes = nil
	return e.out
}

// Between takes in what cannot wait for the next tick, without one: the tables, messages and outcomes of a move, for which a region
// stands still. Everything else in the inbox would be taken in as well, so the driver leaves it for the next step.
func (e *Engine) Between(in *Inbox) *Outbox {
	if in.Boot >= in.Deadline || e.tick == 0 {
		return nil
	}
	e.boot, e.out = in.Boot, &Outbox{}
	e.read(in)
	return e.out
}

// Moving reports whether a region of this node stands still on its way to another one, or may become this node's any moment: then
// Between is worth the while.
func (e *Engine) Moving() bool {
	for _, st := range e.sim.stages.by {
		if st.received > 0 {
			return true
		}
	}
	return slices.ContainsFunc(e.sim.regions, func(r *region) bool { return r != nil && r.still() })
}

// keepTime counts the tick, and those that were missed: ticks follow the clock, so that ages stay true. What this node
// simulates stood still meanwhile, and its observers must be told.
func (e *Engine) keepTime() {
	if e.tick == 0 {
		e.due = e.boot
	}
	if behind := int64((e.boot - e.due) / TickDuration); behind > MaxCatchUp {
		e.tick += behind
		e.due += time.Duration(behind) * TickDuration
		e.stats.TicksDropped += uint64(behind)
		e.sim.stoodStill()
	}
	e.tick++
	e.due += TickDuration
}

// Due is the boot-time clock at which the next step is due.
func (e *Engine) Due() time.Duration { return e.due }

// read takes the inbox in a fixed order: what is known of the world first, then what others say.
func (e *Engine) read(in *Inbox) {
	if in.Table != nil {
		e.setTable(e.sim.ahead(in.Table))
	}
	for _, p := range in.Peers {
		e.peerEvent(p)
	}
	for _, m := range in.Reliable {
		e.readReliable(m)
	}
	for _, b := range in.Replication {
		e.readReplication(b)
	}
	for i := range in.Clients {
		e.gate.client(&in.Clients[i])
	}
	for i := range in.Store {
		e.storeAnswered(&in.Store[i])
	}
	for _, a := range in.Commits {
		e.sim.commitAnswered(a)
	}
	for i := range in.Chunks {
		e.gate.chunkAnswered(&in.Chunks[i])
	}
	e.drain()
}

func (e *Engine) setTable(t *partition.Table) {
	before := e.table
	e.table = t
	e.sim.tableChanged()
	e.gate.tableChanged(before)
}

// peer returns the entry of a session that is alive, making it if needed.
func (e *Engine) peer(session string) *peer {
	p := e.peers[session]
	if p == nil {
		p = &peer{session: session, heard: -heardTicks - 1}
		e.peers[session] = p
		i, _ := slices.BinarySearch(e.order, session)
		e.order = slices.Insert(e.order, i, session)
	}
	return p
}

func (e *Engine) peerEvent(ev PeerEvent) {
	if !e.alive(ev.Session) {
		return
	}
	p := e.peer(ev.Session)
	switch ev.Kind {
	case PeerUp:
		p.up, p.batch = true, p.batch[:0]
		e.sim.peerUp(ev.Session)
		e.gate.peerUp(ev.Session)
	case PeerDown:
		p.up = false
		e.sim.peerDown(ev.Session)
	case PeerDead:
		e.bury(ev.Session)
		e.sim.peerDown(ev.Session)
		e.sim.peerDead(ev.Session)
		e.gate.peerDead(ev.Session)
	}
}

// bury forgets a session, but that it is over.
func (e *Engine) bury(session string) {
	e.past.add(session)
	delete(e.peers, session)
	if i, found := slices.BinarySearch(e.order, session); found {
		e.order = slices.Delete(e.order, i, i+1)
	}
}

// alive reports whether a session may still act: it is not known to be dead.
func (e *Engine) alive(session string) bool { return e.peers[session] != nil || !e.past.has(session) }

// linked reports whether there is a link to a session.
func (e *Engine) linked(session string) bool {
	p := e.peers[session]
	return p != nil && p.up
}

// answers reports whether a session spoke within the last second.
func (e *Engine) answers(session string) bool {
	p := e.peers[session]
	return p != nil && p.up && e.tick-p.heard <= heardTicks
}

// store asks for an operation and calls done with its answer, however often it must be asked.
func (e *Engine) store(r StoreRequest, done func(StoreAnswer)) {
	e.nextID++
	r.ID = e.nextID
	e.pending[r.ID] = pendingStore{request: r, done: done}
	e.out.Store = append(e.out.Store, r)
}

const storeRetryTicks = 10

func (e *Engine) storeAnswered(a *StoreAnswer) {
	p, known := e.pending[a.ID]
	if !known || p.retry != 0 {
		return
	}
	if a.Code == StoreUnavailable {
		if e.awaySince == 0 {
			e.awaySince = e.tick
		}
		e.stats.StoreRetries++
		p.retry = e.tick + storeRetryTicks
		e.pending[a.ID] = p
		return
	}
	e.awaySince = 0
	delete(e.pending, a.ID)
	answer := *a
	e.fit(p.request.Op, &answer)
	p.done(answer)
}

// retryStore repeats what the store could not answer, in the order it was asked.
func (e *Engine) retryStore() {
	if e.stats.StoreRetries == 0 || e.tick%storeRetryTicks != 0 {
		return
	}
	var due []uint64
	for id, p := range e.pending {
		if p.retry != 0 && p.retry <= e.tick {
			due = append(due, id)
		}
	}
	slices.Sort(due)
	for _, id := range due {
		p := e.pending[id]
		p.retry = 0
		e.pending[id] = p
		e.out.Store = append(e.out.Store, p.request)
	}
}

// note records a line for people: one per thing that happened to a person or a region.
func (e *Engine) note(format string, args ...any) {
	e.notes = append(e.notes, fmt.Sprintf(format, args...))
}

// Codecs are the component versions that this node reads and writes, for the Hello of a link.
func (e *Engine) Codecs() []*wire.CodecVersion {
	var list []*wire.CodecVersion
	for _, c := range e.sim.world.Components() {
		if m := c.Meta(); m.Codec != nil {
			v := uint32(max(m.CodecVersion, 1))
			list = append(list, &wire.CodecVersion{Component: m.Name, MinVersion: v, MaxVersion: v})
		}
	}
	return list
}

// Saved reports, while the node is stopping, whether the store has everything.
func (e *Engine) Saved() bool { return e.stopping && len(e.gate.sessions) == 0 && e.sim.allSaved() }
