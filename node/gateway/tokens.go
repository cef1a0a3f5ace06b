package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/spatialcells/spatialcells/node/torus"
)

// Bounds of a token's life and of the clocks that judge it.
const (
	// MaxTokenLife is how far ahead exp may be.
	MaxTokenLife = 24 * time.Hour
	// ClockSkew is granted to the clocks of issuer and node against each other.
	ClockSkew = 10 * time.Second
	// maxTokenID bounds jti, in bytes.
	maxTokenID = 128
)

// Cause says why a token was refused; it is for logs and metrics, not for clients.
type Cause string

// The causes.
const (
	CauseMalformed   Cause = "malformed"
	CauseAlgorithm   Cause = "algorithm"
	CauseUnknownKey  Cause = "unknown_key"
	CauseSignature   Cause = "signature"
	CauseExpired     Cause = "expired"
	CauseNotYetValid Cause = "not_yet_valid"
	CauseClaims      Cause = "claims"
	CauseWorld       Cause = "world"
	CauseReplayed    Cause = "replayed"
	CauseUnavailable Cause = "unavailable"
)

// TokenError is a refused token.
type TokenError struct {
	Cause Cause
	Err   error
}

// Error names the cause and what was wrong.
func (e *TokenError) Error() string { return fmt.Sprintf("token refused (%s): %v", e.Cause, e.Err) }

// Unwrap returns what was wrong.
func (e *TokenError) Unwrap() error { return e.Err }

// refusedToken makes a TokenError.
func refusedToken(cause Cause, format string, args ...any) error {
	return &TokenError{cause, fmt.Errorf(format, args...)}
}

// Claims are what a token says.
type Claims struct {
	// World must equal the world that is asked.
	World string `json:"world"`
	// Name is shown to others: at most MaxName code points; may be empty.
	Name string `json:"name,omitempty"`
	// Spawn, "x,y" in metres, is where a new master appears. Honoured in tokens of HS256 keys only.
	Spawn string `json:"spawn,omitempty"`
	// Subject is the account id, decimal and above 0; ID (jti) names the token, which works once; ExpiresAt is required.
	jwt.RegisteredClaims
}

// VerifierConfig says which tokens count.
type VerifierConfig struct {
	// World is the name that tokens must carry. Required.
	World string
	// Dir holds the keys; see Keys. Required.
	Dir string
	// Used, when not nil, records jti in a place that all nodes share and reports whether it was there already. It is
	// asked after everything else was found right.
	Used func(ctx context.Context, jti string, exp time.Time) (bool, error)
	// Log receives a line when keys change or cannot be read; nil discards.
	Log *slog.Logger
	// Poll is how often Dir is read again; 0 means 5 s.
	Poll time.Duration
	// Wall is the wall clock; nil means time.Now.
	Wall func() time.Time
	// Remembered bounds the tokens that are remembered as used; 0 means 262 144. When it is reached no token is accepted
	// until some of them expire.
	Remembered int
}

// Verifier checks tokens against the keys of a directory. Close ends its goroutine.
type Verifier struct {
	cfg    VerifierConfig
	keys   *Keys
	used   *usedTokens
	parser *jwt.Parser
}

// NewVerifier reads the keys and watches them. An empty directory is no error: keys may come later, until then every token
// is refused.
func NewVerifier(cfg VerifierConfig) (*Verifier, error) {
	if cfg.World == "" || cfg.Dir == "" {
		return nil, errors.New("token verifier: World and Dir are required")
	}
	fill(&cfg.Poll, 5*time.Second)
	fill(&cfg.Remembered, 1<<18)
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	keys, err := WatchKeys(cfg.Dir, cfg.Poll, cfg.Log)
	if err != nil {
		return nil, err
	}
	return &Verifier{
		cfg: cfg, keys: keys, used: newUsedTokens(cfg.Remembered),
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{"HS256", "EdDSA", "RS256"}), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
			jwt.WithLeeway(ClockSkew), jwt.WithTimeFunc(cfg.Wall), jwt.WithStrictDecoding(),
		),
	}, nil
}

// Close ends the watch over the keys.
func (v *Verifier) Close() { v.keys.Close() }

// Verify checks the token and uses it up. The error is a *TokenError.
func (v *Verifier) Verify(ctx context.Context, token string) (Identity, error) {
	if len(token) > MaxToken {
		return Identity{}, refusedToken(CauseMalformed, "longer than %d bytes", MaxToken)
	}
	var claims Claims
	parsed, err := v.parser.ParseWithClaims(token, &claims, v.keysFor)
	if err != nil {
		return Identity{}, &TokenError{causeOf(err), err}
	}
	id, err := v.identity(&claims, parsed.Method.Alg() == "HS256")
	if err != nil {
		return Identity{}, err
	}
	return id, v.use(ctx, claims.ID, id.Expires)
}

// keysFor returns the keys that may have signed the token. The kind of a key decides the method: a public key is never
// tried as a secret, whatever the token's header says.
func (v *Verifier) keysFor(t *jwt.Token) (any, error) {
	name, _ := t.Header["kid"].(string)
	set := jwt.VerificationKeySet{}
	for _, k := range v.keys.current() {
		if k.fits(t.Method.Alg()) && (name == "" || name == k.Name) {
			set.Keys = append(set.Keys, k.Key)
		}
	}
	if len(set.Keys) == 0 {
		return nil, refusedToken(CauseUnknownKey, "no %s key named %q", t.Method.Alg(), name)
	}
	return set, nil
}

// fits reports whether the key's kind is the one of the method.
func (k Key) fits(method string) bool {
	switch k.Key.(type) {
	case []byte:
		return method == "HS256"
	case ed25519.PublicKey:
		return method == "EdDSA"
	case *rsa.PublicKey:
		return method == "RS256"
	}
	return false
}

// causeOf turns an error of the parser into a cause.
func causeOf(err error) Cause {
	var refused *TokenError
	switch {
	case errors.As(err, &refused):
		return refused.Cause
	case errors.Is(err, jwt.ErrTokenMalformed):
		return CauseMalformed
	case strings.Contains(err.Error(), "signing method"):
		return CauseAlgorithm
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return CauseSignature
	case errors.Is(err, jwt.ErrTokenExpired):
		return CauseExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return CauseNotYetValid
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return CauseAlgorithm
	}
	return CauseClaims
}

// identity checks what the claims say.
func (v *Verifier) identity(c *Claims, development bool) (Identity, error) {
	account, err := strconv.ParseUint(c.Subject, 10, 64)
	switch {
	case c.World != v.cfg.World:
		return Identity{}, refusedToken(CauseWorld, "for world %q, not %q", c.World, v.cfg.World)
	case err != nil || account == 0 || strconv.FormatUint(account, 10) != c.Subject:
		return Identity{}, refusedToken(CauseClaims, "sub must be an account id, decimal and above 0")
	case c.ID == "" || len(c.ID) > maxTokenID:
		return Identity{}, refusedToken(CauseClaims, "jti must have 1 to %d bytes", maxTokenID)
	case c.ExpiresAt.Sub(v.cfg.Wall()) > MaxTokenLife+ClockSkew:
		return Identity{}, refusedToken(CauseClaims, "exp is more than %v ahead", MaxTokenLife)
	case utf8.RuneCountInString(c.Name) > MaxName || plainText(c.Name) != c.Name:
		return Identity{}, refusedToken(CauseClaims, "name must be plain text of at most %d code points", MaxName)
	}
	id := Identity{Account: account, Name: c.Name, Expires: c.ExpiresAt.Time}
	if development && c.Spawn != "" {
		if id.Spawn, err = parseSpawn(c.Spawn); err != nil {
			return Identity{}, &TokenError{CauseClaims, err}
		}
	}
	return id, nil
}

// parseSpawn reads "x,y".
func parseSpawn(s string) (*torus.Pos, error) {
	xs, ys, _ := strings.Cut(s, ",")
	x, errX := strconv.ParseUint(xs, 10, 31)
	y, errY := strconv.ParseUint(ys, 10, 31)
	if errX != nil || errY != nil {
		return nil, fmt.Errorf("spawn %q: want x,y in metres", s)
	}
	return &torus.Pos{X: int64(x), Y: int64(y)}, nil
}

// use records the token as used, here and in the shared place.
func (v *Verifier) use(ctx context.Context, jti string, exp time.Time) error {
	if err := v.used.add(jti, exp.Add(ClockSkew), v.cfg.Wall()); err != nil {
		return err
	}
	if v.cfg.Used == nil {
		return nil
	}
	used, err := v.cfg.Used(ctx, jti, exp.Add(ClockSkew))
	switch {
	case err != nil:
		// Whether it was recorded is not known. The client may come again with the same token, to any node.
		v.used.remove(jti)
		return refusedToken(CauseUnavailable, "recording jti: %w", err)
	case used:
		return refusedToken(CauseReplayed, "jti was used on another node")
	}
	return nil
}

// SignDevelopment signs claims with an HS256 key, which a *.hs256 file of the nodes holds. A missing jti is made, a missing
// expiry is one hour ahead. For bots, tests and local play; production tokens are signed by whoever knows the accounts.
func SignDevelopment(key []byte, claims Claims) (string, error) {
	if len(key) < minSecret {
		return "", fmt.Errorf("signing a development token: the key has %d bytes, at least %d are needed", len(key), minSecret)
	}
	if claims.ID == "" {
		claims.ID = newTokenID()
	}
	if claims.ExpiresAt == nil {
		claims.ExpiresAt = jwt.NewNumericDate(time.Now().Add(time.Hour))
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(key)
	if err != nil {
		return "", fmt.Errorf("signing a development token: %w", err)
	}
	return token, nil
}
