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

// The engine's end of the links: what goes out on both streams of each peer, and what comes in.

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
	case *wire.PeerMessage_Stray:
		e.sim.strayed(m.Stray)
	default:
		e.stats.Malformed++
	}
}

func (e *Engine) readReplication(b PeerBytes) {
	if !e.alive(b.Session) {
		e.stats.FromDead++
		return
	}
	e.heardOf(e.peer(b.Session))
	arrived := e.tick
	if b.At > 0 && b.At < e.boot { // what waited for this step is as old as its wait
		arrived -= int64((e.boot - b.At) / TickDuration)
	}
	var frame ghost.Frame
	err := ghost.EachField(b.Bytes, func(num protowire.Number, v uint64, body []byte) error {
		switch num {
		case batchSubscribe:
			return e.eachKey(v, body, func(chunk uint64) error { return e.sim.subscribe(b.Session, chunk) })
		case batchUnsubscribe:
			return e.eachKey(v, body, func(chunk uint64) error {
				e.sim.unsubscribe(b.Session, chunk)
				return nil
			})
		case batchAgain:
			return e.eachKey(v, body, func(chunk uint64) error {
				e.gate.askAgain(b.Session, chunk)
				return nil
			})
		case batchFrames:
			if err := frame.Decode(body); err != nil {
				return err
			}
			if frame.Home >= uint32(e.grid.Regions()) || frame.Entity == 0 {
				return fmt.Errorf("a frame of entity %d at home in region %d", frame.Entity, frame.Home)
			}
			if err := e.checkKey(frame.Chunk); err != nil {
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
func (e *Engine) eachKey(v uint64, packed []byte, fn func(chunk uint64) error) error {
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

func (e *Engine) oneKey(v uint64, fn func(uint64) error) error {
	if err := e.checkKey(v); err != nil {
		return err
	}
	return fn(v)
}

func (e *Engine) checkKey(v uint64) error {
	if v >= uint64(e.grid.ChunksX())*uint64(e.grid.ChunksY()) {
		return fmt.Errorf("chunk %d is beyond the world", v)
	}
	return nil
}

// readSnapshotMark takes the end of a snapshot. It covers only regions that may have something in the chunk.
func (e *Engine) readSnapshotMark(from string, b []byte) error {
	var m wire.ChunkSnapshot
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	if err := e.checkKey(m.Chunk); err != nil {
		return err
	}
	var homes, grounds []uint32
	var buf [4]torus.RegionPos
	for _, at := range partition.AppendRegionsTouched(buf[:0], e.grid, e.grid.ChunkFromKey(m.Chunk), partition.Hysteresis) {
		if home := uint32(e.grid.RegionIndex(at)); slices.Contains(m.Homes, home) {
			homes = append(homes, home)
		} else if slices.Contains(m.Grounds, home) {
			grounds = append(grounds, home)
		}
	}
	e.gate.snapshotDone(from, m.Chunk, homes, grounds)
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

// Urgent reports whether a message of the reliable stream is one that a region may stand still for.
func Urgent(message []byte) bool {
	num, _, n := protowire.ConsumeTag(message)
	return n > 0 && num >= firstMove && num <= lastMove
}

// Field numbers of wire.ReplicationBatch and wire.ChunkSnapshot, which the hot path reads and writes by hand.
const (
	batchSubscribe, batchUnsubscribe, batchFrames, batchSnapshots, batchHeartbeat, batchAgain = 1, 2, 3, 4, 5, 6
	snapshotChunk, snapshotHomes                                                              = 1, 2
)

// The moves' messages in wire.PeerMessage.
const firstMove, lastMove = 17, 20
