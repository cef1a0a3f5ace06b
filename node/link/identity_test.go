package link

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"testing"
)

func TestTheKeyHashIsThatOfTheSubjectPublicKeyInfo(t *testing.T) {
	identity := newIdentity(t)
	der, err := x509.MarshalPKIXPublicKey(identity.certificate.Leaf.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	if want := hex.EncodeToString(sum[:]); identity.KeyHash() != want {
		t.Errorf("key hash %s, want %s", identity.KeyHash(), want)
	}
	if identity.KeyHash() == newIdentity(t).KeyHash() {
		t.Error("two identities share a key")
	}
}

func TestOlderTLSIsRefused(t *testing.T) {
	m := start(t, "m#1")
	config := newIdentity(t).clientTLS(m.identity.KeyHash())
	config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if c, err := tls.Dial("tcp", m.Addr().String(), config); err == nil {
		_ = c.Close()
		t.Fatal("TLS 1.2 was accepted")
	}
	m.awaitRefused(ReasonTLS)
}

func TestANewConnectionOfAPeerReplacesItsOldOne(t *testing.T) {
	m := start(t, "m#1", func(c *Config) { c.Limits.IdleTimeout = 2 * patience })
	identity := newIdentity(t)
	m.SetPeers([]Peer{{Session: "b#1", KeyHash: identity.KeyHash()}})
	hello := m.hello("m#1", 0)
	hello.Session = "b#1"
	for i := range 3 { // the older ones stay open at this end, as if their end had been lost
		c := caller(t, m, identity)
		if _, err := c.Write(helloFrame(t, hello)); err != nil {
			t.Fatal(err)
		}
		if f, err := newDecoder(c, m.limits).next(); err != nil || f.kind != kindHello {
			t.Fatalf("connection %d: no Hello: %v", i, err)
		}
		m.awaitUp("b#1", i+1)
	}
	if got, want := m.history(), []string{"up b#1", "down b#1", "up b#1", "down b#1", "up b#1"}; !slices.Equal(got, want) {
		t.Errorf("history: %v", got)
	}
}

func TestFramesOnTheWayFromADeadSessionAreRefused(t *testing.T) {
	m := start(t, "m#1")
	greetedCaller(t, m)
	p := m.find("b#1")
	m.SetPeers(nil)
	if err := p.deliverReliable(1, nil); !errors.Is(err, ErrDead) {
		t.Errorf("reliable: %v", err)
	}
	if err := p.deliverReplication(nil); !errors.Is(err, ErrDead) {
		t.Errorf("replication: %v", err)
	}
	if p.up(9) {
		t.Error("a dead session came up")
	}
	if len(m.reliableFrom("b#1"))+len(m.replicationFrom("b#1")) > 0 {
		t.Error("bytes of the dead were handed over")
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	g, c := newGraves(), causes{}
	name := func(i int) string { return "s#" + strconv.Itoa(i) }
	for i := range maxGraves + 10 {
		g.add(name(i), "key of "+name(i))
		c.first("lost", name(i))
	}
	if len(g.sessions) != maxGraves || len(g.byKey) != maxGraves || len(g.order) != maxGraves || len(c.seen) > maxCauses {
		t.Errorf("%d sessions, %d keys, %d in order, %d causes", len(g.sessions), len(g.byKey), len(g.order), len(c.seen))
	}
	if last := name(maxGraves + 9); g.has(name(0)) || !g.has(last) || c.first("lost", last) {
		t.Error("the oldest go first")
	}
	c.forget(name(maxGraves + 9))
	if !c.first("lost", name(maxGraves+9)) {
		t.Error("a cause is logged again after its peer was up")
	}
}
