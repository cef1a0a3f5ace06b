package link

import (
	"errors"
	"sync"
)

// graves remembers the latest dead sessions and their keys.
type graves struct {
	byKey    map[string]string
	sessions map[string]string
	order    []string
}

func newGraves() graves {
	return graves{byKey: map[string]string{}, sessions: map[string]string{}}
}

func (g *graves) add(session, key string) {
	if len(g.order) == maxGraves {
		oldest := g.order[0]
		g.order = g.order[1:]
		delete(g.byKey, g.sessions[oldest])
		delete(g.sessions, oldest)
	}
	g.order = append(g.order, session)
	g.sessions[session] = key
	if key != "" {
		g.byKey[key] = session
	}
}

func (g *graves) has(session string) bool {
	_, dead := g.sessions[session]
	return dead
}

// causes remembers what was logged. The oldest are not told apart: when it is full it starts anew.
type causes struct {
	mu   sync.Mutex
	seen map[cause]bool
}

type cause struct{ what, who string }

func (c *causes) first(what, who string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cause{what, who}
	if c.seen[key] {
		return false
	}
	if c.seen == nil || len(c.seen) >= maxCauses {
		c.seen = map[cause]bool{}
	}
	c.seen[key] = true
	return true
}

// forget lets the causes of one peer be logged again.
func (c *causes) forget(who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.seen {
		if key.who == who {
			delete(c.seen, key)
		}
	}
}

func (l *Link) logOnce(what, who, message string, args ...any) {
	if l.causes.first(what, who) {
		l.cfg.Log.Warn(message, args...)
	}
}

// refused counts a refusal and logs it once for each cause and peer.
func (l *Link) refused(who string, r *refusal) {
	l.metrics.refused.WithLabelValues(string(r.reason)).Inc()
	l.logOnce("refused "+string(r.reason), who, "link connection refused",
		"peer", who, "reason", string(r.reason), "detail", r.detail, "by_peer", r.byPeer)
}

// lost notes the end of a connection or of the try to make one.
func (l *Link) lost(session string, err error) {
	l.metrics.lost.Inc()
	var r *refusal
	if errors.As(err, &r) {
		l.refused(session, r)
		return
	}
	l.logOnce("lost", session, "no link to peer, trying on", "peer", session, "error", err)
}

func (l *Link) peerUp(session string) {
	l.causes.forget(session)
	l.cfg.Log.Info("link up", "peer", session)
}

func (l *Link) overflowed(session string, queued, batch int) {
	l.metrics.overflows.Inc()
	l.logOnce("overflow", session, "peer takes replication too slowly, link given up to start anew",
		"peer", session, "queued_bytes", queued, "batch_bytes", batch)
}
