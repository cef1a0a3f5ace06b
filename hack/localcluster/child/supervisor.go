package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	firstRestart = 300 * time.Millisecond
	lastRestart  = 10 * time.Second
	healthyAfter = 30 * time.Second // a life this long forgives earlier crashes
)

// Spec describes a process that must stay up.
type Spec struct {
	Name    string
	Binary  string
	Args    []string
	LogFile string        // stdout and stderr are appended
	Grace   time.Duration // between SIGTERM and SIGKILL when stopped
}

// Supervisor restarts its process with backoff until stopped. Its methods may be called from any goroutine.
type Supervisor struct {
	keeper *Keeper
	spec   Spec
	notify func(string) // one line per thing that happened

	mu       sync.Mutex
	current  *Process
	restarts int
	cancel   context.CancelFunc
	done     chan struct{}
}

// NewSupervisor prepares a supervisor; Start begins it. notify may be nil.
func (k *Keeper) NewSupervisor(spec Spec, notify func(string)) *Supervisor {
	if notify == nil {
		notify = func(string) {}
	}
	return &Supervisor{keeper: k, spec: spec, notify: notify}
}

// Start begins to keep the process up; it does nothing while it already does.
func (s *Supervisor) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan struct{})
	go s.keep(ctx, s.done)
}

// Stop ends the process (SIGTERM, SIGKILL after its grace) and does not return before it is reaped.
func (s *Supervisor) Stop() {
	s.mu.Lock()
	cancel, done := s.cancel, s.done
	s.cancel = nil
	s.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}

// PID returns the process id, or 0 while the process is down.
func (s *Supervisor) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0
	}
	return s.current.PID()
}

// Restarts counts how often the process ended without being asked to.
func (s *Supervisor) Restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}

// Name returns the component's name.
func (s *Supervisor) Name() string { return s.spec.Name }

func (s *Supervisor) keep(ctx context.Context, done chan struct{}) {
	defer close(done)
	delay := firstRestart
	for {
		began := time.Now()
		reason := s.life(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= healthyAfter {
			delay = firstRestart
		}
		s.mu.Lock()
		s.restarts++
		s.mu.Unlock()
		s.notify(fmt.Sprintf("%s ended: %v; starting it again in %v (log: %s)", s.spec.Name, reason, delay, s.spec.LogFile))
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		delay = min(2*delay, lastRestart)
	}
}

// life runs the process once and says why it ended.
func (s *Supervisor) life(ctx context.Context) error {
	log, err := os.OpenFile(s.spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.spec.Binary, s.spec.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := s.keeper.Start(cmd, s.spec.Name)
	if err != nil {
		return err
	}
	s.setCurrent(p)
	defer s.setCurrent(nil)
	select {
	case <-p.Exited():
	case <-ctx.Done():
		p.Terminate(s.spec.Grace)
	}
	if sig := p.Exit().Signal; sig != 0 {
		return fmt.Errorf("signal %v", sig)
	}
	return errors.New("exit code " + fmt.Sprint(p.Exit().Code))
}

func (s *Supervisor) setCurrent(p *Process) {
	s.mu.Lock()
	s.current = p
	s.mu.Unlock()
}

// Terminate asks the process to end, kills it after the grace, and returns when it is reaped.
func (p *Process) Terminate(grace time.Duration) {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Exited():
	case <-time.After(grace):
		p.Kill()
		<-p.Exited()
	}
}
