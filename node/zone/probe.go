package zone

import (
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/ghost"
)

// Point names a transition of one of the node's protocols. The engine reports each as it takes it, to Config.Probe: what
// tests count to know that they were everywhere, and where they let a node die.
type Point uint8

// Transitions, by protocol. What a point of the handoff means is told in package handoff.
const (
	HandoffOffered       Point = iota + 1 // source: frozen and offered
	HandoffUnanswered                     // source: the peer has not spoken for a second, so it is not frozen
	HandoffLocked                         // source: something of it is being settled with the store
	HandoffTurnedBack                     // source: it walked back into its overhang before it was frozen
	HandoffTeleported                     // source: offered with a place elsewhere
	HandoffReoffered                      // source: offered again to the same session
	HandoffPassedOn                       // source: offered to the region's next owner
	HandoffAccepted                       // source: evicted and signed off
	HandoffRefused                        // source: thawed, two epochs on
	HandoffTakenBack                      // source: the target region came to this node
	HandoffRehomed                        // source and target are this node
	HandoffDurable                        // source: the snapshot is dropped
	OfferTaken                            // target: created
	OfferKnown                            // target: taken before, accepted again
	OfferBurned                           // target: refused, the epoch is burned or old
	OfferNoRegion                         // target: refused, the region is not held or not recovered
	OfferLostSource                       // target: refused, the source has lost its region
	OfferLeft                             // target: not ready, and the offer has no other copy: no answer
	ClaimDurable                          // target: the record is ours
	ClaimBehind                           // target: the record is at an earlier transfer: claimed from there
	ClaimLost                             // target: the record is newer: the copy is dropped
	ClaimMissing                          // target or owner: the store has lost the record
	RecoveryBegan                         // heir
	RecoveryOutbid                        // heir: the store knows a newer region epoch, the lease is raised
	RecoveryLoaded                        // heir
	RecoveryAsked                         // heir: Claiming sent
	RecoveryAnswered                      // heir: an answer of a live session
	RecoveryExcused                       // heir: a session that was asked is dead or gone
	RecoverySkipped                       // heir: somebody has it
	RecoveryRevived                       // heir: claimed and created
	RecoveryBlocked                       // heir: over 5 s
	RecoveryActivated                     // heir
	RegionSurrendered                     // the region has another owner
	ClaimingAnswered                      // live session: told what it has
	SignOffSent                           // old owner
	SignOffApplied                        // observer
	SignOffHeld                           // observer: the new owner spoke first
	SignOffReleased                       // observer: what was held is applied
	SignOffExpired                        // observer: no sign-off within a second
	SignOffExcused                        // observer: the old owner is dead
	FrameStale                            // observer: of an older epoch
	FrameForeign                          // observer: of somebody who is not the owner
	SubscriptionAsked                     // observer
	SubscriptionAgain                     // observer: after a new stream
	SubscriptionUnknown                   // observer: news of what it does not have
	SubscriptionDone                      // observer: the mark came
	SubscriptionSwept                     // observer: what no snapshot confirmed is gone
	SubscriptionReleased                  // observer
	SubscriptionMoved                     // observer: the chunk has another holder
	SubscriptionBurst                     // owner: a snapshot sent
	SubscriptionWaits                     // owner: a snapshot waits for a recovery
	SubscriptionDropped                   // owner: the stream broke
	CallExecuted                          // owner
	CallRepeated                          // owner
	CallGap                               // owner
	CallWait                              // owner
	CallMoved                             // former owner
	CallNotHere                           // anybody
	CallForeign                           // owner: of an older session
	CallSent                              // gateway
	CallAnswered                          // gateway
	CommandExecuted                       // owner of the target entity
	CommandRepeated                       // owner of the target entity
	CommandGap                            // owner of the target entity
	CommandElsewhere                      // owner of the target entity: moved, frozen or not known
	CommandAnswered                       // owner of the sender
	CommandResent                         // owner of the sender
	LogBegun                              // owner: a fresh login numbers from 1
	LogContinued                          // owner: the same login attaches again
	LogForwarded                          // owner: results that the client knows are not executed again
	LogRefused                            // owner: an older login
	SessionClaimed                        // gateway
	SessionAttached                       // gateway
	SessionStale                          // gateway: the owner knows a newer session
	SessionDisplaced                      // gateway
	SessionResumed                        // gateway
	SessionOwnerLost                      // gateway
	SessionLost                           // owner: the resume window began
	SessionRested                         // owner: saved at rest
	SessionWoken                          // owner: back from its record
	SessionCreated                        // owner: a new master
	ItemTaken                             // source: it has left the items, and is out
	ItemPut                               // target: it is in
	ItemVoid                              // target: it is not taken in, and never will be
	ItemCleared                           // source: the target has it
	ItemReturned                          // source: back among its items
	ItemSearched                          // source: the target's record is asked
	ItemForgotten                         // target: the source is done with it
	ItemsAdopted                          // what the store has of a holder is other than what this node had
	MoveBegan                             // source: a region is to be moved, a stage is asked for
	MoveDraining                          // source: copied, nothing new begins in it
	MoveCut                               // source: frozen, all of it is sent
	MoveStaged                            // source: the Lease is written
	MoveCommitted                         // source: it is the other's
	MoveAborted                           // source: it goes on here
	StagePrepared                         // target
	StageCompleted                        // target: all of it is here
	StageActivated                        // target: it is this node's, from the stage
	StageDropped                          // target: it will not come this way
	points                                // their number
)

var pointNames = [points]string{
	HandoffOffered: "handoff offered", HandoffUnanswered: "handoff unanswered", HandoffLocked: "handoff locked",
	HandoffTurnedBack: "handoff turned back", HandoffTeleported: "handoff teleported", HandoffReoffered: "handoff re-offered",
	HandoffPassedOn: "handoff passed on", HandoffAccepted: "handoff accepted", HandoffRefused: "handoff refused",
	HandoffTakenBack: "handoff taken back", HandoffRehomed: "handoff rehomed", HandoffDurable: "handoff durable",
	OfferTaken: "offer taken", OfferKnown: "offer known", OfferBurned: "offer burned", OfferNoRegion: "offer without region",
	OfferLostSource: "offer of a lost source", OfferLeft: "offer left", ClaimDurable: "claim durable", ClaimBehind: "claim behind",
	ClaimLost: "claim lost", ClaimMissing: "claim missing", RecoveryBegan: "recovery began", RecoveryOutbid: "recovery outbid",
	RecoveryLoaded: "recovery loaded", RecoveryAsked: "recovery asked", RecoveryAnswered: "recovery answered",
	RecoveryExcused: "recovery excused", RecoverySkipped: "recovery skipped", RecoveryRevived: "recovery revived",
	RecoveryBlocked: "recovery blocked", RecoveryActivated: "recovery activated", RegionSurrendered: "region surrendered",
	ClaimingAnswered: "claiming answered", SignOffSent: "sign-off sent", SignOffApplied: "sign-off applied",
	SignOffHeld: "sign-off held", SignOffReleased: "sign-off released", SignOffExpired: "sign-off expired",
	SignOffExcused: "sign-off excused", FrameStale: "frame stale", FrameForeign: "frame foreign",
	SubscriptionAsked: "subscription asked", SubscriptionAgain: "subscription again", SubscriptionUnknown: "subscription unknown",
	SubscriptionDone: "subscription done", SubscriptionSwept: "subscription swept", SubscriptionReleased: "subscription released",
	SubscriptionMoved: "subscription moved", SubscriptionBurst: "subscription burst", SubscriptionWaits: "subscription waits",
	SubscriptionDropped: "subscription dropped", CallExecuted: "call executed", CallRepeated: "call repeated", CallGap: "call gap",
	CallWait: "call wait", CallMoved: "call moved", CallNotHere: "call not here", CallForeign: "call foreign", CallSent: "call sent",
	CallAnswered: "call answered", CommandExecuted: "command executed", CommandRepeated: "command repeated",
	CommandGap: "command gap", CommandElsewhere: "command elsewhere", CommandAnswered: "command answered",
	CommandResent: "command resent", LogBegun: "log begun", LogContinued: "log continued", LogForwarded: "log forwarded",
	LogRefused: "log refused", SessionClaimed: "session claimed", SessionAttached: "session attached", SessionStale: "session stale",
	SessionDisplaced: "session displaced", SessionResumed: "session resumed", SessionOwnerLost: "session owner lost",
	SessionLost: "session lost", SessionRested: "session rested", SessionWoken: "session woken", SessionCreated: "session created",
	ItemTaken: "item taken", ItemPut: "item put", ItemVoid: "item void", ItemCleared: "item cleared", ItemReturned: "item returned",
	MoveBegan: "move began", MoveDraining: "move draining", MoveCut: "move cut", MoveStaged: "move staged", MoveCommitted: "move committed",
	MoveAborted: "move aborted", StagePrepared: "stage prepared", StageCompleted: "stage completed", StageActivated: "stage activated",
	StageDropped: "stage dropped", ItemSearched: "item searched", ItemForgotten: "item forgotten", ItemsAdopted: "items adopted",
}

// String is the name by which traces and tests speak of a point.
func (p Point) String() string { return pointNames[p] }

// Points lists all of them in order.
func Points() []Point {
	all := make([]Point, 0, points-1)
	for p := Point(1); p < points; p++ {
		all = append(all, p)
	}
	return all
}

// Happened is one transition as it is reported.
type Happened struct {
	Point Point
	// Entity and Epoch that it is about, if it is about one. Peer is the other session, if there is one.
	Entity ecs.EntityID
	Epoch  Epoch
	Peer   string
	// Number of the call, of the sender Account (a client's) or Sender (an entity's).
	Number          uint64
	Account, Sender uint64
	// Region or chunk key, where the protocol is about that.
	Place uint64
}

// at reports a transition.
func (e *Engine) at(h Happened) {
	if e.cfg.Probe != nil {
		e.cfg.Probe(h)
	}
}

// atEntity reports a transition of one entity.
func (e *Engine) atEntity(p Point, id ecs.EntityID, epoch Epoch, peer string) {
	if e.cfg.Probe != nil {
		e.cfg.Probe(Happened{Point: p, Entity: id, Epoch: epoch, Peer: peer})
	}
}

// atRegion reports a transition of a region.
func (e *Engine) atRegion(p Point, region int, peer string) {
	if e.cfg.Probe != nil {
		e.cfg.Probe(Happened{Point: p, Place: uint64(region), Peer: peer})
	}
}

// ghostPoints are the transitions of the replica store.
var ghostPoints = map[ghost.Event]Point{
	ghost.SignedOff: SignOffApplied, ghost.HeldBack: SignOffHeld, ghost.Released: SignOffReleased, ghost.Expired: SignOffExpired,
	ghost.Adopted: SignOffExcused, ghost.WasStale: FrameStale, ghost.WasForeign: FrameForeign, ghost.Swept: SubscriptionSwept,
}
