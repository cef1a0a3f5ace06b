package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/torus"
)

// MaxUnanswered is how many inputs may wait for their result.
const MaxUnanswered = 16

var (
	// ErrBusy: MaxUnanswered inputs wait for their result; try again when one has come.
	ErrBusy = errors.New("16 inputs are unanswered: wait for a result")
	// ErrClosed: the client was closed by its user.
	ErrClosed = errors.New("the client is closed")
)

// EndError is why a gateway ended the session for good.
type EndError struct {
	Reason wire.Disconnected_Reason
	Detail string
}

// Error names the reason and what the gateway said about it.
func (e *EndError) Error() string {
	return fmt.Sprintf("the session ended: %v: %s", e.Reason, e.Detail)
}

// TokenSource returns a token. It is asked before each connection, because a token works once.
type TokenSource func(ctx context.Context) (string, error)

// Options of a client; the zero value is usable. The functions are called from the client's own goroutine and must not
// block.
type Options struct {
	// From is the local address to dial from; the zero value leaves it to the system.
	From netip.Addr
	// Version is told to the gateway, for its logs.
	Version string
	// Ping is the time between two pings; 10 s if 0. A gateway that says nothing for three of them is given up.
	Ping time.Duration
	// Patience is how long a lost connection is tried to be resumed; 2 min if 0. Dial itself is bounded by its context.
	Patience time.Duration
	// OnMessage is called after each message of the gateway, with the model locked: take from it what is needed.
	OnMessage func(m *Model)
	// OnLink is told what happens to the connection. The model is not locked.
	OnLink func(ev LinkEvent)
}

// LinkEvent is something that happened to the connection.
type LinkEvent struct {
	Kind LinkKind
	// Gateway is the address, Node the pod behind it once it said so.
	Gateway, Node string
	// Err says why it was lost or ended.
	Err error
}

// LinkKind sorts link events.
type LinkKind string

// Kinds of link events.
const (
	// LoggedIn: a session began; inputs are numbered anew, and what was unanswered before is gone.
	LoggedIn LinkKind = "logged in"
	// Resumed: the session goes on over another connection.
	Resumed LinkKind = "resumed"
	// LinkLost: the connection is lost and will be resumed.
	LinkLost LinkKind = "lost"
	// Ended: nothing follows.
	Ended LinkKind = "ended"
)

// Stats count what a client went through.
type Stats struct {
	Logins, Resumes, Losses, FailedDials int
	// Dropped inputs were unanswered when a resume became a fresh login; Unknown ones were carried out, and their result
	// was lost with a connection.
	Dropped, Unknown int
	// Heard is when the gateway was heard last, if only by a Pong; Batch when it last told something of the world.
	Heard, Batch time.Time
}

// Client is one account in the world: a socket that is kept up, around a Model. All methods may be called from any
// goroutine, but none from within Do, Wait's fact and OnMessage, which hold the model.
type Client struct {
	gateways []string
	tokens   TokenSource
	opts     Options

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	model   Model
	heardAt time.Time // when model.Tick was received
	heard   uint64    // the sequence number of its batch
	inputs  inputs
	link    *link // nil while there is no welcomed connection
	leaving bool
	news    chan struct{} // closed and replaced when something changed and somebody waits
	waiting int
	err     error
	last    error // how the last connection ended
	stats   Stats
}

// Dial connects an account to a world. gateways are addresses, "host:port" or "ws://host:port/play"; the first that
// answers is taken, the others are for later. It returns when the gateway has welcomed the client, or with the reason
// why it never will: an *EndError, or ctx's error together with what went wrong last. ctx bounds only Dial; end the
// client with Logout or Close.
func Dial(ctx context.Context, gateways []string, tokens TokenSource, opts Options) (*Client, error) {
	c, err := newClient(gateways, tokens, opts)
	if err != nil {
		return nil, err
	}
	go c.run(ctx)
	err = c.Wait(ctx, func(m *Model) bool { return m.Welcome != nil })
	if err == nil {
		return c, nil
	}
	_ = c.Close()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("dialling: %w", errors.Join(err, c.last))
	}
	return nil, err
}

func newClient(gateways []string, tokens TokenSource, opts Options) (*Client, error) {
	if tokens == nil {
		return nil, errors.New("dialling: a source of tokens is required")
	}
	c := &Client{tokens: tokens, opts: opts, done: make(chan struct{}), news: make(chan struct{})}
	for _, g := range gateways {
		u, err := gatewayURL(g)
		if err != nil {
			return nil, err
		}
		c.gateways = append(c.gateways, u)
	}
	if len(c.gateways) == 0 {
		return nil, errors.New("dialling: at least one gateway is required")
	}
	if c.opts.Ping <= 0 {
		c.opts.Ping = 10 * time.Second
	}
	if c.opts.Patience <= 0 {
		c.opts.Patience = 2 * time.Minute
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Do calls fn with the model and the tick that the gateway has reached by now, as far as can be told: the last one heard
// of, and the time since. fn may not keep the model.
func (c *Client) Do(fn func(m *Model, tick uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(&c.model, c.now())
}

// now estimates the gateway's tick; called with mu held.
func (c *Client) now() uint64 {
	if c.model.Welcome == nil || c.heardAt.IsZero() {
		return c.model.Tick
	}
	tick := time.Duration(max(c.model.Welcome.TickMilliseconds, 1)) * time.Millisecond
	return c.model.Tick + uint64(max(time.Since(c.heardAt), 0)/tick)
}

// Wait returns when a fact about the model holds. The error is ctx's, or why the client ended before.
func (c *Client) Wait(ctx context.Context, fact func(m *Model) bool) error {
	for {
		c.mu.Lock()
		if fact(&c.model) {
			c.mu.Unlock()
			return nil
		}
		news, err := c.news, c.err
		c.waiting++
		c.mu.Unlock()
		if err == nil {
			select {
			case <-news:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		c.mu.Lock()
		c.waiting--
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// tell wakes who waits; called with mu held.
func (c *Client) tell() {
	if c.waiting > 0 {
		close(c.news)
		c.news = make(chan struct{})
	}
}

// Send numbers an input and sends it; while the connection is lost it is kept and sent later. Its result will be among
// Model.Results. The error is ErrBusy, or why the client has ended.
func (c *Client) Send(in *wire.Input) (number uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return 0, c.err
	case c.leaving:
		return 0, ErrClosed
	case len(c.inputs.open) >= MaxUnanswered:
		return 0, ErrBusy
	}
	in.Number = c.inputs.next
	b, err := proto.Marshal(&wire.ClientEnvelope{Message: &wire.ClientEnvelope_Input{Input: in}})
	if err != nil {
		return 0, fmt.Errorf("encoding an input: %w", err)
	}
	c.inputs.add(b)
	if c.link != nil {
		c.link.send(b)
	}
	return in.Number, nil
}

// Move walks along waypoints, each at most 64 m from the one before; it replaces the path that is being walked.
func (c *Client) Move(waypoints ...torus.Pos) (number uint64, err error) {
	m := &wire.Move{Waypoints: make([]uint32, 0, 2*len(waypoints))}
	for _, p := range waypoints {
		m.Waypoints = append(m.Waypoints, uint32(p.X), uint32(p.Y))
	}
	return c.Send(&wire.Input{Action: &wire.Input_Move{Move: m}})
}

// Stop stands still.
func (c *Client) Stop() (number uint64, err error) {
	return c.Send(&wire.Input{Action: &wire.Input_Stop{Stop: &wire.Stop{}}})
}

// Say says something to all that see the client's entity.
func (c *Client) Say(text string) (number uint64, err error) {
	return c.Send(&wire.Input{Action: &wire.Input_Say{Say: &wire.Say{Text: text}}})
}

// Unanswered is the number of inputs that wait for their result.
func (c *Client) Unanswered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.inputs.open)
}

// Connected reports whether there is a welcomed connection right now.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link != nil
}

// Stats returns what the client went through so far.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Batch = c.heardAt
	return s
}

// Done is closed when the client has ended; Err says why.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is nil while the client lives; after Logout or Close it is ErrClosed.
func (c *Client) Err() error {
	select {
	case <-c.done:
		return c.failure()
	default:
		return nil
	}
}

func (c *Client) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Logout leaves the world and ends the client. Without it the master stays for the resume window. The error is ctx's if
// the gateway did not confirm in time; the client has ended all the same.
func (c *Client) Logout(ctx context.Context) error {
	c.mu.Lock()
	c.leaving = true
	l := c.link
	if l != nil {
		l.send(logoutMessage)
	}
	c.mu.Unlock()
	if l == nil {
		return c.Close()
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		_ = c.Close()
		return fmt.Errorf("logging out: %w", ctx.Err())
	}
}

// Close ends the client without a word to the world, as a lost socket would, and returns when its goroutines have ended.
func (c *Client) Close() error {
	c.mu.Lock()
	c.leaving = true
	c.mu.Unlock()
	c.cancel()
	<-c.done
	return nil
}
