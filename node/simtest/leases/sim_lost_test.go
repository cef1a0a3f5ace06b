package leases

import (
	"fmt"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// Leases that are lost, and what nobody may conclude from it.

// delete deletes the Lease of a session or of a region, whoever holds it, or all there are; sometimes no operator looks.
func (s *sim) delete() {
	first := s.rand.IntN(simNodes)
	if s.rand.IntN(4) > 0 {
		first = s.regionSlot(s.rand.IntN(s.options.Grid.Regions()))
	}
	last := first
	if s.rand.IntN(8) == 0 {
		first, last = 0, len(s.names)-1
	}
	for slot := first; slot <= last; slot++ {
		s.note("delete %s, held by %q", s.names[slot], s.leases[slot].holder)
		s.DeleteLease(s.names[slot])
	}
	if s.rand.IntN(3) == 0 {
		s.note("all operators restart")
		for i := range s.operators {
			s.RestartOperator(i)
		}
	}
}

// deleteUnseen deletes the session Lease of a process that is stopped or cut off and so does not notice. Often another
// process begins then, which never saw that Lease, or the node gets another pod.
func (s *sim) deleteUnseen(p *actor) {
	name := s.names[p.ordinal]
	if s.rand.IntN(2) == 0 {
		p.Pause()
		s.tl.After(s.some(20*time.Second), p.Resume)
	} else {
		p.Cut(true)
		s.tl.After(s.some(30*time.Second), func() { p.Cut(false) })
	}
	s.tl.After(s.some(2*time.Second), func() {
		s.note("delete %s, unseen by %s", name, p.Session())
		s.DeleteLease(name)
	})
	switch other := s.current[(p.ordinal+1)%simNodes]; s.rand.IntN(4) {
	case 0:
		if !s.replacing[other.ordinal] {
			s.note("kill %s", other.Session())
			other.Kill()
			s.restart(other)
		}
	case 1:
		s.note("pod of %d is replaced", p.ordinal)
		s.replace(p.ordinal, 20*time.Second)
	case 2:
		s.note("all operators restart")
		for i := range s.operators {
			s.RestartOperator(i)
		}
	}
}

// deleteTwice deletes a session Lease, and again soon after it is taken, while its process is stopped.
func (s *sim) deleteTwice(ordinal int) {
	name := s.names[ordinal]
	s.note("delete %s twice", name)
	s.DeleteLease(name)
	var again func()
	tries := 0
	again = func() {
		if p := s.current[ordinal]; s.leases[ordinal].taken() && !s.stopped {
			s.note("delete %s again, unseen by %s", name, p.Session())
			p.Pause()
			s.tl.After(s.some(20*time.Second), p.Resume)
			s.DeleteLease(name)
		} else if tries++; tries < 600 {
			s.tl.After(100*time.Millisecond, again)
		}
	}
	s.tl.After(time.Second, again)
}

// checkOver looks whether a session that a process is told to be over may still act.
func (s *sim) checkOver(p *actor, session string) {
	for _, q := range s.actors {
		if q.Session() == session && len(q.believes(nil)) > 0 {
			s.problems = append(s.problems, fmt.Sprintf("%v: %s is told that %s is dead, which acts on", s.tl.Now(), p.Session(), session))
		}
	}
}

// checkKnown looks whether a process that gets its first table was told of everybody who acted before it began: it would
// ask nobody else before it takes what they have for lost.
func (s *sim) checkKnown(p *actor) {
	for _, q := range s.actors {
		if q.ordinal == p.ordinal || q.acquired >= p.acquired || len(q.believes(nil)) == 0 {
			continue
		}
		if !p.knows(q.ordinal) {
			s.problems = append(s.problems, fmt.Sprintf("%v: %s begins without a word of %s, which acts", s.tl.Now(), p.Session(), q.Session()))
		}
	}
}

// knows tells whether a process was told of a life of a node that is not over.
func (p *actor) knows(ordinal int) bool {
	for session := range p.met {
		node, _, err := v1alpha1.ParseSessionID(session)
		if err == nil && node == p.api.nodeName(ordinal) && !p.buried[session] {
			return true
		}
	}
	return false
}
