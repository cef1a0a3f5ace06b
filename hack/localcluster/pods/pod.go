package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/spatialcells/spatialcells/hack/localcluster/child"
)

const (
	firstRestart = 500 * time.Millisecond
	lastRestart  = 30 * time.Second
	healthyAfter = time.Minute      // a life this long forgives earlier crashes
	retryPrepare = time.Second      // between attempts to get volumes and environment
	refreshEvery = 30 * time.Second // also without a change: tokens grow old
)

var sequence atomic.Uint64

// pod is one pod of this machine: one goroutine, run, with the rest telling it what to do.
type pod struct {
	rt           *Runtime
	obj          *corev1.Pod // as first seen; its spec does not change
	seq          uint64
	dir          string
	ip, hostIP   string
	predecessors []*pod
	prepared     bool             // a container has run: exec holds how; touched by run only
	tokens       map[string]token // touched by prepare, and by keepFresh while the process runs

	live atomic.Pointer[corev1.Pod] // as last seen
	done chan struct{}              // closed when nothing of the pod runs any more

	mu       sync.Mutex
	stopping bool
	killAt   time.Time     // no process of the pod may live longer
	leave    bool          // do not remove it from the API: only this runtime ends
	absent   bool          // the API has it no more
	wake     chan struct{} // closed and replaced on each change of the four fields above
	proc     *child.Process
	exec     launch // how to run more commands like the container's

	status   status
	refresh  chan struct{} // a secret or configMap changed
	reported chan struct{} // a new status is to be sent
	updated  chan struct{} // the live object changed
}

// launch is what a command in the container needs.
type launch struct {
	env    map[string]string
	mounts mounts
	binary string
}

func newPod(r *Runtime, o *corev1.Pod) *pod {
	p := &pod{
		rt: r, obj: o.DeepCopy(), seq: sequence.Add(1),
		dir:      filepath.Join(r.cfg.Dir, "pods", string(o.UID)),
		hostIP:   r.cfg.Machines[o.Spec.NodeName],
		tokens:   map[string]token{},
		done:     make(chan struct{}),
		wake:     make(chan struct{}),
		refresh:  make(chan struct{}, 1),
		reported: make(chan struct{}, 1),
		updated:  make(chan struct{}, 1),
	}
	p.live.Store(o)
	p.status.begin(o)
	return p
}

func (p *pod) latest() *corev1.Pod { return p.live.Load() }

func (p *pod) update(o *corev1.Pod) {
	p.live.Store(o)
	poke(p.updated)
}

func (p *pod) refreshSoon() { poke(p.refresh) }

// poke leaves at most one message: what matters is that something changed.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// halt asks the pod to end within grace; a later call can only shorten it.
func (p *pod) halt(grace time.Duration) { p.order(grace, func() {}) }

// abandon ends the processes but leaves the pod in the API.
func (p *pod) abandon(grace time.Duration) { p.order(grace, func() { p.leave = true }) }

// vanished ends the processes at once: the API has forgotten the pod.
func (p *pod) vanished() { p.order(0, func() { p.absent = true }) }

func (p *pod) order(grace time.Duration, more func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now().Add(grace)
	if !p.stopping || at.Before(p.killAt) {
		p.killAt = at
	}
	p.stopping = true
	more()
	close(p.wake)
	p.wake = make(chan struct{})
}

// orders returns the present orders and a channel that closes when they change.
func (p *pod) orders() (stopping bool, killAt time.Time, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping, p.killAt, p.wake
}

func (p *pod) process() *child.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proc
}

func (p *pod) setProcess(proc *child.Process, l launch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proc = proc
	if proc != nil {
		p.exec = l
	}
}

// run is the pod's life.
func (p *pod) run() {
	ctx, cancel := context.WithCancel(p.rt.ctx)
	defer cancel()
	for _, old := range p.predecessors {
		<-old.done
	}
	p.predecessors = nil
	stop := p.keepReporting(ctx)
	p.containers(ctx)
	close(p.done)
	stop()
	p.finish(ctx)
}

// containers runs one container after the other until the pod is to end.
func (p *pod) containers(ctx context.Context) {
	if why := unsupported(p.obj); why != "" {
		p.status.waiting("CreateContainerConfigError", why)
		p.publish()
		p.event(corev1.EventTypeWarning, "Unsupported", why)
		p.sleep(0)
		return
	}
	ip, err := p.rt.cfg.Network.Take(p.obj.Status.PodIP)
	if err != nil {
		p.status.waiting("CreateContainerError", err.Error())
		p.publish()
		p.sleep(0)
		return
	}
	defer p.rt.cfg.Network.Return(ip)
	p.ip = ip
	p.status.setAddresses(ip, p.hostIP)
	backoff := firstRestart
	for {
		began := time.Now()
		exit, ran := p.container(ctx)
		if !ran {
			return
		}
		if stopping, _, _ := p.orders(); stopping || !p.restarts(exit) {
			p.status.end(exit)
			p.publish()
			p.sleep(0)
			return
		}
		if time.Since(began) > healthyAfter {
			backoff = firstRestart
		}
		p.status.crashed(backoff)
		p.publish()
		p.event(corev1.EventTypeWarning, "BackOff", fmt.Sprintf("container ended with code %d; starting it again in %v", exit.Code, backoff))
		if p.sleep(backoff) {
			p.status.end(exit)
			p.publish()
			return
		}
		backoff = min(2*backoff, lastRestart)
	}
}

// sleep waits until the pod is to end (true) or d has passed; 0 waits for ever.
func (p *pod) sleep(d time.Duration) bool {
	var timer <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	for {
		stopping, _, changed := p.orders()
		if stopping {
			return true
		}
		select {
		case <-changed:
		case <-timer:
			return false
		}
	}
}

func (p *pod) restarts(exit child.Exit) bool {
	switch p.obj.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exit.Code != 0
	}
	return true
}

// unsupported says what of a pod the process runtime cannot give.
func unsupported(o *corev1.Pod) string {
	s := &o.Spec
	switch {
	case len(s.Containers) != 1:
		return fmt.Sprintf("the process runtime runs one container per pod, this pod has %d", len(s.Containers))
	case len(s.InitContainers) > 0:
		return "the process runtime runs no init containers"
	case s.HostNetwork:
		return "the process runtime gives each pod an address of its own and has no hostNetwork"
	}
	c := &s.Containers[0]
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		return "the process runtime runs no postStart hooks"
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil && probe.GRPC != nil {
			return "the process runtime has exec, httpGet and tcpSocket probes, not grpc"
		}
	}
	return ""
}

// finish removes the pod from the API once its last status is out, unless only the runtime ends.
func (p *pod) finish(ctx context.Context) {
	p.mu.Lock()
	leave, absent := p.leave, p.absent
	p.mu.Unlock()
	if leave {
		return
	}
	if !absent {
		p.reportLast(ctx)
		p.rt.remove(p.latest())
	}
	_ = os.RemoveAll(p.dir)
	p.rt.pruneLogs()
}
