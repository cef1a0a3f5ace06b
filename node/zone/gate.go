package zone

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/ghost"
	"github.com/spatialcells/spatialcells/node/interest"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// gate is the gateway half of an engine: accounts, their views, and the replicas of all that they observe.
type gate struct {
	*Engine
	replicas *ghost.Store
	sessions map[uint64]*session // by account
	order    []uint64            // accounts, sorted
	accounts []uint64            // scratch
	conns    map[ConnID]*session

	observers interest.Subscriptions[uint64] // accounts by chunk
	holders   map[uint64][]string            // by observed chunk: where we are subscribed, sorted
	homes     map[uint32]int                 // how many of those may have something of a region
	ready     map[uint64][]covered           // by observed chunk: what of it the snapshots that are here have told
	awaited   map[burst]bool                 // snapshots that were asked for and are not here
	owing     map[string]int                 // their number, by session
	add, drop map[string][]uint64            // subscriptions to tell, by session
	fetching  map[uint64][]uint64            // by chunk: accounts that wait for the payload
	seenUp    map[string]bool                // peers whose replication stream was up before
	resync    bool                           // a replication stream broke: all clients get their full set
	jumped    map[ecs.EntityID]bool          // replicas that went in this tick, and not by walking

	update []byte
	full   []byte
}

// covered is a region of which its holder has told what is in a chunk.
type covered struct {
	home uint32
	by   string
}

func newGate(e *Engine) *gate {
	g := &gate{
		Engine: e, sessions: map[uint64]*session{}, conns: map[ConnID]*session{},
		holders: map[uint64][]string{}, homes: map[uint32]int{}, ready: map[uint64][]covered{}, add: map[string][]uint64{}, drop: map[string][]uint64{},
		jumped: map[ecs.EntityID]bool{}, awaited: map[burst]bool{}, owing: map[string]int{}, fetching: map[uint64][]uint64{}, seenUp: map[string]bool{},
	}
	g.replicas = ghost.New(func(s string) bool { return !e.alive(s) }, g.interested)
	g.replicas.Keeps = func(account uint64) bool { s := g.sessions[account]; return s != nil && s.welcome }
	g.replicas.Leads = func(number uint32) bool { return number == game.NumberPosition || number == game.NumberPath }
	g.replicas.Uncertain = func(s string) bool { return !e.alive(s) || g.silent(s) }
	g.replicas.Observed = func(home uint32) bool { return g.homes[home] > 0 }
	g.replicas.Complete = func(chunk uint64) bool {
		_, observed := g.holders[chunk]
		return !observed || g.complete(chunk)
	}
	g.replicas.Observe = func(ev ghost.Event, id ecs.EntityID) { e.at(Happened{Point: ghostPoints[ev], Entity: id}) }
	return g
}

// interested reports whether anybody here observes a chunk, or an entity of an account because it is its own.
func (g *gate) interested(chunk, account uint64) bool {
	return len(g.observers.Observers(chunk)) > 0 || account != 0 && g.sessions[account] != nil
}

// silent reports whether nothing came of a session for so long that what it owns may be elsewhere by now.
func (g *gate) silent(session string) bool {
	p := g.peers[session]
	return p == nil || g.tick-p.heard > jumpTicks
}

// observe subscribes an account to a chunk that it was sent. The first observer subscribes this node, at every holder.
func (g *gate) observe(s *session, chunk uint64) {
	added, first := g.observers.Add(s.account, chunk)
	if !added {
		return
	}
	for _, id := range g.replicas.In(chunk) {
		s.touch(id)
	}
	if first {
		g.subscribe(chunk)
	}
}

func (g *gate) release(s *session, chunk uint64) {
	removed, last := g.observers.Remove(s.account, chunk)
	if !removed {
		return
	}
	s.narrowed = true
	if last {
		g.unsubscribe(chunk)
	}
}

// subscribe asks every holder of a chunk for it. An owner's replicas that its snapshot does not confirm will vanish.
func (g *gate) subscribe(chunk uint64) {
	if _, observed := g.holders[chunk]; !observed {
		g.countHomes(chunk, 1)
	}
	want := g.table.AppendHolders(nil, g.grid.ChunkFromKey(chunk))
	slices.Sort(want)
	have := g.holders[chunk]
	for _, session := range want {
		if _, found := slices.BinarySearch(have, session); !found {
			g.at(Happened{Point: SubscriptionAsked, Peer: session, Place: chunk})
			g.ask(session, chunk)
		}
	}
	for _, session := range have {
		if _, found := slices.BinarySearch(want, session); !found {
			g.at(Happened{Point: SubscriptionMoved, Peer: session, Place: chunk})
			g.leave(session, chunk)
			g.replicas.Unheard(chunk, session)
			g.unready(session, chunk)
		}
	}
	g.holders[chunk] = want
}

// countHomes counts the observed chunks that each region may have something in.
func (g *gate) countHomes(chunk uint64, by int) {
	var buf [4]torus.RegionPos
	for _, at := range partition.AppendRegionsTouched(buf[:0], g.grid, g.grid.ChunkFromKey(chunk), partition.Hysteresis) {
		g.homes[uint32(g.grid.RegionIndex(at))] += by
	}
}

// ask subscribes at a session. One that is not linked is asked for all that is wanted of it when it is.
func (g *gate) ask(session string, chunk uint64) {
	if g.linked(session) {
		g.add[session] = append(g.add[session], chunk)
	}
	if !g.awaited[burst{session, chunk}] {
		g.awaited[burst{session, chunk}] = true
		g.owing[session]++
	}
	g.unready(session, chunk)
	g.replicas.BeginSnapshot(chunk, session)
}

// leave tells a session that a chunk is not observed any more. A subscription that has not gone out yet never does: the
// batch has those that end before those that begin.
func (g *gate) leave(session string, chunk uint64) {
	g.answered(session, chunk)
	if g.linked(session) {
		g.add[session] = slices.DeleteFunc(g.add[session], func(c uint64) bool { return c == chunk })
		g.drop[session] = append(g.drop[session], chunk)
	}
}

// askAgain: an owner has recovered a region of an observed chunk; what it does not confirm is undone.
func (g *gate) askAgain(session string, chunk uint64) {
	if _, subscribed := slices.BinarySearch(g.holders[chunk], session); subscribed {
		g.at(Happened{Point: SubscriptionAgain, Peer: session, Place: chunk})
		g.ask(session, chunk)
	}
}

func (g *gate) unready(session string, chunk uint64) {
	g.ready[chunk] = slices.DeleteFunc(g.ready[chunk], func(c covered) bool { return c.by == session })
}

func (g *gate) unsubscribe(chunk uint64) {
	for _, session := range g.holders[chunk] {
		g.at(Happened{Point: SubscriptionReleased, Peer: session, Place: chunk})
		g.leave(session, chunk)
	}
	g.countHomes(chunk, -1)
	delete(g.holders, chunk)
	delete(g.ready, chunk)
	g.replicas.Drop(chunk)
}

// appendSubscriptions encodes what this node wants of a peer from now on.
func (g *gate) appendSubscriptions(dst []byte, session string) []byte {
	dst = appendKeys(dst, batchUnsubscribe, g.drop[session])
	dst = appendKeys(dst, batchSubscribe, g.add[session])
	delete(g.drop, session)
	delete(g.add, session)
	return dst
}

// tableChanged follows the holders of the observed chunks. Most tables change none: they bring an order, or a stage.
func (g *gate) tableChanged(before *partition.Table) {
	passed := map[int]bool{}
	for home := range g.grid.Regions() {
		if from, to := before.At(home).Session, g.table.At(home).Session; from != to {
			g.replicas.Passed(uint32(home), from, to)
			passed[home] = true
		}
	}
	if len(passed) == 0 {
		return
	}
	for _, chunk := range g.observedChunks(func(chunk uint64) bool { return g.touches(chunk, passed) }) {
		g.subscribe(chunk)
	}
}

// touches reports whether one of the regions may have something in a chunk.
func (g *gate) touches(chunk uint64, regions map[int]bool) bool {
	var buf [4]torus.RegionPos
	return slices.ContainsFunc(partition.AppendRegionsTouched(buf[:0], g.grid, g.grid.ChunkFromKey(chunk), partition.Hysteresis), func(at torus.RegionPos) bool {
		return regions[g.grid.RegionIndex(at)]
	})
}

// observedChunks are those observed chunks that are wanted, by key.
func (g *gate) observedChunks(wanted func(chunk uint64) bool) []uint64 {
	var chunks []uint64
	for chunk := range g.holders {
		if wanted(chunk) {
			chunks = append(chunks, chunk)
		}
	}
	slices.Sort(chunks)
	return chunks
}

// observedAt are the chunks that this node observes at a session, by key.
func (g *gate) observedAt(session string) []uint64 {
	return g.observedChunks(func(chunk uint64) bool {
		_, found := slices.BinarySearch(g.holders[chunk], session)
		return found
	})
}

// peerUp: the replication stream is new; all that is wanted of the peer is asked for again, and news of what it owns may be missing.
// Where the stream broke, events may be, too: every client is told, and gets its full set.
func (g *gate) peerUp(session string) {
	delete(g.add, session)
	delete(g.drop, session)
	g.forgetAwaited(session)
	for _, chunk := range g.observedAt(session) {
		g.at(Happened{Point: SubscriptionAgain, Peer: session, Place: chunk})
		g.ask(session, chunk)
	}
	g.replicas.Interrupted(session) // also the first time: it may have had for long what others have signed off to it
	g.resync = g.resync || g.seenUp[session]
	g.seenUp[session] = true
	for _, account := range g.order {
		if s := g.sessions[account]; s.owner == session && s.state == sessionAttached {
			s.attachAgain()
		}
	}
}

// peerDead: the sessions whose entity it owned attach to its next owner.
func (g *gate) peerDead(session string) {
	delete(g.add, session)
	delete(g.drop, session)
	delete(g.seenUp, session)
	g.forgetAwaited(session)
	for _, account := range g.order {
		if s := g.sessions[account]; s.owner == session && s.state == sessionAttached {
			s.lostOwner()
		}
	}
}

func (g *gate) snapshotDone(from string, chunk uint64, homes, grounds []uint32) {
	g.at(Happened{Point: SubscriptionDone, Peer: from, Place: chunk})
	g.replicas.EndGround(chunk, from, grounds)
	g.replicas.EndSnapshot(chunk, from, homes)
	if _, found := slices.BinarySearch(g.holders[chunk], from); found {
		g.unready(from, chunk)
		for _, home := range homes {
			g.ready[chunk] = append(g.ready[chunk], covered{home, from})
		}
	}
	g.answered(from, chunk)
}

// answered: a snapshot is here, or is not wanted any more. With the last one of a session it is known what none confirmed.
func (g *gate) answered(session string, chunk uint64) {
	if b := (burst{session, chunk}); g.awaited[b] {
		delete(g.awaited, b)
		g.owing[session]--
	}
	if g.owing[session] <= 0 {
		delete(g.owing, session)
		g.replicas.Sweep(session)
	}
}

// forgetAwaited: what was asked of a session will not come on this stream.
func (g *gate) forgetAwaited(session string) {
	delete(g.owing, session)
	for b := range g.awaited {
		if b.to == session {
			delete(g.awaited, b)
		}
	}
}

// complete reports whether the present holders have told all of a chunk. While a region of it is nobody's, is being recovered,
// or its holder is not heard, nobody here knows all: what a client saw there, also by another gateway, may be there still.
func (g *gate) complete(chunk uint64) bool {
	var buf [4]torus.RegionPos
	for _, at := range partition.AppendRegionsTouched(buf[:0], g.grid, g.grid.ChunkFromKey(chunk), partition.Hysteresis) {
		home := g.grid.RegionIndex(at)
		holder := g.table.At(home).Session
		if p := g.peers[holder]; p == nil || !p.up || !slices.Contains(g.ready[chunk], covered{uint32(home), holder}) {
			return false
		}
	}
	return true
}

// prepare runs before the simulation: views follow their anchors, inputs go to their owners.
func (g *gate) prepare() {
	g.replicas.Expire(g.tick)
	g.askForUnknown()
	if g.stopping {
		g.closeAll()
		return
	}
	if g.tick%fetchRepeatTicks == 0 {
		g.fetchAgain()
	}
	g.accounts = append(g.accounts[:0], g.order...) // a session may end on the way
	for _, account := range g.accounts {
		s := g.sessions[account]
		s.step()
		if g.sessions[account] == s {
			s.look()
			s.forward()
		}
	}
}

// askForUnknown asks again for chunks of which news came about an entity that is not here: owner and observer disagreed
// for a moment about what was told, because an account left at one and had not yet left at the other.
func (g *gate) askForUnknown() {
	asked := map[ghost.Unknown]bool{}
	for _, u := range g.replicas.TakeUnknown() {
		if _, subscribed := slices.BinarySearch(g.holders[u.Chunk], u.Owner); subscribed && !asked[u] {
			asked[u] = true
			g.stats.AskedAgain++
			g.at(Happened{Point: SubscriptionUnknown, Peer: u.Owner, Place: u.Chunk})
			g.ask(u.Owner, u.Chunk)
		}
	}
}

// closeAll sends every player elsewhere: their masters stay for the resume window, here or with the next owner.
func (g *gate) closeAll() {
	g.accounts = append(g.accounts[:0], g.order...)
	for _, account := range g.accounts {
		g.sessions[account].end(wire.Disconnected_REASON_SHUTTING_DOWN, "this node goes down; reconnect to another one with your resume token", false)
	}
}

// fetchRepeatTicks is after how long a payload that did not come is asked for again: 2 s.
const fetchRepeatTicks = 2 * TicksPerSecond

func (g *gate) fetchAgain() {
	keys := make([]uint64, 0, len(g.fetching))
	for key := range g.fetching {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		g.out.Chunks = append(g.out.Chunks, ChunkRequest{Chunk: g.grid.ChunkFromKey(key)})
	}
}

// accountMessage passes on what only the account may know.
func (g *gate) accountMessage(from string, m *wire.AccountMessage) {
	s := g.sessions[m.Account]
	if s == nil || s.epoch != m.SessionEpoch {
		g.stats.RoutedNowhere++
		g.send(from, &wire.PeerMessage{Message: &wire.PeerMessage_NotHere{NotHere: &wire.NotHere{
			Account: m.Account, SessionEpoch: m.SessionEpoch, Entity: m.Entity,
		}}})
		return
	}
	epoch := epochOf(m.Epoch)
	if epoch.Less(s.ownEpoch) || len(s.private)+len(m.Components)+len(m.Events) > maxPrivate {
		g.stats.ReplicaStale++
		return
	}
	s.ownEpoch = epoch
	s.private = append(append(s.private, m.Components...), m.Events...)
	s.touch(ecs.EntityID(m.Entity))
}

// displaced: another gateway claimed the account.
func (g *gate) displaced(m *wire.Displace) {
	if s := g.sessions[m.Account]; s != nil {
		s.displaced(m.SessionEpoch)
	}
}

// chunkAnswered hands a payload to all who wait for it.
func (g *gate) chunkAnswered(a *ChunkAnswer) {
	key := g.grid.ChunkKey(a.Chunk)
	waiting := g.fetching[key]
	delete(g.fetching, key)
	for _, account := range waiting {
		if s := g.sessions[account]; s != nil {
			s.sendChunk(key, a)
		}
	}
}
