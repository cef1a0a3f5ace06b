package connect

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// MaxSecret bounds a user name and a password, in bytes.
	MaxSecret = 4096
	// maxCA bounds the certificates of authorities, in bytes.
	maxCA = 256 << 10
	// defaultTimeout bounds a round trip.
	defaultTimeout = time.Second
)

// Credentials are a user and a password. The zero value is nobody: the server asks for none.
type Credentials struct{ Username, Password string }

// Config says how a store is reached.
type Config struct {
	// URL is of a form that Parse reads.
	URL string
	// Credentials is asked for each new connection, so that a password may be changed. Nil: none. A user name in it goes
	// before the URL's.
	Credentials func() (Credentials, error)
	// Sentinel are for the sentinels themselves; most have none.
	Sentinel Credentials
	// CA are the authorities that may sign the server's certificate, as PEM. Empty: those that the machine trusts. It is
	// used with TLS only.
	CA []byte
	// Timeout bounds one round trip, and the making of a connection. Default 1 s.
	Timeout time.Duration
	// From is the address to dial from; empty: any.
	From string
	// Wrap, if set, sees each connection before anything is sent over it, below TLS.
	Wrap func(net.Conn) net.Conn
}

// Files are what a process finds mounted. An empty name: none.
type Files struct {
	Username, Password                 string
	SentinelUsername, SentinelPassword string
	CA                                 string
}

// Config makes a Config for a URL. User name and password are read anew for each connection, the rest now.
func (f Files) Config(url string) (Config, error) {
	sentinel, err := readCredentials(f.SentinelUsername, f.SentinelPassword)
	if err != nil {
		return Config{}, err
	}
	c := Config{URL: url, Sentinel: sentinel, Credentials: func() (Credentials, error) {
		return readCredentials(f.Username, f.Password)
	}}
	if f.CA != "" {
		if c.CA, err = readFile("certificate authorities", f.CA, maxCA); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

func readCredentials(username, password string) (Credentials, error) {
	name, err := ReadSecret("user name", username)
	if err != nil {
		return Credentials{}, err
	}
	secret, err := ReadSecret("password", password)
	return Credentials{name, secret}, err
}

// ReadSecret reads a user name or password, without the ends of line after it. No file: empty. what names it in errors.
func ReadSecret(what, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := readFile(what, file, MaxSecret)
	return string(bytes.TrimRight(b, "\r\n")), err
}

func readFile(what, name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the store's %s: %w", what, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the store's %s: %w", what, err)
	case int64(len(b)) > most:
		return nil, fmt.Errorf("reading the store's %s: file %s is larger than %d bytes", what, name, most)
	}
	return b, nil
}

// Options says how a client connects. The client never repeats a command by itself: repeats are its user's decision.
func (c Config) Options() (*redis.UniversalOptions, error) {
	target, err := Parse(c.URL)
	if err != nil {
		return nil, err
	}
	secure, err := c.tls(target)
	if err != nil {
		return nil, err
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &redis.UniversalOptions{
		Addrs:                      target.Addresses,
		MasterName:                 target.Primary,
		SentinelUsername:           c.Sentinel.Username,
		SentinelPassword:           c.Sentinel.Password,
		DB:                         target.Database,
		Protocol:                   2,
		MaxRetries:                 -1,
		DialerRetries:              1,
		DialTimeout:                timeout,
		ReadTimeout:                timeout,
		WriteTimeout:               timeout,
		PoolTimeout:                timeout,
		ContextTimeoutEnabled:      true,
		PipelinePoolSize:           -1,
		DisableIdentity:            true,
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		CredentialsProviderContext: c.provider(target.Username),
		Dialer:                     c.dialer(timeout, secure),
	}, nil
}

func (c Config) provider(username string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		if c.Credentials == nil {
			return username, "", nil
		}
		known, err := c.Credentials()
		if known.Username == "" {
			known.Username = username
		}
		return known.Username, known.Password, err
	}
}

// tls is nil without TLS.
func (c Config) tls(t Target) (*tls.Config, error) {
	if !t.Secure {
		if len(c.CA) > 0 {
			return nil, errors.New("certificate authorities are given for a store without TLS: use rediss:// instead of redis://")
		}
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(c.CA) == 0 {
		return config, nil
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(c.CA) {
		return nil, fmt.Errorf("%w: the certificate authorities hold no certificate: they must be PEM", ErrUntrusted)
	}
	return config, nil
}

// dialer makes connections to servers and sentinels.
func (c Config) dialer(timeout time.Duration, secure *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		d := &net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second}
		if c.From != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.From)}
		}
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if c.Wrap != nil {
			conn = c.Wrap(conn)
		}
		if secure == nil {
			return conn, nil
		}
		return secured(ctx, conn, address, timeout, secure)
	}
}

func secured(ctx context.Context, conn net.Conn, address string, timeout time.Duration, config *tls.Config) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	config = config.Clone()
	config.ServerName = host
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := tls.Client(conn, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}
