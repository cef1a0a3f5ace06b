package zone

import (
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/ghost"
	"github.com/spatialcells/spatialcells/node/handoff"
	"github.com/spatialcells/spatialcells/node/partition"
)

// What comes of a move at the node that has the region: what the other node answers, and what the Lease says in the end.

// moveAnswered goes on when the other node has what it was sent.
func (s *sim) moveAnswered(from string, a *wire.MoveAnswer) {
	if int64(a.Region) >= int64(len(s.regions)) {
		s.stats.Malformed++
		return
	}
	r := s.regions[a.Region]
	if r == nil || r.move == nil || r.move.stage != a.Stage || r.move.to != from {
		return
	}
	if r.move.phase == moveCommitting {
		if a.Code == wire.MoveAnswer_CODE_ACTIVATED {
			s.foresee(r, a.RegionEpoch)
		}
		return
	}
	m := r.move
	s.partsTaken(m, a.Received)
	switch {
	case a.Code == wire.MoveAnswer_CODE_REFUSED:
		s.abortMove(r, "the other node refuses: "+a.Reason)
	case a.Code == wire.MoveAnswer_CODE_STAGED && m.phase == moveCut && m.parts.open() == 0:
		m.enter(moveCommitting, s.tick)
		s.atRegion(MoveStaged, r.index, from)
		s.out.Commits = append(s.out.Commits, CommitRequest{Region: r.index, Epoch: r.epoch, To: m.to, Stage: m.stage})
	case m.phase == movePreparing:
		m.enter(moveCopying, s.tick)
	}
}

// commitAnswered takes the region up again if it stays here. If not, the table tells.
func (s *sim) commitAnswered(a CommitAnswer) {
	if r := s.regions[a.Region]; a.Kept && r != nil && r.move != nil && r.move.stage == a.Stage {
		s.abortMove(r, "the lease could not be handed over: "+a.Reason)
	}
}

// abortMove takes the region up again where it stands.
func (s *sim) abortMove(r *region, reason string) {
	m := r.move
	r.move, r.moveAfter = nil, s.tick+moveBackOffTicks
	s.stats.MovesAborted++
	s.atRegion(MoveAborted, r.index, m.to)
	s.note("region %v does not move to %s: %s", s.grid.RegionAt(r.index), m.to, reason)
	s.send(m.to, &wire.PeerMessage{Message: &wire.PeerMessage_MoveDrop{MoveDrop: &wire.MoveDrop{Region: uint32(r.index), Stage: m.stage}}})
	for _, id := range m.frozen {
		if s.world.Alive(id) {
			s.world.Frozen.Remove(id)
			s.thawed(id, m.cutTick)
		}
	}
}

// movedAway: the Lease names the other node, with this stage. What was here is there.
func (s *sim) movedAway(r *region, epoch uint64) {
	m := r.move
	at := s.grid.RegionAt(r.index)
	s.stats.MovesOut++
	s.stats.phase(PhaseCut, s.boot-m.frozenAt)
	s.atRegion(MoveCommitted, r.index, m.to)
	s.note("region %v is with %s at epoch %d: %d entities, it stood for %v, the move took %v", at, m.to, epoch, len(m.frozen),
		(s.boot - m.frozenAt).Round(time.Millisecond), time.Duration(s.tick-m.began)*TickDuration)
	added := s.observeAgain(m)
	for _, id := range m.frozen {
		if s.world.Alive(id) {
			s.gaveAway(id, r, epoch)
		}
	}
	for _, b := range added {
		s.nodes.Remove(b.to, b.chunk)
	}
	r.move, s.regions[r.index] = nil, nil
}

// foresee: the new owner of a region has seen the Lease, which may take long to be shown here.
func (s *sim) foresee(r *region, epoch uint64) {
	row := partition.Row{Owner: partition.Owner{Session: r.move.to, Node: r.move.node, Epoch: epoch}, Target: r.move.node, Stage: r.move.stage}
	s.stages.foreseen[r.index] = row
	s.setTable(s.table.With(partition.Change{Region: r.index, Row: row}))
}

// ahead is a table with what is known already and the table does not show yet.
func (s *sim) ahead(t *partition.Table) *partition.Table {
	var changes []partition.Change
	for index, row := range s.stages.foreseen {
		if t.At(index).Epoch >= row.Epoch {
			delete(s.stages.foreseen, index)
			continue
		}
		changes = append(changes, partition.Change{Region: index, Row: row})
	}
	return t.With(changes...)
}

// observeAgain lets those who observed the region at the cut hear of its end here, also where they have asked its new owner
// already. It returns what is to be taken back.
func (s *sim) observeAgain(m *move) []burst {
	var added []burst
	for _, o := range m.observers {
		for _, chunk := range o.Chunks {
			if p := s.peers[o.Session]; p != nil && p.up && !s.nodes.Has(o.Session, chunk) {
				s.nodes.Add(o.Session, chunk)
				added = append(added, burst{o.Session, chunk})
			}
		}
	}
	return added
}

// gaveAway makes a frozen entity what it is after an accepted handoff.
func (s *sim) gaveAway(id ecs.EntityID, r *region, epoch uint64) {
	m, a := r.move, s.authority.Get(id)
	if s.game.Lies.Has(id) {
		s.broadcastFrame(id, &ghost.Frame{
			Entity: id, Kind: wire.EntityFrame_KIND_TRANSFERRED, Epoch: ecs.Epoch{Recoveries: uint32(epoch)}, Chunk: a.chunk, Home: uint32(r.index), To: m.to,
		})
		s.evict(id)
		return
	}
	o := &handoff.Outgoing{
		Entity: id, Epoch: a.epoch.Transferred(1), Region: r.index, Target: m.to, Chunk: a.chunk, Accepted: true,
		FrozenAt: m.frozenAt, AcceptedAt: s.boot, Offer: &wire.Offer{
			Entity: uint64(id), Expect: wireEpoch(a.epoch), SourceRegion: uint32(r.index), SourceRegionEpoch: r.epoch, TargetRegion: uint32(r.index),
			Components: m.has[id].GetComponents(),
		},
	}
	if s.durableEntity(id) {
		s.outgoing.Begin(s.tick, o)
	}
	o.FrozenTick = m.cutTick
	s.signOff(m.to, id, a, o)
	s.atEntity(HandoffAccepted, id, o.Epoch, m.to)
	s.evict(id)
}
