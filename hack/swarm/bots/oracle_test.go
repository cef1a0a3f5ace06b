package bots

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/zone"
)

// rewrite passes every envelope of a frame to a client through fn, which may change it.
func rewrite(t *testing.T, frame []byte, fn func(env *wire.ServerEnvelope)) []byte {
	t.Helper()
	var out []byte
	for len(frame) > 0 {
		size, n := protowire.ConsumeVarint(frame)
		env := &wire.ServerEnvelope{}
		if err := proto.Unmarshal(frame[n:n+int(size)], env); err != nil {
			t.Error(err)
		}
		frame = frame[n+int(size):]
		fn(env)
		b, err := proto.Marshal(env)
		if err != nil {
			t.Error(err)
		}
		out = append(protowire.AppendVarint(out, uint64(len(b))), b...)
	}
	return out
}

// liar makes a node change what it tells its clients.
func (w *world) liar(t *testing.T, node int, fn func(env *wire.ServerEnvelope)) {
	t.Helper()
	n := w.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tamper = func(out *zone.Outbox) {
		for i := range out.Clients {
			out.Clients[i].Bytes = rewrite(t, out.Clients[i].Bytes, fn)
		}
	}
}

// wantKind runs a swarm in a world with one lying gateway and expects a kind of violation.
func wantKind(t *testing.T, kind client.ViolationKind, d time.Duration, lie func(env *wire.ServerEnvelope)) {
	t.Helper()
	t.Parallel()
	w := newWorld(t, 2, 2, 2)
	w.liar(t, 0, lie)
	o := w.options(10)
	o.Tinker = strings.HasPrefix(string(kind), "item-")
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := runFor(t, s, d)
	if r.Kinds[kind] == 0 {
		t.Errorf("no %s among %v", kind, r.Kinds)
	}
	if len(r.Violations) == 0 || r.Violations[0].Gateway == "" || r.Violations[0].Detail == "" {
		t.Error("a violation without its context")
	}
}

func TestSomebodyWhoIsNotShownIsInvisible(t *testing.T) {
	wantKind(t, Invisible, 9*time.Second, func(env *wire.ServerEnvelope) { // nobody but oneself, who appears with stamina soon
		b := env.GetBatch()
		if b == nil {
			return
		}
		kept := b.Updates[:0]
		for _, u := range b.Updates {
			if hidden(u) {
				continue
			}
			kept = append(kept, u)
		}
		b.Updates = kept
	})
}

// hidden hides every other entity.
func hidden(u *wire.EntityUpdate) bool { return u.Entity%2 == 0 }

func TestSomebodyWhoIsShownElsewhereIsMisplaced(t *testing.T) {
	wantKind(t, Misplaced, 9*time.Second, func(env *wire.ServerEnvelope) {
		for _, u := range env.GetBatch().GetUpdates() {
			if !hidden(u) {
				continue
			}
			for _, c := range u.Components {
				if p := c.GetPosition(); p != nil {
					p.Y = (p.Y + 12) % 960
				}
				if p := c.GetPath(); p != nil {
					p.From.Y, p.Waypoints = (p.From.Y+12)%960, nil
				}
			}
		}
	})
}

func TestAWordThatIsLeftOutIsAHole(t *testing.T) {
	wantKind(t, SaidHole, 15*time.Second, func(env *wire.ServerEnvelope) {
		for _, u := range env.GetBatch().GetUpdates() {
			for _, e := range u.Events {
				if s := e.GetSaid(); s != nil && s.Text == "#2" {
					e.Event = nil
				}
			}
		}
	})
}

func TestAWordThatComesTwiceIsARepeat(t *testing.T) {
	wantKind(t, SaidRepeat, 9*time.Second, func(env *wire.ServerEnvelope) {
		for _, u := range env.GetBatch().GetUpdates() {
			u.Events = append(u.Events, u.Events...)
		}
	})
}

func TestAResultThatIsLeftOutIsReported(t *testing.T) {
	wantKind(t, client.Lost, 9*time.Second, func(env *wire.ServerEnvelope) {
		if r := env.GetResult(); r.GetNumber() == 2 {
			env.Message = nil
		}
	})
}

func TestALeaveThatNeverWasIsABlink(t *testing.T) {
	seen := map[uint64]int{}
	wantKind(t, client.Blink, 9*time.Second, func(env *wire.ServerEnvelope) {
		b := env.GetBatch()
		for _, u := range b.GetUpdates() {
			if u.Appear {
				continue
			}
			if seen[u.Entity]++; seen[u.Entity] == 40 && hidden(u) {
				u.Components, u.Events, u.Vanish = nil, nil, wire.VanishReason_VANISH_REASON_GONE
			}
		}
	})
}

func TestAnItemThatIsLeftOutOfAnInventoryIsUndone(t *testing.T) {
	wantKind(t, ItemUndone, 20*time.Second, func(env *wire.ServerEnvelope) {
		for _, u := range env.GetBatch().GetUpdates() {
			for _, c := range u.Components {
				if inv := c.GetInventory(); inv != nil && len(inv.Items) > 0 {
					inv.Items = inv.Items[:len(inv.Items)-1]
				}
			}
		}
	})
}
