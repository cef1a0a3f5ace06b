package zone

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/ghost"
)

// FuzzReliable: whatever a peer says, the engine neither panics nor stops.
func FuzzReliable(f *testing.F) {
	for _, m := range []*wire.PeerMessage{
		{Message: &wire.PeerMessage_Call{Call: &wire.Call{Entity: 1, Account: 1, LoginEpoch: 1, SessionEpoch: 1, Number: 1}}},
		{Message: &wire.PeerMessage_Attach{Attach: &wire.Attach{Account: 1, SessionEpoch: 1, LoginEpoch: 1, Entity: 1}}},
		{Message: &wire.PeerMessage_Attach{Attach: &wire.Attach{Account: 999, SessionEpoch: 1, LoginEpoch: 1, Spawn: &wire.Position{X: 1 << 30}}}},
		{Message: &wire.PeerMessage_AttachAnswer{AttachAnswer: &wire.AttachAnswer{Account: 1, Region: 1 << 30}}},
		{Message: &wire.PeerMessage_Detach{Detach: &wire.Detach{Account: 1, Entity: 1}}},
		{Message: &wire.PeerMessage_Offer{Offer: &wire.Offer{Entity: 77, Epoch: &wire.Epoch{Transfers: 1}, Components: []*wire.ComponentBlob{{Component: "position", Data: []byte{8, 1, 16, 1}}}}}},
		{Message: &wire.PeerMessage_Offer{Offer: &wire.Offer{Entity: 1, SourceRegion: 1 << 30, TargetRegion: 1 << 30}}},
		{Message: &wire.PeerMessage_OfferAnswer{OfferAnswer: &wire.OfferAnswer{Entity: 1, Accepted: true}}},
		{Message: &wire.PeerMessage_OfferDurable{OfferDurable: &wire.OfferDurable{Entity: 1}}},
		{Message: &wire.PeerMessage_Claiming{Claiming: &wire.Claiming{Region: 1 << 30}}},
		{Message: &wire.PeerMessage_ClaimingAnswer{ClaimingAnswer: &wire.ClaimingAnswer{Region: 1 << 30, Entities: []uint64{1}}}},
		{Message: &wire.PeerMessage_AccountMessage{AccountMessage: &wire.AccountMessage{Account: 1}}},
		{Message: &wire.PeerMessage_NotHere{NotHere: &wire.NotHere{Account: 1, Entity: 1}}},
		{Message: &wire.PeerMessage_Displace{Displace: &wire.Displace{Account: 1, SessionEpoch: 9}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	e := crowd(f, 20)
	f.Fuzz(func(t *testing.T, b []byte) {
		e.step(t, &Inbox{Reliable: []PeerBytes{{Session: "w-zone-1#1", Bytes: b}}})
		e.step(t, &Inbox{})
	})
}

// FuzzReplication: the same for the other stream.
func FuzzReplication(f *testing.F) {
	frame := ghost.Frame{Entity: ecs.EntityID(5), Kind: wire.EntityFrame_KIND_SNAPSHOT, Chunk: 3}
	batch := protowire.AppendTag(nil, batchFrames, protowire.BytesType)
	batch = protowire.AppendBytes(batch, frame.Append(nil))
	f.Add(batch)
	f.Add(appendKeys(nil, batchSubscribe, []uint64{1, 2, 1 << 40}))
	f.Add(appendKeys(nil, batchUnsubscribe, []uint64{1}))
	f.Add([]byte{0x22, 0x02, 0x08, 0x7f})
	e := crowd(f, 20)
	e.step(f, &Inbox{Clients: []ClientEvent{{Conn: 1, Connected: &ClientConnected{Account: 3}}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		e.step(t, &Inbox{Replication: []PeerBytes{{Session: "w-zone-1#1", Bytes: b}}})
		e.step(t, &Inbox{})
	})
}
