package link

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Reason names why a connection was refused; it is the label of spatialcells_link_refused_total.
type Reason string

// The reasons. README.md says what to do about each.
const (
	ReasonNotTLS           Reason = "not_tls"
	ReasonTLS              Reason = "tls"
	ReasonHungUp           Reason = "hung_up"
	ReasonHandshakeTimeout Reason = "handshake_timeout"
	ReasonBusy             Reason = "busy"
	ReasonNoCertificate    Reason = "no_certificate"
	ReasonForeignKey       Reason = "foreign_key"
	ReasonDeadSession      Reason = "dead_session"
	ReasonUnknownSession   Reason = "unknown_session"
	ReasonWrongPeer        Reason = "wrong_peer"
	ReasonWrongDirection   Reason = "wrong_direction"
	ReasonProtocolVersion  Reason = "protocol_version"
	ReasonWorld            Reason = "world"
	ReasonSeed             Reason = "seed"
	ReasonTerrainVersion   Reason = "terrain_version"
	ReasonCodec            Reason = "codec"
	ReasonResume           Reason = "resume"
	ReasonOversized        Reason = "oversized"
	ReasonMalformed        Reason = "malformed"
)

var reasons = []Reason{
	ReasonNotTLS, ReasonTLS, ReasonHungUp, ReasonHandshakeTimeout, ReasonBusy, ReasonNoCertificate, ReasonForeignKey,
	ReasonDeadSession, ReasonUnknownSession, ReasonWrongPeer, ReasonWrongDirection, ReasonProtocolVersion, ReasonWorld,
	ReasonSeed, ReasonTerrainVersion, ReasonCodec, ReasonResume, ReasonOversized, ReasonMalformed,
}

// refusal is the error of a connection that must not be. ByPeer: the other side said so.
type refusal struct {
	reason Reason
	detail string
	byPeer bool
}

func (r *refusal) Error() string {
	if r.byPeer {
		return fmt.Sprintf("refused by the peer (%s): %s", r.reason, r.detail)
	}
	return fmt.Sprintf("refused (%s): %s", r.reason, r.detail)
}

func refuse(reason Reason, format string, args ...any) *refusal {
	return &refusal{reason: reason, detail: fmt.Sprintf(format, args...)}
}

// ownRefusal returns the refusal in err that this side decided, or nil.
func ownRefusal(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) && !r.byPeer {
		return r
	}
	return nil
}

// encode is the payload of a refusal frame: the reason, a line feed, the detail.
func (r *refusal) encode() []byte {
	text := []byte(string(r.reason) + "\n" + r.detail)
	return text[:min(len(text), maxRefusal)]
}

// decodeRefusal reads what a peer says. An unknown reason of a newer build is kept within the detail.
func decodeRefusal(b []byte) *refusal {
	b = b[:min(len(b), maxRefusal)]
	reason, detail, _ := bytes.Cut(b, []byte("\n"))
	r := &refusal{reason: Reason(reason), detail: strings.ToValidUTF8(string(detail), "?"), byPeer: true}
	for _, known := range reasons {
		if r.reason == known {
			return r
		}
	}
	r.detail = strings.ToValidUTF8(string(b), "?")
	r.reason = "unknown"
	return r
}
