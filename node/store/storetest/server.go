package storetest

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is an installed server, which ends with the test.
type Server struct {
	// Addr is its host and port, Dir where its files are.
	Addr, Dir string

	t      *testing.T
	binary string
	args   []string
	cmd    *exec.Cmd
}

// NewServer starts an installed server with an append-only file that is synced with every write. Without one in PATH the
// test is skipped, and says so. Settings, as on its command line, go before those.
func NewServer(t *testing.T, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t, Dir: t.TempDir()}
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil && s.binary == "" {
			s.binary = path
		}
	}
	if s.binary == "" {
		t.Skip("no valkey-server or redis-server in PATH")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Addr = l.Addr().String()
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.args = []string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.Dir, "--logfile", filepath.Join(s.Dir, "log"),
		"--appendonly", "yes", "--appendfsync", "always", "--save", "",
	}
	s.args = append(s.args, settings...)
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// Start starts it again after Kill, with what is in Dir. Settings hold for this time only.
func (s *Server) Start(settings ...string) {
	s.t.Helper()
	s.cmd = exec.CommandContext(context.Background(), s.binary, slices.Concat(s.args, settings)...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !s.listens() || s.do("PING") != nil; {
		if time.Now().After(deadline) {
			s.t.Fatalf("the server does not answer within %s", patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Kill ends it at once, as the end of its machine does.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Run carries out a command of an operator.
func (s *Server) Run(args ...any) {
	s.t.Helper()
	if err := s.do(args...); err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
}

// AwaitPersistence waits until INFO persistence has all lines.
func (s *Server) AwaitPersistence(lines ...string) {
	s.t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer c.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		info := c.Info(context.Background(), "persistence").Val()
		missing := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(info, line) })
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%v not within %s: %s", missing, patience, info)
		}
	}
}

// Tool is the path of a program that comes with the server, such as check-aof. Without it the test is skipped.
func (s *Server) Tool(name string) string {
	s.t.Helper()
	tool := strings.TrimSuffix(filepath.Base(s.binary), "server") + name
	path, err := exec.LookPath(tool)
	if err != nil {
		s.t.Skipf("no %s in PATH", tool)
	}
	return path
}

func (s *Server) listens() bool {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(context.Background(), "tcp", s.Addr)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func (s *Server) do(args ...any) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer c.Close()
	return c.Do(context.Background(), args...).Err()
}
