package link

import (
	"bufio"
	"encoding/binary"
	"io"
)

// A frame is: u32 length of what follows | u8 kind | body, big endian, at most maxFrame bytes in all.
//
//	hello            a wire.Hello; the first frame in both directions
//	refusal          reason, line feed, detail; the last frame
//	ping, pong       u64 nonce; the pong repeats it
//	ack              u64: reliable messages received so far
//	replication      u32 bytes of the batch | the first of them
//	replicationMore  the next of them
//	reliable         u64 number | u32 bytes of the message | the first of them
//	reliableMore     the next of them
//
// A message is complete when its bytes are there. Frames of the two streams may alternate within a message.
type kind uint8

const (
	kindHello kind = iota + 1
	kindRefusal
	kindPing
	kindPong
	kindAck
	kindReplication
	kindReplicationMore
	kindReliable
	kindReliableMore
)

const (
	headerSize          = 4 + 1
	replicationHeadSize = 4
	reliableHeadSize    = 8 + 4
	maxBody             = maxFrame - headerSize
)

func appendHeader(b []byte, k kind, body int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(body)+1)
	return append(b, byte(k))
}

func appendFrame(b []byte, k kind, body []byte) []byte {
	return append(appendHeader(b, k, len(body)), body...)
}

func appendNumber(b []byte, k kind, n uint64) []byte {
	return binary.BigEndian.AppendUint64(appendHeader(b, k, 8), n)
}

// appendReplication appends the next frame of a batch of which done bytes are framed already, cut to what fits into room,
// and returns how many are framed now. It appends nothing if not even one byte fits.
func appendReplication(b []byte, batch []byte, done, room int) ([]byte, int) {
	if done == 0 {
		n := min(len(batch), room-headerSize-replicationHeadSize)
		if n < 0 || n == 0 && len(batch) > 0 {
			return b, 0
		}
		b = appendHeader(b, kindReplication, replicationHeadSize+n)
		b = binary.BigEndian.AppendUint32(b, uint32(len(batch)))
		return append(b, batch[:n]...), n
	}
	return appendMore(b, kindReplicationMore, batch, done, room)
}

// appendReliable does the same for a reliable message.
func appendReliable(b []byte, number uint64, message []byte, done, room int) ([]byte, int) {
	if done == 0 {
		n := min(len(message), room-headerSize-reliableHeadSize)
		if n < 0 || n == 0 && len(message) > 0 {
			return b, 0
		}
		b = appendHeader(b, kindReliable, reliableHeadSize+n)
		b = binary.BigEndian.AppendUint64(b, number)
		b = binary.BigEndian.AppendUint32(b, uint32(len(message)))
		return append(b, message[:n]...), n
	}
	return appendMore(b, kindReliableMore, message, done, room)
}

func appendMore(b []byte, k kind, message []byte, done, room int) ([]byte, int) {
	n := min(len(message)-done, room-headerSize)
	if n <= 0 {
		return b, done
	}
	return appendFrame(b, k, message[done:done+n]), done + n
}

// frame is what the decoder found: a control frame or a whole message.
type frame struct {
	kind kind
	// number is the nonce, the acknowledged count or the number of a reliable message.
	number uint64
	// bytes is a whole batch or message, or the body of a hello or refusal; it is the receiver's.
	bytes []byte
}

// assembly is a message of which pieces are still to come.
type assembly struct {
	open   bool
	number uint64
	bytes  []byte
	done   int
}

// decoder reads frames. Pieces are read straight into the one allocation of their message.
type decoder struct {
	r      *bufio.Reader
	limits Limits
	// greeting: nothing but a Hello or a refusal is taken, so that strangers cannot ask for the memory of a message.
	greeting    bool
	replication assembly
	reliable    assembly
	head        [reliableHeadSize]byte
}

func newDecoder(r io.Reader, limits Limits) *decoder {
	return &decoder{r: bufio.NewReaderSize(r, maxFrame), limits: limits}
}

// next returns the next control frame or complete message. A refusal as error means that the bytes break the protocol.
func (d *decoder) next() (frame, error) {
	for {
		f, complete, err := d.frame()
		if err != nil || complete {
			return f, err
		}
	}
}

func (d *decoder) frame() (frame, bool, error) {
	k, body, err := d.header()
	if err != nil {
		return frame{}, false, err
	}
	if d.greeting && k != kindHello && k != kindRefusal {
		return frame{}, false, refuse(ReasonMalformed, "the first frame is of kind %d, not a Hello", k)
	}
	f := frame{kind: k}
	switch k {
	case kindHello, kindRefusal:
		f.bytes = make([]byte, body)
		_, err = io.ReadFull(d.r, f.bytes)
		return f, true, err
	case kindPing, kindPong, kindAck:
		f.number, err = d.number(k, body)
		return f, true, err
	case kindReplication, kindReplicationMore:
		return d.piece(f, &d.replication, k == kindReplication, replicationHeadSize, d.limits.ReplicationBatch, body)
	case kindReliable, kindReliableMore:
		return d.piece(f, &d.reliable, k == kindReliable, reliableHeadSize, d.limits.ReliableMessage, body)
	default:
		return f, false, refuse(ReasonMalformed, "frame of unknown kind %d", k)
	}
}

func (d *decoder) header() (kind, int, error) {
	h := d.head[:headerSize]
	if _, err := io.ReadFull(d.r, h); err != nil {
		return 0, 0, err
	}
	length := binary.BigEndian.Uint32(h)
	if length == 0 {
		return 0, 0, refuse(ReasonMalformed, "frame without a kind")
	}
	if length > maxBody+1 {
		return 0, 0, refuse(ReasonOversized, "frame of %d bytes, at most %d are allowed", length, maxBody+1)
	}
	return kind(h[4]), int(length) - 1, nil
}

func (d *decoder) number(k kind, body int) (uint64, error) {
	if body != 8 {
		return 0, refuse(ReasonMalformed, "frame of kind %d with %d bytes instead of 8", k, body)
	}
	if _, err := io.ReadFull(d.r, d.head[:8]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(d.head[:8]), nil
}

func (d *decoder) piece(f frame, a *assembly, first bool, headSize, limit, body int) (frame, bool, error) {
	if first == a.open {
		return f, false, refuse(ReasonMalformed, "frame of kind %d out of place", f.kind)
	}
	if first {
		if err := d.begin(a, headSize, limit, body); err != nil {
			return f, false, err
		}
		body -= headSize
	} else if body == 0 {
		return f, false, refuse(ReasonMalformed, "empty piece of a message")
	}
	if body > len(a.bytes)-a.done {
		return f, false, refuse(ReasonMalformed, "pieces of %d bytes for a message of %d", a.done+body, len(a.bytes))
	}
	if _, err := io.ReadFull(d.r, a.bytes[a.done:a.done+body]); err != nil {
		return f, false, err
	}
	a.done += body
	if a.done < len(a.bytes) {
		return f, false, nil
	}
	f.number, f.bytes = a.number, a.bytes
	*a = assembly{}
	return f, true, nil
}

// begin reads the head of a message and makes room for all of it.
func (d *decoder) begin(a *assembly, headSize, limit, body int) error {
	if body < headSize {
		return refuse(ReasonMalformed, "message head of %d bytes instead of %d", body, headSize)
	}
	h := d.head[:headSize]
	if _, err := io.ReadFull(d.r, h); err != nil {
		return err
	}
	total := binary.BigEndian.Uint32(h[headSize-4:])
	if int64(total) > int64(limit) {
		return refuse(ReasonOversized, "message of %d bytes, at most %d are allowed", total, limit)
	}
	*a = assembly{open: true, bytes: make([]byte, total)}
	if headSize == reliableHeadSize {
		a.number = binary.BigEndian.Uint64(h)
	}
	if total > 0 && body == headSize {
		return refuse(ReasonMalformed, "empty piece of a message")
	}
	return nil
}
