package link

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"
)

// Identity is the key of one incarnation. It lives in memory only and is never used for another session.
type Identity struct {
	certificate tls.Certificate
	keyHash     string
}

// NewIdentity makes a fresh key and a certificate signed by itself.
func NewIdentity() (Identity, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("generating the link key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "spatialcells zone node"},
		// Nobody checks the dates: the Lease that announces the key says how long it counts.
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:  time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return Identity{}, fmt.Errorf("signing the link certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return Identity{}, fmt.Errorf("reading the link certificate back: %w", err)
	}
	return Identity{
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf},
		keyHash:     keyHash(leaf),
	}, nil
}

// KeyHash is the SHA-256 of the DER SubjectPublicKeyInfo in lower-case hex, as the session Lease announces it.
func (i Identity) KeyHash() string { return i.keyHash }

func keyHash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// serverTLS asks for a certificate without insisting, so that who comes without one can be told.
func (i Identity) serverTLS() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{i.certificate},
		ClientAuth:             tls.RequestClientCert,
		SessionTicketsDisabled: true,
	}
}

// clientTLS trusts exactly one key. TLS proves that the other side has it; names and dates mean nothing here.
func (i Identity) clientTLS(pin string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{i.certificate},
		SessionTicketsDisabled: true,
		// The chain is replaced by the pin below, which runs on every handshake.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if got := peerKeyHash(s); got != pin {
				return refuse(ReasonForeignKey, "the node at this address shows key %s, its Lease announces %s", got, pin)
			}
			return nil
		},
	}
}

// peerKeyHash is empty if the peer showed no certificate.
func peerKeyHash(s tls.ConnectionState) string {
	if len(s.PeerCertificates) == 0 {
		return ""
	}
	return keyHash(s.PeerCertificates[0])
}
