package child

import (
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipeDelay bounds how long Wait lingers for output of descendants that left the group but hold the pipes.
const pipeDelay = 2 * time.Second

// Process is a running child.
type Process struct {
	keeper *Keeper
	cmd    *exec.Cmd
	id     Identity
	exited chan struct{}
	exit   Exit

	mu     sync.Mutex
	ending bool // the pid is about to be given back: no signal may be sent any more
}

// Exit says how a child ended.
type Exit struct {
	Code   int            // exit code, or 128 + signal as shells and kubelets count
	Signal syscall.Signal // 0 unless a signal ended it
	At     time.Time
}

// PID returns the child's process id.
func (p *Process) PID() int { return p.id.PID }

// Exited is closed when the child is reaped and its whole process group is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Exit returns how the child ended; it may be called after Exited is closed.
func (p *Process) Exit() Exit { <-p.exited; return p.exit }

// Signal sends sig to the child alone, as a container runtime signals the container's first process.
func (p *Process) Signal(sig syscall.Signal) { p.kill(p.id.PID, sig) }

// Kill ends the child's whole group at once.
func (p *Process) Kill() { p.kill(-p.id.PID, syscall.SIGKILL) }

func (p *Process) kill(target int, sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ending {
		_ = syscall.Kill(target, sig)
	}
}

// reap waits for the end of the child without collecting it, kills what is left of its group while the pid is still
// taken, and only then collects it.
func (p *Process) reap() {
	for {
		err := unix.Waitid(unix.P_PID, p.id.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	_ = syscall.Kill(-p.id.PID, syscall.SIGKILL)
	p.cmd.WaitDelay = pipeDelay
	_ = p.cmd.Wait()
	p.exit = exitOf(p.cmd)
	p.keeper.tell("-", p.id.PID)
	p.id.remove(p.keeper.dir)
	close(p.exited)
}

func exitOf(cmd *exec.Cmd) Exit {
	e := Exit{Code: cmd.ProcessState.ExitCode(), At: time.Now()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal, e.Code = ws.Signal(), 128+int(ws.Signal())
	}
	return e
}
