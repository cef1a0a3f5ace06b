package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// runBytes is what a run needs: binaries, etcd's log, build cache of our own code.
	runBytes = 2 << 30
	// sourceBytes is what building Kubernetes from source needs on top.
	sourceBytes = 10 << 30
)

// checkDisk fails early where a run would fail late and worse: a full disk breaks etcd.
func checkDisk(dir string) error {
	need := uint64(runBytes)
	if !haveKubernetes() {
		need += sourceBytes
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return fmt.Errorf("making the demo's folder: %w", err)
	}
	places := []string{filepath.Dir(filepath.Clean(dir)), os.TempDir()}
	if cache, err := os.UserCacheDir(); err == nil {
		places = append(places, cache)
	}
	for _, p := range places {
		var st syscall.Statfs_t
		if err := syscall.Statfs(p, &st); err != nil {
			continue // not there yet: its parent is checked as another place, or making it will say so
		}
		if err := enough(p, st.Bavail*uint64(st.Bsize), need); err != nil {
			return err
		}
	}
	return nil
}

func enough(place string, free, need uint64) error {
	if free >= need {
		return nil
	}
	remedy := "free some space: `go clean -cache` empties the build cache"
	if need > runBytes {
		remedy += "; most of it is needed once, to build Kubernetes (point KUBEBUILDER_ASSETS at its binaries to avoid that)"
	}
	return &trouble{
		cause:  fmt.Errorf("the disk of %s is nearly full: %.1f GiB are free, %.0f are needed", place, gib(free), gib(need)),
		remedy: remedy,
	}
}

func gib(b uint64) float64 { return float64(b) / (1 << 30) }

// haveKubernetes reports whether the binaries need not be made. A wrong guess only changes how much space is asked for.
func haveKubernetes() bool {
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		return true
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return false
	}
	found, err := filepath.Glob(filepath.Join(cache, "spatialcells", "k8s-*", "kube-apiserver"))
	return err == nil && len(found) > 0
}
