package link

import (
	"context"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
)

// peer is another live session. One goroutine owns its connections, one at a time, so that the end of one is known
// before the next begins.
type peer struct {
	link    *Link
	session string
	ctx     context.Context
	cancel  context.CancelFunc
	// greeted brings connections that the peer dialled; the newest replaces the one in use.
	greeted chan *greeted
	// wake tells the writer that something waits.
	wake chan struct{}
	// received counts the reliable messages handed over, whatever connection brought them.
	received atomic.Uint64

	mu        sync.Mutex // before no other lock
	announced Peer
	out       outgoing
	raw       net.Conn // of the connection in use
	codecs    []*wire.CodecVersion
	roundTrip time.Duration
	heard     time.Duration
	everHeard bool

	// tell is held while the handler is called: calls are in order, and none comes after silent is set.
	tell   sync.Mutex
	silent bool
	upTold bool
}

func newPeer(l *Link, announced Peer) *peer {
	p := &peer{
		link: l, session: announced.Session, announced: announced,
		greeted: make(chan *greeted, 1), wake: make(chan struct{}, 1),
		out: outgoing{limits: l.limits},
	}
	p.ctx, p.cancel = context.WithCancel(l.ctx)
	return p
}

// run owns the peer's connections until the session is dead or the link closed.
func (p *peer) run() {
	defer p.link.wg.Done()
	if p.link.cfg.Session < p.session {
		p.dialLoop()
	} else {
		p.acceptLoop()
	}
	p.kick()
}

// update takes what the Lease says now. A changed key ends the connection that was made with the old one.
func (p *peer) update(announced Peer) {
	p.mu.Lock()
	changed := p.announced.KeyHash != announced.KeyHash
	p.announced = announced
	p.mu.Unlock()
	if changed {
		p.kick()
	}
}

func (p *peer) lease() Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.announced
}

// kick ends the connection in use, if any; its goroutines notice by their next read or write.
func (p *peer) kick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.raw != nil {
		_ = p.raw.Close()
	}
}

// bury makes the session dead: when it returns, nothing of it is handed over any more.
func (p *peer) bury() {
	p.tell.Lock()
	p.tellDown()
	if !p.silent {
		p.link.cfg.Handler.PeerDead(p.session)
	}
	p.silent = true
	p.tell.Unlock()
	p.cancel()
	p.kick()
}

// hush ends the calls of the handler without a word; the link is closing.
func (p *peer) hush() {
	p.tell.Lock()
	p.silent = true
	p.tell.Unlock()
	p.cancel()
	p.kick()
}

func (p *peer) wakeWriter() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *peer) sendReplication(stream uint64, batch []byte) {
	queued, fits := p.queueReplication(stream, batch)
	if !fits {
		p.link.overflowed(p.session, queued, len(batch))
	}
}

// queueReplication gives the connection up if the batch does not fit; queued is what waited before.
func (p *peer) queueReplication(stream uint64, batch []byte) (queued int, fits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queued = p.out.replicationBytes
	if !p.out.up || stream != p.out.stream {
		p.link.metrics.stale.Inc()
		return queued, true
	}
	if !p.out.pushReplication(batch) {
		p.out.stop()
		_ = p.raw.Close()
		return queued, false
	}
	p.link.metrics.replicationOut.count(len(batch))
	p.wakeWriter()
	return queued, true
}

func (p *peer) sendReliable(message []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return ErrDead
	}
	if err := p.out.pushReliable(message); err != nil {
		return err
	}
	p.link.metrics.reliableOut.count(len(message))
	p.wakeWriter()
	return nil
}

// begin makes a greeted connection the one in use.
func (p *peer) begin(raw net.Conn, hello *wire.Hello) (stream uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stream, err = p.out.start(hello.ReliableReceived)
	if err != nil {
		return 0, err
	}
	p.out.ackSent = p.received.Load()
	p.raw, p.codecs = raw, hello.Codecs
	p.hear()
	return stream, nil
}

func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.stop()
	p.raw = nil
}

// hear notes an answer of the peer; p.mu is held.
func (p *peer) hear() { p.heard, p.everHeard = p.link.cfg.Now(), true }

func (p *peer) lastHeard() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.everHeard {
		return math.MaxInt64
	}
	return p.link.cfg.Now() - p.heard
}

func (p *peer) lastRoundTrip() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roundTrip
}

func (p *peer) codecVersions() []*wire.CodecVersion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.codecs)
}

// up tells the handler; false if the session is dead by now.
func (p *peer) up(stream uint64) bool {
	p.tell.Lock()
	defer p.tell.Unlock()
	if p.silent {
		return false
	}
	p.upTold = true
	p.link.cfg.Handler.PeerUp(p.session, stream)
	return true
}

func (p *peer) down() {
	p.tell.Lock()
	defer p.tell.Unlock()
	p.tellDown()
}

func (p *peer) tellDown() {
	if p.upTold && !p.silent {
		p.link.cfg.Handler.PeerDown(p.session)
	}
	p.upTold = false
}

func (p *peer) deliverReplication(b []byte) error {
	p.tell.Lock()
	defer p.tell.Unlock()
	if p.silent {
		return ErrDead
	}
	p.link.metrics.replicationIn.count(len(b))
	p.link.cfg.Handler.Replication(p.session, b)
	return nil
}

// deliverReliable hands each number over once. What was received before a break comes again only if the peer had no
// Hello of ours after it, so a repeat is passed over; a hole breaks the protocol.
func (p *peer) deliverReliable(number uint64, b []byte) error {
	p.tell.Lock()
	defer p.tell.Unlock()
	if p.silent {
		return ErrDead
	}
	last := p.received.Load()
	if number <= last {
		p.link.metrics.repeated.Inc()
		return nil
	}
	if number != last+1 {
		return refuse(ReasonMalformed, "reliable message %d after %d", number, last)
	}
	p.link.metrics.reliableIn.count(len(b))
	p.link.cfg.Handler.Reliable(p.session, b)
	p.received.Store(number)
	return nil
}
