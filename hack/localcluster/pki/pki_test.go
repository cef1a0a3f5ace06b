package pki

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestCertificatesServeAndIdentify(t *testing.T) {
	a, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server, err := a.Issue("server", Subject{Name: "server", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := a.Issue("client", Subject{Name: "alice", Groups: []string{"admins"}})
	if err != nil {
		t.Fatal(err)
	}
	load := func(p Pair) []tls.Certificate {
		c, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	x, y := net.Pipe()
	s := tls.Server(x, &tls.Config{Certificates: load(server), ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12})
	c := tls.Client(y, &tls.Config{Certificates: load(client), RootCAs: a.Pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
	done := make(chan error, 1)
	go func() { done <- s.Handshake() }()
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = c.Read(make([]byte, 1)) }()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	who := s.ConnectionState().PeerCertificates[0].Subject
	if who.CommonName != "alice" || who.Organization[0] != "admins" {
		t.Errorf("identified as %v", who)
	}
	_ = x.Close()
}

func TestAuthorityAndAccountKeyAreKept(t *testing.T) {
	dir := t.TempDir()
	read := func() string {
		a, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		sa, err := a.ServiceAccountKey()
		if err != nil {
			t.Fatal(err)
		}
		ca, _ := os.ReadFile(a.CAFile())
		key, _ := os.ReadFile(sa.KeyFile)
		return string(ca) + string(key)
	}
	if first, second := read(), read(); first != second {
		t.Error("a second start made new keys: running pods' tokens would be refused")
	}
}

func TestKeysAreForTheOwnerOnly(t *testing.T) {
	a, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{a.CAPair().KeyFile, a.CAFile()} {
		if st, err := os.Stat(f); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, st.Mode(), err)
		}
	}
}

func TestKubeconfigIsComplete(t *testing.T) {
	dir := t.TempDir()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := a.Kubeconfig(file, "https://127.0.0.1:1", Subject{Name: "system:admin"}); err != nil {
		t.Fatal(err)
	}
	conf, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil || conf.Host != "https://127.0.0.1:1" || len(conf.CertData) == 0 || len(conf.KeyData) == 0 || len(conf.CAData) == 0 {
		t.Errorf("%+v, %v", conf, err)
	}
}
