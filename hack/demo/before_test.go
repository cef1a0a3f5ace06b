package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOnlyOneDemoRunsInAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	first, err := takeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = takeLock(dir)
	if err == nil || !strings.Contains(err.Error(), "another demo is running (pid "+strconv.Itoa(os.Getpid())+")") {
		t.Errorf("the second: %v", err)
	}
	var tr *trouble
	if !errors.As(err, &tr) || !strings.Contains(tr.remedy, "make demo-down") {
		t.Errorf("no remedy: %v", err)
	}
	_ = first.Close()
	again, err := takeLock(dir)
	if err != nil {
		t.Fatalf("after the first ended: %v", err)
	}
	_ = again.Close()
}

func TestANearlyFullDiskIsSaidBefore(t *testing.T) {
	err := enough("/data", 1<<30, runBytes)
	if err == nil || !strings.Contains(err.Error(), "/data is nearly full: 1.0 GiB are free, 2 are needed") {
		t.Error(err)
	}
	if err := enough("/data", runBytes, runBytes+sourceBytes); !strings.Contains(explain(err, "x"), "KUBEBUILDER_ASSETS") {
		t.Error("it does not say what the space is for")
	}
	if err := enough("/data", runBytes, runBytes); err != nil {
		t.Error(err)
	}
}

func TestFailuresAreThreeLines(t *testing.T) {
	text := explain(&trouble{cause: errors.New("the first\nand the second"), remedy: "do this"}, "logs/x")
	if text != "demo: the first and the second\n  do:  do this\n  log: logs/x\n" {
		t.Errorf("%q", text)
	}
	if text := explain(errors.New("plain"), "logs"); strings.Count(text, "\n") != 3 {
		t.Errorf("%q", text)
	}
}

func TestACommandsLastWordsAreInItsError(t *testing.T) {
	log := filepath.Join(t.TempDir(), "logs", "c.log")
	err := command(context.Background(), log, []string{"X=why"}, "sh", "-c", "echo first; echo $X >&2; exit 3")
	var tr *trouble
	if !errors.As(err, &tr) || tr.log != log || !strings.HasSuffix(err.Error(), "exit status 3: why") {
		t.Error(err)
	}
	if err := command(context.Background(), log, nil, "no-such-program-anywhere"); !strings.Contains(explain(err, ""), "install no-such-program-anywhere") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := command(ctx, log, nil, "sleep", "60"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTheWorldOfAFileIsFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.yaml")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("kind: Secret\nmetadata: {name: s}\n---\napiVersion: spatialcells.io/v1alpha1\nkind: World\nmetadata: {name: w}\n")
	if key, err := worldKey(file); err != nil || key != (client.ObjectKey{Namespace: "default", Name: "w"}) {
		t.Errorf("%v, %v", key, err)
	}
	write("kind: Secret\nmetadata: {name: s}\n")
	if _, err := worldKey(file); err == nil {
		t.Error("a Secret is taken for a World")
	}
	if _, err := worldKey(file + "x"); err == nil {
		t.Error("a missing file")
	}
	if key, err := worldKey("../../config/samples/1-smallest.yaml"); err != nil || key.Name != "genesis" {
		t.Errorf("the sample: %v, %v", key, err)
	}
}
