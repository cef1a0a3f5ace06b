package zone

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
)

// The parts of a stage: how what a move has to send becomes messages that a link takes, and what becomes of those that it did not.

const (
	// movePartEntities and movePartBytes bound a part: a reliable message may have 1 MiB, and others wait behind it. One thing that
	// is larger goes alone.
	movePartEntities, movePartBytes = 64, 256 << 10
	// movedChunks is how many chunks of an observer go together, in at most 5 bytes each.
	movedChunks = 16 << 10
	// moveWindow is how many parts of a move may be unanswered.
	moveWindow = 16
	// partsAgainTicks is after how long parts are sent again of which none was taken: half a second. They, or their answers, were
	// refused by a link that was full.
	partsAgainTicks = TicksPerSecond / 2
)

// parts are the messages of a move, numbered from 1. They are kept until they are taken.
type parts struct {
	made, sent, taken uint32
	kept              []*wire.MovePart // those after taken
	progress          int64            // the tick at which one was taken last, or none was open
}

// open is how many are not taken.
func (p *parts) open() uint32 { return p.made - p.taken }

func (s *sim) addPart(r *region, part *wire.MovePart) {
	p := &r.move.parts
	p.made++
	part.Region, part.Stage, part.Number = uint32(r.index), r.move.stage, p.made
	p.kept = append(p.kept, part)
	s.sendParts(r.move)
}

// sendParts sends what the window allows.
func (s *sim) sendParts(m *move) {
	for p := &m.parts; p.sent < p.made && p.sent-p.taken < moveWindow; p.sent++ {
		s.send(m.to, &wire.PeerMessage{Message: &wire.PeerMessage_MovePart{MovePart: p.kept[p.sent-p.taken]}})
	}
}

// partsTaken: the stage has them up to a number.
func (s *sim) partsTaken(m *move, received uint32) {
	p := &m.parts
	received = min(received, p.made)
	if received <= p.taken {
		return
	}
	p.kept = p.kept[received-p.taken:]
	p.taken, p.sent, p.progress = received, max(p.sent, received), s.tick
	s.sendParts(m)
}

// sendPartsAgain sends from the first on that is not taken, if none is for a while. A stage takes each once.
func (s *sim) sendPartsAgain(m *move) {
	p := &m.parts
	if p.open() == 0 {
		p.progress = s.tick
	}
	if waited := s.tick - p.progress; waited > 0 && waited%partsAgainTicks == 0 {
		p.sent = p.taken
		s.sendParts(m)
	}
}

// packing fills parts.
type packing struct {
	s    *sim
	r    *region
	move *move
	part *wire.MovePart
	size int
}

func (s *sim) pack(r *region) *packing {
	return &packing{s: s, r: r, move: r.move, part: &wire.MovePart{}}
}

// room returns the part that a thing of so many bytes goes to.
func (p *packing) room(size int) *wire.MovePart {
	const frame = 8 // tag and length
	if p.size+size+frame > movePartBytes || len(p.part.Entities) == movePartEntities {
		p.flush()
	}
	p.size += size + frame
	return p.part
}

func (p *packing) flush() {
	if p.size > 0 {
		p.s.addPart(p.r, p.part)
		p.part, p.size = &wire.MovePart{}, 0
	}
}

// close sends the last part.
func (p *packing) close(cut *wire.MoveCut) {
	p.part.Cut = cut
	p.s.addPart(p.r, p.part)
}

func (p *packing) entity(e *wire.MovedEntity) {
	part := p.room(proto.Size(e))
	part.Entities = append(part.Entities, e)
}

func (p *packing) left(id ecs.EntityID) {
	part := p.room(0)
	part.Left = append(part.Left, uint64(id))
}

func (p *packing) item(m *wire.MovedItem) {
	part := p.room(proto.Size(m))
	part.Ground = append(part.Ground, m)
}

func (p *packing) result(m *wire.MovedResult) {
	part := p.room(proto.Size(m))
	part.Results = append(part.Results, m)
}

func (p *packing) observer(o *wire.MovedObserver) {
	for chunks := range slices.Chunk(o.Chunks, movedChunks) {
		m := &wire.MovedObserver{Session: o.Session, Chunks: chunks}
		part := p.room(proto.Size(m))
		part.Observers = append(part.Observers, m)
	}
}
