package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Key says whose store it is.
const Key = "spatialcells:store"

const (
	// MaxID bounds the id of a store, in bytes.
	MaxID = 256
	// maxAnswers bounds what is read from a server over one connection, in bytes: INFO has some 10 KiB.
	maxAnswers = 1 << 20
)

// commands is more than Inspect or Identify send.
const commands = 8

// What can be wrong with a store that is there. Every other error means that it is not reached.
var (
	// ErrCredentials: the store refuses user or password, or the user may not do what we need.
	ErrCredentials = errors.New("the store refuses the credentials")
	// ErrUntrusted: its certificate is not signed by the authorities that we were given, or is not for its address.
	ErrUntrusted = errors.New("the store's certificate is not trusted")
	// ErrLoading: it is still reading its data.
	ErrLoading = errors.New("the store is loading its data")
	// ErrReadOnly: it is a replica.
	ErrReadOnly = errors.New("the store takes no writes")
)

// Inspect asks a store what it is. It writes nothing. Of a server that is loading, or that does not let us ask for something,
// less is known; that is no error.
func Inspect(ctx context.Context, c Config) (Report, error) {
	client, err := c.client()
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = client.Close() }()
	text, err := client.Info(ctx).Result()
	if err != nil {
		return Report{}, explain("asking the store for INFO", err)
	}
	r := readInfo(text)
	if r.Loading {
		return r, nil
	}
	r.Fsync = setting(ctx, client, "appendfsync")
	r.WaitAOF = knows(ctx, client, "waitaof")
	r.StoreID, err = readID(ctx, client)
	if errors.Is(err, ErrLoading) {
		r.Loading = true
		return r, nil
	}
	return r, err
}

// Identify writes the id if the store has none, and returns the one it has then. The id is never overwritten.
func Identify(ctx context.Context, c Config, id string) (string, error) {
	if id == "" || len(id) > MaxID {
		return "", fmt.Errorf("the id of a store has %d bytes: 1 to %d are possible", len(id), MaxID)
	}
	client, err := c.client()
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	if err := client.SetNX(ctx, Key, id, 0).Err(); err != nil {
		return "", explain("writing the id of the store", err)
	}
	return readID(ctx, client)
}

// client makes a client for a few commands.
func (c Config) client() (redis.UniversalClient, error) {
	inner := c.Wrap
	c.Wrap = func(conn net.Conn) net.Conn {
		if inner != nil {
			conn = inner(conn)
		}
		return &boundedConn{conn, maxAnswers}
	}
	opts, err := c.Options()
	if err != nil {
		return nil, err
	}
	opts.PoolSize = commands // the client begins to dial by itself when as many dials failed as it may have connections
	return redis.NewUniversalClient(opts), nil
}

func readID(ctx context.Context, client redis.UniversalClient) (string, error) {
	id, err := client.Get(ctx, Key).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", nil
	case err != nil:
		return "", explain("reading the id of the store", err)
	case len(id) > MaxID:
		return "", fmt.Errorf("key %s of the store holds %d bytes, which is no id of ours", Key, len(id))
	}
	return id, nil
}

// setting is the value of a configuration parameter, or empty if the server does not say.
func setting(ctx context.Context, client redis.UniversalClient, name string) string {
	values, err := client.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return values[name]
}

// knows tells whether the server has a command.
func knows(ctx context.Context, client redis.UniversalClient, command string) bool {
	answer, err := client.Do(ctx, "COMMAND", "INFO", command).Slice()
	return err == nil && len(answer) == 1 && answer[0] != nil
}

// explain finds out what an error is about.
func explain(doing string, err error) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert *tls.CertificateVerificationError
	text := err.Error()
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	var kind error
	switch { // sentinels hand errors on as text
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &alert), has("x509: "):
		kind = ErrUntrusted
	case has("WRONGPASS", "NOAUTH", "NOPERM", "invalid password", "invalid username-password", "without any password configured"):
		kind = ErrCredentials
	case has("LOADING"):
		kind = ErrLoading
	case has("READONLY"):
		kind = ErrReadOnly
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, kind, err)
}

// boundedConn reads no more than its bound: what is at the other end may be no store at all.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("reading from the store: more than %d bytes came: %w", maxAnswers, io.ErrUnexpectedEOF)
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// NetConn lets the client see whether the server has closed an idle connection.
func (c *boundedConn) NetConn() net.Conn { return c.Conn }
