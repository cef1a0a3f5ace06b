package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	// maxHeld and maxRequest are the limits of Authenticate.held and of ChunkRequest, in chunks.
	maxHeld    = 256
	maxRequest = 256
)

// tries is how connecting goes since the last connection that was welcomed.
type tries struct {
	gateway int // index of the next one
	failed  int
	refused int // tokens in a row
	since   time.Time
}

// run keeps the client connected until it ends.
func (c *Client) run(dialing context.Context) {
	defer close(c.done)
	defer c.cancel()
	t := tries{since: time.Now()}
	for {
		err := c.connect(dialing, &t)
		if err = c.next(err, &t); err != nil {
			c.end(err)
			return
		}
	}
}

// end records why the client ends and tells everybody.
func (c *Client) end(err error) {
	c.mu.Lock()
	c.err = err
	c.tell()
	c.mu.Unlock()
	c.event(LinkEvent{Kind: Ended, Err: err})
}

func (c *Client) event(ev LinkEvent) {
	if c.opts.OnLink != nil {
		c.opts.OnLink(ev)
	}
}

// next decides what follows the end of a connection, and waits for it. An error is the end of the client.
func (c *Client) next(err error, t *tries) error {
	var end *EndError
	if errors.As(err, &end) && end.Reason == wire.Disconnected_REASON_AUTH_FAILED {
		t.refused++
	} else {
		t.refused = 0
	}
	c.mu.Lock()
	leaving, welcomed := c.leaving, c.model.Welcome != nil
	c.last = err
	c.mu.Unlock()
	v := judgeError(err, t.refused)
	switch {
	case leaving || c.ctx.Err() != nil:
		return ErrClosed
	case v.final:
		return err
	case welcomed && time.Since(t.since) > c.opts.Patience:
		return fmt.Errorf("giving up after %v: %w", c.opts.Patience, err)
	}
	if v.elsewhere {
		t.gateway++
	}
	wait := max(v.pause, backOff(t.failed))
	t.failed++
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return ErrClosed
	}
}

// connect makes one connection and serves it until it ends; the error, never nil, says how.
func (c *Client) connect(dialing context.Context, t *tries) error {
	ctx, cancel := c.dialContext(dialing)
	defer cancel()
	gateway := c.gateways[t.gateway%len(c.gateways)]
	token, err := c.tokens(ctx)
	if err != nil {
		return fmt.Errorf("getting a token: %w", err)
	}
	l, err := c.dial(ctx, gateway)
	if err != nil {
		c.mu.Lock()
		c.stats.FailedDials++
		c.mu.Unlock()
		return err
	}
	stop := context.AfterFunc(c.ctx, l.close)
	defer stop()
	defer l.wrote.Wait()
	defer l.close()
	l.send(c.authenticate(token))
	err = c.serve(l, t)
	c.unlink(l, err)
	return err
}

// dialContext bounds connecting: by the client's life, and for the first connection by Dial's context too.
func (c *Client) dialContext(dialing context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.ctx, dialPatience)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.model.Welcome == nil {
		stop := context.AfterFunc(dialing, cancel)
		return ctx, func() { stop(); cancel() }
	}
	return ctx, cancel
}

// authenticate is the first message: a login, or a resume with what is held.
func (c *Client) authenticate(token string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &wire.Authenticate{Token: token, ProtocolVersion: ProtocolVersion, ClientVersion: c.opts.Version}
	if w := c.model.Welcome; w != nil {
		a.ResumeToken, a.AckedInput, a.SentInput = w.ResumeToken, c.model.Acked(), max(c.inputs.next, 1)-1
		a.Held = c.model.held()
		c.model.NextConnection()
	}
	return encoded(&wire.ClientEnvelope{Message: &wire.ClientEnvelope_Authenticate{Authenticate: a}})
}

// held lists the chunks to keep over a resume, in a fixed order.
func (m *Model) held() []*wire.HeldChunk {
	list := make([]*wire.HeldChunk, 0, len(m.Chunks))
	for pos, revision := range m.Chunks {
		list = append(list, &wire.HeldChunk{X: uint32(pos.X), Y: uint32(pos.Y), Revision: revision})
	}
	slices.SortFunc(list, func(a, b *wire.HeldChunk) int { return cmp.Or(cmp.Compare(a.Y, b.Y), cmp.Compare(a.X, b.X)) })
	return list[:min(len(list), maxHeld)]
}

// serve takes what the gateway sends until the connection ends.
func (c *Client) serve(l *link, t *tries) error {
	patience := welcomePatience
	for {
		data, err := l.read(patience)
		if err != nil {
			return err
		}
		welcome, err := c.receive(l, data)
		if err != nil {
			return err
		}
		if welcome != nil {
			*t = tries{gateway: t.gateway}
			patience = silentPings * c.opts.Ping
			c.event(*welcome)
		}
		t.since = time.Now()
	}
}

// receive gives one message to the model and does what follows from it. It returns an event if this was the Welcome.
func (c *Client) receive(l *link, data []byte) (*LinkEvent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.model
	before, acked := m.Welcome, m.Acked()
	if err := m.Receive(data); err != nil {
		return nil, err
	}
	if m.sequence != c.heard && m.sequence != 0 {
		c.heard, c.heardAt = m.sequence, time.Now()
	}
	c.stats.Heard = time.Now()
	var ev *LinkEvent
	if m.Welcome != before {
		ev = c.welcomed(l)
	} else if m.Acked() != acked {
		c.inputs.answered(m.Acked())
	}
	c.askForChunks(l)
	if c.opts.OnMessage != nil {
		c.opts.OnMessage(m)
	}
	c.tell()
	if m.Ended != nil {
		return ev, &EndError{Reason: m.Ended.Reason, Detail: m.Ended.Detail}
	}
	if m.MoveOn {
		m.MoveOn = false
		return ev, &EndError{Reason: wire.Disconnected_REASON_SHUTTING_DOWN, Detail: "the gateway asked to go on at another one"}
	}
	return ev, nil
}

// welcomed settles the inputs with what the gateway knows of them and sends again what it has not.
func (c *Client) welcomed(l *link) *LinkEvent {
	w := c.model.Welcome
	ev := &LinkEvent{Kind: Resumed, Gateway: l.gateway, Node: w.Node}
	if w.Resumed {
		c.stats.Resumes++
		c.stats.Unknown += c.inputs.answered(w.NextInput - 1)
		c.inputs.next = max(c.inputs.next, w.NextInput)
	} else {
		ev.Kind = LoggedIn
		c.stats.Logins++
		c.stats.Dropped += c.inputs.restart(w.NextInput)
	}
	for _, b := range c.inputs.open {
		l.send(b)
	}
	c.link = l
	return ev
}

// unlink takes a connection that ended out of use.
func (c *Client) unlink(l *link, err error) {
	c.mu.Lock()
	was := c.link == l
	if was {
		c.link = nil
		c.stats.Losses++
	}
	c.tell()
	c.mu.Unlock()
	if was {
		c.event(LinkEvent{Kind: LinkLost, Gateway: l.gateway, Err: err})
	}
}

// askForChunks asks for what was announced.
func (c *Client) askForChunks(l *link) {
	for wanted := range slices.Chunk(c.model.TakeWanted(), maxRequest) {
		l.send(chunkRequest(wanted))
	}
}

func chunkRequest(chunks []torus.ChunkPos) []byte {
	r := &wire.ChunkRequest{Chunks: make([]uint32, 0, 2*len(chunks))}
	for _, pos := range chunks {
		r.Chunks = append(r.Chunks, uint32(pos.X), uint32(pos.Y))
	}
	return encoded(&wire.ClientEnvelope{Message: &wire.ClientEnvelope_ChunkRequest{ChunkRequest: r}})
}
