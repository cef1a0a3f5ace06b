package zone

import (
	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/partition"
)

// The end of sessions, at the owner of their masters: a socket is lost, a player leaves, a gateway dies.

const (
	// resumeWindow is how long a master stays in the world after its socket was lost: 30 s.
	resumeWindow = int32(30 * TicksPerSecond)
	// strangerPatience is how long a gateway of which this node knows nothing may yet be linked: 30 s. A new node hears of all
	// that live within seconds, and of those that died before it came it never hears.
	strangerPatience = 30 * TicksPerSecond
)

// detach starts the resume window, or ends the session at once on a logout. It counts for a frozen copy, too: that may be taken
// back. Who takes it over asks the gateway again, by what it tells the account first.
func (s *sim) detach(_ string, m *wire.Detach) {
	id := ecs.EntityID(m.Entity)
	ses := s.game.Session.Get(id)
	if ses == nil || !s.authority.Has(id) || ses.Epoch != m.SessionEpoch {
		return
	}
	s.lose(ses)
	if m.Logout {
		ses.Lost = resumeWindow
	}
}

func (s *sim) lose(ses *game.Session) {
	if ses.Lost == 0 {
		s.at(Happened{Point: SessionLost, Peer: ses.Gateway, Number: ses.Epoch})
		ses.Lost = 1
	}
}

// notHere: the gateway that we route to does not know the session: the socket is lost, or a newer session will attach.
func (s *sim) notHere(_ string, m *wire.NotHere) {
	s.detach("", &wire.Detach{Account: m.Account, SessionEpoch: m.SessionEpoch, Entity: m.Entity})
}

func (s *sim) peerDead(session string) {
	s.regionsPeerDead(session)
}

// loseSessions loses the sessions whose gateway is over, counts the resume windows, and sends to rest whose window is over. It looks
// at each gateway anew: one may have died while the master stood frozen, or before this node came.
func (s *sim) loseSessions() {
	ecs.Each1(s.connected, s.game.Session, func(id ecs.EntityID, ses *game.Session) {
		if ses.Lost == 0 && s.gatewayOver(ses.Gateway) {
			s.lose(ses)
		}
		if ses.Lost == 0 {
			return
		}
		if ses.Lost++; ses.Lost > resumeWindow {
			s.world.Defer(func() { s.rest(id) })
		}
	})
	s.world.Apply()
	s.forgetStrangers()
}

// gatewayOver reports whether a gateway is dead, or was neither linked nor in the table for so long that it must be.
func (s *sim) gatewayOver(gateway string) bool {
	switch {
	case !s.alive(gateway):
		return true
	case s.peers[gateway] != nil, s.table.RefOf(gateway) != partition.NoSession:
		return false
	}
	a, known := s.strangers[gateway]
	if !known {
		a.since = s.tick
	}
	a.last = s.tick
	s.strangers[gateway] = a
	return s.tick-a.since > strangerPatience
}

// forgetStrangers keeps those that a session of a master names.
func (s *sim) forgetStrangers() {
	if s.tick%TicksPerSecond != 0 {
		return
	}
	for gateway, a := range s.strangers {
		if s.tick-a.last > TicksPerSecond {
			delete(s.strangers, gateway)
		}
	}
}
