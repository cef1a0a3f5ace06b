package zone

import (
	"strconv"
	"strings"
)

// past is which lives of nodes are over. The lives of a node follow one another, and the next begins when the one before is over, so one
// number for each node tells: it has as many entries as the world has had nodes.
type past map[string]int64

func (p past) add(session string) {
	node, life := lifeOf(session)
	p[node] = max(p[node], life)
}

func (p past) has(session string) bool {
	node, life := lifeOf(session)
	last, known := p[node]
	return known && life <= last
}

// lifeOf splits "<node>#<incarnation>".
func lifeOf(session string) (node string, life int64) {
	if i := strings.LastIndexByte(session, '#'); i >= 0 {
		if n, err := strconv.ParseInt(session[i+1:], 10, 64); err == nil {
			return session[:i], n
		}
	}
	return session, 0
}
