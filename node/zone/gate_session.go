package zone

import (
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/interest"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

// ProtocolVersion of the client protocol that this node speaks.
const ProtocolVersion = 1

const (
	attachRetryTicks = 4
	// ownTicks is how long the own entity may be missing while the session is attached: 2 s.
	ownTicks = 2 * TicksPerSecond
	// loginTicks is how long a login may take before the client is told that the world is not available: 20 s.
	loginTicks = 20 * TicksPerSecond
	// lostTicks is for how long the store may have no record of the own entity: longer than a creation can be under way, 15 s.
	lostTicks = 15 * TicksPerSecond
	// maxPrivate bounds the bytes for an account's own eyes in one tick.
	maxPrivate = 64 << 10
)

type sessionState int

const (
	// sessionClaiming: the directory is asked for the account.
	sessionClaiming sessionState = iota
	// sessionAttaching: the owner of the account's entity is asked to bind this session.
	sessionAttaching
	// sessionAttached: inputs flow.
	sessionAttached
)

// session is one account at its gateway.
type session struct {
	gate    *gate
	conn    ConnID
	account uint64
	info    ClientConnected
	state   sessionState
	began   int64
	welcome bool // the client has been welcomed

	epoch, login uint64
	outbid       uint64 // the highest epoch of another gateway's claim that is known, while this one's is not answered
	resumed      bool
	secret       string
	entity       ecs.EntityID
	home         int // region index of the entity
	owner        string
	ownEpoch     ecs.Epoch // of the last message for the own account
	followed     ecs.Epoch // of the replica whose owner we follow
	recoveries   uint32    // of the entity when it was attached
	retry        int64     // tick of the next attach or resend; 0: none
	ownSeen      int64     // tick at which the own entity was here last
	lost         int64     // tick since which the store has no record of the entity; 0: it has

	calls   route.Queue
	head    uint64 // the first unanswered call,
	headAt  int64  // and the tick since which it is
	view    interest.View
	held    map[uint64]uint32
	asked   map[uint64]bool // chunks whose payload was asked for
	seen    map[ecs.EntityID]bool
	touched []ecs.EntityID
	private []byte // components and events for the own entity of this tick

	sequence   uint64
	out        []byte // envelopes before this tick's batch
	updates    []byte
	manifested bool
	complete   bool // a full set is being sent; set_complete is due
	full       bool // all in sight counts as unseen
	narrowed   bool // a chunk was given up in this tick
}

// client takes one event of a connection.
func (g *gate) client(ev *ClientEvent) {
	s := g.conns[ev.Conn]
	switch {
	case ev.Connected != nil:
		g.connect(ev.Conn, ev.Connected)
	case s == nil:
	case ev.Closed:
		s.end(wire.Disconnected_REASON_UNSPECIFIED, "", false)
	case ev.Message != nil:
		s.message(ev.Message)
	}
}

// connect begins a session: whoever holds the account here is displaced, then the directory is asked.
func (g *gate) connect(conn ConnID, info *ClientConnected) {
	if old := g.sessions[info.Account]; old != nil {
		old.endDisplaced()
	}
	s := &session{
		gate: g, conn: conn, account: info.Account, info: *info, began: g.tick,
		held: map[uint64]uint32{}, asked: map[uint64]bool{}, seen: map[ecs.EntityID]bool{},
	}
	for _, h := range info.Held {
		c := torus.ChunkPos{X: int32(h.X), Y: int32(h.Y)}
		if g.grid.CanonicalChunk(c) {
			s.held[g.grid.ChunkKey(c)] = h.Revision
		}
	}
	g.sessions[s.account], g.conns[conn] = s, s
	i, _ := slices.BinarySearch(g.order, s.account)
	g.order = slices.Insert(g.order, i, s.account)
	s.claim()
}

// claim raises the account's session epoch in the directory and learns where its entity is.
func (s *session) claim() {
	s.state, s.retry = sessionClaiming, 0
	s.gate.store(StoreRequest{
		Op: StoreClaimSession, Account: s.account, Session: s.gate.self, Resume: s.info.Resume, FreshSecret: s.info.FreshSecret,
	}, s.claimed)
}

func (s *session) claimed(a StoreAnswer) {
	g := s.gate
	if a.PreviousGateway != "" && a.PreviousGateway != g.self { // also if this socket is lost by now: that one was first
		g.send(a.PreviousGateway, &wire.PeerMessage{Message: &wire.PeerMessage_Displace{Displace: &wire.Displace{Account: s.account, SessionEpoch: a.SessionEpoch}}})
	}
	if g.sessions[s.account] != s {
		return
	}
	g.at(Happened{Point: SessionClaimed, Account: s.account, Number: a.SessionEpoch})
	first := s.epoch == 0
	switch {
	case a.SessionEpoch < s.outbid:
		s.endDisplaced()
		return
	case a.Code == StoreUnfit:
		s.end(wire.Disconnected_REASON_UNAVAILABLE, "your character is stored at a place that this world does not have: its operators must see to it", false)
		return
	}
	s.epoch, s.login, s.secret = a.SessionEpoch, a.LoginEpoch, a.ResumeSecret
	switch {
	case first && a.Resumed:
		g.stats.Resumes++
		g.at(Happened{Point: SessionResumed, Account: s.account})
		s.resumed = a.Record != nil // else the store has lost who it was: it begins anew
		s.calls.Start(s.info.AckedInput)
	case first:
		g.stats.Logins++
	}
	s.info.Resume = s.secret // a later claim of this session goes on with it
	if a.Record != nil {
		s.entity, s.home = a.Record.Entity, g.grid.RegionIndex(a.Record.Home)
	} else {
		s.entity, s.home = 0, g.grid.RegionIndexOf(s.spawn())
	}
	s.attachAgain()
}

// spawn is where a new master appears.
func (s *session) spawn() torus.Pos {
	if s.info.Spawn != nil {
		return s.gate.grid.Wrap(*s.info.Spawn)
	}
	return game.Birthplace(s.gate.grid, s.account)
}

// attachAgain (re)binds this session at the owner of its entity.
func (s *session) attachAgain() {
	if s.state == sessionClaiming && s.epoch == 0 {
		return
	}
	s.state, s.retry = sessionAttaching, s.gate.tick
}

// lostOwner: the owner died. What it had executed since its last save is undone; the client gets its full set.
func (s *session) lostOwner() {
	s.gate.at(Happened{Point: SessionOwnerLost, Account: s.account, Peer: s.owner})
	s.began = s.gate.tick
	s.attachAgain()
	s.startFull("the node that simulated you failed; the world goes on from at most 5 seconds before")
}

// startFull sends everything in sight again, closed by set_complete.
func (s *session) startFull(detail string) {
	if !s.welcome {
		return
	}
	s.envelope(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Resync{Resync: &wire.Resync{Detail: detail}}})
	s.complete, s.full = true, true
}

// step retries what is due.
func (s *session) step() {
	g := s.gate
	if !s.welcome && g.tick-s.began > loginTicks {
		s.end(wire.Disconnected_REASON_UNAVAILABLE, "the world cannot take you in right now; try again in a moment", false)
		return
	}
	if r := g.replicas.Get(s.entity); r != nil && s.state == sessionAttached && s.followed.Less(r.Epoch) && g.alive(r.Owner) {
		s.followed, s.home = r.Epoch, int(r.Home)
		if r.Epoch.Recoveries > s.recoveries { // by its own owner, which lost its region and got it back
			s.recoveries = r.Epoch.Recoveries
			s.lostOwner()
		}
		if r.Owner != s.owner {
			s.owner = r.Owner // handed over: what is unanswered goes to the new owner
			s.calls.Resend(0)
		}
	}
	s.missOwn()
	s.missAnswer()
	if s.retry == 0 || g.tick < s.retry {
		return
	}
	s.retry = 0
	switch s.state {
	case sessionAttaching:
		s.attach()
	case sessionAttached:
		s.calls.Resend(0)
	}
}

// missOwn attaches again when the account's own entity does not come: its snapshot went with the attach and may have been
// lost with a link that broke, while the answer was kept.
func (s *session) missOwn() {
	g := s.gate
	if s.state != sessionAttached || g.replicas.Get(s.entity) != nil {
		s.ownSeen = g.tick
		return
	}
	if g.tick-s.ownSeen > ownTicks {
		s.ownSeen = g.tick
		s.attachAgain()
	}
}

func (s *session) attach() {
	g := s.gate
	s.retry = g.tick + 10*attachRetryTicks
	holder := g.table.At(s.home).Session
	if !g.linked(holder) {
		s.retry = g.tick + attachRetryTicks
		return
	}
	s.owner = holder
	at := s.spawn()
	g.send(holder, &wire.PeerMessage{Message: &wire.PeerMessage_Attach{Attach: &wire.Attach{
		Account: s.account, SessionEpoch: s.epoch, LoginEpoch: s.login, Entity: uint64(s.entity), Region: uint32(s.home),
		Spawn: &wire.Position{X: uint32(at.X), Y: uint32(at.Y), Z: int32(at.Z)}, Name: s.info.Name, AckedInput: s.calls.Acked(),
	}}})
}

func (g *gate) attachAnswered(from string, m *wire.AttachAnswer) {
	s := g.sessions[m.Account]
	if s == nil || s.state != sessionAttaching || s.epoch != m.SessionEpoch {
		return
	}
	if m.Region >= uint32(g.grid.Regions()) {
		g.stats.Malformed++
		return
	}
	switch m.Code {
	case wire.AttachAnswer_CODE_OK:
		s.attached(from, m)
	case wire.AttachAnswer_CODE_WAIT:
		s.retry = g.tick + attachRetryTicks
	case wire.AttachAnswer_CODE_MOVED:
		s.home = int(m.Region)
		if m.Entity != 0 {
			s.entity = ecs.EntityID(m.Entity)
		}
		s.retry = g.tick + 1
	case wire.AttachAnswer_CODE_NOT_HERE:
		s.lookUp()
	case wire.AttachAnswer_CODE_STALE_SESSION:
		s.stale(m.KnownSessionEpoch)
	}
}

// stale: the owner knows a session at least as new. One that was attached before is displaced; one that was not claims
// again, above what the owner knows, in case the directory forgot.
func (s *session) stale(known uint64) {
	s.gate.at(Happened{Point: SessionStale, Account: s.account, Number: known})
	if s.welcome && known > s.epoch {
		s.endDisplaced()
		return
	}
	s.claim()
}

// lookUp asks the store where the entity is.
func (s *session) lookUp() {
	s.retry = 0
	if s.entity == 0 {
		s.retry = s.gate.tick + attachRetryTicks
		return
	}
	s.gate.store(StoreRequest{Op: StoreLoad, Entity: s.entity}, func(a StoreAnswer) {
		if s.gate.sessions[s.account] != s || s.state != sessionAttaching {
			return
		}
		s.retry = s.gate.tick + 2*attachRetryTicks
		switch {
		case a.Code == StoreOK && a.Record != nil:
			s.home, s.lost = s.gate.grid.RegionIndex(a.Record.Home), 0
		case a.Code == StoreMissing && s.lost == 0:
			s.lost = s.gate.tick
		case a.Code == StoreMissing && s.gate.tick-s.lost > lostTicks:
			s.end(wire.Disconnected_REASON_UNAVAILABLE, "the store has lost your character with its last writes; log in again to begin anew", false)
		}
	})
}

func (s *session) attached(from string, m *wire.AttachAnswer) {
	s.gate.at(Happened{Point: SessionAttached, Account: s.account, Entity: ecs.EntityID(m.Entity), Peer: from})
	s.state, s.owner, s.retry, s.lost = sessionAttached, from, 0, 0
	s.entity, s.home, s.recoveries = ecs.EntityID(m.Entity), int(m.Region), epochOf(m.Epoch).Recoveries
	s.calls.Resend(0) // what was executed and not answered is answered from the entity's log
	s.touch(s.entity)
	if s.welcome {
		return
	}
	s.calls.Start(m.LastInput)
	s.welcome = true
	s.complete = s.resumed
	s.envelope(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Welcome{Welcome: &wire.Welcome{
		ProtocolVersion: ProtocolVersion, Account: s.account, SessionEpoch: s.epoch, Entity: uint64(s.entity), ResumeToken: s.secret,
		NextInput: s.calls.Next(), Resumed: s.resumed, Columns: uint32(s.gate.grid.Columns()), Rows: uint32(s.gate.grid.Rows()),
		RegionEdgeChunks: uint32(s.gate.grid.RegionEdgeChunks()), TickMilliseconds: uint32(TickDuration.Milliseconds()), Node: s.gate.cfg.Node,
	}}})
}

// message takes a checked message of the client.
func (s *session) message(m *wire.ClientEnvelope) {
	switch m := m.Message.(type) {
	case *wire.ClientEnvelope_Input:
		s.input(m.Input)
	case *wire.ClientEnvelope_ChunkRequest:
		s.request(m.ChunkRequest)
	case *wire.ClientEnvelope_Logout:
		s.end(wire.Disconnected_REASON_LOGGED_OUT, "good-bye", true)
	}
}

// end closes the session. The owner learns that the socket is lost, or that the player left. It counts for this very session, so it is
// told in each state, and also when another session displaces this one: that one may be given up before it is attached.
func (s *session) end(reason wire.Disconnected_Reason, detail string, logout bool) {
	g := s.gate
	if g.sessions[s.account] != s {
		return
	}
	if s.epoch != 0 && s.entity != 0 && s.owner != "" {
		g.send(s.owner, &wire.PeerMessage{Message: &wire.PeerMessage_Detach{Detach: &wire.Detach{
			Account: s.account, SessionEpoch: s.epoch, Entity: uint64(s.entity), Logout: logout,
		}}})
	}
	s.remove(reason, detail)
}

// displaced: another gateway claimed the account, at an epoch. A session that waits for its own claim may be newer: that tells.
func (s *session) displaced(epoch uint64) {
	switch {
	case s.state == sessionClaiming:
		s.outbid = max(s.outbid, epoch)
	case s.epoch < epoch:
		s.endDisplaced()
	}
}

func (s *session) endDisplaced() {
	s.gate.stats.Displaced++
	s.gate.at(Happened{Point: SessionDisplaced, Account: s.account})
	s.end(wire.Disconnected_REASON_DISPLACED, "the account logged in elsewhere", false)
}

func (s *session) remove(reason wire.Disconnected_Reason, detail string) {
	g := s.gate
	for _, chunk := range g.observers.Drop(s.account) {
		g.unsubscribe(chunk)
	}
	delete(g.sessions, s.account)
	delete(g.conns, s.conn)
	if i, found := slices.BinarySearch(g.order, s.account); found {
		g.order = slices.Delete(g.order, i, i+1)
	}
	g.replicas.DropAccount(s.account)
	if len(s.out) > 0 {
		g.out.Clients = append(g.out.Clients, ClientBytes{Conn: s.conn, Bytes: s.out})
	}
	if reason != wire.Disconnected_REASON_UNSPECIFIED {
		g.out.Close = append(g.out.Close, ClientClose{Conn: s.conn, Reason: reason, Detail: detail})
	}
}

// SessionInfo tells where an account's session stands, for tools and tests.
type SessionInfo struct {
	Attached   bool
	Entity     ecs.EntityID
	Home       int    // region index
	Owner      string // session that the inputs go to
	Unanswered int
	Epoch      uint64
}

// Session returns the session of an account whose gateway is here.
func (e *Engine) Session(account uint64) (info SessionInfo, ok bool) {
	s := e.gate.sessions[account]
	if s == nil {
		return info, false
	}
	return SessionInfo{s.state == sessionAttached, s.entity, s.home, s.owner, len(s.calls.Open()), s.epoch}, true
}
