package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/hack/assets/programs"
)

// needed are the programs of a test cluster.
var needed = []string{"etcd", "kube-apiserver", "kubectl"}

// margin is kept of a test's time for saying what went wrong.
const margin = 10 * time.Second

// findBinaries returns a folder that holds the needed programs. Where they must be built first, that ends with the test's
// time, and the next try goes on from there.
func findBinaries(t testing.TB) (string, error) {
	ctx, cancel := context.Background(), func() {}
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, set := d.Deadline(); set {
			ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		}
	}
	defer cancel()
	dir, err := programs.Dir(ctx, programs.Options{Need: needed, Progress: func(line string) { fmt.Fprintln(os.Stderr, line) }})
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("the Kubernetes programs took longer to get than this test may run: run `make test`, which gets them first: %w", err)
	case err != nil:
		return "", fmt.Errorf("getting the Kubernetes programs: %w", err)
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
