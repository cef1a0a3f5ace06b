package gateway

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the key directory.
const (
	minSecret   = 32       // bytes of an HS256 secret, as long as the hash
	minRSA      = 2048     // bits
	maxRSA      = 8192     // bits
	maxKeyFile  = 64 << 10 // bytes
	maxKeyFiles = 64
	maxKeys     = 64
)

// Key is a key that may sign tokens: []byte (HS256), ed25519.PublicKey (EdDSA) or *rsa.PublicKey (RS256).
type Key struct {
	// Name is the file's name without its ending, or the kid in a key set.
	Name string
	Key  any
}

// Keys are the keys of a directory, which is read again when it changes:
//
//	<name>.hs256  the raw secret, at least 32 bytes, every byte counts; for development
//	<name>.pem    one public key (PUBLIC KEY) or certificate, Ed25519 or RSA of at least 2048 bits
//	jwks.json     a JSON Web Key Set with keys of kty OKP (Ed25519) and RSA
//
// Other files are ignored. When a file cannot be read, the keys stay as they were and the cause is logged.
type Keys struct {
	dir  string
	log  *slog.Logger
	keys atomic.Pointer[[]Key]
	stop chan struct{}
	done chan struct{}
	once sync.Once
}

// WatchKeys reads a directory now, which must succeed, and again every poll.
func WatchKeys(dir string, poll time.Duration, log *slog.Logger) (*Keys, error) {
	files, err := readKeyFiles(dir)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeyFiles(files)
	if err != nil {
		return nil, err
	}
	k := &Keys{dir: dir, log: log, stop: make(chan struct{}), done: make(chan struct{})}
	k.keys.Store(&keys)
	go k.watch(poll, digest(files))
	return k, nil
}

// Close ends the watch.
func (k *Keys) Close() {
	k.once.Do(func() { close(k.stop) })
	<-k.done
}

// current returns the keys of now.
func (k *Keys) current() []Key { return *k.keys.Load() }

// watch reads the directory again until Close. The content decides whether it changed: Secret volumes swap a symbolic
// link, editors swap files. An unchanged fault is logged once.
func (k *Keys) watch(poll time.Duration, seen [sha256.Size]byte) {
	defer close(k.done)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	fault := ""
	for {
		select {
		case <-k.stop:
			return
		case <-ticker.C:
		}
		err := k.reload(&seen)
		if err == nil {
			fault = ""
		} else if err.Error() != fault {
			fault = err.Error()
			k.log.Error("token keys not read again, the last good ones stay", "error", err)
		}
	}
}

// reload replaces the keys if the files changed.
func (k *Keys) reload(seen *[sha256.Size]byte) error {
	files, err := readKeyFiles(k.dir)
	if err != nil {
		return err
	}
	sum := digest(files)
	if sum == *seen {
		return nil
	}
	keys, err := parseKeyFiles(files)
	if err != nil {
		return err
	}
	k.keys.Store(&keys)
	*seen = sum
	k.log.Info("token keys changed", "keys", len(keys))
	return nil
}

// keyFile is a file of the directory that holds keys.
type keyFile struct {
	name    string
	content []byte
}

// readKeyFiles reads what looks like a key, in the order of names.
func readKeyFiles(dir string) ([]keyFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading token keys: %w", err)
	}
	var files []keyFile
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Name() != "jwks.json" && filepath.Ext(e.Name()) != ".hs256" && filepath.Ext(e.Name()) != ".pem" {
			continue
		}
		if len(files) == maxKeyFiles {
			return nil, fmt.Errorf("reading token keys: more than %d key files in %s", maxKeyFiles, dir)
		}
		content, err := readBounded(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading token key %s: %w", e.Name(), err)
		}
		files = append(files, keyFile{e.Name(), content})
	}
	return files, nil
}

// readBounded reads a small file.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(b) > maxKeyFile {
		err = fmt.Errorf("larger than %d bytes", maxKeyFile)
	}
	return b, err
}

// digest identifies names and contents together.
func digest(files []keyFile) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %d ", f.name, len(f.content))
		h.Write(f.content)
	}
	h.Sum(sum[:0])
	return sum
}

// parseKeyFiles turns the files into keys; one bad file fails all, so that a mistake shows.
func parseKeyFiles(files []keyFile) ([]Key, error) {
	keys := []Key{}
	for _, f := range files {
		more, err := parseKeyFile(f)
		if err != nil {
			return nil, fmt.Errorf("token key %s: %w", f.name, err)
		}
		if keys = append(keys, more...); len(keys) > maxKeys {
			return nil, fmt.Errorf("token keys: more than %d", maxKeys)
		}
	}
	return keys, nil
}

// parseKeyFile reads one file by its name.
func parseKeyFile(f keyFile) ([]Key, error) {
	ext := filepath.Ext(f.name)
	name := strings.TrimSuffix(f.name, ext)
	switch ext {
	case ".hs256":
		if len(f.content) < minSecret {
			return nil, fmt.Errorf("%d bytes; at least %d are needed", len(f.content), minSecret)
		}
		return []Key{{name, f.content}}, nil
	case ".pem":
		key, err := parsePEM(f.content)
		return []Key{{name, key}}, err
	}
	return parseKeySet(f.content)
}

// parsePEM reads a public key or the one of a certificate.
func parsePEM(content []byte) (any, error) {
	block, rest := pem.Decode(content)
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("want one PEM block: PUBLIC KEY or CERTIFICATE")
	}
	switch block.Type {
	case "PUBLIC KEY":
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing public key: %w", err)
		}
		return usable(key)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing certificate: %w", err)
		}
		return usable(cert.PublicKey)
	}
	return nil, fmt.Errorf("PEM block %q; want PUBLIC KEY or CERTIFICATE (private keys do not belong here)", block.Type)
}

// usable accepts the kinds of keys that tokens are signed with.
func usable(key any) (any, error) {
	switch k := key.(type) {
	case ed25519.PublicKey:
		if len(k) == ed25519.PublicKeySize {
			return k, nil
		}
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSA || bits > maxRSA {
			return nil, fmt.Errorf("RSA key of %d bits; use %d to %d", bits, minRSA, maxRSA)
		}
		if k.E >= 3 && k.E%2 == 1 {
			return k, nil
		}
	}
	return nil, fmt.Errorf("key of type %T; use Ed25519 or RSA", key)
}

// parseKeySet reads a JSON Web Key Set (RFC 7517, 8037). Keys of other kinds or for encryption are left out.
func parseKeySet(content []byte) ([]Key, error) {
	var set struct {
		Keys []webKey `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, fmt.Errorf("parsing key set: %w", err)
	}
	var keys []Key
	for i, w := range set.Keys {
		if w.Use != "" && w.Use != "sig" || w.Type != "RSA" && (w.Type != "OKP" || w.Curve != "Ed25519") {
			continue
		}
		key, err := w.publicKey()
		if err != nil {
			return nil, fmt.Errorf("key %d (kid %q): %w", i, w.ID, err)
		}
		keys = append(keys, Key{w.ID, key})
	}
	return keys, nil
}

// webKey is the public half of a JSON Web Key.
type webKey struct {
	Type  string `json:"kty"`
	Use   string `json:"use"`
	ID    string `json:"kid"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	N     string `json:"n"`
	E     string `json:"e"`
}

// publicKey decodes an Ed25519 or RSA key.
func (w webKey) publicKey() (any, error) {
	if w.Type == "OKP" {
		x, err := base64.RawURLEncoding.DecodeString(w.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("x: want %d bytes in base64url", ed25519.PublicKeySize)
		}
		return ed25519.PublicKey(x), nil
	}
	n, errN := base64.RawURLEncoding.DecodeString(w.N)
	e, errE := base64.RawURLEncoding.DecodeString(w.E)
	if errN != nil || errE != nil || len(e) == 0 || len(e) > 4 {
		return nil, errors.New("n and e: want base64url, e of at most 4 bytes")
	}
	exponent := new(big.Int).SetBytes(e).Int64()
	return usable(&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent)})
}
