package zone

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/ghost"
	"github.com/spatialcells/spatialcells/node/interest"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Field numbers of wire.ServerEnvelope, wire.StateBatch and wire.EntityUpdate, written by hand on the hot path.
const (
	envelopeBatch                                         = 4
	stateSequence, stateTick, stateUpdates, stateComplete = 1, 2, 3, 4
	updateEntity, updateAppear, updateVanish, updateReset = 1, 4, 5, 6
)

// look moves the view with the anchor: the chunk under which the account's own entity is indexed.
func (s *session) look() {
	r := s.gate.replicas.Get(s.entity)
	if r == nil || !s.welcome {
		return
	}
	change, changed := s.view.Anchor(s.gate.grid, s.gate.grid.ChunkFromKey(r.Chunk))
	if changed {
		s.announce(change)
	}
	s.serve()
}

func (s *session) announce(c interest.Change) {
	g := s.gate
	m := &wire.ChunkManifest{Added: chunkPairs(c.Added), Removed: chunkPairs(c.Removed), Reset_: !s.manifested}
	s.manifested = true
	s.envelope(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Manifest{Manifest: m}})
	for _, chunk := range c.Released {
		g.release(s, g.grid.ChunkKey(chunk))
	}
	for _, chunk := range c.Removed {
		delete(s.asked, g.grid.ChunkKey(chunk))
		delete(s.held, g.grid.ChunkKey(chunk))
	}
}

func chunkPairs(chunks []torus.ChunkPos) []uint32 {
	pairs := make([]uint32, 0, 2*len(chunks))
	for _, c := range chunks {
		pairs = append(pairs, uint32(c.X), uint32(c.Y))
	}
	return pairs
}

// request notes what the client asks for; what was not announced is ignored.
func (s *session) request(m *wire.ChunkRequest) {
	g := s.gate
	for i := 0; i+1 < len(m.Chunks); i += 2 {
		c := torus.ChunkPos{X: int32(m.Chunks[i]), Y: int32(m.Chunks[i+1])}
		if g.grid.CanonicalChunk(c) {
			s.view.Want(g.grid.ChunkKey(c))
		}
	}
}

// serve gets the next payloads that the client asked for, a few a tick.
func (s *session) serve() {
	g := s.gate
	budget := interest.ChunksPerTick
	for _, key := range slices.Clone(s.view.Wanted()) {
		if budget == 0 {
			return
		}
		if s.asked[key] {
			continue
		}
		budget--
		if revision, held := s.held[key]; held {
			s.sendChunk(key, &ChunkAnswer{Chunk: g.grid.ChunkFromKey(key), Revision: revision, Encoding: wire.ChunkData_ENCODING_HELD})
			continue
		}
		s.asked[key] = true
		if g.fetching[key] == nil {
			g.out.Chunks = append(g.out.Chunks, ChunkRequest{Chunk: g.grid.ChunkFromKey(key)})
		}
		g.fetching[key] = append(g.fetching[key], s.account)
	}
}

// sendChunk gives the client a payload; from then on it observes the chunk.
func (s *session) sendChunk(key uint64, a *ChunkAnswer) {
	delete(s.asked, key)
	if !slices.Contains(s.view.Wanted(), key) {
		return // it walked on
	}
	s.view.Sent(key)
	s.envelope(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Chunk{Chunk: &wire.ChunkData{
		X: uint32(a.Chunk.X), Y: uint32(a.Chunk.Y), Revision: a.Revision, Encoding: a.Encoding, Payload: a.Payload,
	}}})
	s.gate.observe(s, key)
}

// envelope queues a message before this tick's batch.
func (s *session) envelope(m *wire.ServerEnvelope) {
	s.out = protowire.AppendVarint(s.out, uint64(proto.Size(m)))
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.MarshalAppend(s.out, m)
	if err != nil {
		panic("zone: encoding for a client: " + err.Error())
	}
	s.out = b
}

// touch notes an entity whose visibility or state may have changed for this client.
func (s *session) touch(id ecs.EntityID) { s.touched = append(s.touched, id) }

// flush turns what happened in this tick into at most one write per client.
func (g *gate) flush() {
	g.spread()
	if g.resync {
		g.resync = false
		for _, account := range g.order {
			g.sessions[account].startFull("a link between nodes broke; what you see is sent again")
		}
	}
	for _, account := range g.order {
		g.sessions[account].flush()
	}
	g.replicas.Settle()
	clear(g.jumped)
}

// spread tells every observer of a changed replica. News are encoded once and copied for those who know the entity;
// for the others the entity is touched, and their own flush decides.
func (g *gate) spread() {
	for _, r := range g.replicas.Touched() {
		if g.replicas.Get(r.Entity) != r {
			continue
		}
		if r.New { // who has seen it knows an earlier replica of it
			g.update, r.Reset = r.AppendAll(g.update[:0], g.tick), true
		} else {
			g.update = r.AppendUpdate(g.update[:0], g.tick)
		}
		encoded := g.encodeUpdate(r, g.update)
		g.stats.Encoded++
		g.eachAccount(r.Chunk, r.Previous, r.Account, func(s *session) {
			if s.seen[r.Entity] && s.sees(r) && !s.full {
				if len(g.update) > 0 || r.Reset {
					s.updates = append(s.updates, encoded...)
					g.stats.Spliced++
				}
				return
			}
			s.touch(r.Entity)
		})
	}
	for _, v := range g.replicas.Vanished() {
		back := g.replicas.Get(v.Entity) != nil
		if v.Reset {
			g.jumped[v.Entity] = true
		}
		g.eachAccount(v.Chunk, v.Chunk, v.Account, func(s *session) {
			if back { // maybe elsewhere: its flush decides
				s.touch(v.Entity)
			} else {
				s.vanish(v.Entity, v.Reason, v.Reset)
			}
		})
	}
}

// encodeUpdate wraps components and events into a StateBatch field that is spliced as it is.
func (g *gate) encodeUpdate(r *ghost.Replica, body []byte) []byte {
	g.full = appendUpdateHeader(g.full[:0], r.Entity, len(body)+boolSize(r.Reset))
	g.full = append(g.full, body...)
	return appendBool(g.full, updateReset, r.Reset)
}

// appendUpdateHeader begins field 3 of a StateBatch: an EntityUpdate of that many further bytes.
func appendUpdateHeader(dst []byte, id ecs.EntityID, size int) []byte {
	dst = protowire.AppendTag(dst, stateUpdates, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(1+8+size))
	dst = protowire.AppendTag(dst, updateEntity, protowire.Fixed64Type)
	return protowire.AppendFixed64(dst, uint64(id))
}

func boolSize(v bool) int {
	if v {
		return 2
	}
	return 0
}

func appendBool(dst []byte, num protowire.Number, v bool) []byte {
	if !v {
		return dst
	}
	dst = protowire.AppendTag(dst, num, protowire.VarintType)
	return protowire.AppendVarint(dst, 1)
}

// eachAccount calls fn once for each session that observes one of two chunks, and for the account itself.
func (g *gate) eachAccount(chunk, other, account uint64, fn func(*session)) {
	told := account == 0
	for _, a := range g.observers.Observers(chunk) {
		told = told || a == account
		fn(g.sessions[a])
	}
	if other != chunk {
		for _, a := range g.observers.Observers(other) {
			if g.observers.Has(a, chunk) {
				continue
			}
			told = told || a == account
			fn(g.sessions[a])
		}
	}
	if !told {
		if s := g.sessions[account]; s != nil {
			fn(s)
		}
	}
}

// sees reports whether a replica is in this client's sight: it holds the chunk, or the entity is its own.
func (s *session) sees(r *ghost.Replica) bool {
	return r.Entity == s.entity || s.gate.observers.Has(s.account, r.Chunk)
}

// flush settles the touched entities level by level: what the client should see against what it has seen. So appear and
// vanish of one tick fold into at most one of them.
func (s *session) flush() {
	g := s.gate
	if !s.welcome {
		s.touched, s.private = s.touched[:0], s.private[:0]
		return
	}
	if s.full {
		s.showAll()
	}
	if s.narrowed { // also what left the chunk in this very tick: nobody else tells of it
		s.narrowed = false
		for id := range s.seen {
			s.touch(id)
		}
	}
	slices.Sort(s.touched)
	for _, id := range slices.Compact(s.touched) {
		r := g.replicas.Get(id)
		should := r != nil && s.sees(r)
		switch {
		case should && (!s.seen[id] || s.full):
			s.appear(r)
		case !should && s.seen[id]:
			s.vanish(id, wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT, g.jumped[id] || r != nil && g.replicas.Jumped(r))
		}
	}
	s.touched, s.full = s.touched[:0], false
	s.showPrivate()
	s.write()
}

// showAll touches everything in sight.
func (s *session) showAll() {
	g := s.gate
	s.updates = s.updates[:0]
	for _, chunk := range g.observers.Chunks(s.account) {
		s.touched = append(s.touched, g.replicas.In(chunk)...)
	}
	s.touched = append(s.touched, s.entity)
}

func (s *session) appear(r *ghost.Replica) {
	s.seen[r.Entity] = true
	g := s.gate
	g.update = r.AppendAll(g.update[:0], g.tick)
	s.updates = appendUpdateHeader(s.updates, r.Entity, len(g.update)+2)
	s.updates = append(s.updates, g.update...)
	s.updates = appendBool(s.updates, updateAppear, true)
	g.stats.Spliced++
}

// vanish takes an entity from the client's sight. reset: it is elsewhere by a jump, its owner crashed.
func (s *session) vanish(id ecs.EntityID, reason wire.VanishReason, reset bool) {
	if !s.seen[id] {
		return
	}
	delete(s.seen, id)
	s.updates = appendUpdateHeader(s.updates, id, 2+boolSize(reset))
	s.updates = protowire.AppendTag(s.updates, updateVanish, protowire.VarintType)
	s.updates = protowire.AppendVarint(s.updates, uint64(reason))
	s.updates = appendBool(s.updates, updateReset, reset)
}

// showPrivate adds what only this account may know, once its entity is in sight.
func (s *session) showPrivate() {
	if len(s.private) == 0 || !s.seen[s.entity] {
		return
	}
	s.updates = appendUpdateHeader(s.updates, s.entity, len(s.private))
	s.updates = append(s.updates, s.private...)
	s.private = s.private[:0]
}

// write hands the driver this tick's envelopes and batch, if there is anything.
func (s *session) write() {
	done := s.complete && s.setComplete()
	if len(s.updates) > 0 || done {
		s.complete = s.complete && !done
		s.sequence++
		size := varintField(stateSequence, s.sequence) + varintField(stateTick, uint64(s.gate.tick)) + len(s.updates) + boolSize(done)
		envelope := protowire.SizeTag(envelopeBatch) + protowire.SizeBytes(size)
		s.out = slices.Grow(s.out, envelope+10)
		s.out = protowire.AppendVarint(s.out, uint64(envelope))
		s.out = protowire.AppendTag(s.out, envelopeBatch, protowire.BytesType)
		s.out = protowire.AppendVarint(s.out, uint64(size))
		s.out = protowire.AppendTag(s.out, stateSequence, protowire.VarintType)
		s.out = protowire.AppendVarint(s.out, s.sequence)
		s.out = protowire.AppendTag(s.out, stateTick, protowire.VarintType)
		s.out = protowire.AppendVarint(s.out, uint64(s.gate.tick))
		s.out = append(s.out, s.updates...)
		s.out = appendBool(s.out, stateComplete, done)
		s.updates = s.updates[:0]
	}
	if len(s.out) > 0 {
		s.gate.out.Clients = append(s.gate.out.Clients, ClientBytes{Conn: s.conn, Bytes: s.out})
		s.out = nil
	}
}

func varintField(num protowire.Number, v uint64) int {
	return protowire.SizeTag(num) + protowire.SizeVarint(v)
}

// setComplete reports whether all that is in sight has been sent: each announced chunk, and each holder's snapshot of it.
func (s *session) setComplete() bool {
	if s.state != sessionAttached || !s.view.Settled() || !s.seen[s.entity] {
		return false
	}
	for _, chunk := range s.gate.observers.Chunks(s.account) {
		if !s.gate.complete(chunk) {
			return false
		}
	}
	return true
}
