package link

import (
	"errors"
	"time"
)

// Errors of SendReliable.
var (
	// ErrFull: the peer has not acknowledged enough. The connection is given up as soon as there is room, and PeerUp follows: what
	// was refused is to be made up for then.
	ErrFull = errors.New("the reliable queue to this peer is full")
	// ErrDead: the session is dead, or was never among the live ones.
	ErrDead = errors.New("no such live session")
	// ErrTooLarge: the message is above Limits.ReliableMessage and can never be sent.
	ErrTooLarge = errors.New("the reliable message is too large")
	// ErrClosed: the Link is closed.
	ErrClosed = errors.New("the link is closed")

	errAnew = errors.New("reliable messages did not fit the queue, link given up to start anew")
)

// pingWindow is how many pings may be unanswered and still be measured when their pong comes.
const pingWindow = 8

// outgoing is all that waits for one peer. Its owner guards it.
type outgoing struct {
	limits Limits

	// up: a connection is established; stream counts them. Only replication of the current stream is taken.
	up     bool
	stream uint64

	replication      [][]byte
	replicationBytes int
	replicationDone  int // bytes of replication[0] that are in frames already

	// reliable holds what is not acknowledged; its first message has the number acked+1. next is the index of the first
	// message of which this connection has not framed everything yet.
	reliable      [][]byte
	reliableBytes int
	reliableDone  int
	acked         uint64
	next          int
	// refused: a message did not fit and is lost. When there is room again the connection is given up, so that both sides begin
	// anew; while the queue is full, that would only fill it further.
	refused bool
	// framed is the highest number that was framed completely, in any connection.
	framed uint64

	ackSent  uint64
	pong     uint64
	pongDue  bool
	ping     uint64
	pinged   [pingWindow]time.Duration
	pongSeen uint64
}

// start begins a connection whose peer has received that many reliable messages, and returns the number of the stream.
func (o *outgoing) start(received uint64) (uint64, error) {
	if received < o.acked || received > o.framed {
		return 0, refuse(ReasonResume, "the peer says that it has %d reliable messages; it acknowledged %d, and %d were sent",
			received, o.acked, o.framed)
	}
	o.ack(received)
	if o.room() {
		o.refused = false // what was lost is made up for from here on
	}
	o.next, o.reliableDone = 0, 0
	o.pongDue, o.pongSeen = false, o.ping
	o.up = true
	o.stream++
	return o.stream, nil
}

// stop forgets what is lost with a connection.
func (o *outgoing) stop() {
	o.up = false
	o.replication, o.replicationBytes, o.replicationDone = nil, 0, 0
}

// pushReplication reports false if the batch does not fit.
func (o *outgoing) pushReplication(batch []byte) bool {
	if len(batch) > o.limits.ReplicationBatch || o.replicationBytes+len(batch) > o.limits.ReplicationQueue {
		return false
	}
	o.replication = append(o.replication, batch)
	o.replicationBytes += len(batch)
	return true
}

func (o *outgoing) pushReliable(message []byte) error {
	if len(message) > o.limits.ReliableMessage {
		return ErrTooLarge
	}
	if o.reliableBytes+len(message) > o.limits.ReliableQueue || len(o.reliable) >= o.limits.ReliableCount {
		o.refused = true
		return ErrFull
	}
	o.reliable = append(o.reliable, message)
	o.reliableBytes += len(message)
	return nil
}

// room reports whether half of the reliable queue is free.
func (o *outgoing) room() bool {
	return 2*o.reliableBytes <= o.limits.ReliableQueue && 2*len(o.reliable) <= o.limits.ReliableCount
}

// ack drops what the peer has; it reports false for a message that was not sent in this connection.
func (o *outgoing) ack(received uint64) bool {
	if received < o.acked {
		return true
	}
	n := received - o.acked
	if o.up && n > uint64(o.next) || n > uint64(len(o.reliable)) {
		return false
	}
	for i, message := range o.reliable[:n] {
		o.reliableBytes -= len(message)
		o.reliable[i] = nil
	}
	o.reliable = o.reliable[n:]
	o.next -= min(int(n), o.next)
	o.acked = received
	return true
}

// fill appends frames up to maxFrame bytes: control first, then reliable, then replication. received is acknowledged if
// anything is sent anyway, or at once with ackNow; owed reports that an acknowledgement is still due.
func (o *outgoing) fill(b []byte, received uint64, ackNow bool) (_ []byte, owed bool) {
	if o.pongDue {
		b = appendNumber(b, kindPong, o.pong)
		o.pongDue = false
	}
	owed = received > o.ackSent
	if owed && (ackNow || len(b) > 0 || o.waiting()) {
		b = appendNumber(b, kindAck, received)
		o.ackSent, owed = received, false
	}
	b = o.fillReliable(b)
	return o.fillReplication(b), owed
}

func (o *outgoing) waiting() bool { return o.next < len(o.reliable) || len(o.replication) > 0 }

func (o *outgoing) fillReliable(b []byte) []byte {
	for o.next < len(o.reliable) {
		message, before := o.reliable[o.next], len(b)
		b, o.reliableDone = appendReliable(b, o.acked+uint64(o.next)+1, message, o.reliableDone, maxFrame-len(b))
		if len(b) == before || o.reliableDone < len(message) {
			return b
		}
		o.next++
		o.reliableDone = 0
		o.framed = max(o.framed, o.acked+uint64(o.next))
	}
	return b
}

func (o *outgoing) fillReplication(b []byte) []byte {
	for len(o.replication) > 0 {
		batch, before := o.replication[0], len(b)
		b, o.replicationDone = appendReplication(b, batch, o.replicationDone, maxFrame-len(b))
		if len(b) == before || o.replicationDone < len(batch) {
			return b
		}
		o.replication[0] = nil
		o.replication = o.replication[1:]
		o.replicationBytes -= len(batch)
		o.replicationDone = 0
	}
	return b
}

// pushPing appends a ping and remembers when; the number means nothing to the peer.
func (o *outgoing) pushPing(b []byte, now time.Duration) []byte {
	o.ping++
	o.pinged[o.ping%pingWindow] = now
	return appendNumber(b, kindPing, o.ping)
}

// pongOf returns the round trip of an answered ping; false for one that was answered before or is too old.
func (o *outgoing) pongOf(nonce uint64, now time.Duration) (time.Duration, bool) {
	if nonce <= o.pongSeen || nonce > o.ping || nonce+pingWindow <= o.ping {
		return 0, false
	}
	o.pongSeen = nonce
	return now - o.pinged[nonce%pingWindow], true
}
