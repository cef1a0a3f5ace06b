package client

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	// ProtocolVersion is the version of the client protocol that this package speaks.
	ProtocolVersion = 1
	// Slack is how far, in metres, an entity may be from where its path says that it is: three steps, for the ticks that
	// an update waits in a link and in two tick loops.
	Slack = 4
	// maxViolations bounds what is kept; the count goes on.
	maxViolations = 100
	maxEnvelope   = 8 << 20
	// maxKept bounds what waits to be taken: chat, results, vanishes. The oldest is forgotten.
	maxKept = 4096
	// maxEntities and maxChunks bound what a gateway can make a client hold: far more than any view.
	maxEntities = 1 << 16
	maxChunks   = 1 << 12
)

// Seen is an entity in sight.
type Seen struct {
	ID   ecs.EntityID
	Name string
	Kind wire.Visual_Kind
	// Walk is where the entity was and what it still walks, at the tick Since.
	Walk  motion.Walk
	Since uint64
	// Appeared is the tick of its appearance.
	Appeared uint64
	// Marks counts the marked breaks since it appeared: resets, and full sets that it was sent again in. Between two marks
	// its stream has no hole and no repeat. Resets counts those of them at which its owner had crashed.
	Marks   int
	Resets  int
	Stamina *wire.Stamina
	// Item is what lies there, if it is an item. Inventory is what the client's own entity carries, by serial, as it was told
	// last; InventoryTold counts how often that was. One that never carried anything is told nothing.
	Item          *wire.Item
	Inventory     []*wire.Item
	InventoryTold int
	// Updated is the tick of the last word about the entity. Dated is the tick that the newest word in public is from: one that
	// waited for a gateway that stood still is old when it comes, and what only the account may know comes by another stream.
	Updated uint64
	Dated   uint64
	placed  bool
	stale   bool // not sent again since a resync began
}

// Placed reports whether it is known where the entity is.
func (s *Seen) Placed() bool { return s.placed }

// Violation is something that no client should ever get.
type Violation struct {
	Kind   ViolationKind
	Tick   uint64
	Entity ecs.EntityID
	Detail string
}

// ViolationKind sorts violations.
type ViolationKind string

// Kinds of violations that one client can see by itself.
const (
	Hole     ViolationKind = "hole"     // a sequence number is missing, or an update of an entity that never appeared
	Double   ViolationKind = "double"   // an entity appears that is in sight already
	Blink    ViolationKind = "blink"    // an entity vanishes though it stands where the client looks
	Teleport ViolationKind = "teleport" // an entity is not where its path leads
	Repeat   ViolationKind = "repeat"   // a result or a vanish comes twice
	Lost     ViolationKind = "lost"     // a result is left out
)

// Said is chat that was heard.
type Said struct {
	Speaker ecs.EntityID
	Text    string
	Tick    uint64
	// Appeared and Marks are those of the speaker when it was heard: equal ones mean an unbroken stream.
	Appeared uint64
	Marks    int
}

// Vanish is an entity that went out of sight.
type Vanish struct {
	Entity ecs.EntityID
	Reason wire.VanishReason
	// At is where it was, if that was known, and Surrounded whether the client held that chunk and the eight around it.
	At         torus.Pos
	Surrounded bool
	Tick       uint64
}

// Model is what one client knows. The zero Model waits for Welcome. Not safe for concurrent use.
type Model struct {
	Welcome  *wire.Welcome
	Grid     torus.Grid
	Tick     uint64 // of the gateway, newest known
	Entities map[ecs.EntityID]*Seen
	Chunks   map[torus.ChunkPos]uint32 // revision of the chunks held
	Wanted   []torus.ChunkPos          // announced, not asked for yet
	Heard    []Said                    // since the last TakeHeard
	Results  []*wire.InputResult       // since the last TakeResults
	Vanished []Vanish                  // since the last TakeVanished
	Ended    *wire.Disconnected
	MoveOn   bool // the gateway asks to go on at another one
	// Resyncs counts full sets after something was lost on the way; Complete is true unless one is under way.
	Resyncs  int
	Complete bool

	// ViolationCount counts all, Violations are the first of them.
	ViolationCount int
	Violations     []Violation

	sequence uint64
	acked    uint64
	fresh    map[torus.ChunkPos]bool // chunks that came after the last batch: what the next one says was decided before
}

// keep appends to a list that is bounded.
func keep[T any](list []T, v T) []T {
	if len(list) >= maxKept {
		list = list[1:]
	}
	return append(list, v)
}

// NextConnection prepares the model for a connection that resumes: what is held stays until the new gateway has sent its
// full set.
func (m *Model) NextConnection() {
	m.sequence, m.Ended, m.MoveOn = 0, nil, false
	m.Wanted = nil
}

// Acked is the highest input whose result is known.
func (m *Model) Acked() uint64 { return m.acked }

// Own is the client's own entity, nil while it is not in sight.
func (m *Model) Own() *Seen {
	if m.Welcome == nil {
		return nil
	}
	return m.Entities[ecs.EntityID(m.Welcome.Entity)]
}

// At is where an entity is at a tick: its walk, continued.
func (m *Model) At(s *Seen, tick uint64) torus.Pos {
	w := s.Walk
	if tick > s.Since {
		w.Ticks(m.Grid, int(min(tick-s.Since, 100_000)))
	}
	return w.At
}

// TakeHeard returns and forgets what was heard.
func (m *Model) TakeHeard() []Said {
	h := m.Heard
	m.Heard = nil
	return h
}

// TakeResults returns and forgets the results of inputs.
func (m *Model) TakeResults() []*wire.InputResult {
	r := m.Results
	m.Results = nil
	return r
}

// TakeVanished returns and forgets what went out of sight.
func (m *Model) TakeVanished() []Vanish {
	v := m.Vanished
	m.Vanished = nil
	return v
}

// TakeWanted returns and forgets the chunks that may be asked for.
func (m *Model) TakeWanted() []torus.ChunkPos {
	w := m.Wanted
	m.Wanted = nil
	return w
}

// Receive takes one message of the gateway: envelopes, each with its length. An error is a message that cannot be read.
func (m *Model) Receive(data []byte) error {
	for len(data) > 0 {
		size, n := protowire.ConsumeVarint(data)
		if n < 0 || size > maxEnvelope || size > uint64(len(data)-n) {
			return errors.New("reading a server message: the length of an envelope is wrong")
		}
		env := &wire.ServerEnvelope{}
		if err := proto.Unmarshal(data[n:n+int(size)], env); err != nil {
			return fmt.Errorf("reading a server message: %w", err)
		}
		data = data[n+int(size):]
		if err := m.envelope(env); err != nil {
			return err
		}
	}
	return nil
}

func (m *Model) envelope(env *wire.ServerEnvelope) error {
	if m.Welcome == nil && beforeWelcome(env) {
		return fmt.Errorf("reading a server message: %T before Welcome", env.Message)
	}
	switch e := env.Message.(type) {
	case *wire.ServerEnvelope_Welcome:
		return m.welcome(e.Welcome)
	case *wire.ServerEnvelope_Disconnected:
		m.Ended = e.Disconnected
	case *wire.ServerEnvelope_Result:
		m.result(e.Result)
	case *wire.ServerEnvelope_Manifest:
		return m.manifest(e.Manifest)
	case *wire.ServerEnvelope_Chunk:
		return m.chunk(e.Chunk)
	case *wire.ServerEnvelope_Resync:
		m.Resyncs++
		m.expectFullSet()
	case *wire.ServerEnvelope_Reconnect:
		m.MoveOn = true
	case *wire.ServerEnvelope_Batch:
		return m.batch(e.Batch)
	}
	return nil
}

// beforeWelcome reports whether a message makes no sense before Welcome.
func beforeWelcome(env *wire.ServerEnvelope) bool {
	switch env.Message.(type) {
	case *wire.ServerEnvelope_Welcome, *wire.ServerEnvelope_Disconnected, *wire.ServerEnvelope_Pong, nil:
		return false
	}
	return true
}

func (m *Model) welcome(w *wire.Welcome) error {
	g, err := torus.NewGrid(int(w.Columns), int(w.Rows), int(w.RegionEdgeChunks))
	if err != nil {
		return fmt.Errorf("reading Welcome: %w", err)
	}
	if w.Resumed && m.Welcome != nil && w.Entity != m.Welcome.Entity {
		m.violate(Lost, ecs.EntityID(w.Entity), "a resume gave another entity than %d", m.Welcome.Entity)
	}
	if w.NextInput == 0 {
		return errors.New("reading Welcome: inputs are numbered from 1")
	}
	if !w.Resumed || m.Welcome == nil {
		m.Entities, m.Chunks, m.acked = map[ecs.EntityID]*Seen{}, map[torus.ChunkPos]uint32{}, w.NextInput-1
		m.Complete = !w.Resumed
	} else {
		m.expectFullSet()
	}
	m.acked = max(m.acked, w.NextInput-1)
	m.Welcome, m.Grid = w, g
	return nil
}

// expectFullSet: all that is not sent again before set_complete has vanished.
func (m *Model) expectFullSet() {
	m.Complete = false
	for _, s := range m.Entities {
		s.stale = true
	}
}

func (m *Model) result(r *wire.InputResult) {
	switch {
	case r.Number <= m.acked:
		m.violate(Repeat, 0, "result of input %d came after that of %d", r.Number, m.acked)
		return
	case r.Number > m.acked+1:
		m.violate(Lost, 0, "result of input %d came after that of %d", r.Number, m.acked)
	}
	m.acked = r.Number
	m.Results = keep(m.Results, r)
}

// chunkAt reads a chunk's address.
func (m *Model) chunkAt(x, y uint32) (torus.ChunkPos, error) {
	c := torus.ChunkPos{X: int32(x), Y: int32(y)}
	if !m.Grid.CanonicalChunk(c) {
		return c, fmt.Errorf("reading a server message: chunk %d,%d is beyond the world", x, y)
	}
	return c, nil
}

func (m *Model) chunk(d *wire.ChunkData) error {
	c, err := m.chunkAt(d.X, d.Y)
	if err != nil {
		return err
	}
	if len(m.Chunks) >= maxChunks {
		return fmt.Errorf("reading a server message: more than %d chunks", maxChunks)
	}
	m.Chunks[c] = d.Revision
	if m.fresh == nil {
		m.fresh = map[torus.ChunkPos]bool{}
	}
	m.fresh[c] = true
	return nil
}

func (m *Model) manifest(f *wire.ChunkManifest) error {
	held := m.Chunks
	if f.Reset_ {
		m.Chunks = map[torus.ChunkPos]uint32{}
		m.Wanted = nil
	}
	for i := 0; i+1 < len(f.Added); i += 2 {
		c, err := m.chunkAt(f.Added[i], f.Added[i+1])
		if err != nil {
			return err
		}
		m.Wanted = keep(m.Wanted, c)
		if rev, ok := held[c]; ok && f.Reset_ {
			m.Chunks[c] = rev
		}
	}
	for i := 0; i+1 < len(f.Removed); i += 2 {
		delete(m.Chunks, torus.ChunkPos{X: int32(f.Removed[i]), Y: int32(f.Removed[i+1])})
	}
	return nil
}
