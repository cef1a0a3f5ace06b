package link

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
)

// FuzzDecoder feeds any bytes: the decoder ends with an end of input or a refusal, never holds more than the two messages
// in progress, and what it finds is within the limits.
func FuzzDecoder(f *testing.F) {
	limits := Limits{ReplicationBatch: 1 << 16, ReliableMessage: 1 << 15}.withDefaults()
	o := outgoing{limits: limits}
	_, _ = o.start(0)
	o.pushReplication([]byte("batch"))
	_ = o.pushReliable([]byte("message"))
	o.pong, o.pongDue = 1, true
	valid, _ := o.fill(nil, 3, true)
	f.Add(valid)
	f.Add(appendFrame(valid, kindReliableMore, []byte("x")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 6})
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := newDecoder(bytes.NewReader(data), limits)
		for {
			got, err := d.next()
			if len(d.replication.bytes) > limits.ReplicationBatch || len(d.reliable.bytes) > limits.ReliableMessage {
				t.Fatal("an assembly above its limit")
			}
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && ownRefusal(err) == nil {
					t.Fatalf("neither an end nor a refusal: %v", err)
				}
				return
			}
			if len(got.bytes) > max(limits.ReplicationBatch, limits.ReliableMessage, maxBody) {
				t.Fatalf("a message of %d bytes", len(got.bytes))
			}
		}
	})
}

// FuzzHello reads any bytes as a Hello, and what is readable is comparable.
func FuzzHello(f *testing.F) {
	mine := &wire.Hello{
		ProtocolVersion: 2, MinProtocolVersion: 1, WorldUid: "w", Session: "a#1",
		Codecs: []*wire.CodecVersion{{Component: "position", MinVersion: 1, MaxVersion: 2}},
	}
	valid, err := proto.Marshal(mine)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := decodeHello(data)
		if err != nil {
			if ownRefusal(err) == nil {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		if len(h.Codecs) > maxCodecs || len(h.Session) > maxName {
			t.Fatal("above the limits")
		}
		if compatible(h, h) != nil {
			t.Fatal("a Hello does not fit itself")
		}
		if (compatible(mine, h) == nil) != (compatible(h, mine) == nil) {
			t.Fatal("two Hellos fit in one direction only")
		}
	})
}

// FuzzRefusal reads any bytes as a refusal within its bounds.
func FuzzRefusal(f *testing.F) {
	f.Add(refuse(ReasonWorld, "another").encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		r := decodeRefusal(data)
		if len(r.detail) > maxRefusal || r.Error() == "" || len(r.reason) > 32 {
			t.Fatalf("%+v", r)
		}
	})
}
