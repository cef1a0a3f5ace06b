package link

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
)

func TestHellosThatDoNotFitAreRefusedWithTheirReasonOnBothSides(t *testing.T) {
	codec := func(name string, least, most uint32) []*wire.CodecVersion {
		return []*wire.CodecVersion{{Component: "other", MinVersion: 1, MaxVersion: 1}, {Component: name, MinVersion: least, MaxVersion: most}}
	}
	cases := []struct {
		reason Reason
		says   string
		change func(*Config)
	}{
		{ReasonWorld, "uid-2", func(c *Config) { c.WorldUID = "uid-2" }},
		{ReasonSeed, "different terrain seeds", func(c *Config) { c.SeedHash = 8 }},
		{ReasonTerrainVersion, "version 4", func(c *Config) { c.TerrainVersion = 4 }},
		{ReasonCodec, "component position has no common version", func(c *Config) { c.Codecs = codec("position", 3, 4) }},
	}
	for _, tc := range cases {
		t.Run(string(tc.reason), func(t *testing.T) {
			a, b := start(t, "a#1"), start(t, "b#1", tc.change)
			acquaint(a, b)
			a.awaitRefused(tc.reason)
			b.awaitRefused(tc.reason)
			eventually(t, "it is tried again", func() bool {
				return a.metric("spatialcells_link_refused_total", string(tc.reason)) > 3
			})
			for _, n := range []*node{a, b} {
				if n.logs.count("reason="+string(tc.reason)) != 1 || n.logs.count(tc.says) != 1 {
					t.Errorf("%s logged it %d times, with the cause %d times",
						n.session, n.logs.count("reason="+string(tc.reason)), n.logs.count(tc.says))
				}
				if len(n.history()) > 0 {
					t.Errorf("events of a refused peer: %v", n.history())
				}
			}
		})
	}
}

func TestVersionsThatOverlapAreCompatible(t *testing.T) {
	hello := func(oldest, newest uint32, codecs ...*wire.CodecVersion) *wire.Hello {
		return &wire.Hello{MinProtocolVersion: oldest, ProtocolVersion: newest, Codecs: codecs}
	}
	codec := func(name string, least, most uint32) *wire.CodecVersion {
		return &wire.CodecVersion{Component: name, MinVersion: least, MaxVersion: most}
	}
	cases := []struct {
		name         string
		mine, theirs *wire.Hello
		want         Reason
	}{
		{"same", hello(1, 2), hello(1, 2), ""},
		{"one step newer", hello(1, 2), hello(2, 3), ""},
		{"one step older", hello(2, 3), hello(1, 2), ""},
		{"two steps newer", hello(1, 2), hello(3, 4), ReasonProtocolVersion},
		{"two steps older", hello(3, 4), hello(1, 2), ReasonProtocolVersion},
		{"a component only they know", hello(1, 1), hello(1, 1, codec("new", 9, 9)), ""},
		{"a component only I know", hello(1, 1, codec("new", 9, 9)), hello(1, 1), ""},
		{"one common version", hello(1, 1, codec("c", 1, 2)), hello(1, 1, codec("c", 2, 3)), ""},
		{"no common version", hello(1, 1, codec("c", 1, 2)), hello(1, 1, codec("c", 3, 3)), ReasonCodec},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := Reason("")
			if r := ownRefusal(compatible(tc.mine, tc.theirs)); r != nil {
				got = r.reason
			}
			if got != tc.want {
				t.Errorf("refused for %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAForeignKeyAtTheAddressOfAPeerLearnsNothing(t *testing.T) {
	a, b := start(t, "a#1"), start(t, "b#1")
	lease := b.lease()
	lease.KeyHash = strings.Repeat("ab", 32)
	a.SetPeers([]Peer{lease})
	b.SetPeers([]Peer{a.lease()})
	a.awaitRefused(ReasonForeignKey)
	if len(a.history())+len(b.history()) > 0 {
		t.Errorf("events: %v %v", a.history(), b.history())
	}
}

// caller is a TLS client with a key of its own that may say anything.
func caller(t *testing.T, n *node, identity Identity) *tls.Conn {
	t.Helper()
	config := identity.clientTLS(n.identity.KeyHash())
	if identity.keyHash == "" {
		config.Certificates = nil
	}
	c, err := tls.Dial("tcp", n.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

func newIdentity(t *testing.T) Identity {
	t.Helper()
	identity, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

func helloFrame(t *testing.T, h *wire.Hello) []byte {
	t.Helper()
	body, err := proto.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return appendFrame(nil, kindHello, body)
}

// answer is the refusal that the listener sends.
func answer(t *testing.T, c *tls.Conn) *refusal {
	t.Helper()
	f, err := newDecoder(c, Limits{}.withDefaults()).next()
	if err != nil {
		t.Fatalf("no refusal frame: %v", err)
	}
	if f.kind != kindRefusal {
		t.Fatalf("frame of kind %d instead of a refusal", f.kind)
	}
	return decodeRefusal(f.bytes)
}

func TestCallersAreToldWhyTheyAreRefused(t *testing.T) {
	good := func(n *node) *wire.Hello {
		h := n.hello("m#1", 0)
		h.Session, h.PeerSession = "b#1", "m#1"
		return h
	}
	type call struct {
		name     string
		reason   Reason
		identity func(t *testing.T, known, other Identity) Identity
		bytes    func(t *testing.T, n *node) []byte
	}
	known := func(_ *testing.T, known, _ Identity) Identity { return known }
	hello := func(change func(*wire.Hello)) func(t *testing.T, n *node) []byte {
		return func(t *testing.T, n *node) []byte {
			h := good(n)
			change(h)
			return helloFrame(t, h)
		}
	}
	same := hello(func(*wire.Hello) {})
	cases := []call{
		{"no certificate", ReasonNoCertificate, func(*testing.T, Identity, Identity) Identity { return Identity{} }, same},
		{"stranger", ReasonForeignKey, func(t *testing.T, _, _ Identity) Identity { return newIdentity(t) }, same},
		{"key of another peer", ReasonForeignKey, func(_ *testing.T, _, other Identity) Identity { return other }, same},
		{"unknown session", ReasonUnknownSession, known, hello(func(h *wire.Hello) { h.Session = "c#9" })},
		{"meant for another", ReasonWrongPeer, known, hello(func(h *wire.Hello) { h.PeerSession = "m#0" })},
		{"old protocol", ReasonProtocolVersion, known, hello(func(h *wire.Hello) { h.ProtocolVersion, h.MinProtocolVersion = 0, 0 })},
		{
			"greater session dials", ReasonWrongDirection, func(_ *testing.T, _, other Identity) Identity { return other },
			hello(func(h *wire.Hello) { h.Session = "z#1" }),
		},
		{"garbage in the Hello", ReasonMalformed, known, func(*testing.T, *node) []byte { return appendFrame(nil, kindHello, []byte{0xff}) }},
		{"no Hello", ReasonMalformed, known, func(*testing.T, *node) []byte { return appendNumber(nil, kindPing, 1) }},
		{
			"a batch before the Hello", ReasonMalformed, known,
			func(*testing.T, *node) []byte { return appendFrame(nil, kindReplication, []byte{0, 0x40, 0, 0, 1}) },
		},
		{"unknown frame", ReasonMalformed, known, func(*testing.T, *node) []byte { return appendFrame(nil, 99, nil) }},
		{"huge frame", ReasonOversized, known, func(*testing.T, *node) []byte { return []byte{0xff, 0xff, 0xff, 0xff, byte(kindHello)} }},
		{"resumes what was never sent", ReasonResume, known, hello(func(h *wire.Hello) { h.ReliableReceived = 5 })},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			m := start(t, "m#1")
			peer, other := newIdentity(t), newIdentity(t)
			m.SetPeers([]Peer{{Session: "b#1", KeyHash: peer.KeyHash()}, {Session: "z#1", KeyHash: other.KeyHash()}})
			c := caller(t, m, tc.identity(t, peer, other))
			if _, err := c.Write(tc.bytes(t, m)); err != nil {
				t.Fatal(err)
			}
			if tc.reason == ReasonResume { // known only after both Hellos
				if f, err := newDecoder(io.LimitReader(c, int64(helloSize(t, m))), m.limits).next(); err != nil || f.kind != kindHello {
					t.Fatalf("no Hello: %v", err)
				}
			}
			if got := answer(t, c); got.reason != tc.reason {
				t.Errorf("refused for %s (%s), want %s", got.reason, got.detail, tc.reason)
			}
			m.awaitRefused(tc.reason)
			if len(m.history()) > 0 {
				t.Errorf("events: %v", m.history())
			}
		})
	}
}

func helloSize(t *testing.T, n *node) int {
	t.Helper()
	return len(helloFrame(t, n.hello("b#1", 0)))
}

// greetedCaller is a caller that is up.
func greetedCaller(t *testing.T, m *node) (*tls.Conn, *decoder) {
	t.Helper()
	identity := newIdentity(t)
	m.SetPeers([]Peer{{Session: "b#1", KeyHash: identity.KeyHash()}})
	c := caller(t, m, identity)
	h := m.hello("m#1", 0)
	h.Session = "b#1"
	if _, err := c.Write(helloFrame(t, h)); err != nil {
		t.Fatal(err)
	}
	m.awaitUp("b#1", 1)
	return c, newDecoder(c, m.limits)
}

func TestAPeerThatBreaksTheProtocolIsToldAndDown(t *testing.T) {
	gap, _ := appendReliable(nil, 2, []byte("second before first"), 0, maxFrame)
	cases := map[string]struct {
		reason Reason
		bytes  []byte
	}{
		"hole in the reliable stream": {ReasonMalformed, gap},
		"acknowledges the future":     {ReasonMalformed, appendNumber(nil, kindAck, 7)},
		"a second Hello":              {ReasonMalformed, appendFrame(nil, kindHello, nil)},
		"a piece of nothing":          {ReasonMalformed, appendFrame(nil, kindReplicationMore, []byte("x"))},
		"a batch above the limit":     {ReasonOversized, appendFrame(nil, kindReplication, []byte{0x7f, 0, 0, 0, 1})},
		"a frame above the limit":     {ReasonOversized, []byte{1, 0, 0, 0, byte(kindReplication)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := start(t, "m#1")
			c, dec := greetedCaller(t, m)
			if _, err := c.Write(tc.bytes); err != nil {
				t.Fatal(err)
			}
			for {
				f, err := dec.next()
				if err != nil {
					t.Fatalf("no refusal: %v", err)
				}
				if f.kind == kindRefusal {
					if got := decodeRefusal(f.bytes); got.reason != tc.reason {
						t.Errorf("refused for %s, want %s", got.reason, tc.reason)
					}
					break
				}
			}
			eventually(t, "down", func() bool { return m.count("down b#1") == 1 })
			m.awaitRefused(tc.reason)
		})
	}
}

func TestARepeatedReliableMessageIsPassedOver(t *testing.T) {
	m := start(t, "m#1")
	c, _ := greetedCaller(t, m)
	first, _ := appendReliable(nil, 1, []byte("one"), 0, maxFrame)
	second, _ := appendReliable(nil, 2, []byte("two"), 0, maxFrame)
	if _, err := c.Write(append(append(append([]byte(nil), first...), first...), second...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both arrive", func() bool { return len(m.reliableFrom("b#1")) >= 2 })
	if got := fmt.Sprint(m.reliableFrom("b#1")); got != "[one two]" {
		t.Errorf("received %s", got)
	}
}

func TestNoiseBeforeTLSDisturbsNobody(t *testing.T) {
	a, b := start(t, "a#1"), start(t, "b#1", func(c *Config) { c.Limits.HandshakeTimeout = 300 * time.Millisecond })
	noise := func(text string) net.Conn {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, text)
		return c
	}
	noise("GET / HTTP/1.1\r\nHost: world\r\n\r\n")
	b.awaitRefused(ReasonNotTLS)
	_ = noise("").Close()
	b.awaitRefused(ReasonHungUp)
	noise("\x16\x03\x01") // and nothing more
	b.awaitRefused(ReasonHandshakeTimeout)
	acquaint(a, b)
	a.awaitUp(b.session, 1)
}

func TestHandshakesAreBounded(t *testing.T) {
	b := start(t, "b#1", func(c *Config) { c.Limits.HandshakesPerAddress = 3 })
	var silent []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		silent = append(silent, c)
	}
	eventually(t, "one more is turned away", func() bool {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			return false
		}
		defer c.Close()
		return b.metric("spatialcells_link_refused_total", string(ReasonBusy)) > 0
	})
	for _, c := range silent {
		_ = c.Close()
	}
	a := start(t, "a#1")
	acquaint(a, b)
	a.awaitUp(b.session, 1)
}

func TestConfigSaysWhatIsMissing(t *testing.T) {
	_, err := New(Config{Session: "a#1"}, Identity{})
	if err == nil || !strings.Contains(err.Error(), "Handler") || !strings.Contains(err.Error(), "identity") {
		t.Errorf("error: %v", err)
	}
}

func TestARefusalSurvivesItsFrame(t *testing.T) {
	said := refuse(ReasonCodec, "component %s", "position")
	heard := decodeRefusal(said.encode())
	if heard.reason != said.reason || heard.detail != said.detail || !heard.byPeer {
		t.Errorf("heard %+v", heard)
	}
	if odd := decodeRefusal([]byte("brand_new\nbecause")); odd.reason != "unknown" || !strings.Contains(odd.detail, "brand_new") {
		t.Errorf("a reason of a newer build: %+v", odd)
	}
	if !errors.As(error(said), new(*refusal)) || ownRefusal(heard) != nil {
		t.Error("own and other refusals are mixed up")
	}
}
