package client

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
)

// Pauses between tries. They grow from the first to the last by half, with a quarter of chance, so that the clients of a
// gateway that died do not come back at once.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// verdict is what to do after a connection has ended.
type verdict struct {
	// final: do not come back.
	final bool
	// elsewhere: at another gateway.
	elsewhere bool
	// pause before the next try, at least.
	pause time.Duration
}

// judge decides by the reason that the gateway gave; node/gateway/README.md lists what each asks of a client. refused
// counts the tokens that were refused in a row, this one included.
func judge(reason wire.Disconnected_Reason, refused int) verdict {
	switch reason {
	case wire.Disconnected_REASON_LOGGED_OUT, wire.Disconnected_REASON_DISPLACED, wire.Disconnected_REASON_KICKED,
		wire.Disconnected_REASON_PROTOCOL_MISMATCH, wire.Disconnected_REASON_MALFORMED, wire.Disconnected_REASON_TOO_LARGE:
		return verdict{final: true}
	case wire.Disconnected_REASON_AUTH_FAILED:
		return verdict{final: refused >= 2}
	case wire.Disconnected_REASON_RATE_LIMITED:
		return verdict{pause: 5 * time.Second}
	case wire.Disconnected_REASON_UNAVAILABLE:
		return verdict{elsewhere: true, pause: time.Second}
	case wire.Disconnected_REASON_AUTH_TIMEOUT, wire.Disconnected_REASON_IDLE_TIMEOUT, wire.Disconnected_REASON_SLOW_READER:
		return verdict{}
	}
	return verdict{elsewhere: true}
}

// judgeError decides by how a connection ended. A socket that breaks without a word is tried at another gateway.
func judgeError(err error, refused int) verdict {
	var end *EndError
	if errors.As(err, &end) {
		return judge(end.Reason, refused)
	}
	return verdict{elsewhere: true}
}

// backOff is the pause before the try of that number, counted from 0.
func backOff(try int) time.Duration {
	p := firstPause
	for range min(try, 20) {
		p = min(p*3/2, lastPause)
	}
	return p - rand.N(p/4)
}
