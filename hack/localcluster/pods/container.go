package pods

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spatialcells/spatialcells/hack/localcluster/child"
)

const (
	preparePatience = 10 * time.Second
	reusePatience   = 2 * time.Second
)

// container prepares and runs one life of the pod's container. ran is false when the pod was told to end before the
// process started.
func (p *pod) container(ctx context.Context) (exit child.Exit, ran bool) {
	proc, out := p.startUntilItRuns(ctx)
	if proc == nil {
		return child.Exit{}, false
	}
	defer out.Close()
	defer p.setProcess(nil, launch{})
	p.prepared = true
	p.status.running(p.obj, proc.PID())
	p.publish()
	p.event(corev1.EventTypeNormal, "Started", fmt.Sprintf("started container %s as process %d", p.obj.Spec.Containers[0].Name, proc.PID()))
	p.attend(ctx, proc)
	exit = proc.Exit()
	p.status.exited(exit)
	return exit, true
}

// startUntilItRuns tries to start the process until that works; nil means that the pod was told to end.
func (p *pod) startUntilItRuns(ctx context.Context) (*child.Process, *logFile) {
	for {
		l, err := p.prepareOrReuse(ctx)
		if err == nil {
			var proc *child.Process
			var out *logFile
			if proc, out, err = p.start(l); err == nil {
				p.setProcess(proc, l)
				return proc, out
			}
		}
		p.status.waiting("CreateContainerError", err.Error())
		p.publish()
		if p.sleep(retryPrepare) {
			return nil, nil
		}
	}
}

// prepareOrReuse prepares anew, or falls back on the last preparation while the API server is out of reach: an outage
// must not keep a crashed container down.
func (p *pod) prepareOrReuse(ctx context.Context) (launch, error) {
	patience := preparePatience
	if p.prepared {
		patience = reusePatience
	}
	prepareCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l, err := p.prepare(prepareCtx)
	if err == nil || !p.prepared || ctx.Err() != nil || !unreachable(err) {
		return l, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exec, nil
}

// unreachable tells an API server that does not answer from one that says no.
func unreachable(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport) || errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err)
}

// prepare gets everything a process needs from the API.
func (p *pod) prepare(ctx context.Context) (launch, error) {
	c := &p.obj.Spec.Containers[0]
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return launch{}, err
	}
	binary, err := p.rt.cfg.Image(c.Image)
	if err != nil {
		return launch{}, err
	}
	m, err := p.prepareVolumes(ctx)
	if err != nil {
		return launch{}, err
	}
	env, err := p.environment(ctx, m)
	if err != nil {
		return launch{}, err
	}
	return launch{env: env, mounts: m, binary: binary}, nil
}

// start starts the container's process, its output going to a new log.
func (p *pod) start(l launch) (*child.Process, *logFile, error) {
	c := &p.obj.Spec.Containers[0]
	argv := append(append([]string{}, c.Command...), c.Args...)
	if len(c.Command) == 0 {
		argv = append([]string{l.binary}, c.Args...)
	}
	cmd, err := l.command(argv)
	if err != nil {
		return nil, nil, err
	}
	cmd.Dir = p.dir
	if c.WorkingDir != "" {
		cmd.Dir = l.mounts.rewrite(c.WorkingDir)
	}
	out, err := p.rt.createLog(p.obj, p.status.restartCount())
	if err != nil {
		return nil, nil, err
	}
	cmd.Stdout, cmd.Stderr = out.stream("stdout"), out.stream("stderr")
	proc, err := p.rt.cfg.Keeper.Start(cmd, "pod "+p.obj.Namespace+"/"+p.obj.Name)
	if err != nil {
		out.Close()
		return nil, nil, err
	}
	return proc, out, nil
}

// command makes a command as the container would run it: variables expanded, mount paths rewritten, the image's own
// binary found by its name, others beside it or on the PATH.
func (l launch) command(argv []string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, errors.New("no command")
	}
	args := make([]string, len(argv))
	for i, a := range argv {
		args[i] = l.mounts.rewrite(expand(a, l.env))
	}
	file, err := l.lookup(args[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), file, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Env = list(l.env)
	return cmd, nil
}

func (l launch) lookup(name string) (string, error) {
	if filepath.Base(name) == filepath.Base(l.binary) {
		return l.binary, nil
	}
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range append([]string{filepath.Dir(l.binary)}, filepath.SplitList(l.env["PATH"])...) {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("command %q is neither the image's binary nor on the PATH of this machine", name)
}

// attend watches a process until it is reaped: it stops it when told to or when a probe says so.
func (p *pod) attend(ctx context.Context, proc *child.Process) {
	probes := p.startProbes(ctx)
	defer probes.stop()
	stopFresh := p.keepFresh(ctx)
	defer stopFresh()
	var end *ending
	defer func() { end.close() }()
	for {
		stopping, killAt, changed := p.orders()
		if stopping {
			end = p.end(ctx, end, proc, killAt)
		}
		select {
		case <-proc.Exited():
			return
		case <-changed:
		case <-end.term():
			end.terminate()
		case <-end.kill():
			p.event(corev1.EventTypeWarning, "Killing", "the grace is over: SIGKILL")
			proc.Kill()
		case <-p.updated:
			p.publish()
		case r := <-probes.results:
			if grace, kill := p.judge(r, probes); kill && end == nil {
				end = p.end(ctx, nil, proc, time.Now().Add(grace))
			}
		}
	}
}

// keepFresh refreshes volumes beside the process until the returned function is called, which waits for the last one.
func (p *pod) keepFresh(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(refreshEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.refresh:
			case <-ticker.C:
			}
			p.refreshNow(ctx)
		}
	}()
	return func() { cancel(); <-done }
}

func (p *pod) refreshNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := p.refreshVolumes(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.rt.cfg.Log.Warn("volumes stay as they were", "pod", p.obj.Name, "error", err.Error())
	}
}

// ending is a process on its way out: preStop, SIGTERM, SIGKILL.
type ending struct {
	proc   *child.Process
	hook   chan struct{} // closed when the preStop hook has ended; nil once SIGTERM is sent
	timer  *time.Timer
	killAt time.Time
}

func (e *ending) term() <-chan struct{} {
	if e == nil {
		return nil
	}
	return e.hook
}

func (e *ending) kill() <-chan time.Time {
	if e == nil {
		return nil
	}
	return e.timer.C
}

func (e *ending) close() {
	if e != nil {
		e.timer.Stop()
	}
}

func (e *ending) terminate() {
	e.hook = nil
	e.proc.Signal(syscall.SIGTERM)
}

// end begins to stop the process, or shortens the time it has left.
func (p *pod) end(ctx context.Context, e *ending, proc *child.Process, killAt time.Time) *ending {
	if e != nil {
		if killAt.Before(e.killAt) {
			e.killAt = killAt
			e.timer.Reset(time.Until(killAt))
		}
		return e
	}
	e = &ending{proc: proc, hook: make(chan struct{}), timer: time.NewTimer(time.Until(killAt)), killAt: killAt}
	if time.Until(killAt) <= 0 {
		proc.Kill()
		e.hook = nil
		return e
	}
	p.event(corev1.EventTypeNormal, "Killing", "stopping container "+p.obj.Spec.Containers[0].Name)
	hookCtx, cancel := context.WithDeadline(ctx, killAt)
	go func(done chan struct{}) {
		defer cancel()
		defer close(done)
		p.preStop(hookCtx, proc)
	}(e.hook)
	return e
}

// preStop runs the hook of that name; its failure is an event, nothing more.
func (p *pod) preStop(ctx context.Context, proc *child.Process) {
	l := p.obj.Spec.Containers[0].Lifecycle
	if l == nil || l.PreStop == nil {
		return
	}
	var err error
	switch h := l.PreStop; {
	case h.Sleep != nil:
		select {
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
		case <-proc.Exited():
		case <-ctx.Done():
		}
	case h.Exec != nil:
		err = p.probeExec(ctx, h.Exec)
	case h.HTTPGet != nil:
		err = p.probeHTTP(ctx, h.HTTPGet)
	}
	if err != nil {
		p.event(corev1.EventTypeWarning, "FailedPreStopHook", err.Error())
	}
}
