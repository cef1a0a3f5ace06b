package zone

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/ghost"
	"github.com/spatialcells/spatialcells/node/handoff"
	"github.com/spatialcells/spatialcells/node/partition"
)

// Replication: what observers are told. An update is encoded once, as the components of a frame, and copied into the
// batch of each node that observes the entity: those subscribed to its chunk, and the gateway of its account.

const (
	// burstEntities bounds what a subscriber is sent of snapshots in one tick.
	burstEntities = 256
	// maxBursts bounds the snapshots that wait: every chunk of the largest view of every node, and some.
	maxBursts = 1 << 20
	// maxObserved bounds the chunks that one node observes here: those of six thousand players, none of whom sees another.
	maxObserved = 1 << 20
)

// burst is a snapshot that a node waits for.
type burst struct {
	to    string
	chunk uint64
}

// peerUp: the stream is new, and what was refused while the link was full is lost. Each account that is served there hears what it
// alone may know; who is not, says so, and its session is lost.
func (s *sim) peerUp(session string) {
	s.dropObserver(session)
	ecs.Each1(s.connected, s.game.Session, func(id ecs.EntityID, ses *game.Session) {
		if ses.Gateway == session {
			s.tellOwner(id, s.authority.Get(id), &syncState{changed: game.OwnerNumbers})
		}
	})
}

func (s *sim) dropObserver(session string) {
	s.nodes.Drop(session)
	for b := range s.stages.guests {
		if b.to == session {
			delete(s.stages.guests, b)
		}
	}
}

func (s *sim) peerDown(session string) {
	if len(s.nodes.Chunks(session)) > 0 {
		s.at(Happened{Point: SubscriptionDropped, Peer: session})
	}
	s.dropObserver(session)
	kept := s.bursts[:0]
	for _, b := range s.bursts {
		if b.to != session {
			kept = append(kept, b)
		} else {
			delete(s.owed, b)
		}
	}
	s.bursts = kept
}

// subscribe is recorded whether or not the chunk's regions are held here yet: the table may be on its way. The error is a session that
// asks for more than a node can have players for.
func (s *sim) subscribe(session string, chunk uint64) error {
	if len(s.nodes.Chunks(session)) >= maxObserved && !s.nodes.Has(session, chunk) {
		return errObservesTooMuch
	}
	s.nodes.Add(session, chunk)
	delete(s.stages.guests, burst{session, chunk})
	s.burst(session, chunk)
	return nil
}

var errObservesTooMuch = errors.New("a node observes more chunks than it can have players for")

func (s *sim) unsubscribe(session string, chunk uint64) { s.nodes.Remove(session, chunk) }

func (s *sim) burst(to string, chunk uint64) {
	b := burst{to, chunk}
	if len(s.bursts) < maxBursts && !s.owed[b] {
		s.owed[b] = true
		s.bursts = append(s.bursts, b)
	}
}

// replicate tells what changed in this tick, then goes on with the snapshots.
func (s *sim) replicate() {
	for _, id := range s.changed {
		s.tell(id)
	}
	s.changed = s.changed[:0]
	s.sendBursts()
}

// tell sends what is untold of one entity, each observer what it needs: news, a snapshot, or that it left.
func (s *sim) tell(id ecs.EntityID) {
	st := s.sync.Get(id)
	if st == nil || !st.queued {
		return
	}
	a := s.authority.Get(id)
	was := *st
	st.queued, st.changed, st.fresh, st.reset, st.events = false, 0, false, false, st.events[:0]
	s.frames[frameUpdate], s.frames[frameSnapshot], s.frames[frameLeft] = s.frames[frameUpdate][:0], s.frames[frameSnapshot][:0], s.frames[frameLeft][:0]

	gateway := s.gatewayOf(id)
	s.eachObserver(a.chunk, was.from, gateway, func(session string) {
		now := session == gateway || s.nodes.Has(session, a.chunk)
		observed := !was.fresh && (session == gateway || s.nodes.Has(session, was.from))
		before := observed && (session == gateway || !s.owed[burst{session, was.from}])
		switch {
		case now && !before:
			s.copyFrame(session, id, a, &was, frameSnapshot)
		case now:
			s.copyFrame(session, id, a, &was, frameUpdate)
		case observed: // also who waits for the chunk's snapshot may have it: what comes new is told at once
			s.copyFrame(session, id, a, &was, frameLeft)
		}
	})
	s.tellOwner(id, a, &was)
}

// gatewayOf is the session of the gateway of an entity's account, "" if it has none or its socket is lost.
func (s *sim) gatewayOf(id ecs.EntityID) string {
	if ses := s.game.Session.Get(id); ses != nil && ses.Lost == 0 {
		return ses.Gateway
	}
	return ""
}

// eachObserver calls fn once for each node that observes one of two chunks, and for the gateway: in sorted order, the
// gateway last if it observes neither.
func (s *sim) eachObserver(chunk, other uint64, gateway string, fn func(session string)) {
	a, b := s.nodes.Observers(chunk), s.nodes.Observers(other)
	if chunk == other {
		b = nil
	}
	told := gateway == ""
	for len(a) > 0 || len(b) > 0 {
		var next string
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			next, a = a[0], a[1:]
		case len(a) == 0 || b[0] < a[0]:
			next, b = b[0], b[1:]
		default:
			next, a, b = a[0], a[1:], b[1:]
		}
		told = told || next == gateway
		fn(next)
	}
	if !told {
		fn(gateway)
	}
}

type frameKind int

const (
	frameUpdate frameKind = iota
	frameSnapshot
	frameLeft
)

// copyFrame adds the frame to a peer's batch. It is encoded for the first peer only.
func (s *sim) copyFrame(session string, id ecs.EntityID, a *authority, was *syncState, kind frameKind) {
	p := s.peers[session]
	if p == nil || !p.up {
		return
	}
	if len(s.frames[kind]) == 0 {
		s.frames[kind] = s.encodeFrame(s.frames[kind], id, a, was, kind)
		s.stats.Encoded++
	}
	s.addFrame(p, s.frames[kind])
}

func (s *sim) addFrame(p *peer, frame []byte) {
	p.batch = protowire.AppendTag(p.batch, batchFrames, protowire.BytesType)
	p.batch = protowire.AppendBytes(p.batch, frame)
	s.stats.FramesOut++
	s.stats.Spliced++
}

func (s *sim) encodeFrame(dst []byte, id ecs.EntityID, a *authority, was *syncState, kind frameKind) []byte {
	f := s.header(id, a)
	s.components = s.components[:0]
	switch kind {
	case frameUpdate:
		f.Kind = wire.EntityFrame_KIND_UPDATE
		s.appendPublic(id, was.changed)
		f.Events = was.events
	case frameSnapshot:
		f.Kind = wire.EntityFrame_KIND_SNAPSHOT
		s.appendPublic(id, ^uint16(0))
		f.Events = was.events
	case frameLeft:
		f.Kind = wire.EntityFrame_KIND_LEFT
	}
	f.Components, f.Reset = s.components, was.reset
	return f.Append(dst)
}

func (s *sim) header(id ecs.EntityID, a *authority) ghost.Frame {
	f := ghost.Frame{Entity: id, Epoch: a.epoch, Chunk: a.chunk, Home: uint32(s.grid.RegionIndex(a.home)), Fixed: s.game.Lies.Has(id)}
	if acc := s.game.Account.Get(id); acc != nil {
		f.Account = acc.ID
	}
	return f
}

// appendPublic encodes the public components of the mask into s.components.
func (s *sim) appendPublic(id ecs.EntityID, mask uint16) {
	s.appendAudience(id, mask, func(a ecs.Audience) bool { return a == ecs.PublicInRange })
}

func (s *sim) appendAudience(id ecs.EntityID, mask uint16, belongs func(ecs.Audience) bool) {
	hasAccount := s.game.Account.Has(id)
	for _, number := range game.Numbers {
		if mask&(1<<number) == 0 || !belongs(s.encoder.AudienceOf(number, hasAccount)) {
			continue
		}
		s.scratch = s.encoder.AppendComponent(s.scratch[:0], id, number)
		if len(s.scratch) > 0 {
			s.components = ghost.AppendComponent(s.components, s.scratch, 0)
		}
	}
}

func appendEvent(dst, body []byte) []byte { return ghost.AppendEvent(dst, body) }

// tellOwner routes what only the account may know: one message to its gateway. A gateway that is not linked hears all of it when it is.
func (s *sim) tellOwner(id ecs.EntityID, a *authority, was *syncState) {
	ses := s.game.Session.Get(id)
	if ses == nil || ses.Lost > 0 || was.changed == 0 || !s.linked(ses.Gateway) {
		return
	}
	s.components = s.components[:0]
	s.appendAudience(id, was.changed, ownerOnly)
	if len(s.components) == 0 {
		return
	}
	if ses.Gateway == s.self {
		s.stats.RoutedLocal++
	} else {
		s.stats.RoutedRemote++
	}
	s.Engine.send(ses.Gateway, &wire.PeerMessage{Message: &wire.PeerMessage_AccountMessage{AccountMessage: &wire.AccountMessage{
		Account: s.game.Account.Get(id).ID, SessionEpoch: ses.Epoch, Entity: uint64(id),
		Components: append([]byte(nil), s.components...), Epoch: wireEpoch(a.epoch),
	}}})
}

// ownerOnly are the audiences whose only member so far is the entity's own account: there are no parties yet.
func ownerOnly(a ecs.Audience) bool { return a == ecs.OwnerOnly || a == ecs.OwnerAndParty }

// broadcast tells all observers of an entity one thing without components.
func (s *sim) broadcast(id ecs.EntityID, kind wire.EntityFrame_Kind, reason wire.VanishReason) {
	f := s.header(id, s.authority.Get(id))
	f.Kind, f.Vanish = kind, reason
	s.broadcastFrame(id, &f)
}

func (s *sim) broadcastFrame(id ecs.EntityID, f *ghost.Frame) {
	a := s.authority.Get(id)
	s.scratch = f.Append(s.scratch[:0])
	s.eachObserver(a.chunk, a.chunk, s.gatewayOf(id), func(session string) {
		if p := s.peers[session]; p != nil && p.up {
			s.addFrame(p, s.scratch)
		}
	})
}

// sendBursts answers subscriptions: all entities of the chunk, then the mark that names the homes it covers. A chunk
// waits while a region of it is being recovered here.
func (s *sim) sendBursts() {
	if len(s.bursts) == 0 {
		return
	}
	budget := map[string]int{}
	s.left = map[string]bool{}
	kept := s.bursts[:0]
	for _, b := range s.bursts {
		if budget[b.to] >= burstEntities || !s.chunkActive(b.chunk) {
			s.at(Happened{Point: SubscriptionWaits, Peer: b.to, Place: b.chunk})
			kept = append(kept, b)
			continue
		}
		if p := s.peers[b.to]; p != nil && p.up && s.nodes.Has(b.to, b.chunk) {
			s.at(Happened{Point: SubscriptionBurst, Peer: b.to, Place: b.chunk})
			budget[b.to] += 1 + s.sendBurst(p, b.chunk)
		}
		delete(s.owed, b)
	}
	s.bursts = kept
}

func (s *sim) sendBurst(p *peer, chunk uint64) (sent int) {
	for _, id := range s.residents.In(chunk) {
		s.snapshotTo(p, id)
		sent++
	}
	again := s.left[p.session]
	s.left[p.session] = true
	s.known.InChunk(chunk, func(id ecs.EntityID, t handoff.Tombstone) {
		if again && t.Chunk == handoff.Anywhere {
			return
		}
		f := ghost.Frame{Entity: id, Kind: wire.EntityFrame_KIND_TRANSFERRED, Epoch: t.Epoch, Chunk: t.NewChunk, Home: uint32(t.Region), To: t.To}
		s.scratch = f.Append(s.scratch[:0])
		s.addFrame(p, s.scratch)
	})
	homes, grounds := s.homesOf(chunk)
	mark, err := proto.Marshal(&wire.ChunkSnapshot{Chunk: chunk, Homes: homes, Grounds: grounds})
	if err != nil {
		panic("zone: encoding a snapshot mark: " + err.Error())
	}
	p.batch = protowire.AppendTag(p.batch, batchSnapshots, protowire.BytesType)
	p.batch = protowire.AppendBytes(p.batch, mark)
	return sent
}

// snapshotTo sends all public components of one entity to one peer.
func (s *sim) snapshotTo(p *peer, id ecs.EntityID) {
	if p == nil || !p.up {
		return
	}
	a := s.authority.Get(id)
	f := s.header(id, a)
	f.Kind = wire.EntityFrame_KIND_SNAPSHOT
	if since, frozen := s.frozenSince(id); frozen { // observers have walked on what stands frozen
		f.Reset = s.tick-since > jumpTicks
	}
	s.components = s.components[:0]
	s.appendPublic(id, ^uint16(0))
	f.Components = s.components
	s.scratch2 = f.Append(s.scratch2[:0])
	s.addFrame(p, s.scratch2)
}

// homesOf are the regions held here whose entities may be indexed in a chunk. Of those that something may yet come back to only the
// ground is told: observers keep what else they have of these, and ask again later.
func (s *sim) homesOf(chunk uint64) (homes, grounds []uint32) {
	for _, at := range partition.AppendRegionsTouched(nil, s.grid, s.grid.ChunkFromKey(chunk), partition.Hysteresis) {
		i := s.grid.RegionIndex(at)
		switch r := s.regions[i]; {
		case r == nil:
		case s.unsure(i):
			r.hedged = true
			grounds = append(grounds, uint32(i))
		default:
			homes = append(homes, uint32(i))
		}
	}
	return homes, grounds
}

func wireEpoch(e ecs.Epoch) *wire.Epoch {
	return &wire.Epoch{Recoveries: e.Recoveries, Transfers: e.Transfers}
}

func epochOf(m *wire.Epoch) ecs.Epoch {
	return ecs.Epoch{Recoveries: m.GetRecoveries(), Transfers: m.GetTransfers()}
}
