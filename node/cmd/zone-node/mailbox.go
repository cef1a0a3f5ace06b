package main

import (
	"maps"
	"sync"
	"time"

	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/zone"
)

// maxMail bounds the bytes that wait for the next step. A node that is fenced makes no step; what peers and players send
// meanwhile is kept up to here. Above it the node ends itself: its successor starts clean.
const maxMail = 256 << 20

// mailbox gathers what drivers report until the next step. Drivers call it from their goroutines.
type mailbox struct {
	now     func() time.Duration // boot-time clock
	full    func()
	mu      sync.Mutex
	in      zone.Inbox
	size    int
	streams map[string]uint64 // replication stream per session, as of the events in the inbox
	urgent  chan struct{}     // capacity 1: something came that a region may stand still for
}

// take empties the mailbox for a step. streams says on which replication stream the step's batches may go.
func (m *mailbox) take() (in zone.Inbox, streams map[string]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in, m.in, m.size = m.in, zone.Inbox{}, 0
	return in, maps.Clone(m.streams)
}

// takeUrgent takes what moves of regions are about, and what came before it on the same streams.
func (m *mailbox) takeUrgent() (in zone.Inbox, streams map[string]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in.Table, in.Peers, in.Reliable, in.Commits = m.in.Table, m.in.Peers, m.in.Reliable, m.in.Commits
	m.in.Table, m.in.Peers, m.in.Reliable, m.in.Commits = nil, nil, nil, nil
	for _, b := range in.Reliable {
		m.size -= len(b.Bytes)
	}
	return in, maps.Clone(m.streams)
}

func (m *mailbox) hurry() {
	select {
	case m.urgent <- struct{}{}:
	default:
	}
}

// put adds an event of about size bytes.
func (m *mailbox) put(size int, add func(*zone.Inbox)) {
	m.mu.Lock()
	add(&m.in)
	m.size += size
	over := m.size > maxMail
	m.mu.Unlock()
	if over {
		m.full()
	}
}

// The mailbox is the handler of the link.

func (m *mailbox) PeerUp(session string, stream uint64) {
	m.put(64, func(in *zone.Inbox) {
		m.streams[session] = stream
		in.Peers = append(in.Peers, zone.PeerEvent{Session: session, Kind: zone.PeerUp})
	})
}

func (m *mailbox) PeerDown(session string) {
	m.put(64, func(in *zone.Inbox) {
		m.voidReplication(in, session)
		in.Peers = append(in.Peers, zone.PeerEvent{Session: session, Kind: zone.PeerDown})
	})
}

func (m *mailbox) PeerDead(session string) {
	m.put(64, func(in *zone.Inbox) {
		m.voidReplication(in, session)
		delete(m.streams, session)
		in.Peers = append(in.Peers, zone.PeerEvent{Session: session, Kind: zone.PeerDead})
	})
}

// voidReplication drops the batches of a stream that is over: peer events are handled before messages, so they would be
// taken for batches of the next stream.
func (m *mailbox) voidReplication(in *zone.Inbox, session string) {
	kept := in.Replication[:0]
	for _, b := range in.Replication {
		if b.Session != session {
			kept = append(kept, b)
		}
	}
	in.Replication = kept
}

func (m *mailbox) Replication(session string, b []byte) {
	at := m.now()
	m.put(len(b), func(in *zone.Inbox) {
		in.Replication = append(in.Replication, zone.PeerBytes{Session: session, Bytes: b, At: at})
	})
}

func (m *mailbox) Reliable(session string, b []byte) {
	at := m.now()
	m.put(len(b), func(in *zone.Inbox) {
		in.Reliable = append(in.Reliable, zone.PeerBytes{Session: session, Bytes: b, At: at})
	})
	if zone.Urgent(b) {
		m.hurry()
	}
}

// Client is the handler of the gateway.
func (m *mailbox) Client(ev zone.ClientEvent) {
	m.put(512, func(in *zone.Inbox) { in.Clients = append(in.Clients, ev) })
}

func (m *mailbox) table(t *partition.Table) {
	m.put(0, func(in *zone.Inbox) { in.Table = t })
	m.hurry()
}

func (m *mailbox) committed(a zone.CommitAnswer) {
	m.put(64, func(in *zone.Inbox) { in.Commits = append(in.Commits, a) })
	m.hurry()
}

func (m *mailbox) stored(a zone.StoreAnswer) {
	size := 256
	for _, r := range a.Records {
		size += len(r.Blob)
	}
	m.put(size, func(in *zone.Inbox) { in.Store = append(in.Store, a) })
}

func (m *mailbox) chunk(a zone.ChunkAnswer) {
	m.put(64, func(in *zone.Inbox) { in.Chunks = append(in.Chunks, a) })
}
