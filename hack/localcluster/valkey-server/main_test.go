package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheEmbeddedServerGetsPortAndPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.conf")
	if err := os.WriteFile(file, []byte("# comment\nrequirepass secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port, password, err := settings([]string{file, "--save", "", "--port", "7000", "--appendonly", "yes"})
	if err != nil || port != 7000 || password != "secret" {
		t.Errorf("port %d, password %q, %v", port, password, err)
	}
	if port, password, err := settings(nil); err != nil || port != 6379 || password != "" {
		t.Errorf("without arguments: port %d, password %q, %v", port, password, err)
	}
	for _, args := range [][]string{{"--port"}, {"--port", "x"}, {file + "-none"}} {
		if _, _, err := settings(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestTheServerListensOnThePodsAddressOnly(t *testing.T) {
	got := become("/usr/bin/redis-server", []string{"auth.conf", "--port", "1"}, "127.20.0.1")
	if want := []string{"redis-server", "auth.conf", "--port", "1", "--bind", "127.20.0.1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestItDoesNotBecomeItself(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "valkey-server")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if got := installed(); got != "" {
		t.Errorf("it would become %s", got)
	}
}
