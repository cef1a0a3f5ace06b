package zone

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/handoff"
	"github.com/spatialcells/spatialcells/node/interest"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/route"
	"github.com/spatialcells/spatialcells/node/torus"
)

// authority is what makes an entity this node's: its epoch, its home region and the chunk it is indexed in.
type authority struct {
	epoch ecs.Epoch
	home  torus.RegionPos
	chunk uint64
}

// syncState is what of an entity must still be told to its observers in this tick.
type syncState struct {
	changed uint16
	events  []byte
	queued  bool
	fresh   bool   // nobody was told of it yet
	reset   bool   // it goes on from an earlier state
	from    uint64 // chunk at the start of the tick
}

// saving is the store's side of a durable entity.
type saving struct {
	dirty    bool
	claimed  bool // the record carries our epoch: saves will be taken
	inFlight bool
	next     int64
	source   string          // who waits for Durable
	stored   torus.RegionPos // the home that the record has, as far as this node knows
	takenAt  time.Duration   // boot-time clock of the handoff
	cameFrom int             // the region that it came from last
	cameAt   int64           // the tick of that; 0: it did not come from another
	settling uint64          // the store request that must be answered before it may be handed over
	doubted  int64           // the tick from which its claim is looked at once more; 0: there is none, -1: it was
}

// foreign are components of an entity that this version does not know: kept as bytes, saved and handed on.
type foreign struct{ blobs []*wire.ComponentBlob }

// sim is the simulation half of an engine.
type sim struct {
	*Engine
	world     *ecs.World
	game      *game.Game
	encoder   *game.Encoder
	authority *ecs.Store[authority]
	sync      *ecs.Store[syncState]
	saving    *ecs.Store[saving]
	foreign   *ecs.Store[foreign]
	failures  map[string]bool
	mine      *ecs.Query // all that is owned or held frozen
	savable   *ecs.Query
	connected *ecs.Query
	walking   *ecs.Query
	ids       *ecs.IDSource

	residents interest.Residents[ecs.EntityID]
	nodes     interest.Subscriptions[string]
	byAccount map[uint64]ecs.EntityID
	bursts    []burst
	left      map[string]bool // who was told in this tick of what may have been seen anywhere
	owed      map[burst]bool  // those of bursts: who waits for one knows nothing of its chunk yet

	moved    []ecs.EntityID
	changed  []ecs.EntityID
	offside  []ecs.EntityID
	backOff  map[ecs.EntityID]int64
	jumps    map[ecs.EntityID]torus.Pos // teleports that are not accepted yet
	outgoing handoff.Book
	known    handoff.Known
	regions  []*region // by index; nil: not ours
	learned  []learned // by region
	// lastHolders are the sessions that the table named last, by region; holders are all of them, sorted.
	lastHolders, holders []string
	// strangers are gateways of sessions that this node knows nothing of.
	strangers map[string]absence
	stages    stages
	commands  commands
	contents  *ecs.Store[holding]
	carrying  *ecs.Query
	asks      uint64         // of sources, whether they are done with what came from them
	awaited   *route.Waiting // what the input that is being carried out waits for

	scratch    []byte
	scratch2   []byte
	components []byte
	frames     [3][]byte
}

func newSim(e *Engine) (*sim, error) {
	s := &sim{
		Engine: e, world: ecs.NewWorld(), byAccount: map[uint64]ecs.EntityID{}, backOff: map[ecs.EntityID]int64{}, jumps: map[ecs.EntityID]torus.Pos{}, owed: map[burst]bool{}, failures: map[string]bool{},
		regions: make([]*region, e.grid.Regions()), learned: make([]learned, e.grid.Regions()), lastHolders: make([]string, e.grid.Regions()), strangers: map[string]absence{},
		stages: stages{by: map[int]*stagedRegion{}, guests: map[burst]bool{}, foreseen: map[int]partition.Row{}},
	}
	s.game = game.New(s.world, e.grid, s)
	s.encoder = game.NewEncoder(s.game)
	s.authority = ecs.Register[authority](s.world, ecs.Meta{Name: "authority", NotHandedOver: "the offer itself carries epoch and home"})
	s.sync = ecs.Register[syncState](s.world, ecs.Meta{Name: "sync", NotHandedOver: "what is untold belongs to this node's tick"})
	s.saving = ecs.Register[saving](s.world, ecs.Meta{Name: "saving", NotHandedOver: "the new owner claims the record for itself"})
	s.foreign = ecs.Register[foreign](s.world, ecs.Meta{Name: "foreign", NotHandedOver: "its bytes are handed on as they are, each under its own name"})
	s.registerCommands()
	s.registerItems()
	s.mine = ecs.NewQuery(s.world).With(s.authority).IncludeFrozen()
	s.savable = ecs.NewQuery(s.world).With(s.saving).IncludeFrozen()
	s.connected = ecs.NewQuery(s.world).With(s.game.Session)
	s.walking = ecs.NewQuery(s.world).With(s.sync, s.game.Path)
	s.world.OnDestroy(s.destroyed)
	var err error
	if s.ids, err = ecs.NewIDSource(e.cfg.Ordinal, e.cfg.Incarnation); err != nil {
		return nil, err
	}
	s.ids.NotBefore(e.cfg.NotBefore)
	return s, s.world.Check()
}

// run advances the simulation by one tick.
func (s *sim) run() {
	if !s.stopping { // a node that stops keeps what it has as it is
		s.game.Run()
		s.world.Apply()
	}
	s.reindex()
	s.handOver()
	s.sendCommands()
	s.loseSessions()
	s.sweepItems()
	s.save()
	s.stepRegions()
	s.stepMoves()
	s.known.Expire(s.tick)
}

// stoodStill: observers walked on while this node made no steps; they are told where things really are.
func (s *sim) stoodStill() {
	for id := range s.walking.Each {
		if len(s.game.Path.Get(id).Waypoints) > 0 {
			st := s.queue(id)
			st.changed |= 1<<game.NumberPath | 1<<game.NumberPosition
			st.reset = true
		}
	}
}

// Changed, Moved, Offside and Emit make the sim the game's environment.
func (s *sim) Changed(id ecs.EntityID, number int) {
	st := s.queue(id)
	st.changed |= 1 << number
	if sv := s.saving.Get(id); sv != nil {
		sv.dirty = true
	}
}

// Moved notes an entity for the index.
func (s *sim) Moved(id ecs.EntityID) {
	s.moved = append(s.moved, id)
	if sv := s.saving.Get(id); sv != nil {
		sv.dirty = true
	}
}

// Offside reports whether an entity at a position has left home and overhang: it may not go on until it is handed over.
func (s *sim) Offside(id ecs.EntityID, at torus.Pos) bool {
	return !partition.MayStand(s.grid, s.grid.ChunkOf(at), s.authority.Get(id).home)
}

// Emit publishes an event.
func (s *sim) Emit(id ecs.EntityID, event *wire.EntityEvent) {
	st := s.queue(id)
	s.scratch = s.encoder.AppendEvent(s.scratch[:0], event)
	st.events = appendEvent(st.events, s.scratch)
}

// Failed counts a panic of a system, and notes each cause once.
func (s *sim) Failed(system string, id ecs.EntityID, cause any) {
	s.stats.Panics++
	key := fmt.Sprintf("%s: %v", system, cause)
	if len(s.failures) < maxFailures && !s.failures[key] {
		s.failures[key] = true
		s.note("system %s failed on entity %v and leaves it out: %v", system, id, cause)
	}
}

// maxFailures bounds the causes that are told apart.
const maxFailures = 256

// queue puts an entity on the list of those whose observers must be told.
func (s *sim) queue(id ecs.EntityID) *syncState {
	st := s.sync.Get(id)
	if !st.queued {
		st.queued = true
		st.from = s.authority.Get(id).chunk
		s.changed = append(s.changed, id)
	}
	return st
}

// reindex moves what walked into another chunk. An entity that has left the overhang stays indexed in the last chunk of
// it: its observers are those of its owner.
func (s *sim) reindex() {
	for _, id := range s.moved {
		if !s.world.Owned(id) {
			continue
		}
		a := s.authority.Get(id)
		at := s.grid.ChunkOf(s.game.Position.Get(id).At)
		if !partition.MayStand(s.grid, at, a.home) {
			s.offside = append(s.offside, id)
			continue
		}
		s.index(id, a, s.grid.ChunkKey(at))
	}
	s.moved = s.moved[:0]
}

func (s *sim) index(id ecs.EntityID, a *authority, chunk uint64) {
	if a.chunk == chunk {
		return
	}
	s.queue(id)
	a.chunk = chunk
	s.residents.Move(id, chunk)
}

// adopt makes a created entity this node's, seen by nobody yet.
func (s *sim) adopt(id ecs.EntityID, epoch ecs.Epoch, home torus.RegionPos, reset bool) {
	at := s.game.Position.Get(id).At
	chunk := s.indexChunk(at, home)
	s.authority.Set(id, authority{epoch: epoch, home: home, chunk: chunk})
	s.sync.Set(id, syncState{fresh: true, reset: reset})
	s.residents.Move(id, chunk)
	if acc := s.game.Account.Get(id); acc != nil {
		s.byAccount[acc.ID] = id
	}
	s.expectAnswers(id)
	if s.commands.queues.Has(id) {
		s.commands.come = append(s.commands.come, id)
	}
	if hd := s.contents.Get(id); hd != nil {
		s.show(id, hd)
	}
	s.queue(id).changed = game.OwnerNumbers // whoever joins an audience gets the current values
	if !partition.MayStand(s.grid, s.grid.ChunkOf(at), home) {
		s.offside = append(s.offside, id)
	}
}

// indexChunk is the chunk of a position, or the nearest one in which an entity of that home may be indexed.
func (s *sim) indexChunk(at torus.Pos, home torus.RegionPos) uint64 {
	c, origin, edge := s.grid.ChunkOf(at), s.grid.RegionOrigin(home), int32(s.grid.RegionEdgeChunks())
	for !partition.MayStand(s.grid, c, home) {
		c = s.grid.AddChunk(c, inward(c.X-origin.X, edge, s.grid.ChunksX()), inward(c.Y-origin.Y, edge, s.grid.ChunksY()))
	}
	return s.grid.ChunkKey(c)
}

// inward is the step by which an offset on a circle of chunks comes nearer to [0, edge), by the shorter way.
func inward(offset, edge, size int32) int32 {
	switch offset = (offset%size + size) % size; {
	case offset < edge:
		return 0
	case offset-edge < size-offset:
		return -1
	}
	return 1
}

// forget takes an entity out of the sim's own indices; the world has it still.
func (s *sim) forget(id ecs.EntityID) {
	if acc := s.game.Account.Get(id); acc != nil && s.byAccount[acc.ID] == id {
		delete(s.byAccount, acc.ID)
	}
	s.residents.Remove(id)
	delete(s.backOff, id)
	delete(s.jumps, id)
}

// evict removes an entity that lives on elsewhere: nobody is told that it vanished.
func (s *sim) evict(id ecs.EntityID) {
	s.forget(id)
	s.world.Evict(id)
}

// destroyed is the listener for an entity that is no more.
func (s *sim) destroyed(id ecs.EntityID) {
	if !s.authority.Has(id) {
		return
	}
	s.tell(id)
	s.broadcast(id, wire.EntityFrame_KIND_GONE, wire.VanishReason_VANISH_REASON_GONE)
	s.forget(id)
}

// blobs encodes the components of an entity: all that are handed over, or only the durable ones.
func (s *sim) blobs(id ecs.EntityID, durableOnly bool) []*wire.ComponentBlob {
	var list []*wire.ComponentBlob
	for _, c := range s.world.Components() {
		m := c.Meta()
		if m.Codec == nil || durableOnly && !m.Durable || !m.Codec.Has(id) {
			continue
		}
		list = append(list, &wire.ComponentBlob{Component: m.Name, Version: uint32(max(m.CodecVersion, 1)), Data: m.Codec.Append(nil, id)})
	}
	if f := s.foreign.Get(id); f != nil {
		list = append(list, f.blobs...)
	}
	return list
}

// compose creates an entity from blobs. On an error the entity does not exist.
func (s *sim) compose(id ecs.EntityID, blobs []*wire.ComponentBlob) error {
	if err := s.world.Create(id); err != nil {
		return err
	}
	if err := s.fill(id, blobs); err != nil {
		s.world.Evict(id)
		return err
	}
	s.game.Wake(id)
	return nil
}

// maxForeign bounds the unknown components of one entity.
const maxForeign = 64

var (
	errNoPosition  = errors.New("an entity without a position")
	errManyUnknown = errors.New("an entity with too many unknown components")
)

func (s *sim) fill(id ecs.EntityID, blobs []*wire.ComponentBlob) error {
	var unknown []*wire.ComponentBlob
	for _, b := range blobs {
		c, known := s.world.Component(b.Component)
		if !known || c.Meta().Codec == nil {
			unknown = append(unknown, b)
			continue
		}
		if err := c.Meta().Codec.Decode(id, b.Data); err != nil {
			return err
		}
	}
	switch {
	case !s.game.Position.Has(id):
		return errNoPosition
	case len(unknown) > maxForeign:
		return errManyUnknown
	case len(unknown) > 0:
		s.foreign.Set(id, foreign{unknown})
	}
	return nil
}

// record is the durable state of an entity as the store keeps it.
func (s *sim) record(id ecs.EntityID, resting bool) Record {
	a := s.authority.Get(id)
	blob, err := proto.MarshalOptions{Deterministic: true}.Marshal(&wire.Snapshot{Components: s.blobs(id, true)})
	if err != nil {
		panic("zone: encoding a record: " + err.Error())
	}
	r := Record{Entity: id, Epoch: a.epoch, Home: a.home, Resting: resting, Blob: blob}
	if acc := s.game.Account.Get(id); acc != nil {
		r.Account = acc.ID
	}
	return r
}

func (s *sim) players() int { return s.connected.Count() }

// Entities lists what this node owns or holds frozen, by id.
func (e *Engine) Entities() []Entity {
	var list []Entity
	e.EachEntity(func(x Entity) { list = append(list, x) })
	slices.SortFunc(list, func(a, b Entity) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
