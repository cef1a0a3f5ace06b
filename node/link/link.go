package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
)

// Handler hears of peers and their messages. Calls come from the link's goroutines, for each session one after the other
// and in order. They must not block and must not call SetPeers or Close.
type Handler interface {
	// PeerUp: the connection stands. Replication begins anew in both directions; stream names it, for SendReplication.
	// Reliable messages go on where they were.
	PeerUp(session string, stream uint64)
	// PeerDown: the connection broke. Comes after PeerUp only.
	PeerDown(session string)
	// PeerDead: the session is not among the live ones any more. Comes once, and nothing of the session after it.
	PeerDead(session string)
	// Replication is one batch; the bytes are the handler's.
	Replication(session string, b []byte)
	// Reliable is one message; the bytes are the handler's.
	Reliable(session string, b []byte)
}

// Peer is a live session as its Lease announces it.
type Peer struct {
	Session string
	// Address is host:port of its Link.
	Address string
	// KeyHash is Identity.KeyHash of its incarnation.
	KeyHash string
}

// Config says who this node is and what it insists on.
type Config struct {
	// Session is this incarnation; see the session Lease.
	Session        string
	WorldUID       string
	SeedHash       uint64
	TerrainVersion uint32
	// Codecs are the component versions this build reads and writes.
	Codecs []*wire.CodecVersion

	// ListenHost is the address to listen on; empty: all. Port 0 takes any free one.
	ListenHost string
	Port       int
	// DialFrom is the source IP address of outgoing connections; empty: the system chooses.
	DialFrom string

	Handler Handler
	// Fence is the deadline, on the clock of Now, after which nothing may be written.
	Fence func() time.Duration
	// Now reads CLOCK_BOOTTIME.
	Now func() time.Duration

	// Log and Metrics may be nil.
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Limits  Limits
}

// Link is this node's end of all its connections.
type Link struct {
	cfg      Config
	limits   Limits
	identity Identity
	protocol struct{ newest, oldest uint32 }
	listener net.Listener
	doorway  doorway
	gate     gate
	metrics  *metrics
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	setPeers sync.Mutex // one SetPeers at a time
	mu       sync.RWMutex
	closed   bool
	peers    map[string]*peer
	graves   graves

	causes causes
}

// New listens and waits for SetPeers. It fails on an incomplete Config, an address that is taken, or metrics that are
// registered twice.
func New(cfg Config, identity Identity) (*Link, error) {
	if err := cfg.check(identity); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Link{
		cfg: cfg, limits: cfg.Limits.withDefaults(), identity: identity,
		doorway: doorway{byAddress: map[string]int{}}, peers: map[string]*peer{}, graves: newGraves(),
	}
	l.protocol.newest, l.protocol.oldest = ProtocolVersion, MinProtocolVersion
	if size := proto.Size(l.hello(strings.Repeat("x", maxName), math.MaxUint64)); size > maxBody {
		return nil, fmt.Errorf("the Hello takes %d bytes, at most %d are allowed: too many codecs", size, maxBody)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.metrics = newMetrics(l)
	l.gate = gate{
		now: cfg.Now, deadline: cfg.Fence, poll: l.limits.FencePoll, wg: &l.wg,
		onHeld: func(change int) { l.metrics.held.Add(float64(change)) },
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(cfg.ListenHost, strconv.Itoa(cfg.Port)))
	if err != nil {
		return nil, fmt.Errorf("opening the link port: %w", err)
	}
	l.listener = listener
	if err := l.metrics.register(cfg.Metrics); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("registering the link metrics: %w", err)
	}
	l.wg.Add(1)
	go l.accept()
	return l, nil
}

func (c Config) check(identity Identity) error {
	var missing []string
	for name, absent := range map[string]bool{
		"Session": c.Session == "", "Handler": c.Handler == nil, "Fence": c.Fence == nil, "Now": c.Now == nil,
		"identity": identity.keyHash == "",
	} {
		if absent {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("link config without %s", strings.Join(missing, ", "))
	}
	if c.DialFrom != "" && net.ParseIP(c.DialFrom) == nil {
		return fmt.Errorf("DialFrom %q is not an IP address", c.DialFrom)
	}
	if len(c.Session) > maxName || len(c.WorldUID) > maxName || len(c.Codecs) > maxCodecs {
		return errors.New("session, world uid or codec list too long")
	}
	return nil
}

// Addr is the address it listens on.
func (l *Link) Addr() net.Addr { return l.listener.Addr() }

// SetPeers takes the live sessions by their Leases; this node's own is passed over. A session that was there before and
// is missing now is dead for good: when SetPeers returns, PeerDead was called and nothing of it is handed over any more.
func (l *Link) SetPeers(live []Peer) {
	l.setPeers.Lock()
	defer l.setPeers.Unlock()
	wanted := make(map[string]Peer, len(live))
	for _, p := range live {
		if p.Session == l.cfg.Session || p.Session == "" || len(p.Session) > maxName {
			continue
		}
		p.KeyHash = strings.ToLower(p.KeyHash)
		wanted[p.Session] = p
	}
	for _, p := range l.missing(wanted) {
		p.bury()
	}
	for _, announced := range wanted {
		l.admit(announced)
	}
}

// missing removes the peers that are not wanted, and digs their graves.
func (l *Link) missing(wanted map[string]Peer) []*peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var gone []*peer
	for session, p := range l.peers {
		if _, live := wanted[session]; !live {
			delete(l.peers, session)
			l.graves.add(session, p.lease().KeyHash)
			gone = append(gone, p)
		}
	}
	return gone
}

func (l *Link) admit(announced Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if p := l.peers[announced.Session]; p != nil {
		p.update(announced)
		return
	}
	if l.graves.has(announced.Session) {
		l.logOnce("risen", announced.Session, "a dead session is among the live ones and stays refused")
		return
	}
	if len(l.peers) >= maxPeers {
		l.logOnce("peers", "all", "more live sessions than a world can have; some are not linked", "limit", maxPeers)
		return
	}
	p := newPeer(l, announced)
	l.peers[announced.Session] = p
	l.wg.Add(1)
	go p.run()
}

func (l *Link) find(session string) *peer {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.peers[session]
}

func (l *Link) all() []*peer {
	l.mu.RLock()
	defer l.mu.RUnlock()
	all := make([]*peer, 0, len(l.peers))
	for _, p := range l.peers {
		all = append(all, p)
	}
	return all
}

// knownKey tells the key of a live session from that of a dead one and from a stranger's.
func (l *Link) knownKey(key string) error {
	for _, p := range l.all() {
		if p.lease().KeyHash == key {
			return nil
		}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if session, dead := l.graves.byKey[key]; dead {
		return refuse(ReasonDeadSession, "session %s is dead", session)
	}
	return refuse(ReasonForeignKey, "no live session announces this key, or its Lease is not seen here yet")
}

// SendReplication queues one batch and never blocks. The batch is the link's from then on. stream is the one of the last
// PeerUp that the batch takes into account; a batch for an older stream, or while the peer is down, is dropped: the
// PeerDown that goes with it is on its way. If the queue is full the connection is given up, and PeerDown follows.
func (l *Link) SendReplication(session string, stream uint64, batch []byte) {
	if p := l.find(session); p != nil {
		p.sendReplication(stream, batch)
	}
}

// SendReliable queues one message and never blocks; it may be called before the first PeerUp. The message is the link's
// until the peer has acknowledged it. The error is ErrFull, ErrDead, ErrTooLarge or ErrClosed, and nothing was queued.
func (l *Link) SendReliable(session string, message []byte) error {
	p := l.find(session)
	if p == nil {
		if l.ctx.Err() != nil {
			return ErrClosed
		}
		return ErrDead
	}
	err := p.sendReliable(message)
	if err != nil {
		l.metrics.notQueued.WithLabelValues(queueError(err)).Inc()
	}
	if errors.Is(err, ErrTooLarge) {
		l.logOnce("too large", session, "a reliable message is too large and can never be sent", "peer", session, "bytes", len(message))
	}
	return err
}

// RoundTrip is the last measured time there and back; 0 before the first.
func (l *Link) RoundTrip(session string) time.Duration {
	if p := l.find(session); p != nil {
		return p.lastRoundTrip()
	}
	return 0
}

// LastHeard is the time since the session last answered something this node sent, so both directions worked then. It is
// the largest duration if it never did or is not live.
func (l *Link) LastHeard(session string) time.Duration {
	if p := l.find(session); p != nil {
		return p.lastHeard()
	}
	return math.MaxInt64
}

// Codecs are the component versions of the session's last Hello; nil before the first.
func (l *Link) Codecs(session string) []*wire.CodecVersion {
	if p := l.find(session); p != nil {
		return p.codecVersions()
	}
	return nil
}

// Close ends everything and waits for it. The handler is not called after Close has begun to wait, nor told of the end.
func (l *Link) Close() {
	l.setPeers.Lock()
	defer l.setPeers.Unlock()
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		return
	}
	l.cancel()
	_ = l.listener.Close()
	for _, p := range l.all() {
		p.hush()
	}
	l.wg.Wait()
	l.mu.Lock()
	clear(l.peers)
	l.mu.Unlock()
	l.metrics.unregister(l.cfg.Metrics)
}
