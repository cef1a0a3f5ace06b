package zone

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/ghost"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// patchwork is an engine that holds some regions of a world, not the first one; the others are its neighbour's, or nobody's.
func patchwork(tb testing.TB) *Engine {
	tb.Helper()
	g, err := torus.NewGrid(3, 2, 15)
	if err != nil {
		tb.Fatal(err)
	}
	e, err := New(Config{Grid: g, Session: "w-zone-0#1", Node: "w-zone-0", Incarnation: 1})
	if err != nil {
		tb.Fatal(err)
	}
	mine, theirs := partition.Owner{Session: "w-zone-0#1", Node: "w-zone-0", Epoch: 1}, partition.Owner{Session: neighbour, Node: "w-zone-1", Epoch: 1}
	rows := []partition.Row{{Owner: theirs}, {Owner: mine}, {}, {Owner: theirs, Target: "w-zone-0"}, {Owner: mine}, {Owner: theirs}}
	table, err := partition.NewTable(g, rows)
	if err != nil {
		tb.Fatal(err)
	}
	in := &Inbox{Table: table, Peers: []PeerEvent{{neighbour, PeerUp}}}
	for range 8 {
		out := e.step(tb, in)
		in = &Inbox{}
		for _, r := range out.Store {
			in.Store = append(in.Store, StoreAnswer{ID: r.ID, Op: r.Op, Code: StoreOK, Record: onlyClaimed(r, &r.Record)})
		}
		for i := range rows {
			in.Reliable = append(in.Reliable, encoded(tb, &wire.PeerMessage{Message: &wire.PeerMessage_ClaimingAnswer{ClaimingAnswer: &wire.ClaimingAnswer{
				Region: uint32(i), RegionEpoch: 1,
			}}}))
		}
	}
	if held, recovering := e.sim.regionCounts(); held != 2 || recovering != 0 {
		tb.Fatalf("%d regions are held, %d are being recovered", held, recovering)
	}
	for i := range 20 {
		id := ecs.EntityID(i + 1)
		if err := e.sim.world.Create(id); err != nil {
			tb.Fatal(err)
		}
		home := g.RegionAt(1 + 3*(i%2))
		e.sim.game.SpawnMaster(id, uint64(i+1), "walker", g.ChunkOrigin(g.RegionOrigin(home)))
		e.sim.adopt(id, ecs.Epoch{}, home, false)
	}
	return e
}

func encoded(tb testing.TB, m *wire.PeerMessage) PeerBytes {
	tb.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return PeerBytes{Session: neighbour, Bytes: b}
}

// FuzzReliable: whatever a peer says, the engine neither panics nor stops.
func FuzzReliable(f *testing.F) {
	for _, m := range []*wire.PeerMessage{
		{Message: &wire.PeerMessage_Call{Call: &wire.Call{Entity: 1, Account: 1, LoginEpoch: 1, SessionEpoch: 1, Number: 1}}},
		{Message: &wire.PeerMessage_Attach{Attach: &wire.Attach{Account: 1, SessionEpoch: 1, LoginEpoch: 1, Entity: 1}}},
		{Message: &wire.PeerMessage_Attach{Attach: &wire.Attach{Account: 999, SessionEpoch: 1, LoginEpoch: 1, Spawn: &wire.Position{X: 1 << 30}}}},
		{Message: &wire.PeerMessage_Attach{Attach: &wire.Attach{Account: 1, SessionEpoch: 1, LoginEpoch: 1, Entity: 999, Region: 6}}},
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
		{Message: &wire.PeerMessage_MovePrepare{MovePrepare: &wire.MovePrepare{Region: 3, Stage: "s"}}},
		{Message: &wire.PeerMessage_MovePart{MovePart: &wire.MovePart{Region: 3, Stage: "s", Number: 1, Cut: &wire.MoveCut{}}}},
		{Message: &wire.PeerMessage_MoveDrop{MoveDrop: &wire.MoveDrop{Region: 1 << 30, Stage: "s"}}},
		{Message: &wire.PeerMessage_Command{Command: &wire.Command{Sender: 5000, Target: 999, Number: &wire.CommandNumber{N: 1}, Region: 2}}},
		{Message: &wire.PeerMessage_Displace{Displace: &wire.Displace{Account: 1, SessionEpoch: 9}}},
	} {
		f.Add(encoded(f, m).Bytes)
	}
	e := patchwork(f)
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
	e := patchwork(f)
	e.step(f, &Inbox{Clients: []ClientEvent{{Conn: 1, Connected: &ClientConnected{Account: 3}}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		e.step(t, &Inbox{Replication: []PeerBytes{{Session: "w-zone-1#1", Bytes: b}}})
		e.step(t, &Inbox{})
	})
}
