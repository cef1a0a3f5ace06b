package client

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/torus"
)

func (m *Model) batch(b *wire.StateBatch) error {
	if b.Sequence != m.sequence+1 {
		m.violate(Hole, 0, "batch %d came after %d", b.Sequence, m.sequence)
	}
	m.sequence, m.Tick = b.Sequence, b.Tick
	for _, u := range b.Updates {
		if err := m.update(u); err != nil {
			return err
		}
	}
	clear(m.fresh)
	if b.SetComplete {
		m.Complete = true
		for id, s := range m.Entities {
			if s.stale {
				delete(m.Entities, id)
			}
		}
	}
	return nil
}

func (m *Model) update(u *wire.EntityUpdate) error {
	id := ecs.EntityID(u.Entity)
	s := m.Entities[id]
	switch {
	case u.Vanish != wire.VanishReason_VANISH_REASON_UNSPECIFIED:
		m.vanish(id, s, u.Vanish, u.Reset_)
		return nil
	case s == nil && !u.Appear:
		m.violate(Hole, id, "an update of an entity that is not in sight")
		return nil
	case s == nil && len(m.Entities) >= maxEntities:
		return fmt.Errorf("reading a server message: more than %d entities", maxEntities)
	case s == nil:
		s = &Seen{ID: id, Appeared: m.Tick}
		m.Entities[id] = s
	case u.Appear && !s.stale:
		m.violate(Double, id, "it appears and is in sight already")
	}
	if u.Appear { // nothing of before counts; the tick may be another gateway's
		s.Walk, s.Since, s.Dated, s.placed = motion.Walk{}, 0, 0, false
	}
	if u.Reset_ || s.stale {
		s.Marks++
	}
	if u.Reset_ {
		s.Resets++
	}
	s.stale, s.Updated = false, m.Tick
	jump := u.Reset_ || u.Appear
	slices.SortStableFunc(u.Components, func(a, b *wire.ComponentUpdate) int { return cmp.Compare(b.AgeTicks, a.AgeTicks) }) // as it happened
	for _, c := range u.Components {
		m.component(s, c, jump)
	}
	if u.Appear && !s.placed {
		m.violate(Hole, id, "it appears without a position")
	}
	if len(u.Events) > 0 && !u.Reset_ { // an event has no age, but without a mark it is on time
		s.Dated = m.Tick
	}
	for _, e := range u.Events {
		if said := e.GetSaid(); said != nil {
			m.Heard = keep(m.Heard, Said{id, said.Text, m.Tick, s.Appeared, s.Marks})
		}
	}
	return nil
}

// vanish takes an entity out of sight. One that jumped may be out of sight wherever it was seen last.
func (m *Model) vanish(id ecs.EntityID, s *Seen, reason wire.VanishReason, jumped bool) {
	if s == nil {
		m.violate(Repeat, id, "it vanishes and is not in sight")
		return
	}
	v := Vanish{Entity: id, Reason: reason, Tick: m.Tick}
	if s.placed {
		v.At = m.At(s, m.Tick)
		v.Surrounded = !jumped && m.Surrounded(v.At)
	}
	if reason == wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT && !m.Complete { // its chunk may come later: the full set decides
		s.stale = true
		return
	}
	if reason == wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT && v.Surrounded {
		m.violate(Blink, id, "it vanished at %v, and the client holds that chunk and all around it", v.At)
	}
	m.Vanished = keep(m.Vanished, v)
	delete(m.Entities, id)
}

// Surrounded reports whether the client holds the chunk of a position and the eight around it, and did so before the batch
// that it reads: an entity there may be neither out of sight nor indexed in a chunk that is.
func (m *Model) Surrounded(p torus.Pos) bool {
	c := m.Grid.ChunkOf(p)
	for dy := int32(-1); dy <= 1; dy++ {
		for dx := int32(-1); dx <= 1; dx++ {
			near := m.Grid.AddChunk(c, dx, dy)
			if _, held := m.Chunks[near]; !held || m.fresh[near] {
				return false
			}
		}
	}
	return true
}

func (m *Model) component(s *Seen, c *wire.ComponentUpdate, jump bool) {
	since := m.Tick - min(uint64(c.AgeTicks), m.Tick)
	switch c.Component.(type) {
	case *wire.ComponentUpdate_Stamina, *wire.ComponentUpdate_Inventory:
	default:
		s.Dated = max(s.Dated, since)
	}
	switch v := c.Component.(type) {
	case *wire.ComponentUpdate_Position:
		m.position(s, v.Position, since, jump)
	case *wire.ComponentUpdate_Path:
		m.path(s, v.Path, since, jump)
	case *wire.ComponentUpdate_Visual:
		s.Name, s.Kind = v.Visual.Name, v.Visual.Kind
	case *wire.ComponentUpdate_Stamina:
		s.Stamina = v.Stamina
	case *wire.ComponentUpdate_Item:
		s.Item = v.Item
	case *wire.ComponentUpdate_Inventory:
		s.Inventory = v.Inventory.Items
		s.InventoryTold++
	}
}

func (m *Model) position(s *Seen, p *wire.Position, since uint64, jump bool) {
	at := m.Grid.Wrap(torus.Pos{X: int64(p.X), Y: int64(p.Y), Z: int64(p.Z)})
	if s.placed && !jump {
		m.compare(s, at, since)
	}
	if s.placed && since < s.Since {
		return // a later path is known already
	}
	w := s.Walk
	if s.placed {
		w.Ticks(m.Grid, int(min(since-s.Since, 100_000)))
	}
	if m.Grid.Chebyshev(w.At, at) > 0 {
		w.At, w.Progress = at, 0
	}
	s.Walk, s.Since, s.placed = w, since, true
}

func (m *Model) path(s *Seen, p *wire.Path, since uint64, jump bool) {
	at := m.Grid.Wrap(torus.Pos{X: int64(p.From.GetX()), Y: int64(p.From.GetY()), Z: int64(p.From.GetZ())})
	if s.placed && !jump {
		m.compare(s, at, since)
	}
	w := motion.Walk{At: at, Speed: int32(min(p.SpeedMmPerTick, motion.MaxSpeed)), Progress: int32(min(p.ProgressMm, 4*motion.MaxSpeed))}
	for i := 0; i+1 < len(p.Waypoints) && len(w.Waypoints) < motion.MaxWaypoints; i += 2 {
		w.Waypoints = append(w.Waypoints, m.Grid.Wrap(torus.Pos{X: int64(p.Waypoints[i]), Y: int64(p.Waypoints[i+1]), Z: at.Z}))
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
