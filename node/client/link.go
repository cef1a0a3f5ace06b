package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
)

const (
	dialPatience = 5 * time.Second
	// welcomePatience is longer than a gateway tries to bring an entity into the world.
	welcomePatience = 20 * time.Second
	writePatience   = 10 * time.Second
	// maxMessage bounds one message of a gateway.
	maxMessage = 16 << 20
	// sendQueue has room for all unanswered inputs, a ping, a log out and chunk requests.
	sendQueue = 64
	// silentPings is how many pings may pass without a word from the gateway.
	silentPings = 3
)

var (
	logoutMessage = encoded(&wire.ClientEnvelope{Message: &wire.ClientEnvelope_Logout{Logout: &wire.Logout{}}})
	pingMessage   = encoded(&wire.ClientEnvelope{Message: &wire.ClientEnvelope_Ping{Ping: &wire.Ping{Nonce: 1}}})
	buffers       sync.Pool
)

func encoded(env *wire.ClientEnvelope) []byte {
	b, err := proto.Marshal(env)
	if err != nil {
		panic("client: encoding an envelope of its own: " + err.Error())
	}
	return b
}

// gatewayURL turns an address into the URL of its socket.
func gatewayURL(address string) (string, error) {
	if !strings.Contains(address, "://") {
		address = "ws://" + address + "/play"
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
		return "", fmt.Errorf("gateway %q: want host:port or ws://host:port/play", address)
	}
	return u.String(), nil
}

// link is one connection: the caller reads, a goroutine of its own writes.
type link struct {
	gateway string
	ws      *websocket.Conn
	out     chan []byte
	ended   chan struct{} // closed by close
	once    sync.Once
	wrote   sync.WaitGroup
	buf     bytes.Buffer
}

// dial opens a connection and starts its writer. Nothing is sent yet.
func (c *Client) dial(ctx context.Context, gateway string) (*link, error) {
	d := websocket.Dialer{
		HandshakeTimeout: dialPatience, ReadBufferSize: 2 << 10, WriteBufferSize: 1 << 10, WriteBufferPool: &buffers,
		NetDialContext: c.dialer().DialContext,
	}
	ws, response, err := d.DialContext(ctx, gateway, nil)
	if err != nil {
		if response != nil {
			return nil, fmt.Errorf("connecting to %s: HTTP %s: %w", gateway, response.Status, err)
		}
		return nil, fmt.Errorf("connecting to %s: %w", gateway, err)
	}
	ws.SetReadLimit(maxMessage)
	l := &link{gateway: gateway, ws: ws, out: make(chan []byte, sendQueue), ended: make(chan struct{})}
	l.wrote.Add(1)
	go l.write(c.opts.Ping)
	return l, nil
}

func (c *Client) dialer() *net.Dialer {
	d := &net.Dialer{Timeout: dialPatience}
	if c.opts.From.IsValid() {
		d.LocalAddr = &net.TCPAddr{IP: c.opts.From.AsSlice()}
	}
	return d
}

// send queues a message. A queue that is full means that the gateway reads no more: the connection is given up.
func (l *link) send(b []byte) {
	select {
	case l.out <- b:
	default:
		l.close()
	}
}

// close ends the connection; whoever reads from it gets an error.
func (l *link) close() {
	l.once.Do(func() {
		close(l.ended)
		_ = l.ws.Close()
	})
}

// write writes what is queued, and pings.
func (l *link) write(period time.Duration) {
	defer l.wrote.Done()
	defer l.close()
	ping := time.NewTicker(period)
	defer ping.Stop()
	for {
		var b []byte
		select {
		case b = <-l.out:
		case <-ping.C:
			b = pingMessage
		case <-l.ended:
			return
		}
		_ = l.ws.SetWriteDeadline(time.Now().Add(writePatience)) // fails on a closed socket only; writing says so
		if err := l.ws.WriteMessage(websocket.BinaryMessage, b); err != nil {
			return
		}
	}
}

// read returns the next message; it is valid until the next call.
func (l *link) read(patience time.Duration) ([]byte, error) {
	_ = l.ws.SetReadDeadline(time.Now().Add(patience)) // fails on a closed socket only; reading says so
	kind, r, err := l.ws.NextReader()
	if err != nil {
		return nil, lost(l.gateway, err)
	}
	if kind != websocket.BinaryMessage {
		return nil, fmt.Errorf("%s sent a text frame", l.gateway)
	}
	l.buf.Reset()
	if _, err := l.buf.ReadFrom(r); err != nil {
		return nil, lost(l.gateway, err)
	}
	return l.buf.Bytes(), nil
}

// lost says how a connection broke. A close frame of the gateway carries its reason, should its message have been lost.
func lost(gateway string, err error) error {
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code > 4000 && closed.Code < 5000 {
		reason := wire.Disconnected_Reason(closed.Code - 4000)
		if _, known := wire.Disconnected_Reason_name[int32(reason)]; known {
			return &EndError{Reason: reason, Detail: closed.Text}
		}
	}
	return fmt.Errorf("connection to %s lost: %w", gateway, err)
}
