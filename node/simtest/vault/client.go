package vault

import (
	"bytes"
	"slices"

	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Client is the driver of one process life.
type Client struct {
	vault   *Vault
	session string
	saves   uint64 // numbers the saves, so that one which lands late is told from the latest
	queues  map[key][]*task
	dead    bool
	away    bool
}

// Client makes the driver of a process life. Each life has a session of its own: it stamps the saves.
func (v *Vault) Client(session string) *Client {
	return &Client{vault: v, session: session, queues: map[key][]*task{}}
}

// task is a request of a client, from Submit to its answer.
type task struct {
	client *Client
	req    zone.StoreRequest
	key    key
	number uint64 // of a save
	answer func(zone.StoreAnswer)
}

// Submit hands over a request. answer is called once, later, unless the client is killed before.
func (c *Client) Submit(req zone.StoreRequest, answer func(zone.StoreAnswer)) {
	if c.dead {
		return
	}
	c.vault.counters.Requests++
	req.Record.Blob, req.Record.Contents = bytes.Clone(req.Record.Blob), store.CloneContents(req.Record.Contents)
	if req.Change != nil {
		req.Change = new(cloneChange(*req.Change))
	}
	t := &task{client: c, req: req, key: keyOf(req), answer: answer}
	if req.Op == zone.StoreSave {
		c.saves++
		t.number = c.saves
	}
	c.queues[t.key] = append(c.queues[t.key], t)
	if len(c.queues[t.key]) == 1 {
		t.begin()
	}
}

// cloneChange copies a change; entries themselves point at nothing.
func cloneChange(ch zone.Change) zone.Change {
	ch.AddItems, ch.RemoveItems = slices.Clone(ch.AddItems), slices.Clone(ch.RemoveItems)
	ch.AddOut, ch.RemoveOut = slices.Clone(ch.AddOut), slices.Clone(ch.RemoveOut)
	ch.AddIn, ch.RemoveIn = slices.Clone(ch.AddIn), slices.Clone(ch.RemoveIn)
	ch.Edits = slices.Clone(ch.Edits)
	return ch
}

// SetAway takes the connection of this client only: what SetAway of the Vault does to all.
func (c *Client) SetAway(away bool) { c.away = away }

// unreachable reports whether the client has no connection.
func (c *Client) unreachable() bool { return c.away || c.vault.away }

// Kill ends the process: nothing is answered any more. What was sent may still land, up to LateBy after
// it would have, and nothing that waited for an earlier request of its key is sent.
func (c *Client) Kill() { c.dead, c.queues = true, nil }

// begin sends the first round trip. What no store can carry out is refused on the way.
func (t *task) begin() {
	v := t.client.vault
	var empty store.Memory
	if empty.Do(t.req).Code == zone.StoreUnavailable {
		v.after(0, func() { t.finish(answerTo(t.req, zone.StoreUnavailable)) })
		return
	}
	t.send(v.first(t))
}

// finish answers, after the next request of the key was begun.
func (t *task) finish(a zone.StoreAnswer) {
	c := t.client
	if c.dead {
		return
	}
	if a.Code == zone.StoreUnavailable {
		c.vault.counters.Unavailable++
	}
	if waiting := c.queues[t.key][1:]; len(waiting) > 0 {
		c.queues[t.key] = waiting
		waiting[0].begin()
	} else {
		delete(c.queues, t.key)
	}
	t.answer(a)
}

func answerTo(req zone.StoreRequest, code zone.StoreCode) zone.StoreAnswer {
	return zone.StoreAnswer{ID: req.ID, Op: req.Op, Code: code}
}
