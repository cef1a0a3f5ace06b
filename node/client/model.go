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
	// Slack is how far, in metres, an entity may be from where its path says that it is: three steps, for the ticks that
	// an update waits in a link and in two tick loops.
	Slack = 4
	// maxViolations bounds what is kept; the count goes on.
	maxViolations = 100
	maxEnvelope   = 8 << 20
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
	Stamina  *wire.Stamina
	placed   bool
	stale    bool // not sent again since a resync began
}

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
	Ended    *wire.Disconnected
	// Resyncs counts full sets after something was lost on the way; Complete is true unless one is under way.
	Resyncs  int
	Complete bool

	ViolationCount int
	Violations     []Violation

	sequence uint64
	acked    uint64
}

// NextConnection prepares the model for a connection that resumes: what is held stays until the new gateway has sent its
// full set.
func (m *Model) NextConnection() {
	m.sequence, m.Ended = 0, nil
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
	switch e := env.Message.(type) {
	case *wire.ServerEnvelope_Welcome:
		return m.welcome(e.Welcome)
	case *wire.ServerEnvelope_Disconnected:
		m.Ended = e.Disconnected
	case *wire.ServerEnvelope_Result:
		m.result(e.Result)
	case *wire.ServerEnvelope_Manifest:
		m.manifest(e.Manifest)
	case *wire.ServerEnvelope_Chunk:
		m.Chunks[torus.ChunkPos{X: int32(e.Chunk.X), Y: int32(e.Chunk.Y)}] = e.Chunk.Revision
	case *wire.ServerEnvelope_Resync:
		m.Resyncs++
		m.expectFullSet()
	case *wire.ServerEnvelope_Batch:
		m.batch(e.Batch)
	}
	return nil
}

func (m *Model) welcome(w *wire.Welcome) error {
	g, err := torus.NewGrid(int(w.Columns), int(w.Rows), int(w.RegionEdgeChunks))
	if err != nil {
		return fmt.Errorf("reading Welcome: %w", err)
	}
	if w.Resumed && m.Welcome != nil && w.Entity != m.Welcome.Entity {
		m.violate(Lost, ecs.EntityID(w.Entity), "a resume gave another entity than %d", m.Welcome.Entity)
	}
	if !w.Resumed || m.Welcome == nil {
		m.Entities, m.Chunks, m.acked = map[ecs.EntityID]*Seen{}, map[torus.ChunkPos]uint32{}, w.NextInput-1
		m.Complete = true
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
	m.Results = append(m.Results, r)
}

func (m *Model) manifest(f *wire.ChunkManifest) {
	held := m.Chunks
	if f.Reset_ {
		m.Chunks = map[torus.ChunkPos]uint32{}
		m.Wanted = nil
	}
	for i := 0; i+1 < len(f.Added); i += 2 {
		c := torus.ChunkPos{X: int32(f.Added[i]), Y: int32(f.Added[i+1])}
		m.Wanted = append(m.Wanted, c)
		if rev, ok := held[c]; ok && f.Reset_ {
			m.Chunks[c] = rev
		}
	}
	for i := 0; i+1 < len(f.Removed); i += 2 {
		delete(m.Chunks, torus.ChunkPos{X: int32(f.Removed[i]), Y: int32(f.Removed[i+1])})
	}
}

func (m *Model) batch(b *wire.StateBatch) {
	if b.Sequence != m.sequence+1 {
		m.violate(Hole, 0, "batch %d came after %d", b.Sequence, m.sequence)
	}
	m.sequence, m.Tick = b.Sequence, b.Tick
	for _, u := range b.Updates {
		m.update(u)
	}
	if b.SetComplete {
		m.Complete = true
		for id, s := range m.Entities {
			if s.stale {
				delete(m.Entities, id)
			}
		}
	}
}

func (m *Model) update(u *wire.EntityUpdate) {
	id := ecs.EntityID(u.Entity)
	s := m.Entities[id]
	switch {
	case u.Vanish != wire.VanishReason_VANISH_REASON_UNSPECIFIED:
		m.vanish(id, s, u.Vanish)
		return
	case s == nil && !u.Appear:
		m.violate(Hole, id, "an update of an entity that is not in sight")
		return
	case s == nil:
		s = &Seen{ID: id, Since: m.Tick, Appeared: m.Tick}
		m.Entities[id] = s
	case u.Appear && !s.stale:
		m.violate(Double, id, "it appears and is in sight already")
	}
	jump := u.Reset_ || u.Appear
	s.stale = false
	for _, c := range u.Components {
		m.component(s, c, jump)
	}
	for _, e := range u.Events {
		if said := e.GetSaid(); said != nil {
			m.Heard = append(m.Heard, Said{id, said.Text, m.Tick})
		}
	}
}

func (m *Model) vanish(id ecs.EntityID, s *Seen, reason wire.VanishReason) {
	if s == nil {
		m.violate(Repeat, id, "it vanishes and is not in sight")
		return
	}
	if reason == wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT && s.placed && m.surrounded(m.At(s, m.Tick)) {
		m.violate(Blink, id, "it vanished at %v, and the client holds that chunk and all around it", m.At(s, m.Tick))
	}
	delete(m.Entities, id)
}

// surrounded reports whether the client holds the chunk of a position and the eight around it.
func (m *Model) surrounded(p torus.Pos) bool {
	c := m.Grid.ChunkOf(p)
	for dy := int32(-1); dy <= 1; dy++ {
		for dx := int32(-1); dx <= 1; dx++ {
			if _, held := m.Chunks[m.Grid.AddChunk(c, dx, dy)]; !held {
				return false
			}
		}
	}
	return true
}

func (m *Model) component(s *Seen, c *wire.ComponentUpdate, jump bool) {
	since := m.Tick - min(uint64(c.AgeTicks), m.Tick)
	switch v := c.Component.(type) {
	case *wire.ComponentUpdate_Position:
		m.position(s, v.Position, since, jump)
	case *wire.ComponentUpdate_Path:
		m.path(s, v.Path, since, jump)
	case *wire.ComponentUpdate_Visual:
		s.Name, s.Kind = v.Visual.Name, v.Visual.Kind
	case *wire.ComponentUpdate_Stamina:
		s.Stamina = v.Stamina
	}
}

func (m *Model) position(s *Seen, p *wire.Position, since uint64, jump bool) {
	at := torus.Pos{X: int64(p.X), Y: int64(p.Y), Z: int64(p.Z)}
	if s.placed && !jump {
		m.compare(s, at, since)
	}
	if since < s.Since {
		return // a later path is known already
	}
	w := s.Walk
	w.Ticks(m.Grid, int(since-s.Since))
	if m.Grid.Chebyshev(w.At, at) > 0 {
		w.At, w.Progress = at, 0
	}
	s.Walk, s.Since, s.placed = w, since, true
}

func (m *Model) path(s *Seen, p *wire.Path, since uint64, jump bool) {
	at := torus.Pos{X: int64(p.From.GetX()), Y: int64(p.From.GetY()), Z: int64(p.From.GetZ())}
	if s.placed && !jump {
		m.compare(s, at, since)
	}
	w := motion.Walk{At: at, Speed: int32(p.SpeedMmPerTick), Progress: int32(p.ProgressMm)}
	for i := 0; i+1 < len(p.Waypoints); i += 2 {
		w.Waypoints = append(w.Waypoints, torus.Pos{X: int64(p.Waypoints[i]), Y: int64(p.Waypoints[i+1]), Z: at.Z})
	}
	s.Walk, s.Since, s.placed = w, since, true
}

// compare holds what the owner says against where the path led.
func (m *Model) compare(s *Seen, at torus.Pos, since uint64) {
	predicted := m.At(s, since)
	if d := m.Grid.Chebyshev(predicted, at); d > Slack {
		m.violate(Teleport, s.ID, "it is at %v, its path leads to %v: %d m apart", at, predicted, d)
	}
}

func (m *Model) violate(kind ViolationKind, id ecs.EntityID, format string, args ...any) {
	m.ViolationCount++
	if len(m.Violations) < maxViolations {
		m.Violations = append(m.Violations, Violation{kind, m.Tick, id, fmt.Sprintf(format, args...)})
	}
}
