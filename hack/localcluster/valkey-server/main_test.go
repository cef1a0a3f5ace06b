package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/spatialcells/spatialcells/node/store/connect"
)

// asServer, in the environment, makes the test's binary the program.
const asServer = "BE_THE_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		logging.Disable()
		os.Exit(m.Run())
	}
	if err := run(os.Args[1:], os.Getenv("LISTEN_HOST")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// server is a pod of the managed store, as the local cluster runs it.
type server struct {
	*testing.T
	dir, port string
	path      string // PATH, "" for that of the test
	log       bytes.Buffer
	cmd       *exec.Cmd
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &server{T: t, dir: t.TempDir(), port: strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}
	if err := os.WriteFile(filepath.Join(s.dir, "auth.conf"), []byte("requirepass secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) start() {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(self, filepath.Join(s.dir, "auth.conf"), "--port", s.port, "--dir", s.dir, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
	cmd.Env = append(os.Environ(), asServer+"=1", "LISTEN_HOST=127.0.0.1")
	if s.path != "" {
		cmd.Env = append(cmd.Env, "PATH="+s.path)
	}
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.cmd = cmd
	s.Cleanup(s.kill)
}

// kill is kill -9.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// await asks until the server serves.
func (s *server) await() (connect.Config, connect.Report) {
	s.Helper()
	c := connect.Config{URL: "redis://127.0.0.1:" + s.port, Timeout: 10 * time.Second, Credentials: func() (connect.Credentials, error) {
		return connect.Credentials{Password: "secret"}, nil
	}}
	var last error
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		r, err := connect.Inspect(s.Context(), c)
		if err == nil && !r.Loading {
			return c, r
		}
		last = err
	}
	s.Fatalf("the server does not serve: %v", last)
	return c, connect.Report{}
}

func TestWhatIsAcknowledgedOutlivesAKill(t *testing.T) {
	if installed() == "" {
		t.Skip("neither valkey-server nor redis-server is installed") // the embedded one keeps nothing; CI installs a server
	}
	s := newServer(t)
	s.start()
	c, r := s.await()
	if r.Development() || r.Risking() != "" {
		t.Fatalf("it is %s, and %s", r.Name(), r.Risking())
	}
	if id, err := connect.Identify(t.Context(), c, "default/genesis/a1b2/x"); err != nil || id != "default/genesis/a1b2/x" {
		t.Fatalf("id %q, %v", id, err)
	}
	s.kill()
	s.start()
	if _, r := s.await(); r.StoreID != "default/genesis/a1b2/x" {
		t.Errorf("after a kill the id is %q", r.StoreID)
	}
}

func TestWithoutAServerTheEmbeddedOneServesAndSaysThatItKeepsNothing(t *testing.T) {
	s := newServer(t)
	s.path = t.TempDir()
	s.start()
	c, r := s.await()
	if !r.Development() {
		t.Errorf("it is %s", r.Name())
	}
	c.Credentials = nil
	if _, err := connect.Inspect(t.Context(), c); err == nil {
		t.Error("it asks for no password")
	}
	s.kill()
	if !strings.Contains(s.log.String(), "keeps NOTHING") {
		t.Errorf("it said %q", s.log.String())
	}
}

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
