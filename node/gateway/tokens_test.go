package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/torus"
)

// verifier makes one over a directory.
func verifier(t *testing.T, dir string, change func(*VerifierConfig)) *Verifier {
	t.Helper()
	cfg := VerifierConfig{World: "genesis", Dir: dir, Poll: 5 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	v, err := NewVerifier(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// causeFor verifies a token and returns why it was refused, or nothing.
func causeFor(v *Verifier, token string) Cause {
	_, err := v.Verify(context.Background(), token)
	var refused *TokenError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.Cause
	}
	return Cause(err.Error())
}

// claims are good ones.
func claims() Claims {
	return Claims{World: "genesis", Name: "Ada", RegisteredClaims: jwt.RegisteredClaims{
		Subject: "7", ID: newTokenID(), ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}}
}

func signed(t *testing.T, method jwt.SigningMethod, key any, c jwt.Claims, kid string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAGoodTokenSaysWhoItIs(t *testing.T) {
	v := verifier(t, keyDir(t), nil)
	c := claims()
	c.Spawn = "100,200"
	id, err := v.Verify(context.Background(), signed(t, jwt.SigningMethodHS256, secret, c, "dev"))
	if err != nil {
		t.Fatal(err)
	}
	if id.Account != 7 || id.Name != "Ada" || *id.Spawn != (torus.Pos{X: 100, Y: 200}) || time.Until(id.Expires) < 50*time.Minute {
		t.Fatalf("identity %+v", id)
	}
}

func TestEachClaimIsChecked(t *testing.T) {
	v := verifier(t, keyDir(t), nil)
	for name, test := range map[string]struct {
		spoil func(*Claims)
		want  Cause
	}{
		"nothing wrong":       {func(*Claims) {}, ""},
		"another world":       {func(c *Claims) { c.World = "exodus" }, CauseWorld},
		"no world":            {func(c *Claims) { c.World = "" }, CauseWorld},
		"no account":          {func(c *Claims) { c.Subject = "" }, CauseClaims},
		"account 0":           {func(c *Claims) { c.Subject = "0" }, CauseClaims},
		"account +7":          {func(c *Claims) { c.Subject = "+7" }, CauseClaims},
		"account 07":          {func(c *Claims) { c.Subject = "07" }, CauseClaims},
		"account of 65 bits":  {func(c *Claims) { c.Subject = "18446744073709551616" }, CauseClaims},
		"no jti":              {func(c *Claims) { c.ID = "" }, CauseClaims},
		"a long jti":          {func(c *Claims) { c.ID = strings.Repeat("x", 129) }, CauseClaims},
		"no expiry":           {func(c *Claims) { c.ExpiresAt = nil }, CauseClaims},
		"expired":             {func(c *Claims) { c.ExpiresAt = ahead(-11 * time.Second) }, CauseExpired},
		"expired within skew": {func(c *Claims) { c.ExpiresAt = ahead(-5 * time.Second) }, ""},
		"lives two days":      {func(c *Claims) { c.ExpiresAt = ahead(48 * time.Hour) }, CauseClaims},
		"not valid yet":       {func(c *Claims) { c.NotBefore = ahead(time.Minute) }, CauseNotYetValid},
		"issued tomorrow":     {func(c *Claims) { c.IssuedAt = ahead(24 * time.Hour) }, CauseNotYetValid},
		"a long name":         {func(c *Claims) { c.Name = strings.Repeat("ä", 33) }, CauseClaims},
		"a name of 32":        {func(c *Claims) { c.Name = strings.Repeat("ä", 32) }, ""},
		"a deceptive name":    {func(c *Claims) { c.Name = "\u202eadA" }, CauseClaims},
		"a broken spawn":      {func(c *Claims) { c.Spawn = "1;2" }, CauseClaims},
	} {
		c := claims()
		test.spoil(&c)
		if got := causeFor(v, signed(t, jwt.SigningMethodHS256, secret, c, "")); got != test.want {
			t.Errorf("%s: refused as %q, want %q", name, got, test.want)
		}
	}
}

func ahead(d time.Duration) *jwt.NumericDate { return jwt.NewNumericDate(time.Now().Add(d)) }

func TestATokenWorksOnce(t *testing.T) {
	clock := time.Now()
	v := verifier(t, keyDir(t), func(c *VerifierConfig) {
		c.Wall = func() time.Time { return clock }
		c.Remembered = 2
	})
	token := signed(t, jwt.SigningMethodHS256, secret, claims(), "")
	for i, want := range []Cause{"", CauseReplayed, CauseReplayed} {
		if got := causeFor(v, token); got != want {
			t.Fatalf("use %d: %q, want %q", i+1, got, want)
		}
	}
	other := signed(t, jwt.SigningMethodHS256, secret, claims(), "")
	if got := causeFor(v, other); got != "" {
		t.Fatalf("another token: %q", got)
	}
	// The memory is full: refuse rather than forget.
	if got := causeFor(v, signed(t, jwt.SigningMethodHS256, secret, claims(), "")); got != CauseUnavailable {
		t.Fatalf("beyond the memory: %q", got)
	}
	if got := causeFor(v, token); got != CauseReplayed {
		t.Fatalf("a used token, memory full: %q", got)
	}
	clock = clock.Add(2 * time.Hour) // all have expired and are forgotten
	later := claims()
	later.ExpiresAt = jwt.NewNumericDate(clock.Add(time.Hour))
	if got := causeFor(v, signed(t, jwt.SigningMethodHS256, secret, later, "")); got != "" {
		t.Fatalf("after the memory emptied: %q", got)
	}
}

func TestARefusedTokenIsNotUsedUp(t *testing.T) {
	v := verifier(t, keyDir(t), nil)
	c := claims()
	c.World = "exodus"
	causeFor(v, signed(t, jwt.SigningMethodHS256, secret, c, ""))
	c.World = "genesis"
	if got := causeFor(v, signed(t, jwt.SigningMethodHS256, secret, c, "")); got != "" {
		t.Fatalf("refused as %q", got)
	}
}

func TestTheSharedMemoryOfUsedTokens(t *testing.T) {
	var answer bool
	var fail error
	v := verifier(t, keyDir(t), func(c *VerifierConfig) {
		c.Used = func(context.Context, string, time.Time) (bool, error) { return answer, fail }
	})
	fail = errors.New("store away")
	token := signed(t, jwt.SigningMethodHS256, secret, claims(), "")
	if got := causeFor(v, token); got != CauseUnavailable {
		t.Fatalf("store away: %q", got)
	}
	fail = nil
	if got := causeFor(v, token); got != "" {
		t.Fatalf("the same token once the store is back: %q", got)
	}
	answer = true
	if got := causeFor(v, signed(t, jwt.SigningMethodHS256, secret, claims(), "")); got != CauseReplayed {
		t.Fatalf("used on another node: %q", got)
	}
}

// fullKeyDir has a key of each kind; the private halves are returned.
func fullKeyDir(t *testing.T) (dir string, ed ed25519.PrivateKey, rs *rsa.PrivateKey, edWeb ed25519.PrivateKey, rsPEM []byte) {
	t.Helper()
	dir = keyDir(t)
	_, ed, _ = ed25519.GenerateKey(rand.Reader)
	_, edWeb, _ = ed25519.GenerateKey(rand.Reader)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsPEM = publicPEM(t, &rs.PublicKey)
	writeFile(t, dir, "issuer.pem", publicPEM(t, ed.Public()))
	writeFile(t, dir, "other.pem", rsPEM)
	set, err := json.Marshal(map[string][]map[string]string{"keys": {
		{"kty": "OKP", "crv": "Ed25519", "kid": "web", "x": b64(edWeb.Public().(ed25519.PublicKey))},
		{"kty": "RSA", "kid": "webrsa", "n": b64(rs.N.Bytes()), "e": b64(big.NewInt(int64(rs.E)).Bytes())},
		{"kty": "EC", "crv": "P-256", "kid": "ignored"},
		{"kty": "RSA", "use": "enc", "kid": "ignored too"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "jwks.json", set)
	writeFile(t, dir, "README", []byte("ignored"))
	return dir, ed, rs, edWeb, rsPEM
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func publicPEM(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func writeFile(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKeysOfEachKind(t *testing.T) {
	dir, ed, rs, edWeb, _ := fullKeyDir(t)
	v := verifier(t, dir, nil)
	for name, test := range map[string]struct {
		method jwt.SigningMethod
		key    any
		kid    string
		want   Cause
	}{
		"secret":                {jwt.SigningMethodHS256, secret, "dev", ""},
		"Ed25519 PEM":           {jwt.SigningMethodEdDSA, ed, "issuer", ""},
		"Ed25519 PEM, no kid":   {jwt.SigningMethodEdDSA, ed, "", ""},
		"RSA PEM":               {jwt.SigningMethodRS256, rs, "other", ""},
		"Ed25519 of the set":    {jwt.SigningMethodEdDSA, edWeb, "web", ""},
		"RSA of the set":        {jwt.SigningMethodRS256, rs, "webrsa", ""},
		"another key's name":    {jwt.SigningMethodEdDSA, edWeb, "issuer", CauseSignature},
		"no such key":           {jwt.SigningMethodEdDSA, ed, "nobody", CauseUnknownKey},
		"foreign secret":        {jwt.SigningMethodHS256, []byte(strings.Repeat("f", 40)), "", CauseSignature},
		"HS512":                 {jwt.SigningMethodHS512, secret, "", CauseAlgorithm},
		"PS256":                 {jwt.SigningMethodPS256, rs, "", CauseAlgorithm},
		"none":                  {jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", CauseAlgorithm},
		"none by a key's name":  {jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "dev", CauseAlgorithm},
		"secret under RSA name": {jwt.SigningMethodHS256, secret, "other", CauseUnknownKey},
	} {
		if got := causeFor(v, signed(t, test.method, test.key, claims(), test.kid)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// The classic confusion: a public key, which everybody has, used as an HMAC secret.
func TestAPublicKeyIsNeverASecret(t *testing.T) {
	dir, _, _, _, rsPEM := fullKeyDir(t)
	if err := os.Remove(filepath.Join(dir, "dev.hs256")); err != nil {
		t.Fatal(err)
	}
	v := verifier(t, dir, nil)
	for _, kid := range []string{"", "other", "webrsa"} {
		if got := causeFor(v, signed(t, jwt.SigningMethodHS256, rsPEM, claims(), kid)); got != CauseUnknownKey {
			t.Errorf("kid %q: %q", kid, got)
		}
	}
}

func TestSpawnIsForDevelopmentKeysOnly(t *testing.T) {
	dir, ed, _, _, _ := fullKeyDir(t)
	c := claims()
	c.Spawn = "1,2"
	id, err := verifier(t, dir, nil).Verify(context.Background(), signed(t, jwt.SigningMethodEdDSA, ed, c, ""))
	if err != nil || id.Spawn != nil {
		t.Fatalf("identity %+v, %v", id, err)
	}
}

func TestKeysAreReadAgainWhenTheyChange(t *testing.T) {
	dir := keyDir(t)
	v := verifier(t, dir, nil)
	next := []byte(strings.Repeat("n", 32))
	try := func(key []byte) Cause { return causeFor(v, signed(t, jwt.SigningMethodHS256, key, claims(), "")) }
	if got := try(next); got != CauseSignature {
		t.Fatalf("a key that is not there yet: %q", got)
	}
	writeFile(t, dir, "next.hs256", next)
	eventually(t, "new key accepted", func() bool { return try(next) == "" })
	writeFile(t, dir, "broken.hs256", []byte("short"))
	writeFile(t, dir, "later.hs256", []byte(strings.Repeat("l", 32)))
	if got := try(secret); got != "" {
		t.Fatalf("a broken file took the good keys away: %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "broken.hs256")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "dev.hs256")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "removed key refused", func() bool { return try(secret) == CauseSignature })
}

func TestUnusableKeyFilesAreRefusedByName(t *testing.T) {
	weak, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 1023), E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"short.hs256":   []byte("too short"),
		"private.pem":   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}),
		"weak.pem":      pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: weak}),
		"garbage.pem":   []byte("garbage"),
		"jwks.json":     []byte("{"),
		"huge.hs256":    make([]byte, maxKeyFile+1),
		"truncated.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
	} {
		dir := t.TempDir()
		writeFile(t, dir, name, content)
		if _, err := NewVerifier(VerifierConfig{World: "genesis", Dir: dir}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDevelopmentKeysHaveALength(t *testing.T) {
	if _, err := SignDevelopment([]byte("short"), Claims{}); err == nil {
		t.Fatal("a short key signed")
	}
}

func TestClientsLearnNoDetailsOfARefusal(t *testing.T) {
	w := start(t, nil)
	expired := token(t, func(c *Claims) { c.ExpiresAt = ahead(-time.Minute) })
	foreign, _ := SignDevelopment([]byte(strings.Repeat("f", 32)), claims())
	none := signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(), "")
	twice := token(t, nil)
	first := w.dial()
	first.send(authenticate(twice))
	eventually(t, "first use", func() bool { return w.Connections() == 1 })
	details := map[string]bool{}
	for cause, bad := range map[Cause]string{
		CauseExpired: expired, CauseSignature: foreign, CauseAlgorithm: none, CauseReplayed: twice,
	} {
		c := w.dial()
		c.send(authenticate(bad))
		details[w.expectEnd(c, wire.Disconnected_REASON_AUTH_FAILED).GetDetail()] = true
		w.expectCount("auth_failures_total", string(cause))
	}
	if len(details) != 1 {
		t.Fatalf("clients can tell the causes apart: %v", details)
	}
}

// brokenTokens cannot check anything.
type brokenTokens struct{}

func (brokenTokens) Verify(context.Context, string) (Identity, error) {
	return Identity{}, fmt.Errorf("no keys")
}

func TestAVerifierThatCannotDecideIsUnavailable(t *testing.T) {
	w := start(t, func(c *Config) { c.Tokens = brokenTokens{} })
	c := w.dial()
	c.send(authenticate("x"))
	w.expectEnd(c, wire.Disconnected_REASON_UNAVAILABLE)
}
