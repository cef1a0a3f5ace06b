package envtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// buildTime is how long the binaries may take to build on a slow machine.
const buildTime = 25 * time.Minute

// needed are the binaries of a test cluster.
var needed = []string{"kube-apiserver", "etcd"}

// findBinaries returns a directory that holds the needed binaries, of KUBEBUILDER_ASSETS, of the cache, or made now.
func findBinaries(t testing.TB, root string) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		if !complete(dir) {
			return "", fmt.Errorf("KUBEBUILDER_ASSETS=%s lacks one of %s: unset it, or point it to a directory that has them", dir, strings.Join(needed, ", "))
		}
		return dir, nil
	}
	if dir, err := cachedBinaries(root); err == nil && complete(dir) {
		return dir, nil
	}
	if deadline, set := deadlineOf(t); set && time.Until(deadline) < buildTime {
		return "", errors.New("the Kubernetes binaries are not here yet and may take longer to build than this test may: run `go run ./hack/assets` once (`make test` does), then test again")
	}
	return makeBinaries(root)
}

func deadlineOf(t testing.TB) (time.Time, bool) {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		return d.Deadline()
	}
	return time.Time{}, false
}

func complete(dir string) bool {
	for _, name := range needed {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// kubernetesVersion is the line of hack/k8s/go.mod that pins the version.
var kubernetesVersion = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\S+)`)

// cachedBinaries is where hack/assets keeps the binaries of the pinned version.
func cachedBinaries(root string) (string, error) {
	mod, err := os.ReadFile(filepath.Join(root, "hack", "k8s", "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading the pinned Kubernetes version: %w", err)
	}
	version := kubernetesVersion.FindSubmatch(mod)
	if version == nil {
		return "", errors.New("reading the pinned Kubernetes version: hack/k8s/go.mod requires no k8s.io/kubernetes")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache: %w", err)
	}
	return filepath.Join(home, ".cache", "spatialcells", "k8s-"+string(version[1])), nil
}

// makeBinaries runs hack/assets, whose last line of output is the directory.
func makeBinaries(root string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/assets")
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("getting the Kubernetes binaries by `go run ./hack/assets`: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	dir := strings.TrimSpace(lines[len(lines)-1])
	if !complete(dir) {
		return "", fmt.Errorf("`go run ./hack/assets` named %q, which lacks one of %s", dir, strings.Join(needed, ", "))
	}
	return dir, nil
}

// moduleRoot is the directory of the project's go.mod, at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the module: no go.mod at or above the working directory")
		}
		dir = parent
	}
}
