package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The versions of the programs; a test keeps them equal to those of hack/k8s/go.mod.
const (
	Version     = "v1.37.2" // Kubernetes
	EtcdVersion = "v3.7.0"
)

// All are the programs that Dir can provide, in the order in which they are built.
var All = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}

// Options change where Dir looks. The zero value is right for everyone but tests.
type Options struct {
	Need     []string                                          // subset of All; nil means all
	Progress func(line string)                                 // told what takes time; nil is silent
	Env      func(string) string                               // nil means os.Getenv
	CacheDir string                                            // folder of the cache; empty means <user cache>/spatialcells
	Module   string                                            // folder of the nested module; empty means hack/k8s of this repository
	build    func(context.Context, *run, string, string) error // tests replace the compiler
	version  func(context.Context, string) (string, error)     // tests replace running the program
}

// run is one call of Dir.
type run struct {
	Options
	dir string // the cache's folder for this version
}

// Dir returns a folder that holds the needed programs, getting what is missing. It may take minutes the first time;
// ctx ends it early without harm. Its errors say what to do.
func Dir(ctx context.Context, opts Options) (string, error) {
	r := &run{Options: opts}
	if err := r.complete(); err != nil {
		return "", err
	}
	if dir := r.Env("KUBEBUILDER_ASSETS"); dir != "" && r.holds(dir) {
		return filepath.Abs(dir)
	}
	if len(r.missing(ctx)) == 0 {
		return r.dir, nil
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache: %w", err)
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	return r.dir, r.get(ctx)
}

func (r *run) complete() error {
	if r.Need == nil {
		r.Need = All
	}
	for _, n := range r.Need {
		if !slices.Contains(All, n) {
			return fmt.Errorf("no program %q: there are %s", n, strings.Join(All, ", "))
		}
	}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	if r.Env == nil {
		r.Env = os.Getenv
	}
	if r.build == nil {
		r.build = build
	}
	if r.version == nil {
		r.version = versionOf
	}
	if r.CacheDir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("no folder for a cache (%w): set HOME, or KUBEBUILDER_ASSETS to a folder with the programs", err)
		}
		r.CacheDir = filepath.Join(user, "spatialcells")
	}
	r.dir = filepath.Join(r.CacheDir, "k8s-"+Version)
	return nil
}

// holds tells whether a foreign folder has all needed programs; it is trusted beyond that.
func (r *run) holds(dir string) bool {
	for _, n := range r.Need {
		st, err := os.Stat(filepath.Join(dir, n))
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			r.Progress(fmt.Sprintf("KUBEBUILDER_ASSETS=%s has no %s: looking elsewhere", dir, n))
			return false
		}
	}
	return true
}

// get provides what is missing; it is called with the lock held.
func (r *run) get(ctx context.Context) error {
	missing := r.missing(ctx)
	if len(missing) == 0 {
		return nil // another run has done it meanwhile
	}
	r.removePartial()
	left, err := r.download(ctx, missing)
	if err != nil {
		return err
	}
	if err := r.buildAll(ctx, left); err != nil {
		return err
	}
	if still := r.missing(ctx); len(still) > 0 {
		return fmt.Errorf("%s in %s do not run on this machine: remove the folder and try again", strings.Join(still, ", "), r.dir)
	}
	return nil
}

// seal is what is remembered of a program that was found whole.
type seal struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modTime"`
}

func (r *run) sealsFile() string { return filepath.Join(r.dir, "seals.json") }

// missing lists the needed programs that the cache does not hold whole. A program is whole when its size and time are
// those remembered; one that is not remembered is asked for its version, which a truncated one cannot tell.
func (r *run) missing(ctx context.Context) []string {
	seals := map[string]seal{}
	if raw, err := os.ReadFile(r.sealsFile()); err == nil {
		_ = json.Unmarshal(raw, &seals) // unreadable seals are no seals
	}
	var missing []string
	changed := false
	for _, n := range r.Need {
		file := filepath.Join(r.dir, n)
		st, err := os.Stat(file)
		if err != nil {
			missing = append(missing, n)
			continue
		}
		now := seal{st.Size(), st.ModTime().UTC()}
		if old, ok := seals[n]; ok && old.Size == now.Size && old.ModTime.Equal(now.ModTime) {
			continue
		} else if ok {
			r.Progress(fmt.Sprintf("%s has changed since it was put there: checking it", file))
		}
		if err := r.check(ctx, n, file); err != nil {
			r.Progress(fmt.Sprintf("%s is broken (%v): replacing it", file, err))
			missing = append(missing, n)
			continue
		}
		seals[n], changed = now, true
	}
	if changed {
		r.remember(seals)
	}
	return missing
}

// remember is a cache of checks: failing to write it costs time, nothing more.
func (r *run) remember(seals map[string]seal) {
	raw, err := json.MarshalIndent(seals, "", "  ")
	if err != nil {
		return
	}
	tmp := fmt.Sprintf("%s.%d", r.sealsFile(), os.Getpid())
	if os.WriteFile(tmp, raw, 0o644) == nil {
		_ = os.Rename(tmp, r.sealsFile())
	}
}

// check runs a program for its version.
func (r *run) check(ctx context.Context, name, file string) error {
	got, err := r.version(ctx, file)
	if err != nil {
		return err
	}
	want := Version
	if name == "etcd" {
		want = strings.TrimPrefix(EtcdVersion, "v")
	}
	if !strings.Contains(got, want) {
		return fmt.Errorf("it says %q, not %s", firstLine(got), want)
	}
	return nil
}

const versionPatience = 30 * time.Second

func versionOf(ctx context.Context, file string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	args := []string{"--version"}
	if filepath.Base(file) == "kubectl" {
		args = []string{"version", "--client"}
	}
	out, err := exec.CommandContext(ctx, file, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("asking it for its version: %w", err)
	}
	return string(out), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// install checks a finished program and moves it into the cache in one step.
func (r *run) install(ctx context.Context, name, file string) error {
	if err := os.Chmod(file, 0o755); err != nil {
		return err
	}
	if err := r.check(ctx, name, file); err != nil {
		return fmt.Errorf("%s just made does not work: %w", name, err)
	}
	return os.Rename(file, filepath.Join(r.dir, name))
}

const partialPrefix = ".partial-"

// partial makes a folder beside the programs for one that is not finished. The program's own name is kept, because
// that is how it is asked for its version.
func (r *run) partial() (string, error) { return os.MkdirTemp(r.dir, partialPrefix) }

// removePartial clears what runs that were killed left; it is called with the lock held.
func (r *run) removePartial() {
	old, _ := filepath.Glob(filepath.Join(r.dir, partialPrefix+"*"))
	for _, f := range old {
		_ = os.RemoveAll(f)
	}
}

const heartbeat = 15 * time.Second

// lock waits until this run is the only one that fills the cache.
func (r *run) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(r.dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the cache: %w", err)
	}
	began, said := time.Now(), time.Time{}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("locking the cache: %w", err)
		}
		if time.Since(said) >= heartbeat {
			said = time.Now()
			r.Progress(fmt.Sprintf("another run is getting the Kubernetes programs: waiting for it, %v so far", time.Since(began).Round(time.Second)))
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("waiting for another run that gets the Kubernetes programs: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }
