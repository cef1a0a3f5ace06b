package zone

import (
	"fmt"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/torus"
)

// durableEntity reports whether the store has a record of an entity of this kind: masters and bestias.
func (s *sim) durableEntity(id ecs.EntityID) bool {
	return s.game.Account.Has(id) || s.game.Bestia.Has(id)
}

// recall brings a durable entity back from its record that is commanded, is at home here, does not rest, and that nobody
// can be bringing. A master is woken by its player's attach; a bestia has nobody but its master to ask for it.
func (s *sim) recall(id ecs.EntityID, index int) {
	r := s.regions[index]
	if r == nil || !r.active || r.closing() || r.waking[id] || s.outgoing.Get(id) != nil { // what is kept until it is durable is the newer copy
		return
	}
	r.waking[id] = true
	s.store(StoreRequest{Op: StoreLoad, Entity: id}, func(a StoreAnswer) {
		delete(r.waking, id)
		if a.Record == nil || a.Record.Resting || s.grid.RegionIndex(a.Record.Home) != index || !s.acts(r) || s.world.Alive(id) ||
			s.outgoing.Get(id) != nil || !r.overdue(id, s.tick) {
			return
		}
		delete(r.missed, id)
		s.claimMissed(r, *a.Record)
	})
}

// acts reports whether a region is still the one that this node holds and has recovered.
func (s *sim) acts(r *region) bool { return s.regions[r.index] == r && r.active }

func (s *sim) claimMissed(r *region, rec Record) {
	r.waking[rec.Entity] = true
	next := Record{Entity: rec.Entity, Epoch: rec.Epoch.Recovered(), Home: rec.Home}
	s.store(StoreRequest{Op: StoreClaim, Record: next, Expect: rec.Epoch}, func(a StoreAnswer) {
		delete(r.waking, rec.Entity)
		if a.Code == StoreOK && a.Record != nil && s.acts(r) && !s.world.Alive(rec.Entity) && s.revive(*a.Record, true) {
			s.note("entity %v was nowhere and is back from its record", rec.Entity)
			s.orphan(rec.Entity)
		}
	})
}

// MasterRecord composes the record of a master at rest, for tools and tests that stock a store. The error is an id of 0 or
// a team that is too large.
func MasterRecord(g torus.Grid, id ecs.EntityID, account uint64, name string, at torus.Pos, team ...game.Member) (Record, error) {
	if len(team) > game.MaxTeam {
		return Record{}, fmt.Errorf("composing the record of master %v: a team of %d bestias, at most %d", id, len(team), game.MaxTeam)
	}
	return composeRecord(g, id, at, true, func(c *game.Game) {
		c.SpawnMaster(id, account, name, at)
		if len(team) > 0 {
			c.Team.Set(id, game.Team{Members: team})
		}
	})
}

// BestiaRecord composes the record of a bestia in the world. The error is an id of 0.
func BestiaRecord(g torus.Grid, id, master ecs.EntityID, account uint64, name string, at torus.Pos) (Record, error) {
	return composeRecord(g, id, at, false, func(c *game.Game) { c.SpawnBestia(id, master, account, name, at) })
}

// composeRecord makes an entity in an engine of its own, only to encode it.
func composeRecord(g torus.Grid, id ecs.EntityID, at torus.Pos, resting bool, spawn func(*game.Game)) (Record, error) {
	e, err := New(Config{Grid: g, Session: "records#0", Node: "records"})
	if err == nil {
		err = e.sim.world.Create(id)
	}
	if err != nil {
		return Record{}, fmt.Errorf("composing the record of entity %v: %w", id, err)
	}
	spawn(e.sim.game)
	e.sim.authority.Set(id, authority{home: g.RegionOf(at)})
	return e.sim.record(id, resting), nil
}
