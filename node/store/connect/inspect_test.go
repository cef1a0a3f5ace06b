package connect

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// patience is how long something that has to happen may take.
const patience = 30 * time.Second

// server is an installed server that runs for a test.
type server struct {
	*testing.T
	binary, address string
}

// start runs an installed server with some settings, or skips the test.
func start(t *testing.T, settings ...string) *server {
	t.Helper()
	s := &server{T: t, address: net.JoinHostPort("127.0.0.1", freePort(t))}
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil && s.binary == "" {
			s.binary = path
		}
	}
	if s.binary == "" {
		t.Skip("neither valkey-server nor redis-server is installed")
	}
	_, port, _ := net.SplitHostPort(s.address)
	s.run(append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", ""}, settings...))
	return s
}

// run starts the server, or another of its kind, and ends it with the test.
func (s *server) run(args []string) {
	s.Helper()
	cmd := exec.Command(s.binary, args...)
	cmd.Stdout = s.Output()
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// eventually asks until the error is as wanted: the server is starting.
func eventually(t *testing.T, c Config, good func(Report, error) bool) Report {
	t.Helper()
	c.Timeout = 10 * time.Second
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		r, err := Inspect(t.Context(), c)
		if good(r, err) {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s; last: %+v, %v", patience, r, err)
		}
	}
}

func answered(r Report, err error) bool { return err == nil && !r.Loading }

func as(username, password string) func() (Credentials, error) {
	return func() (Credentials, error) { return Credentials{username, password}, nil }
}

func TestARealServerIsInspectedAndIdentifiedOnce(t *testing.T) {
	s := start(t, "--appendonly", "yes", "--appendfsync", "always", "--requirepass", "secret", "--maxmemory", "100mb")
	c := Config{URL: "redis://" + s.address, Credentials: as("", "secret")}
	r := eventually(t, c, answered)
	if r.Development() || !r.Primary() || !r.AOF || r.Fsync != "always" || r.AOFFailed || r.MaxMemory != 100<<20 ||
		r.Eviction != "noeviction" || r.StoreID != "" || r.Risking() != "" || r.Losing() != "" {
		t.Errorf("got %+v", r)
	}
	if major, _, _ := strings.Cut(r.Version, "."); r.Server == "" || major == "" {
		t.Errorf("server %q, version %q", r.Server, r.Version)
	}
	for _, id := range []string{"default/genesis/1", "default/eden/2"} {
		if got, err := Identify(t.Context(), c, id); err != nil || got != "default/genesis/1" {
			t.Errorf("identified as %q, %v", got, err)
		}
	}
	if r := eventually(t, c, answered); r.StoreID != "default/genesis/1" {
		t.Errorf("inspected with id %q", r.StoreID)
	}
	for name, wrong := range map[string]func() (Credentials, error){"none": nil, "a wrong one": as("", "wrong"), "an unknown user": as("eve", "secret")} {
		c.Credentials = wrong
		_, err := Inspect(t.Context(), c)
		if !errors.Is(err, ErrCredentials) || strings.Contains(err.Error(), "secret") {
			t.Errorf("with password %s: %v", name, err)
		}
	}
}

func TestAServerThatKeepsNothingSaysSo(t *testing.T) {
	s := start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	r := eventually(t, Config{URL: "redis://" + s.address}, answered)
	if r.AOF || !strings.Contains(r.Risking(), "appendonly is off") || !strings.Contains(r.Losing(), "allkeys-lru") {
		t.Errorf("got %+v: risks %q, loses %q", r, r.Risking(), r.Losing())
	}
}

func TestAnACLUserThatMayDoLittle(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(users, []byte("user default off\nuser ada on >pw ~* +@all -config\nuser bob on >pw ~* +@read -info\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, "--appendonly", "yes", "--aclfile", users)
	c := Config{URL: "redis://" + s.address, Credentials: as("ada", "pw")}
	r := eventually(t, c, answered)
	if !r.AOF || r.Fsync != "" || r.Risking() != "" {
		t.Errorf("a user who may not ask for the configuration: %+v", r)
	}
	if id, err := Identify(t.Context(), c, "x"); id != "x" || err != nil {
		t.Errorf("identified as %q, %v", id, err)
	}
	c.Credentials = as("bob", "pw")
	if _, err := Inspect(t.Context(), c); !errors.Is(err, ErrCredentials) {
		t.Errorf("a user who may not INFO: %v", err)
	}
	c = Config{URL: "redis://ada@" + s.address, Credentials: as("", "pw")}
	if _, err := Inspect(t.Context(), c); err != nil {
		t.Errorf("the user's name in the URL: %v", err)
	}
}

func TestAReplicaIsSeen(t *testing.T) {
	primary := start(t)
	host, port, _ := net.SplitHostPort(primary.address)
	replica := start(t, "--replicaof", host, port)
	eventually(t, Config{URL: "redis://" + primary.address}, func(r Report, err error) bool { return err == nil && r.Replicas == 1 })
	c := Config{URL: "redis://" + replica.address}
	if r := eventually(t, c, answered); r.Primary() || r.Role != "slave" {
		t.Errorf("got %+v", r)
	}
	if _, err := Identify(t.Context(), c, "x"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("identifying a replica: %v", err)
	}
}

func TestSentinelsLeadToThePrimary(t *testing.T) {
	primary := start(t, "--requirepass", "pw")
	host, port, _ := net.SplitHostPort(primary.address)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	sentinel := net.JoinHostPort("127.0.0.1", freePort(t))
	_, sentinelPort, _ := net.SplitHostPort(sentinel)
	conf := "port " + sentinelPort + "\nbind 127.0.0.1\ndir " + filepath.Dir(file) + "\nsentinel monitor worlds " + host + " " + port + " 1\n" +
		"sentinel auth-pass worlds pw\nrequirepass spw\n"
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	primary.run([]string{file, "--sentinel"})
	dead := net.JoinHostPort("127.0.0.1", freePort(t))
	c := Config{URL: "redis+sentinel://" + dead + "," + sentinel + "/worlds", Credentials: as("", "pw"), Sentinel: Credentials{Password: "spw"}}
	if r := eventually(t, c, answered); !r.Primary() {
		t.Errorf("got %+v", r)
	}
	c.Sentinel.Password = "wrong"
	if _, err := Inspect(t.Context(), c); !errors.Is(err, ErrCredentials) {
		t.Errorf("with a wrong password for the sentinels: %v", err)
	}
	c.Sentinel.Password, c.URL = "spw", "redis+sentinel://"+sentinel+"/others"
	if _, err := Inspect(t.Context(), c); err == nil {
		t.Error("a primary that the sentinels do not know is found")
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, stranger := certify(t, dir, "server"), certify(t, dir, "stranger")
	s := start(t, "--port", "0")
	port := freePort(t)
	s.run([]string{
		"--port", "0", "--tls-port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(dir, "server.crt"), "--tls-key-file", filepath.Join(dir, "server.key"),
		"--tls-ca-cert-file", filepath.Join(dir, "server.crt"),
	})
	c := Config{URL: "rediss://127.0.0.1:" + port, CA: ca}
	if r := eventually(t, c, answered); !r.Primary() {
		t.Errorf("got %+v", r)
	}
	for name, authorities := range map[string][]byte{"the machine's": nil, "a stranger's": stranger} {
		c.CA = authorities
		if _, err := Inspect(t.Context(), c); !errors.Is(err, ErrUntrusted) {
			t.Errorf("with %s authorities: %v", name, err)
		}
	}
}

// certify makes a key and a certificate that signs itself, for 127.0.0.1.
func certify(t *testing.T, dir, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for file, content := range map[string][]byte{name + ".crt": public, name + ".key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return public
}

func TestTheEmbeddedServerIsRecognized(t *testing.T) {
	embedded := miniredis.RunT(t)
	c := Config{URL: "redis://" + embedded.Addr()}
	r, err := Inspect(t.Context(), c)
	if err != nil || !r.Development() || !r.Primary() || r.StoreID != "" {
		t.Errorf("got %+v, %v", r, err)
	}
	if id, err := Identify(t.Context(), c, "x"); id != "x" || err != nil {
		t.Errorf("identified as %q, %v", id, err)
	}
	if r, err := Inspect(t.Context(), c); err != nil || r.StoreID != "x" {
		t.Errorf("got %+v, %v", r, err)
	}
	embedded.Set(Key, strings.Repeat("x", MaxID+1))
	if r, err := Inspect(t.Context(), c); err == nil {
		t.Errorf("a huge id is taken for one: %+v", r)
	}
}

func TestIDsOfAStoreAreBounded(t *testing.T) {
	for _, id := range []string{"", strings.Repeat("x", MaxID+1)} {
		if _, err := Identify(t.Context(), Config{URL: "redis://127.0.0.1:1"}, id); err == nil || !strings.Contains(err.Error(), "id of a store") {
			t.Errorf("an id of %d bytes: %v", len(id), err)
		}
	}
}

func TestNobodyIsThere(t *testing.T) {
	_, err := Inspect(t.Context(), Config{URL: "redis://127.0.0.1:" + freePort(t)})
	if err == nil || errors.Is(err, ErrCredentials) || errors.Is(err, ErrUntrusted) || errors.Is(err, ErrLoading) {
		t.Errorf("got %v", err)
	}
}

// impostor listens and does with each connection as it is told.
func impostor(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			handle(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestOneThatNeverAnswersCostsTheTimeOutOnly(t *testing.T) {
	release := make(chan struct{})
	address := impostor(t, func(net.Conn) { <-release })
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Inspect(ctx, Config{URL: "redis://" + address, Timeout: time.Hour}); err == nil {
		t.Error("silence is taken for an answer")
	}
	if waited := time.Since(began); waited > patience {
		t.Errorf("waited %v", waited)
	}
}

func TestOneThatAnswersWithoutEndIsCutOff(t *testing.T) {
	sent := make(chan int, 8)
	address := impostor(t, func(conn net.Conn) {
		chunk, n := []byte(strings.Repeat("x", 1<<16)), 0
		_, err := conn.Write([]byte("$500000000\r\n"))
		for err == nil && n < 400<<20 {
			_, err = conn.Write(chunk)
			n += len(chunk)
		}
		sent <- n
	})
	if _, err := Inspect(t.Context(), Config{URL: "redis://" + address, Timeout: 20 * time.Second}); err == nil {
		t.Error("it is taken for a store")
	}
	if n := <-sent; n >= 400<<20 {
		t.Errorf("all %d bytes were read", n)
	}
}
