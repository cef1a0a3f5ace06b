package simtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Broken is a broken invariant: the first one of a run.
type Broken struct {
	// Invariant is 1 to 7, as the package comment numbers them; 0 means that the world did not settle after all faults had
	// ended, assertion that an engine found its own state broken.
	Invariant int
	At        time.Duration
	Detail    string
}

const assertion = -1

// What names the invariant.
func (b *Broken) What() string {
	switch b.Invariant {
	case 0:
		return "liveness"
	case assertion:
		return "assertion"
	}
	return fmt.Sprintf("invariant %d", b.Invariant)
}

// Error says what broke, when and how.
func (b *Broken) Error() string { return fmt.Sprintf("at %v %s broke: %s", b.At, b.What(), b.Detail) }

// inStage is an entity of a stage, with the epoch that it gets by it, and the session that has the stage.
type inStage struct {
	entity  ecs.EntityID
	epoch   zone.Epoch
	session string
}

// checker looks at all nodes, the store and all clients at once, after every tick of virtual time.
type checker struct {
	c     *Cluster
	first *Broken

	entities map[ecs.EntityID]*tracked
	order    []*tracked
	inputs   map[numbering]*executed
	commands map[ecs.EntityID]map[ecs.EntityID]*executed
	taken    map[ecs.EntityID]zone.Epoch // the highest epoch at which an offer was accepted
	staged   map[inStage]bool            // what was part of a stage that was whole
	mover    *Node                       // who handed a region over last, and when
	movedAt  int
	differs  map[sight]difference // how long a client's sight has differed from the truth
	quiet    []int                // by gateway: for how many ticks nothing around it was disturbed
	heard    map[ear]voice
	says     map[numbering][]uint64
	dropped  ecs.EntityID               // the copy that was dropped last
	hears    func(*Client, client.Said) // told of all that is heard, if it is set

	handlesItems bool // somebody does
}

// tracked is one entity, as all nodes together have it in this tick.
type tracked struct {
	id      ecs.EntityID
	kept    int // the last tick in which somebody had given it away and kept its snapshot
	rested  int // the last tick in which it went to rest
	jumped  int // the last tick in which it was where no step leads
	tick    int // of what follows
	actor   *Node
	frozen  bool
	copies  int // that carry the highest epoch
	highest zone.Epoch
	at      torus.Pos
	chunk   uint64
	home    torus.RegionPos
	outside *outside // nil: it is within
	shows   bool     // an item: it is part of a ground, and no record
}

// numbering is one numbering of inputs.
type numbering struct {
	account, epoch uint64
}

// executed is how far a receiver got with the calls of one sender.
type executed struct {
	number     uint64
	recoveries uint32
	by         *Node
	session    string
	entity     ecs.EntityID
	rested     bool // its receiver went to rest in order since: the record has it
}

// undone reports whether what was executed last may have been lost: its owner has died or been fenced since, or the
// receiver was brought back from its record. What rested in order has lost nothing.
func (x *executed) undone(h zone.Happened) bool {
	if x.rested {
		return false
	}
	return h.Epoch.Recoveries > x.recoveries || x.by != nil && (x.by.Session() != x.session || !x.by.Acts())
}

func (x *executed) set(n *Node, h zone.Happened) {
	*x = executed{number: h.Number, recoveries: h.Epoch.Recoveries, by: n, session: n.Session(), entity: h.Entity}
}

type sight struct {
	cl *Client
	id ecs.EntityID
}

type ear struct {
	account uint64
	speaker ecs.EntityID
}

// voice is the last that was heard of a speaker, and on which unbroken stream.
type voice struct {
	conn     zone.ConnID
	appeared uint64 // by the gateway's ticks
	marks    int
	login    numbering
	number   uint64
}

func newChecker(c *Cluster) *checker {
	return &checker{
		c: c, entities: map[ecs.EntityID]*tracked{}, inputs: map[numbering]*executed{}, commands: map[ecs.EntityID]map[ecs.EntityID]*executed{},
		taken: map[ecs.EntityID]zone.Epoch{}, staged: map[inStage]bool{}, differs: map[sight]difference{}, quiet: make([]int, c.options.Nodes), heard: map[ear]voice{}, says: map[numbering][]uint64{},
	}
}

// broke records the first broken invariant; what follows it is its consequence.
func (k *checker) broke(invariant int, format string, args ...any) {
	if k.first == nil {
		k.first = &Broken{Invariant: invariant, At: k.c.Now(), Detail: fmt.Sprintf(format, args...)}
		k.c.say("%s", k.first.Error())
	}
}

// all asserts what must hold at every moment.
func (k *checker) all() error {
	k.track()
	for _, t := range k.order {
		if t.tick == k.c.ticks && t.copies > 1 {
			k.broke(2, "%d copies of entity %v carry the highest epoch %v", t.copies, t.id, t.highest)
		}
	}
	k.items()
	k.sights()
	for _, cl := range k.c.Clients {
		cl.loginEpoch()
		k.listen(cl)
		k.blinks(cl)
		if len(cl.Violations) > 0 {
			v := cl.Violations[0]
			k.broke(invariantOf(v), "account %d at tick %d saw a %s of entity %v: %s", cl.Account, v.Tick, v.Kind, v.Entity, v.Detail)
		}
	}
	if k.first != nil {
		return k.first
	}
	return nil
}

// invariantOf says which invariant a client's violation breaks: results are about inputs, all else is about sight.
func invariantOf(v client.Violation) int {
	if v.Entity == 0 && (v.Kind == client.Repeat || v.Kind == client.Lost) {
		return 3
	}
	return 4
}

// track gathers what all nodes have.
func (k *checker) track() {
	for _, n := range k.c.Nodes {
		if n.Engine == nil {
			continue
		}
		acts := n.Acts()
		n.Engine.EachEntity(func(e zone.Entity) { k.see(n, acts, &e) })
		n.Engine.EachOffer(func(id ecs.EntityID, _ zone.Epoch) {
			if t := k.entities[id]; t != nil {
				t.kept = k.c.ticks
			}
		})
	}
	for _, t := range k.order {
		if t.tick == k.c.ticks && t.actor != nil || t.shows {
			continue
		}
		if r, _ := k.c.storage.record(t.id); r.Resting { // who sent it to rest may have died before it heard that it does
			t.rested = k.c.ticks
		}
	}
}

func (k *checker) see(n *Node, acts bool, e *zone.Entity) {
	t := k.entities[e.ID]
	if t == nil {
		t = &tracked{id: e.ID}
		k.entities[e.ID] = t
		k.order = append(k.order, t)
	}
	t.shows = e.Shows != 0
	if t.tick != k.c.ticks {
		t.tick, t.actor, t.frozen, t.copies, t.highest = k.c.ticks, nil, false, 0, zone.Epoch{}
	}
	switch {
	case t.copies == 0 || t.highest.Less(e.Epoch):
		t.copies, t.highest = 1, e.Epoch
	case t.highest == e.Epoch:
		t.copies++
	}
	if !acts {
		return
	}
	if !e.Acting {
		t.frozen = true
		return
	}
	if t.actor != nil {
		k.broke(1, "%s and %s both act for entity %v", t.actor.Session(), n.Session(), e.ID)
	}
	if k.c.Grid.Chebyshev(t.at, e.At) > lastStep {
		t.jumped = k.c.ticks
	}
	t.actor, t.at, t.chunk, t.home = n, e.At, e.Chunk, e.Home
	k.staysWithin(n, t, e)
}

// staysWithin asserts that what stands beyond the overhang of its home goes no further: who observes it there is not told. A
// record may bring an entity back far from home, if it changed home after its place was saved last; there it stands.
func (k *checker) staysWithin(n *Node, t *tracked, e *zone.Entity) {
	switch {
	case k.within(e.At, e.Home):
		t.outside = nil
	case t.outside == nil || t.outside.home != e.Home || t.outside.epoch != e.Epoch:
		t.outside = &outside{e.Home, e.Epoch, e.At}
	case k.c.Grid.Chebyshev(t.outside.at, e.At) > lastStep:
		k.broke(5, "entity %v of %s walks on at %v, beyond the overhang of its home %v", e.ID, n.Session(), e.At, e.Home)
	}
}

// outside is where an entity was first seen beyond the overhang of its home.
type outside struct {
	home  torus.RegionPos
	epoch zone.Epoch
	at    torus.Pos
}

// lastStep is how far beyond the overhang an entity may come, in metres, by the step that makes its handoff due.
const lastStep = 4

// within reports whether an entity of a home may stand at a place: in the region, its overhang, or a step beyond it.
func (k *checker) within(at torus.Pos, home torus.RegionPos) bool {
	g := k.c.Grid
	if partition.MayStand(g, g.ChunkOf(at), home) {
		return true
	}
	for _, d := range [...][2]int64{{lastStep, 0}, {-lastStep, 0}, {0, lastStep}, {0, -lastStep}, {lastStep, lastStep}, {lastStep, -lastStep}, {-lastStep, lastStep}, {-lastStep, -lastStep}} {
		if partition.MayStand(g, g.ChunkOf(g.Add(at, d[0], d[1])), home) {
			return true
		}
	}
	return false
}

// calmTicks is how long everything around a gateway must be undisturbed before its clients' sight is held against the
// truth: a second, for which frames may wait for a sign-off, and some.
const calmTicks = 30

// happened sees every transition of every node.
func (k *checker) happened(n *Node, h zone.Happened) {
	switch h.Point {
	case zone.CallExecuted:
		k.executed(n, h)
	case zone.CallAnswered:
		if x := k.inputs[numbering{h.Account, h.Sender}]; x == nil || x.number < h.Number {
			k.broke(3, "%s tells account %d that its input %d is done, which nobody executed", n.Session(), h.Account, h.Number)
		}
	case zone.CommandExecuted:
		k.commanded(n, h)
	case zone.OfferTaken, zone.OfferKnown:
		if k.taken[h.Entity].Less(h.Epoch) {
			k.taken[h.Entity] = h.Epoch
		}
	case zone.SessionRested:
		k.rested(n, h)
	case zone.ClaimLost:
		k.dropped = h.Entity
	case zone.LogBegun, zone.LogForwarded:
		if x := k.inputs[numbering{h.Account, h.Number}]; x != nil && x.rested && x.entity == h.Entity {
			k.broke(3, "entity %v went to rest, and its record lacks inputs that it executed, up to %d of account %d", h.Entity, x.number, h.Account)
		}
	case zone.StageCompleted:
		n.Engine.EachStaged(int(h.Place), func(id ecs.EntityID, epoch zone.Epoch) { k.staged[inStage{id, epoch, n.Session()}] = true })
	case zone.MoveCommitted:
		k.mover, k.movedAt = n, k.c.ticks
	case zone.HandoffAccepted, zone.SignOffSent:
		moved := k.mover == n && k.movedAt == k.c.ticks && k.staged[inStage{h.Entity, h.Epoch, h.Peer}]
		if k.taken[h.Entity].Less(h.Epoch) && !moved {
			k.broke(2, "%s gave entity %v away at epoch %v, and nobody has taken it", n.Session(), h.Entity, h.Epoch)
		}
	}
}

// executed asserts invariant 3 for inputs: one after the other; only the crash of an owner may undo some, and never those
// whose results the client knows.
func (k *checker) executed(n *Node, h zone.Happened) {
	key := numbering{h.Account, h.Sender}
	last := k.inputs[key]
	if last == nil {
		last = &executed{number: h.Number - 1, recoveries: h.Epoch.Recoveries}
		k.inputs[key] = last
		if cl := k.c.byAccount(h.Account); h.Number != 1 && (cl == nil || cl.Acked()+1 != h.Number) {
			k.broke(3, "%s executed input %d of account %d first", n.Session(), h.Number, h.Account)
		}
	}
	undone := last.undone(h)
	switch {
	case h.Number > last.number+1:
		k.broke(3, "%s executed input %d of account %d after %d", n.Session(), h.Number, h.Account, last.number)
	case h.Number <= last.number && !undone:
		k.broke(3, "%s executed input %d of account %d again, after %d", n.Session(), h.Number, h.Account, last.number)
	case h.Number <= last.number:
		if cl := k.c.byAccount(h.Account); cl != nil && cl.Welcome != nil && cl.Welcome.SessionEpoch >= h.Sender && h.Number <= cl.Acked() && cl.loginEpoch() == h.Sender {
			k.broke(3, "%s executed input %d of account %d again, whose result the client knows", n.Session(), h.Number, h.Account)
		}
	}
	last.set(n, h)
}

// commanded asserts invariant 3 for the calls between entities.
func (k *checker) commanded(n *Node, h zone.Happened) {
	of := k.commands[h.Entity]
	if of == nil {
		of = map[ecs.EntityID]*executed{}
		k.commands[h.Entity] = of
	}
	sender := ecs.EntityID(h.Sender)
	last := of[sender]
	if last == nil {
		last = &executed{}
		of[sender] = last
	}
	if h.Number <= last.number && !last.undone(h) {
		k.broke(3, "%s executed command %d of entity %v on %v again, after %d", n.Session(), h.Number, sender, h.Entity, last.number)
	}
	last.set(n, h)
}

// sent notes with which inputs a player says something, so that its hearers can be held against it.
func (k *checker) sent(cl *Client, number uint64, says bool) {
	key := numbering{cl.Account, cl.loginEpoch()}
	list := k.says[key]
	for len(list) > 0 && list[len(list)-1] >= number { // the number was lost with a socket and is used again
		list = list[:len(list)-1]
	}
	if says {
		list = append(list, number)
	}
	k.says[key] = list
}

// listen asserts that what one player hears of another has no hole and no repeat while its stream is unbroken.
func (k *checker) listen(cl *Client) {
	for _, h := range cl.TakeHeard() {
		if k.hears != nil {
			k.hears(cl, h)
		}
		var v voice
		if _, err := fmt.Sscanf(h.Text, "%d.%d.%d", &v.login.account, &v.login.epoch, &v.number); err != nil {
			continue
		}
		v.conn, v.appeared, v.marks = cl.Conn, h.Appeared, h.Marks
		key := ear{cl.Account, h.Speaker}
		last, known := k.heard[key]
		k.heard[key] = v
		if !known || last.conn != v.conn || last.appeared != v.appeared || last.marks != v.marks || last.login != v.login {
			continue
		}
		if v.number <= last.number {
			k.broke(4, "account %d heard input %d of account %d after %d", cl.Account, v.number, v.login.account, last.number)
		}
		for _, n := range k.says[v.login] {
			if n > last.number && n < v.number {
				k.broke(4, "account %d did not hear input %d of account %d, but %d and %d", cl.Account, n, v.login.account, last.number, v.number)
			}
		}
	}
}

// loginEpoch names the numbering of a client's inputs: the session epoch of its last login that was no resume.
func (cl *Client) loginEpoch() uint64 {
	if cl.Welcome != nil && cl.Welcome != cl.numbered {
		if !cl.Welcome.Resumed || cl.login == 0 {
			cl.login = cl.Welcome.SessionEpoch
		}
		cl.numbered = cl.Welcome
	}
	return cl.login
}

func sortedEntities(m *client.Model) []ecs.EntityID {
	ids := make([]ecs.EntityID, 0, len(m.Entities))
	for id := range m.Entities {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func sortedChunks(m *client.Model) []torus.ChunkPos {
	chunks := make([]torus.ChunkPos, 0, len(m.Chunks))
	for c := range m.Chunks {
		chunks = append(chunks, c)
	}
	slices.SortFunc(chunks, func(a, b torus.ChunkPos) int {
		if a.Y != b.Y {
			return int(a.Y - b.Y)
		}
		return int(a.X - b.X)
	})
	return chunks
}

// sayOf is the text by which hearers know the input.
func sayOf(cl *Client, number uint64) *wire.Input {
	return &wire.Input{Action: &wire.Input_Say{Say: &wire.Say{Text: fmt.Sprintf("%d.%d.%d", cl.Account, cl.loginEpoch(), number)}}}
}
