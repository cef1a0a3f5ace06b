package store

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/spatialcells/spatialcells/node/store/storetest"
	"github.com/spatialcells/spatialcells/node/zone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long something that has to happen may take.
const patience = 30 * time.Second

// eventually polls a condition until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// embedded starts a server in this process.
func embedded(t *testing.T) *miniredis.Miniredis {
	t.Helper()
	return miniredis.RunT(t)
}

// driver makes a driver for a server's address and closes it with the test. Its answers come by the channel.
func driver(t *testing.T, addr string, opts Options) (*Redis, <-chan zone.StoreAnswer) {
	t.Helper()
	answers := make(chan zone.StoreAnswer, 1<<16)
	r, err := New(context.Background(), "redis://"+addr, "", func(a zone.StoreAnswer) { answers <- a }, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, answers
}

// client makes a store of a driver that waits for each answer.
func client(t *testing.T, addr string, opts Options) storetest.Store {
	t.Helper()
	r, answers := driver(t, addr, opts)
	return storetest.Synchronous(t, r.Submit, answers)
}

// patient is for tests whose machine may be busy.
var patient = Options{Timeout: 20 * time.Second}

// serverBinary finds an installed server.
func serverBinary() (string, bool) {
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// startServer runs an installed server with an append-only file on a free port, and returns its address. It ends with
// the test.
func startServer(t *testing.T, binary string) string {
	t.Helper()
	port := freePort(t)
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	eventually(t, "the server answers", func() bool { return answersPing(addr) })
	return addr
}

func answersPing(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return false
	}
	reply := make([]byte, 5)
	_, err = io.ReadFull(conn, reply)
	return err == nil && strings.HasPrefix(string(reply), "+PONG")
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// flush empties a server.
func flush(t *testing.T, addr string) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	if err := c.FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
}
