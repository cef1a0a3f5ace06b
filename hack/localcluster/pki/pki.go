// Package pki makes the certificates, keys and kubeconfigs of one local cluster below one folder.
//
// A second call with the same folder keeps what is there, so that service account tokens and kubeconfigs survive a
// restart of the cluster. The keys are ECDSA P-256; the certificates live for a year. It imports the standard library
// only.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const validity = 365 * 24 * time.Hour

// Authority signs the certificates of one cluster.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate with its key, as PEM files.
type Pair struct{ CertFile, KeyFile string }

// Subject is what a certificate says about its owner.
type Subject struct {
	Name   string   // common name: the user of a client certificate
	Groups []string // organizations: the groups of a client certificate
	IPs    []net.IP
	DNS    []string
}

// Open loads the authority of dir, or makes one.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of keys: %w", err)
	}
	a := &Authority{dir: dir}
	err := a.load()
	if errors.Is(err, fs.ErrNotExist) {
		err = a.create()
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority in %s: %w", dir, err)
	}
	return a, nil
}

// CAFile is the authority's own certificate.
func (a *Authority) CAFile() string { return a.path("ca.crt") }

// CAPair is the authority's certificate and key, for the signer of the controller manager.
func (a *Authority) CAPair() Pair { return a.pair("ca") }

func (a *Authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *Authority) pair(name string) Pair {
	return Pair{CertFile: a.path(name + ".crt"), KeyFile: a.path(name + ".key")}
}

func (a *Authority) load() error {
	certPEM, err := os.ReadFile(a.path("ca.crt"))
	if err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(a.path("ca.key"))
	if err != nil {
		return err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return errors.New("not PEM; remove the folder to make new keys")
	}
	if a.cert, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return err
	}
	a.key, err = x509.ParseECPrivateKey(keyBlock.Bytes)
	return err
}

func (a *Authority) create() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tmpl, err := template(Subject{Name: "spatialcells-local-ca"})
	if err != nil {
		return err
	}
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	a.key = key
	return a.write("ca", der, key)
}

func template(s Subject) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.Name, Organization: s.Groups},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
		IPAddresses:  s.IPs,
		DNSNames:     s.DNS,
	}, nil
}

// Issue makes a certificate for both ends of TLS under a file name, replacing an earlier one.
func (a *Authority) Issue(name string, s Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("key for %s: %w", name, err)
	}
	tmpl, err := template(s)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate for %s: %w", name, err)
	}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing %s: %w", name, err)
	}
	return a.pair(name), a.write(name, der, key)
}

func (a *Authority) write(name string, der []byte, key *ecdsa.PrivateKey) error {
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	p := a.pair(name)
	if err := writePEM(p.KeyFile, "EC PRIVATE KEY", raw); err != nil {
		return err
	}
	return writePEM(p.CertFile, "CERTIFICATE", der)
}

// ServiceAccountKey returns the key pair that signs service account tokens, made once: tokens outlive a restart.
// KeyFile holds the private key, CertFile the public one.
func (a *Authority) ServiceAccountKey() (Pair, error) {
	p := Pair{CertFile: a.path("sa.pub"), KeyFile: a.path("sa.key")}
	if _, err := os.Stat(p.CertFile); err == nil {
		return p, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, fmt.Errorf("service account key: %w", err)
	}
	priv, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return p, fmt.Errorf("service account key: %w", err)
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return p, fmt.Errorf("service account key: %w", err)
	}
	if err := writePEM(p.KeyFile, "EC PRIVATE KEY", priv); err != nil {
		return p, err
	}
	return p, writePEM(p.CertFile, "PUBLIC KEY", pub)
}

func writePEM(file, kind string, der []byte) error {
	raw := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(file+".new", raw, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return os.Rename(file+".new", file)
}

// Pair names the files of a certificate issued under a name.
func (a *Authority) Pair(name string) Pair { return a.pair(name) }

// Pool holds the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}
