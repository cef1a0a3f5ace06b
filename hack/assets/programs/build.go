package programs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// perProgram is the room that building one program may need, in bytes: five need 10 GB.
const perProgram = 2 << 30

var packages = map[string]string{
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
	"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
	"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
}

// buildAll builds programs from source, one after the other: they share most of their packages.
func (r *run) buildAll(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := r.findModule(); err != nil {
		return err
	}
	if err := r.checkRoom(len(names)); err != nil {
		return err
	}
	r.Progress(fmt.Sprintf("building %s from source: once; about 14 minutes on 2 cores when all are missing", strings.Join(names, ", ")))
	began := time.Now()
	for i, n := range names {
		r.Progress(fmt.Sprintf("building %s (%d of %d), %v so far", n, i+1, len(names), time.Since(began).Round(time.Second)))
		if err := r.buildOne(ctx, n); err != nil {
			return fmt.Errorf("building %s: %w", n, err)
		}
	}
	r.Progress(fmt.Sprintf("built the Kubernetes programs in %v; they are kept in %s", time.Since(began).Round(time.Second), r.dir))
	return nil
}

func (r *run) buildOne(ctx context.Context, name string) error {
	dir, err := r.partial()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name)
	if err := r.build(ctx, r, name, file); err != nil {
		return err
	}
	return r.install(ctx, name, file)
}

// linkFlags set the versions: clients cannot parse what a program without them says.
func linkFlags(name string) string {
	if name == "etcd" {
		return "-s -w"
	}
	flags := "-s -w"
	minor := strings.Split(Version, ".")[1]
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=%[3]s -X %[1]s.gitTreeState=clean", p, Version, minor)
	}
	return flags
}

// build runs the Go compiler with a heartbeat.
func build(ctx context.Context, r *run, name, file string) error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("there is no Go: install it from https://go.dev/dl, or set KUBEBUILDER_ASSETS to a folder with the programs")
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-ldflags", linkFlags(name), "-o", file, packages[name])
	cmd.Dir = r.Module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var seen atomic.Int64
	stop := r.beat(name, &seen)
	tail := watch(out, &seen)
	err = cmd.Wait()
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w:\n%s\n%s", err, strings.Join(tail, "\n"), remedy(tail))
	}
	return nil
}

// beat prints a line from time to time until stop is called.
func (r *run) beat(name string, seen *atomic.Int64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				r.Progress(fmt.Sprintf("building %s: %d packages compiled, %v so far", name, seen.Load(), time.Since(began).Round(time.Second)))
			}
		}
	}()
	return func() { close(done); <-ended }
}

const tailLines = 12

// watch counts the lines of the compiler and keeps the last ones.
func watch(in io.Reader, seen *atomic.Int64) []string {
	var tail []string
	for s := bufio.NewScanner(in); s.Scan(); {
		seen.Add(1)
		if tail = append(tail, s.Text()); len(tail) > tailLines {
			tail = tail[1:]
		}
	}
	_, _ = io.Copy(io.Discard, in) // a line beyond the scanner's limit must not block the compiler
	return tail
}

// remedy says what to do about what the compiler complained of.
func remedy(tail []string) string {
	text := strings.Join(tail, "\n")
	switch {
	case strings.Contains(text, "no space left"):
		return "the disk is full: free 10 GB (go clean -cache removes Go's build cache), or set GOCACHE and TMPDIR to a larger disk"
	case strings.Contains(text, "dial tcp"), strings.Contains(text, "no such host"), strings.Contains(text, "proxyconnect"):
		return "the Go module proxy is out of reach: set GOPROXY, or set KUBEBUILDER_ASSETS to a folder with the programs"
	case strings.Contains(text, "signal: killed"):
		return "the compiler was killed, most likely for want of memory: it needs about 4 GB; try GOFLAGS=-p=1"
	}
	return "try again with GOFLAGS=-x to see more, or set KUBEBUILDER_ASSETS to a folder with the programs"
}

// findModule finds hack/k8s above the working folder, or beside this source file.
func (r *run) findModule() error {
	if r.Module != "" {
		return nil
	}
	var roots []string
	if wd, err := os.Getwd(); err == nil {
		for d := wd; ; d = filepath.Dir(d) {
			roots = append(roots, filepath.Join(d, "hack"))
			if d == filepath.Dir(d) {
				break
			}
		}
	}
	if _, self, _, ok := runtime.Caller(0); ok {
		roots = append(roots, filepath.Dir(filepath.Dir(self)))
	}
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, "k8s", "go.mod")); err == nil {
			r.Module = filepath.Join(root, "k8s")
			return nil
		}
	}
	return errors.New("the module hack/k8s was not found: run this inside the repository, or set KUBEBUILDER_ASSETS to a folder with the programs")
}

// checkRoom refuses to begin what the disk cannot hold.
func (r *run) checkRoom(programs int) error {
	need := uint64(programs) * perProgram
	for _, dir := range []string{r.dir, goCache(r.Env)} {
		free, err := freeBytes(dir)
		if err != nil || free >= need {
			continue
		}
		return fmt.Errorf("building %d programs needs %d GB of disk, %s has %.1f: free some (go clean -cache removes Go's build cache), or set GOCACHE to a larger disk, or KUBEBUILDER_ASSETS to a folder with the programs",
			programs, need>>30, dir, float64(free)/(1<<30))
	}
	return nil
}

func goCache(env func(string) string) string {
	if dir := env("GOCACHE"); dir != "" {
		return dir
	}
	if user, err := os.UserCacheDir(); err == nil {
		return filepath.Join(user, "go-build")
	}
	return os.TempDir()
}

// freeBytes asks for the room below a folder that may not exist yet.
func freeBytes(dir string) (uint64, error) {
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(dir, &st)
		if err == nil {
			return st.Bavail * uint64(st.Bsize), nil
		}
		if !errors.Is(err, syscall.ENOENT) || dir == filepath.Dir(dir) {
			return 0, err
		}
		dir = filepath.Dir(dir)
	}
}
