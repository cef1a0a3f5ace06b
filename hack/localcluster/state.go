package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spatialcells/spatialcells/hack/localcluster/child"
)

// State is what a folder says about its cluster.
type State struct {
	Owner      child.Identity `json:"owner"` // the process that called Up
	Ready      bool           `json:"ready"`
	Started    time.Time      `json:"started"`
	Lane       int            `json:"lane"`
	Machines   int            `json:"machines"`
	APIServer  string         `json:"apiServer"`
	Kubeconfig string         `json:"kubeconfig"`
	Kubectl    string         `json:"kubectl"`
}

// ErrNoCluster says that a folder holds no cluster.
var ErrNoCluster = errors.New("no local cluster")

const maxState = 64 << 10 // bytes

func stateFile(dir string) string { return filepath.Join(dir, "state.json") }

// Inspect reads the state of the cluster in dir; Owner.Alive tells whether it runs.
func Inspect(dir string) (State, error) {
	f, err := os.Open(stateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, fmt.Errorf("%w in %s", ErrNoCluster, dir)
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the cluster's state: %w", err)
	}
	defer f.Close()
	raw := make([]byte, maxState+1)
	n, _ := f.Read(raw)
	return parseState(raw[:n])
}

func parseState(raw []byte) (State, error) {
	var s State
	if len(raw) > maxState {
		return s, errors.New("the cluster's state is too long to be one")
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("the cluster's state cannot be read: %w", err)
	}
	if s.Lane < 0 || s.Lane >= lanes {
		return s, fmt.Errorf("the cluster's state names lane %d", s.Lane)
	}
	return s, nil
}

func (s State) save(dir string) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(stateFile(dir)+".new", raw, 0o600)
	}
	if err == nil {
		err = os.Rename(stateFile(dir)+".new", stateFile(dir))
	}
	if err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	return nil
}

// lock takes the folder for this process; the kernel gives it back however the process dies.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the cluster's folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the cluster's folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return f, nil
	}
	_ = f.Close()
	who := "another process"
	if s, err := Inspect(dir); err == nil && s.Owner.Alive() {
		who = fmt.Sprintf("process %d (%s)", s.Owner.PID, s.Owner.Label)
	}
	return nil, fmt.Errorf("the cluster in %s is already run by %s: use it, stop it with `down`, or choose another folder", dir, who)
}

// Stop ends the cluster in dir from outside: it asks the owner to, waits, and kills what is left by pid and start
// time. It is no error when nothing runs.
func Stop(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	s, err := Inspect(dir)
	if err == nil && s.Owner.Alive() {
		if s.Owner.PID == os.Getpid() {
			return errors.New("a cluster of this very process ends with Down")
		}
		s.Owner.Signal(syscall.SIGTERM)
		waitGone(ctx, s.Owner)
		s.Owner.Signal(syscall.SIGKILL)
		waitGone(ctx, s.Owner)
	} else if err != nil && !errors.Is(err, ErrNoCluster) {
		return err
	}
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	l, err := lock(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	_, err = child.Sweep(ctx, dir)
	return err
}

// stopPatience is how long Stop waits for an owner that was asked to end.
const stopPatience = 30 * time.Second

func waitGone(ctx context.Context, id child.Identity) {
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	for id.Alive() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Purge removes what a stopped cluster left in its folder, the folder included.
func Purge(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	l, err := lock(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := os.Stat(stateFile(dir)); err != nil { // a folder that is no cluster's is not ours to remove
		return nil
	}
	return os.RemoveAll(dir)
}

// forget removes what makes a folder an earlier cluster, but not its logs.
func forget(dir string) error {
	for _, name := range []string{"etcd", "pki", "pods", "volumes", "state.json"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("removing the earlier cluster: %w", err)
		}
	}
	return nil
}
