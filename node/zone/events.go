package zone

import (
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Inbox is what happened since the last step. The engine reads it and keeps no reference to its slices; byte slices
// inside events belong to the engine from then on.
type Inbox struct {
	// Boot is the reading of CLOCK_BOOTTIME at the start of the step.
	Boot time.Duration
	// Deadline is the fence: the engine makes no step at or after it.
	Deadline time.Duration
	// WallMillis is Unix time in milliseconds; it is used for new entity ids only.
	WallMillis int64
	// Stopping: the process was asked to end. Players are told to reconnect elsewhere, and everything is saved at once.
	Stopping bool
	// Table replaces the region table when not nil.
	Table *partition.Table
	// Peers are changes of links and sessions, in order. They are handled before messages.
	Peers []PeerEvent
	// Replication and Reliable hold what peers sent, in order per peer.
	Replication []PeerBytes
	Reliable    []PeerBytes
	Clients     []ClientEvent
	Store       []StoreAnswer
	Chunks      []ChunkAnswer
	// Commits are outcomes of Outbox.Commits. One that took effect is in a table, too, which decides.
	Commits []CommitAnswer
	// Renewal is how long the last renewal of the session took: the API server's answer time.
	Renewal time.Duration
}

// PeerEvent is a change of the link to a session, or of a session itself.
type PeerEvent struct {
	Session string
	Kind    PeerEventKind
}

// PeerEventKind says what happened to a peer.
type PeerEventKind uint8

const (
	// PeerUp: the link is connected, both streams are new (replication) or resumed (reliable).
	PeerUp PeerEventKind = iota + 1
	// PeerDown: the link broke; the session may still live. All replication of it is void, reliable is kept.
	PeerDown
	// PeerDead: the session is revoked or has a successor. Nothing of it counts any more.
	PeerDead
)

// PeerBytes is an encoded wire.ReplicationBatch (replication) or wire.PeerMessage (reliable).
type PeerBytes struct {
	// Session is the sender in an Inbox and the receiver in an Outbox.
	Session string
	Bytes   []byte
	// At is the boot-time clock when the bytes arrived: what waits for a step grows older meanwhile.
	At time.Duration
}

// ConnID names one client connection of this process; never reused.
type ConnID uint64

// ClientEvent is something a client connection did. Exactly one of Connected, Message and Closed is set.
type ClientEvent struct {
	Conn ConnID
	// Connected: the socket is authenticated.
	Connected *ClientConnected
	// Message is a decoded, size-checked, rate-limited message after authentication: Input, ChunkRequest or Logout
	// (the driver answers Ping itself).
	Message *wire.ClientEnvelope
	// Closed: the socket is gone, whoever closed it.
	Closed bool
}

// ClientConnected is an authenticated connection.
type ClientConnected struct {
	Account uint64
	Name    string
	// Resume is the resume token that the client showed, or empty.
	Resume string
	Held   []*wire.HeldChunk
	// AckedInput is the highest input number whose result a resuming client knows.
	AckedInput uint64
	// SentInput is the highest input number that a resuming client has sent before.
	SentInput uint64
	// Spawn is where a new master appears, from the token; nil: the engine chooses by account.
	Spawn *torus.Pos
	// FreshSecret is random, made by the driver: the resume token of this connection when it becomes a fresh login.
	FreshSecret string
}

// Outbox is what a step asks for. Its slices and their bytes are the receiver's.
type Outbox struct {
	// Replication holds at most one batch per peer session.
	Replication []PeerBytes
	Reliable    []PeerBytes
	// Clients holds at most one write per connection: length-delimited ServerEnvelopes.
	Clients []ClientBytes
	// Close asks for connections to be closed after what was written before.
	Close  []ClientClose
	Store  []StoreRequest
	Chunks []ChunkRequest
	// Raise asks for the epochs of region Leases held here to be raised: the store knows a fence as high.
	Raise []RaiseRequest
	// Commits asks for the Leases of regions that are frozen here, and staged elsewhere, to be handed over.
	Commits []CommitRequest
	// Notes are lines for the log: one per thing that happened to a person or a region.
	Notes []string
}

// MayGo reports whether a step's outcome may be handed to the drivers at a reading of CLOCK_BOOTTIME: its session must
// still be allowed to act, whatever it was when the step began. An outcome that may not go is held until the same session
// is renewed; it is never thrown away while the session lives. Each driver compares again right before it writes.
func (o *Outbox) MayGo(boot, deadline time.Duration) bool { return o != nil && boot < deadline }

// ClientBytes is one write to a connection.
type ClientBytes struct {
	Conn  ConnID
	Bytes []byte
}

// ClientClose asks for the end of a connection; the client is told why.
type ClientClose struct {
	Conn   ConnID
	Reason wire.Disconnected_Reason
	Detail string
}

// RaiseRequest asks for the epoch of a region's Lease to be raised to AtLeast.
type RaiseRequest struct {
	Region  int
	AtLeast uint64
}

// CommitRequest asks for the Lease of a region to be handed over: holder To, epoch Epoch + 1, stage Stage. It is answered once, when
// the outcome is known for good: an unknown one is settled by a write that names this session again.
type CommitRequest struct {
	Region int
	Epoch  uint64
	To     string
	Stage  string
}

// CommitAnswer is what became of a CommitRequest. Kept: this session has the region still, at that epoch, and no write that says
// otherwise can take effect any more; Reason says why. If not, the table says whose it is, or will.
type CommitAnswer struct {
	Region int
	Stage  string
	Kept   bool
	Reason string
}

// ChunkRequest asks the terrain driver for the encoded payload of a chunk.
type ChunkRequest struct {
	Chunk torus.ChunkPos
}

// ChunkAnswer is the payload, shared and immutable.
type ChunkAnswer struct {
	Chunk    torus.ChunkPos
	Revision uint32
	Encoding wire.ChunkData_Encoding
	Payload  []byte
}

// Epoch of an entity.
type Epoch = ecs.Epoch

// Record is a durable entity as the store keeps it, under its own key.
type Record struct {
	Entity  ecs.EntityID
	Epoch   Epoch
	Home    torus.RegionPos
	Account uint64 // 0: none
	// Resting: the player logged out; the record is complete and no node simulates it.
	Resting bool
	// Blob is an encoded wire.Snapshot.
	Blob []byte
	// Contents are its items. Only StoreCreate and StoreWrite change them.
	Contents Contents
}

// StoreOp is one operation on the store. Every operation is idempotent: it may be repeated until it is answered, and a
// repeat of an operation that took effect answers as the first time.
type StoreOp uint8

const (
	// StoreClaimSession raises the session epoch of Account and names Session as its gateway. If Resume equals the secret
	// of the current login, the login goes on (LoginEpoch stays); else a fresh login begins with FreshSecret.
	// Answer: SessionEpoch, LoginEpoch, Resumed, PreviousGateway, and the account's master: Record (Blob left out) or nil.
	StoreClaimSession StoreOp = iota + 1
	// StoreCreate stores a new Record; if its account has a master already it changes nothing and answers Conflict with
	// that Record.
	StoreCreate
	// StoreClaim sets epoch, home and resting=false of a record if its epoch equals Expect (or is already Record.Epoch with
	// the same home: a repeat). Answer: OK with the full Record, or Conflict with the Record as it is, or Missing.
	StoreClaim
	// StoreSave replaces blob and resting of a record if its epoch equals Record.Epoch. Answer: OK, Conflict or Missing.
	StoreSave
	// StoreLoadRegion raises the fence of Region to RegionEpoch (refused with Conflict and the stored one if that is higher) and
	// answers Records: all of that home that do not rest, and Contents: those of its ground.
	StoreLoadRegion
	// StoreLoad answers the Record of Entity, or Missing.
	StoreLoad
	// StoreWrite carries out Change on the contents of Holder, if its record has exactly the epoch Expect (an entity) or the
	// region's fence is exactly RegionEpoch (the ground), and Moves writes were made before. Moves rises by one. A repeat is
	// known by Write and answers OK. Conflict answers Record (an entity, with its contents, without Blob) or RegionEpoch and
	// Contents (the ground) as they are. Missing: there is no such record. Whoever writes twice to a
	// holder waits for the first answer.
	StoreWrite
	// StorePeek answers the Contents of Holder, whoever has it: of a record, or of the ground (with RegionEpoch: its fence).
	// Missing: there is no such record.
	StorePeek
)

// StoreRequest asks the store for one operation.
type StoreRequest struct {
	// ID names the request in its answer.
	ID uint64
	Op StoreOp

	Account     uint64
	Session     string // gateway session
	Resume      string
	FreshSecret string

	Record Record
	Expect Epoch

	Region      torus.RegionPos
	RegionEpoch uint64

	Entity ecs.EntityID

	// StoreWrite and StorePeek.
	Holder Holder
	Moves  uint64
	Change *Change
	// Write names a write over all its tries; never 0, never used twice for a holder.
	Write uint64
}

// StoreCode is the outcome of a request.
type StoreCode uint8

const (
	// StoreOK: done (now or by an earlier try).
	StoreOK StoreCode = iota + 1
	// StoreConflict: refused, the stored state is another one.
	StoreConflict
	// StoreMissing: there is no such record.
	StoreMissing
	// StoreUnavailable: not known to be done; ask again.
	StoreUnavailable
	// StoreUnfit: the record is of a world of another shape. No store says so: the engine makes it of an answer whose record
	// it must not act on, nor overwrite, nor take for missing.
	StoreUnfit
)

// StoreAnswer answers one request.
type StoreAnswer struct {
	ID   uint64
	Op   StoreOp
	Code StoreCode

	SessionEpoch    uint64
	LoginEpoch      uint64
	Resumed         bool
	PreviousGateway string
	// ResumeSecret is the secret of the login that is current now.
	ResumeSecret string

	Record  *Record
	Records []Record
	// RegionEpoch is the fence that refused a StoreLoadRegion or a StoreWrite, or that a StorePeek found.
	RegionEpoch uint64
	// Contents of a ground, or what StorePeek found.
	Contents *Contents
}
