package link

import (
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
)

// hello is what this node says of itself to one peer.
func (l *Link) hello(peerSession string, received uint64) *wire.Hello {
	return &wire.Hello{
		ProtocolVersion:    l.protocol.newest,
		MinProtocolVersion: l.protocol.oldest,
		WorldUid:           l.cfg.WorldUID,
		SeedHash:           l.cfg.SeedHash,
		TerrainVersion:     l.cfg.TerrainVersion,
		Session:            l.cfg.Session,
		PeerSession:        peerSession,
		Codecs:             l.cfg.Codecs,
		ReliableReceived:   received,
	}
}

// decodeHello reads a Hello and bounds what it says. It is total: any bytes give a Hello or a refusal.
func decodeHello(b []byte) (*wire.Hello, error) {
	h := &wire.Hello{}
	if err := proto.Unmarshal(b, h); err != nil {
		return nil, refuse(ReasonMalformed, "the Hello is not readable: %v", err)
	}
	if len(h.Session) > maxName || len(h.PeerSession) > maxName || len(h.WorldUid) > maxName {
		return nil, refuse(ReasonMalformed, "a name in the Hello is longer than %d bytes", maxName)
	}
	if len(h.Codecs) > maxCodecs {
		return nil, refuse(ReasonMalformed, "the Hello lists %d components, at most %d are allowed", len(h.Codecs), maxCodecs)
	}
	if h.MinProtocolVersion > h.ProtocolVersion {
		return nil, refuse(ReasonMalformed, "protocol versions %d to %d", h.MinProtocolVersion, h.ProtocolVersion)
	}
	seen := make(map[string]bool, len(h.Codecs))
	for _, c := range h.Codecs {
		if len(c.GetComponent()) > maxName {
			return nil, refuse(ReasonMalformed, "a component name in the Hello is longer than %d bytes", maxName)
		}
		if c.GetMinVersion() > c.GetMaxVersion() || seen[c.GetComponent()] {
			return nil, refuse(ReasonMalformed, "component %q: versions %d to %d, or listed twice",
				c.GetComponent(), c.GetMinVersion(), c.GetMaxVersion())
		}
		seen[c.GetComponent()] = true
	}
	return h, nil
}

// compatible compares two Hellos; the order goes from the most basic difference to the finest.
func compatible(mine, theirs *wire.Hello) error {
	checks := []func(mine, theirs *wire.Hello) error{sameProtocol, sameWorld, sameTerrain, commonCodecs}
	for _, check := range checks {
		if err := check(mine, theirs); err != nil {
			return err
		}
	}
	return nil
}

func sameProtocol(mine, theirs *wire.Hello) error {
	if theirs.ProtocolVersion >= mine.MinProtocolVersion && theirs.MinProtocolVersion <= mine.ProtocolVersion {
		return nil
	}
	return refuse(ReasonProtocolVersion, "%s speaks link protocol %d to %d, %s speaks %d to %d",
		mine.Session, mine.MinProtocolVersion, mine.ProtocolVersion,
		theirs.Session, theirs.MinProtocolVersion, theirs.ProtocolVersion)
}

func sameWorld(mine, theirs *wire.Hello) error {
	if mine.WorldUid != theirs.WorldUid {
		return refuse(ReasonWorld, "%s is of world %q, %s is of world %q",
			mine.Session, mine.WorldUid, theirs.Session, theirs.WorldUid)
	}
	return nil
}

func sameTerrain(mine, theirs *wire.Hello) error {
	if mine.SeedHash != theirs.SeedHash {
		return refuse(ReasonSeed, "%s and %s have different terrain seeds", mine.Session, theirs.Session)
	}
	if mine.TerrainVersion != theirs.TerrainVersion {
		return refuse(ReasonTerrainVersion, "%s generates terrain version %d, %s version %d",
			mine.Session, mine.TerrainVersion, theirs.Session, theirs.TerrainVersion)
	}
	return nil
}

// commonCodecs needs one common version of each component that both sides know. One that only one side knows is kept
// by the other as bytes.
func commonCodecs(mine, theirs *wire.Hello) error {
	known := make(map[string]*wire.CodecVersion, len(mine.Codecs))
	for _, c := range mine.Codecs {
		known[c.Component] = c
	}
	for _, their := range theirs.Codecs {
		my := known[their.Component]
		if my == nil || their.MaxVersion >= my.MinVersion && their.MinVersion <= my.MaxVersion {
			continue
		}
		return refuse(ReasonCodec, "component %s has no common version: %s has %d to %d, %s has %d to %d", their.Component,
			mine.Session, my.MinVersion, my.MaxVersion, theirs.Session, their.MinVersion, their.MaxVersion)
	}
	return nil
}
