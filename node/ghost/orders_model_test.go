package ghost

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
)

// A story is what really happens to one entity, as a script: "b takes" is the accept of a handoff, "a signs off" the old
// owner's last word. From a story follows, for each owner and each moment at which a subscription takes effect there, the
// stream that the owner sends to the subscriber.

// act is one step of a story.
type act struct {
	owner, verb string
	frame       Frame
	after       int // acts of the story that surely happened before it was told, and itself
}

// heirs reports whether the act is the first of who inherits the region of the dead.
func (a act) heirs() bool { return a.verb == "takes over" || strings.HasPrefix(a.verb, "recovers") }

// story is a script, played.
type story struct {
	acts  []act
	first act  // how the entity is held before the first act
	last  act  // what is true in the end
	said  byte // the number said last
	over  bool // in the end it is in nobody's sight
	dies  string
}

// The regions of the owners; h, the heir, has none of its own.
var homeOf = map[string]uint32{"a": 0, "b": 1, "c": 2, "h": 3}

// outOfView is a chunk that nobody here observes.
const outOfView = 9

// value encodes the one component: which of the entity's states it is, counted up. After a recovery it counts on from 1.
func value(x byte) []byte {
	return AppendComponent(nil, protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{x}), 0)
}

// play runs a script. The entity begins with a, in chunk 1.
func play(script ...string) story {
	x, said := byte(1), byte(0)
	now := Frame{Entity: id, Kind: wire.EntityFrame_KIND_SNAPSHOT, Chunk: 1, Components: value(1)}
	s := story{first: act{owner: "a", frame: now}}
	held := s.first
	var off Frame
	taken := 0
	for _, line := range script {
		owner, verb, _ := strings.Cut(line, " ")
		f := now
		switch verb {
		case "says": // it walks on, over the border of a chunk
			x, said = x+1, said+1
			now.Chunk, now.Components = now.Chunk%3+1, value(x)
			f = now
			f.Kind, f.Events = wire.EntityFrame_KIND_UPDATE, AppendEvent(nil, []byte{said})
		case "takes":
			x++
			now.Epoch, now.Chunk, now.Home, now.Components = now.Epoch.Transferred(1), now.Chunk%3+1, homeOf[owner], value(x)
			off = Frame{Entity: id, Kind: wire.EntityFrame_KIND_TRANSFERRED, Epoch: now.Epoch, Chunk: now.Chunk, Home: now.Home, To: owner}
			f = now
		case "takes over": // its source offers it again, with the epoch that the dead one had
			now.Components = value(x - 1)
			f = now
			f.Reset = true
		case "recovers":
			now.Epoch, now.Chunk, now.Components = now.Epoch.Recovered(), 1, value(1)
			f = now
			f.Reset = true
		case "signs off":
			f = off
		case "signs off to h": // who has it from the store already
			f = off
			f.To = "h"
		case "leaves":
			f = Frame{Entity: id, Kind: wire.EntityFrame_KIND_LEFT, Epoch: now.Epoch, Chunk: outOfView, Home: now.Home}
			s.over = true
		case "ends it":
			f = Frame{Entity: id, Kind: wire.EntityFrame_KIND_GONE, Epoch: now.Epoch, Chunk: now.Chunk, Home: now.Home, Vanish: wire.VanishReason_VANISH_REASON_GONE}
			s.over = true
		case "recovers nothing": // it was not durable
			s.over = true
		}
		a := act{owner, verb, f, len(s.acts) + 1}
		if verb == "takes" {
			taken = a.after
		}
		if strings.HasPrefix(verb, "signs off") { // what the new owner does meanwhile is not known to the old one
			a.after = taken
		}
		s.acts = append(s.acts, a)
		if !strings.HasPrefix(verb, "signs off") && verb != "recovers others" {
			held = act{owner: owner, frame: now}
		}
	}
	s.last, s.said = held, said
	return s
}

// of are the acts of one owner.
func (s *story) of(owner string) (acts []act) {
	for _, a := range s.acts {
		if a.owner == owner {
			acts = append(acts, a)
		}
	}
	return acts
}

// item is one thing that the observer meets: frames and snapshot marks of an owner, or what happens to its stream.
type item struct {
	owner  string
	frames []Frame
	marks  []uint64
	homes  []uint32
	broken bool   // the stream is new: all is asked for again
	dies   bool   // the owner's session is dead
	asks   bool   // the table names the owner: it is asked for the first time
	after  string // whose death is known before
	known  int    // acts of the story that happened before this was told
	upTo   int    // a subscription that takes effect before an act is not sent by one who knows of it; 0: no limit
}

func (i item) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", i.owner)
	for _, f := range i.frames {
		fmt.Fprintf(&b, " %s %d.%d chunk %d", strings.TrimPrefix(f.Kind.String(), "KIND_"), f.Epoch.Recoveries, f.Epoch.Transfers, f.Chunk)
		if f.To != "" {
			fmt.Fprintf(&b, " to %s", f.To)
		}
		if len(f.Components) > 0 {
			fmt.Fprintf(&b, " x=%d", f.Components[len(f.Components)-1])
		}
		if len(f.Events) > 0 {
			fmt.Fprintf(&b, " says %d", f.Events[len(f.Events)-1])
		}
	}
	if len(i.marks) > 0 {
		fmt.Fprintf(&b, " mark of chunks %v, homes %v", i.marks, i.homes)
	}
	for word, is := range map[string]bool{" the stream broke and is new": i.broken, " is dead": i.dies, " is asked": i.asks} {
		if is {
			b.WriteString(word)
		}
	}
	return b.String()
}

// sight are the chunks that the observer subscribes to, each at every owner.
var sight = []uint64{1, 2, 3}

// stream is what an owner sends to a node whose subscription takes effect before the owner's act number from. A snapshot
// of all chunks is one item, or one for each chunk.
func (s *story) stream(owner string, from int, chunkByChunk bool) (items []item) {
	acts := s.of(owner)
	if owner != "h" || from > 0 { // an heir answers when it has recovered
		items = s.snapshot(owner, acts[:from], chunkByChunk)
	}
	for i, a := range acts[from:] {
		if a.verb != "recovers nothing" && a.verb != "recovers others" {
			items = append(items, item{owner: owner, frames: []Frame{a.frame}, known: a.after})
		}
		if a.heirs() {
			items = append(items, s.snapshot(owner, acts[:from+i+1], chunkByChunk)...)
		}
	}
	return items
}

// snapshot answers a subscription after so many acts: what is in a chunk, as itself or as a tombstone, then its mark,
// which speaks for the homes that the owner holds by then.
func (s *story) snapshot(owner string, acts []act, chunkByChunk bool) (items []item) {
	homes := []uint32{homeOf[owner]}
	if slices.ContainsFunc(acts, act.heirs) {
		homes = append(homes, homeOf[s.dies])
	}
	known, after := s.stateAt(owner, acts), 0
	if len(acts) > 0 {
		after = acts[len(acts)-1].after
	}
	for _, chunk := range sight {
		i := item{owner: owner, marks: []uint64{chunk}, homes: homes, known: after}
		if f, here := known[chunk]; here {
			i.frames = []Frame{f}
		}
		items = append(items, i)
	}
	if chunkByChunk {
		return items
	}
	whole := item{owner: owner, homes: homes, known: after}
	for _, i := range items {
		whole.frames, whole.marks = append(whole.frames, i.frames...), append(whole.marks, i.marks...)
	}
	return []item{whole}
}

// limit is how much of the story nobody may know who asks an owner for the snapshot after so many of its acts: its next
// one, but a sign-off, which the new owner does not wait for.
func (s *story) limit(owner string, acts int) int {
	for i, a := range s.acts {
		if a.owner != owner {
			continue
		}
		if acts--; acts < 0 && !strings.HasPrefix(a.verb, "signs off") {
			return i + 1
		}
	}
	return 0
}

// stateAt is what an owner would tell of the entity after so many acts, by the chunk under which it tells it.
func (s *story) stateAt(owner string, acts []act) map[uint64]Frame {
	known := map[uint64]Frame{}
	var chunk uint64
	if s.first.owner == owner {
		chunk = s.first.frame.Chunk
		known[chunk] = s.first.frame
	}
	for _, a := range acts {
		f := a.frame
		delete(known, chunk)
		switch a.verb {
		case "signs off", "signs off to h": // listed where it was indexed last
			known[chunk] = f
			continue
		case "leaves", "ends it", "recovers nothing", "recovers others":
			continue
		}
		f.Kind, f.Events, f.Reset = wire.EntityFrame_KIND_SNAPSHOT, nil, false
		chunk = f.Chunk
		known[chunk] = f
	}
	return known
}

// eachOrder visits every merge of the streams that keeps the order of each. The slice is the next one's too.
func eachOrder(streams [][]item, visit func(order []item)) {
	order := make([]item, 0, 32)
	next, dead := make([]int, len(streams)), map[string]bool{}
	var merge func(known int)
	merge = func(known int) {
		done := true
		for i, s := range streams {
			if next[i] == len(s) {
				continue
			}
			done = false
			it := s[next[i]]
			if it.after != "" && !dead[it.after] || it.upTo > 0 && known >= it.upTo {
				continue
			}
			next[i]++
			order = append(order, it)
			dead[it.owner] = dead[it.owner] || it.dies
			merge(max(known, it.known))
			if it.dies {
				dead[it.owner] = false
			}
			order = order[:len(order)-1]
			next[i]--
		}
		if done {
			visit(order)
		}
	}
	merge(0)
}

func lines(order []item, at int) string {
	var b strings.Builder
	for i, it := range order {
		arrow := "  "
		if i == at {
			arrow = "->"
		}
		fmt.Fprintf(&b, "\t%s %2d  %v\n", arrow, i+1, it)
	}
	return b.String()
}

// told is what the client behind the observer has been told, and what is wrong with it.
type told struct {
	seen   bool
	x      byte
	epoch  ecs.Epoch
	heard  byte // the last number
	marked bool // since then
	gone   int  // vanishes
	whole  bool // nothing is later than frames are held, or lost: there may be no hole, marked or not
	wrong  string
}

func (c *told) fault(format string, args ...any) {
	if c.wrong == "" {
		c.wrong = fmt.Sprintf(format, args...)
	}
}

// observer is a store as a gateway drives it (zone.gate): subscriptions asked and answered, streams that break, deaths.
type observer struct {
	*Store
	tick   int64
	dead   map[string]bool
	asked  map[string]int // snapshots on their way
	again  []Unknown
	client told
	mayGo  bool // the story lets it go out of sight
}

func newObserver(owners ...string) *observer {
	o := &observer{dead: map[string]bool{}, asked: map[string]int{}}
	o.Store = New(func(s string) bool { return o.dead[s] }, func(chunk, _ uint64) bool { return slices.Contains(sight, chunk) })
	for _, owner := range owners {
		o.ask(owner)
	}
	return o
}

func (o *observer) ask(owner string) {
	for _, chunk := range sight {
		o.asked[owner]++
		o.BeginSnapshot(chunk, owner)
	}
}

func (o *observer) meet(it *item) {
	switch {
	case it.asks:
		o.ask(it.owner)
	case it.dies:
		o.dead[it.owner] = true
	case it.broken:
		delete(o.asked, it.owner)
		o.ask(it.owner)
		o.Interrupted(it.owner)
	}
	for i := range it.frames {
		o.Apply(o.tick, it.owner, &it.frames[i])
	}
	for _, chunk := range it.marks {
		o.EndSnapshot(chunk, it.owner, it.homes)
		if o.asked[it.owner] = max(o.asked[it.owner]-1, 0); o.asked[it.owner] == 0 {
			o.Sweep(it.owner)
		}
	}
}

// settle ends a tick: the client is told, and what it is told is judged.
func (o *observer) settle() {
	o.Expire(o.tick)
	for _, u := range o.TakeUnknown() {
		o.asked[u.Owner]++
		o.BeginSnapshot(u.Chunk, u.Owner)
		o.again = append(o.again, u)
	}
	c := &o.client
	r := o.Get(id)
	for range o.Vanished() {
		c.gone++
		if r == nil {
			c.seen = false
		}
	}
	if c.gone > 0 && (!o.mayGo || c.gone > 1) {
		c.fault("it vanished %d times", c.gone)
	}
	if r != nil && r.touched {
		c.update(r)
	}
	if r != nil {
		o.checkHeld(r)
	}
	o.Settle()
}

func (o *observer) checkHeld(r *Replica) {
	switch {
	case len(r.held) > maxHeld:
		o.client.fault("%d frames are held", len(r.held))
	case len(r.held) > 0 && !slices.Contains(o.holding, id):
		o.client.fault("frames are held that nothing releases")
	case len(r.held) > 0 && (o.tick-r.heldSince >= HoldTicks || o.dead[r.Owner]):
		o.client.fault("frames are held beyond their time")
	}
}

// update is what a replica tells in a tick.
func (c *told) update(r *Replica) {
	if r.New && c.seen {
		c.fault("it appeared a second time")
	}
	fresh := !c.seen
	c.seen = true
	if r.Epoch.Less(c.epoch) {
		c.fault("epoch %v came after %v", r.Epoch, c.epoch)
	}
	c.epoch = r.Epoch
	jump := r.Reset && !c.whole || fresh
	c.marked = c.marked || jump
	for i := range r.components {
		x := r.components[i].body[2]
		if x < c.x && !jump {
			c.fault("state %d came after %d, unmarked", x, c.x)
		}
		c.x = x
	}
	for e := r.events; len(e) > 0; e = e[3:] {
		c.hear(e[2])
	}
}

func (c *told) hear(n byte) {
	switch {
	case n <= c.heard:
		c.fault("it said %d after %d", n, c.heard)
	case n > c.heard+1 && !c.marked:
		c.fault("it said %d after %d, and nothing marks the hole", n, c.heard)
	}
	c.heard, c.marked = n, false
}
