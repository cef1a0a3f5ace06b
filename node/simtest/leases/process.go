package leases

import (
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/partition"
)

// Events is what a process is told. Each may be nil. None comes after Kill, none while it is paused, and none after Lost.
type Events struct {
	// Acquired: the process holds its session; the deadline runs already.
	Acquired func(session string, incarnation int32)
	// Lost: another holds the session, or it is gone. For good: the process must end.
	Lost func()
	// Table: who owns what, as the watch and answered writes showed it.
	Table func(t *partition.Table)
	// Dead: another session that was live is over. It is told before the table that follows from it, and the session is
	// never told live again.
	Dead func(session string)
	// Live: another session is live.
	Live func(session string)
}

// Process is one life of a node's process, from its start to Kill or Lost: fence.Session and fence.Regions without IO.
type Process struct {
	line
	pod   string
	clock Clock
	ev    Events

	seen     observation
	me       life
	session  string
	first    lease
	deadline time.Duration
	renewal  renewal

	regions
	// inFlight counts the writes of each Lease whose sender waits for the answer.
	inFlight []int
}

// Start begins a process of a node, in the pod of that uid. A pod of another uid replaces the one before, as the kubelet and
// the StatefulSet controller see it; a process of that one may still run. In one pod a container starts only after its
// predecessor has ended: Start panics if that is not so.
func (a *API) Start(ordinal int, podUID string, clock Clock, ev Events) *Process {
	if a.runs(ordinal, podUID) {
		panic("leases: two processes at once in the pod of " + a.names[ordinal])
	}
	if a.pods[ordinal].uid != podUID {
		a.pods[ordinal] = pod{uid: podUID}
		a.podChanged(ordinal)
	}
	p := &Process{
		line: line{api: a, ordinal: ordinal}, pod: podUID, clock: clock, ev: ev.complete(), inFlight: make([]int, len(a.leases)),
	}
	a.processes = append(a.processes, p)
	p.after(a.some(RenewPeriod/4), p.tryAcquire)
	return p
}

func (e Events) complete() Events {
	if e.Acquired == nil {
		e.Acquired = func(string, int32) {}
	}
	if e.Lost == nil {
		e.Lost = func() {}
	}
	if e.Table == nil {
		e.Table = func(*partition.Table) {}
	}
	if e.Dead == nil {
		e.Dead = func(string) {}
	}
	if e.Live == nil {
		e.Live = func(string) {}
	}
	return e
}

// Session names the session, "" before Acquired.
func (p *Process) Session() string { return p.session }

// Deadline is the reading of the process's own clock from which it must not act; 0 before Acquired and after Lost.
func (p *Process) Deadline() time.Duration { return p.deadline }

// passed mirrors fence.Deadline.Passed.
func (p *Process) passed() bool { return p.clock.Boottime() >= p.deadline }

// Kill ends the process: no further request, no further event. Requests under way may still land.
func (p *Process) Kill() {
	p.dead, p.waiting = true, nil
	p.api.forget(p)
}

// Pause stops the process: nothing in it runs and its answers wait, the world goes on.
func (p *Process) Pause() { p.paused = true }

// Resume lets a stopped process go on.
func (p *Process) Resume() { p.resume() }

// Cut cuts the machine of this process alone off, see API.CutNode: another process of the same node is not.
func (p *Process) Cut(cut bool) { p.cut = cut }

// lose ends the session for good, and with it the process.
func (p *Process) lose() {
	p.api.counters.Lost++
	p.deadline = 0
	lost := p.ev.Lost
	p.Kill()
	lost()
}

// get reads a Lease.
func (p *Process) get(slot int, timeout time.Duration, answered func(lease, outcome)) {
	p.request(timeout, func() (lease, outcome) { return p.api.get(slot) }, answered)
}

// put writes a Lease that came from the API.
func (p *Process) put(slot int, next lease, timeout time.Duration, answered func(lease, outcome)) {
	p.inFlight[slot]++
	if p.inFlight[slot] > 1 {
		p.api.broken = append(p.api.broken, "two writes of "+p.api.names[slot]+" in flight by one process")
	}
	by := writer{ordinal: p.ordinal, pod: p.pod}
	p.request(timeout, func() (lease, outcome) { return p.api.put(by, slot, next) }, func(got lease, o outcome) {
		p.inFlight[slot]--
		answered(got, o)
	})
}

// sessionID names the session of a life, "" of nobody.
func (a *API) sessionID(l life) string {
	if l.incarnation == 0 {
		return ""
	}
	name, known := a.sessions[l]
	if !known {
		name = v1alpha1.SessionID(a.options.World, l.ordinal, l.incarnation)
		a.sessions[l] = name
	}
	return name
}
