package zone

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ghost"
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

	sim  *sim
	gate *gate

	out     *Outbox
	loop    []*wire.PeerMessage
	pending map[uint64]pendingStore
	nextID  uint64
	stats   Stats
	notes   []string

	stopping bool
	renewal  time.Duration // how long the last one took
	// awaySince is the tick since which the store has answered nothing but that it is not available; 0: it answers.
	awaySince int64
}

// peer is what the engine knows of another session. It knows itself as a peer that is always up.
type peer struct {
	session string
	up      bool
	dead    bool
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
		peers: map[string]*peer{}, pending: map[uint64]pendingStore{}, out: &Outbox{},
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

// Urgent reports whether a message of the reliable stream is one that a region may stand still for.
func Urgent(message []byte) bool {
	num, _, n := protowire.ConsumeTag(message)
	return n > 0 && num >= firstMove && num <= lastMove
}

// The moves' messages in wire.PeerMessage.
const firstMove, lastMove = 17, 20

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
		e.table = in.Table
		e.sim.tableChanged()
		e.gate.tableChanged()
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

// peer returns the entry of a session, making it if needed.
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
		p.up, p.dead = false, true
		e.sim.peerDown(ev.Session)
		e.sim.peerDead(ev.Session)
		e.gate.peerDead(ev.Session)
	}
}

// alive reports whether a session may still act: it is not known to be dead.
func (e *Engine) alive(session string) bool {
	p := e.peers[session]
	return p == nil || !p.dead
}

// answers reports whether a session spoke within the last second.
func (e *Engine) answers(session string) bool {
	p := e.peers[session]
	return p != nil && p.up && e.tick-p.heard <= heardTicks
}

// send puts a message on the reliable stream of a session; to this node by the loopback. What is sent to the dead is
// dropped: every protocol here repeats itself to the successor.
func (e *Engine) send(to string, m *wire.PeerMessage) {
	if to == e.self {
		if len(e.loop) >= maxLoop {
			panic("zone: messages of one step to its own node go on for ever")
		}
		e.loop = append(e.loop, m)
		return
	}
	if to == "" || !e.alive(to) {
		e.stats.ToNobody++
		return
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("zone: encoding a peer message: " + err.Error())
	}
	e.out.Reliable = append(e.out.Reliable, PeerBytes{Session: to, Bytes: b})
}

// drain delivers what this node sent to itself.
func (e *Engine) drain() {
	for i := 0; i < len(e.loop); i++ { //nolint:intrange // receiving may append to the loop
		e.receive(e.self, e.loop[i], e.boot)
	}
	clear(e.loop)
	e.loop = e.loop[:0]
}

func (e *Engine) readReliable(b PeerBytes) {
	if !e.alive(b.Session) {
		e.stats.FromDead++
		return
	}
	m := &wire.PeerMessage{}
	if err := proto.Unmarshal(b.Bytes, m); err != nil {
		e.stats.Malformed++
		return
	}
	e.receive(b.Session, m, b.At)
}

// receive handles one reliable message, from this node or another, in the same way.
func (e *Engine) receive(from string, m *wire.PeerMessage, at time.Duration) {
	switch m := m.Message.(type) {
	case *wire.PeerMessage_Call:
		e.sim.call(from, m.Call)
	case *wire.PeerMessage_CallAnswer:
		e.gate.callAnswered(from, m.CallAnswer)
	case *wire.PeerMessage_Attach:
		e.sim.attach(from, m.Attach)
	case *wire.PeerMessage_AttachAnswer:
		e.gate.attachAnswered(from, m.AttachAnswer)
	case *wire.PeerMessage_Detach:
		e.sim.detach(from, m.Detach)
	case *wire.PeerMessage_AccountMessage:
		e.gate.accountMessage(from, m.AccountMessage)
	case *wire.PeerMessage_NotHere:
		e.sim.notHere(from, m.NotHere)
	case *wire.PeerMessage_Displace:
		e.gate.displaced(m.Displace)
	case *wire.PeerMessage_Offer:
		e.sim.offered(from, m.Offer)
	case *wire.PeerMessage_OfferAnswer:
		e.sim.offerAnswered(from, m.OfferAnswer, at)
	case *wire.PeerMessage_OfferDurable:
		e.sim.offerDurable(from, m.OfferDurable)
	case *wire.PeerMessage_Claiming:
		e.sim.claiming(from, m.Claiming)
	case *wire.PeerMessage_ClaimingAnswer:
		e.sim.claimingAnswered(from, m.ClaimingAnswer)
	case *wire.PeerMessage_Command:
		e.sim.command(from, m.Command)
	case *wire.PeerMessage_CommandAnswer:
		e.sim.commandAnswered(from, m.CommandAnswer)
	case *wire.PeerMessage_MovePrepare:
		e.sim.movePrepared(from, m.MovePrepare)
	case *wire.PeerMessage_MovePart:
		e.sim.movePart(from, m.MovePart)
	case *wire.PeerMessage_MoveAnswer:
		e.sim.moveAnswered(from, m.MoveAnswer)
	case *wire.PeerMessage_MoveDrop:
		e.sim.moveDropped(from, m.MoveDrop)
	default:
		e.stats.Malformed++
	}
}

// Field numbers of wire.ReplicationBatch and wire.ChunkSnapshot, which the hot path reads and writes by hand.
const (
	batchSubscribe, batchUnsubscribe, batchFrames, batchSnapshots, batchHeartbeat, batchAgain = 1, 2, 3, 4, 5, 6
	snapshotChunk, snapshotHomes                                                              = 1, 2
)

func (e *Engine) readReplication(b PeerBytes) {
	p := e.peer(b.Session)
	if p.dead {
		e.stats.FromDead++
		return
	}
	e.heardOf(p)
	arrived := e.tick
	if b.At > 0 && b.At < e.boot { // what waited for this step is as old as its wait
		arrived -= int64((e.boot - b.At) / TickDuration)
	}
	var frame ghost.Frame
	err := ghost.EachField(b.Bytes, func(num protowire.Number, v uint64, body []byte) error {
		switch num {
		case batchSubscribe:
			return e.eachKey(v, body, func(chunk uint64) { e.sim.subscribe(b.Session, chunk) })
		case batchUnsubscribe:
			return e.eachKey(v, body, func(chunk uint64) { e.sim.unsubscribe(b.Session, chunk) })
		case batchAgain:
			return e.eachKey(v, body, func(chunk uint64) { e.gate.askAgain(b.Session, chunk) })
		case batchFrames:
			if err := frame.Decode(body); err != nil {
				return err
			}
			if frame.Home >= uint32(e.grid.Regions()) || frame.Entity == 0 {
				return fmt.Errorf("a frame of entity %d at home in region %d", frame.Entity, frame.Home)
			}
			if err := e.oneKey(frame.Chunk, func(uint64) {}); err != nil {
				return err
			}
			e.stats.FramesIn++
			e.gate.replicas.Apply(arrived, b.Session, &frame)
		case batchSnapshots:
			return e.readSnapshotMark(b.Session, body)
		}
		return nil
	})
	if err != nil {
		e.stats.Malformed++
	}
}

// heardOf notes a batch. One that comes after a silence, or as one of many at once, may be late: a batch is made every tick.
func (e *Engine) heardOf(p *peer) {
	if p.heard != e.tick {
		p.batches = 0
	}
	p.batches++
	if p.heard > 0 && e.tick-p.heard > jumpTicks || p.batches == jumpTicks {
		e.gate.replicas.Late(e.tick, p.session)
	}
	p.heard = e.tick
}

// eachKey reads a repeated chunk key, packed or not; keys beyond the world are malformed.
func (e *Engine) eachKey(v uint64, packed []byte, fn func(chunk uint64)) error {
	if packed == nil {
		return e.oneKey(v, fn)
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := e.oneKey(v, fn); err != nil {
			return err
		}
		packed = packed[n:]
	}
	return nil
}

func (e *Engine) oneKey(v uint64, fn func(uint64)) error {
	if v >= uint64(e.grid.ChunksX())*uint64(e.grid.ChunksY()) {
		return fmt.Errorf("chunk %d is beyond the world", v)
	}
	fn(v)
	return nil
}

func (e *Engine) readSnapshotMark(from string, b []byte) error {
	var m wire.ChunkSnapshot
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	if err := e.oneKey(m.Chunk, func(uint64) {}); err != nil {
		return err
	}
	e.gate.snapshotDone(from, m.Chunk, m.Homes)
	return nil
}

// flushReplication closes each peer's batch of this tick. A batch goes out every tick: it is the heartbeat too.
func (e *Engine) flushReplication() {
	e.sim.replicate()
	var own []byte
	for _, session := range e.order {
		p := e.peers[session]
		if !p.up {
			continue
		}
		p.batch = e.gate.appendSubscriptions(p.batch, session)
		p.batch = protowire.AppendTag(p.batch, batchHeartbeat, protowire.VarintType)
		p.batch = protowire.AppendVarint(p.batch, 1)
		b := slices.Clone(p.batch)
		p.batch = p.batch[:0]
		if session == e.self {
			own = b
			continue
		}
		e.stats.ReplicationBytes += uint64(len(b))
		e.out.Replication = append(e.out.Replication, PeerBytes{Session: session, Bytes: b})
	}
	e.readReplication(PeerBytes{Session: e.self, Bytes: own})
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
	p.done(*a)
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
