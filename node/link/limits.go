package link

import "time"

const (
	// ProtocolVersion is the newest frame protocol of this build; it speaks the one before it too, once there is one.
	ProtocolVersion = 1
	// MinProtocolVersion is the oldest frame protocol of this build.
	MinProtocolVersion = 1

	// maxFrame bounds a frame with its header, in bytes. A reliable message waits for at most one such piece of replication.
	maxFrame = 64 << 10
	// maxPeers bounds the live sessions: more than a world can have nodes.
	maxPeers = 1024
	// maxGraves bounds the dead sessions that are remembered to name them in refusals.
	maxGraves = 4096
	// maxCauses bounds the causes that are logged once each.
	maxCauses = 1024
	// maxCodecs and maxName bound what a Hello may list and say.
	maxCodecs = 4096
	maxName   = 256
	// maxRefusal bounds the text of a refusal, in bytes.
	maxRefusal = 1024
)

// Limits are the bounds of a Link. A zero field means its default.
type Limits struct {
	// ReplicationQueue bounds the replication bytes waiting for one peer; above it the connection is given up. Default 8 MiB.
	ReplicationQueue int
	// ReplicationBatch bounds one batch in bytes. Default 4 MiB. All nodes of a world must use the same.
	ReplicationBatch int
	// ReliableQueue and ReliableCount bound the reliable messages of one peer that are not acknowledged, in bytes and in
	// messages; above them SendReliable answers ErrFull. Defaults 8 MiB and 8192.
	ReliableQueue int
	ReliableCount int
	// ReliableMessage bounds one reliable message in bytes. Default 1 MiB. All nodes of a world must use the same.
	ReliableMessage int
	// Handshakes bounds the incoming connections that are not greeted yet; HandshakesPerAddress those of one IP address.
	// Defaults 64 and 16.
	Handshakes           int
	HandshakesPerAddress int

	// HandshakeTimeout bounds the time from connect to Hello. Default 5 s.
	HandshakeTimeout time.Duration
	// PingInterval is the time between keepalives. Default 500 ms.
	PingInterval time.Duration
	// IdleTimeout gives a connection up that brings no byte, or takes none, for this long. Default 3 s.
	IdleTimeout time.Duration
	// AckDelay is how long an acknowledgement waits for a frame to travel with. Default 10 ms.
	AckDelay time.Duration
	// RedialMin and RedialMax bound the pause before the next dial. Defaults 100 ms and 2 s.
	RedialMin time.Duration
	RedialMax time.Duration
	// FencePoll is how often the fence is looked at while something is held. Default 5 ms.
	FencePoll time.Duration
}

func (l Limits) withDefaults() Limits {
	orInt(&l.ReplicationQueue, 8<<20)
	orInt(&l.ReplicationBatch, 4<<20)
	orInt(&l.ReliableQueue, 8<<20)
	orInt(&l.ReliableCount, 8192)
	orInt(&l.ReliableMessage, 1<<20)
	orInt(&l.Handshakes, 64)
	orInt(&l.HandshakesPerAddress, 16)
	orTime(&l.HandshakeTimeout, 5*time.Second)
	orTime(&l.PingInterval, 500*time.Millisecond)
	orTime(&l.IdleTimeout, 3*time.Second)
	orTime(&l.AckDelay, 10*time.Millisecond)
	orTime(&l.RedialMin, 100*time.Millisecond)
	orTime(&l.RedialMax, 2*time.Second)
	orTime(&l.FencePoll, 5*time.Millisecond)
	return l
}

func orInt(v *int, fallback int) {
	if *v <= 0 {
		*v = fallback
	}
}

func orTime(v *time.Duration, fallback time.Duration) {
	if *v <= 0 {
		*v = fallback
	}
}
