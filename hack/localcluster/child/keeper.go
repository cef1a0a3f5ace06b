package child

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// markerVar names the environment variable that marks every descendant of a Keeper; its value is the Keeper's folder.
const markerVar = "SPATIALCELLS_LOCALCLUSTER"

// watchdogScript keeps the set of live process groups and kills them when its input ends, which it does when the
// parent dies or closes the Keeper.
const watchdogScript = `trap '' INT TERM HUP
live=' '
while read -r op id; do
  case $op in
  +) live="$live$id " ;;
  -) live="${live%%" $id "*} ${live#*" $id "}" ;;
  esac
done
for id in $live; do kill -9 "-$id" 2>/dev/null; done
exit 0`

// Keeper starts children and sees that they end with this process.
type Keeper struct {
	dir      string
	spawn    chan func()
	mu       sync.Mutex // guards writes to watchdog
	watchdog io.WriteCloser
	dog      *exec.Cmd
	stop     sync.Once
}

// NewKeeper makes a Keeper whose records live in dir/run. Call Sweep first if an earlier life may have left children.
func NewKeeper(dir string) (*Keeper, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", dir, err)
	}
	if err := os.MkdirAll(recordsDir(abs), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of process records: %w", err)
	}
	k := &Keeper{dir: abs, spawn: make(chan func())}
	if err := k.startWatchdog(); err != nil {
		return nil, err
	}
	go k.thread()
	return k, nil
}

func (k *Keeper) startWatchdog() error {
	k.dog = exec.CommandContext(context.Background(), "/bin/sh", "-c", watchdogScript)
	k.dog.Env = []string{"PATH=/usr/bin:/bin", k.marker()}
	k.dog.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := k.dog.StdinPipe()
	if err != nil {
		return fmt.Errorf("making the watchdog's pipe: %w", err)
	}
	k.watchdog = in
	if err := k.dog.Start(); err != nil {
		return fmt.Errorf("starting the watchdog: %w", err)
	}
	return nil
}

// thread starts every child from one operating system thread: the parent-death signal fires when the thread that
// forked ends, not when the process does.
func (k *Keeper) thread() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for f := range k.spawn {
		f()
	}
}

func (k *Keeper) marker() string { return markerVar + "=" + k.dir }

// Start runs cmd as the leader of a new process group, or of a new session when cmd asks for one. The label says in
// records what the child is. The caller must call Wait on the result exactly once.
func (k *Keeper) Start(cmd *exec.Cmd, label string) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, k.marker())
	result := make(chan error, 1)
	k.spawn <- func() { result <- cmd.Start() }
	if err := <-result; err != nil {
		return nil, fmt.Errorf("starting %s: %w", label, err)
	}
	p := &Process{keeper: k, cmd: cmd, id: identify(cmd.Process.Pid, label), exited: make(chan struct{})}
	k.tell("+", p.id.PID)
	if err := p.id.save(k.dir); err != nil {
		p.Kill()
		p.reap()
		return nil, err
	}
	go p.reap()
	return p, nil
}

func (k *Keeper) tell(op string, pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A dead watchdog must not stop the cluster: the parent-death signal and the sweep remain.
	_, _ = io.WriteString(k.watchdog, op+" "+strconv.Itoa(pid)+"\n")
}

// Close ends the watchdog, which kills what is still running. No Start may follow.
func (k *Keeper) Close() {
	k.stop.Do(func() {
		close(k.spawn)
		_ = k.watchdog.Close()
		_ = k.dog.Wait()
	})
}
