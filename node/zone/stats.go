package zone

import (
	"time"

	"github.com/spatialcells/spatialcells/node/torus"
)

// Stats count what an engine did since it was born. Gauges are set when they are read.
type Stats struct {
	// Gauges.
	Entities, Players, Clients, Replicas, Regions, RegionsRecovering, Outgoing, CommandsOpen int

	// Fence.
	FencedSteps, TicksDropped, Panics uint64

	// Links.
	FromDead, ToNobody, Malformed, FramesIn, FramesOut, ReplicationBytes uint64
	Encoded                                                              uint64 // entity updates encoded, each once for all its observers
	Spliced                                                              uint64 // times an encoded update was copied for a peer or a client

	// Handoff, counted at the source when the target accepted.
	Handoffs, HandoffsReceived, HandoffsLocal, HandoffsRefused, HandoffsReoffered, HandoffConflicts uint64
	// Crossings among Handoffs and HandoffsLocal.
	CrossedSeamX, CrossedSeamY, CrossedCorner uint64
	// Phases are histograms of the phases of a handoff, see Phase. Buckets of GapBucket, the last is all above.
	Phases [phases][GapBuckets]uint64

	// Regions that moved away from here, came here, and did not move after all.
	MovesOut, MovesIn, MovesAborted uint64

	// Calls.
	CallsDone, CallsRepeated, CallsGap, CallsWait, CallsMoved, CallsNotHere, CallsForeign uint64

	// Commands, of senders here: CommandsRefused were too many, CommandsGivenUp had nobody to go to.
	CommandsMade, CommandsRefused, CommandsResent, CommandsAnswered, CommandsGivenUp uint64
	// ItemWrites were sent to the store, ItemConflicts of them refused because it had other news. Movements came to their
	// targets, MovementsRefused back to their sources.
	ItemWrites, ItemConflicts, Movements, MovementsRefused uint64
	// ItemsOpen are movements that are not ended and writes that are not answered, now.
	ItemsOpen int

	// Commands, to targets here or asked for here. CommandsDone counts executions.
	CommandsDone, CommandsRepeated, CommandsGap, CommandsBusy, CommandsElsewhere uint64

	// Accounts.
	AskedAgain, Logins, Resumes, Displaced, RoutedLocal, RoutedRemote, RoutedNowhere uint64

	// Replicas, see package ghost.
	ReplicaStale, ReplicaForeign, ReplicaHeld, ReplicaExpired, ReplicaMalformed, ReplicaOverflow uint64

	// Store.
	StoreRetries, Saves, SaveConflicts, Recovered uint64
}

const (
	// GapBucket is the width of a bucket of Stats.Phases.
	GapBucket = 5 * time.Millisecond
	// GapBuckets is their number: 5 ms to 1 s, and one for all above.
	GapBuckets = 201
)

// Phase of a handoff, or of the move of a region.
type Phase int

const (
	// PhaseGap is how long nobody simulated an entity: from its freeze to the arrival of Accept at the source, an upper bound.
	PhaseGap Phase = iota
	// PhaseClaim is from the creation at the target until the store has the entity as the target's.
	PhaseClaim
	// PhaseDurable is from Accept at the source until its snapshot is dropped.
	PhaseDurable
	// PhaseCut is how long a region stood still that moved away: from its freeze until the table named its new owner.
	PhaseCut
	// PhaseRecovery is how long the recovery of a region took that has anything in it: from its beginning until the region is active.
	PhaseRecovery
	phases
)

var phaseNames = [phases]string{PhaseGap: "gap", PhaseClaim: "claim", PhaseDurable: "durable", PhaseCut: "cut", PhaseRecovery: "recovery"}

// String names the phase in metrics.
func (p Phase) String() string { return phaseNames[p] }

// Phases lists them.
func Phases() []Phase { return []Phase{PhaseGap, PhaseClaim, PhaseDurable, PhaseCut, PhaseRecovery} }

func (s *Stats) phase(p Phase, d time.Duration) {
	s.Phases[p][min(max(int(d/GapBucket), 0), GapBuckets-1)]++
}

// Stats returns the counters and gauges as they are.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.Entities, s.Replicas, s.Clients = e.sim.world.Len(), e.gate.replicas.Len(), len(e.gate.sessions)
	s.Players = e.sim.players()
	s.Outgoing = len(e.sim.outgoing.All())
	s.CommandsOpen, s.ItemsOpen = e.sim.openCommands(), e.sim.openItems()
	s.Regions, s.RegionsRecovering = e.sim.regionCounts()
	c := e.gate.replicas.Counters
	s.ReplicaStale, s.ReplicaForeign, s.ReplicaHeld = c.Stale, c.ForeignOwner, c.Held
	s.ReplicaExpired, s.ReplicaMalformed, s.ReplicaOverflow = c.HoldExpired, c.Malformed, c.Overflow
	return s
}

// RegionLoad is what a region costs its holder.
type RegionLoad struct {
	Region   int
	Epoch    uint64
	Active   bool
	Entities int
	Players  int
}

// Regions lists the regions this node holds, by index, for /load.
func (e *Engine) Regions() []RegionLoad { return e.sim.loads() }

func (s *sim) countCrossing(from, to torus.RegionPos) {
	dc, dr := abs32(to.Column-from.Column), abs32(to.Row-from.Row)
	if dc > 1 && int(dc) == s.grid.Columns()-1 {
		s.stats.CrossedSeamX++
	}
	if dr > 1 && int(dr) == s.grid.Rows()-1 {
		s.stats.CrossedSeamY++
	}
	if dc != 0 && dr != 0 && s.fourNodes(from, to) {
		s.stats.CrossedCorner++
	}
}

// fourNodes reports whether the four regions around the corner between two diagonal neighbours have four holders.
func (s *sim) fourNodes(a, b torus.RegionPos) bool {
	holders := map[string]bool{}
	for _, r := range [...]torus.RegionPos{a, b, {Column: a.Column, Row: b.Row}, {Column: b.Column, Row: a.Row}} {
		if h := s.table.Holder(r).Session; h != "" {
			holders[h] = true
		}
	}
	return len(holders) == 4
}

func abs32(v int32) int32 { return max(v, -v) }
