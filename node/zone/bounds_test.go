package zone

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/torus"
)

func TestANodeObservesNoMoreChunksThanItCanHavePlayersFor(t *testing.T) {
	g, err := torus.NewGrid(5, 5, 250)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Grid: g, Session: "w-zone-0#1", Node: "w-zone-0", Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	for chunk := range uint64(maxObserved) {
		e.sim.nodes.Add(neighbour, chunk)
	}
	batch := appendKeys(nil, batchSubscribe, []uint64{5, maxObserved, maxObserved + 1})
	e.step(t, &Inbox{Peers: []PeerEvent{{"w-zone-2#1", PeerUp}}, Replication: []PeerBytes{{Session: neighbour, Bytes: batch}, {Session: "w-zone-2#1", Bytes: batch}}})
	if n := len(e.sim.nodes.Chunks(neighbour)); n != maxObserved || e.stats.Malformed != 1 {
		t.Errorf("%d chunks, %d malformed", n, e.stats.Malformed)
	}
	if n := len(e.sim.nodes.Chunks("w-zone-2#1")); n != 3 {
		t.Errorf("another observes %d chunks", n)
	}
}

func TestASnapshotSpeaksOnlyForRegionsThatMayHaveSomethingThere(t *testing.T) {
	e := patchwork(t)
	g := e.gate
	chunk := e.grid.ChunkKey(torus.ChunkPos{X: 7, Y: 7}) // in the middle of region 0
	g.holders[chunk] = []string{neighbour}
	mark, err := proto.Marshal(&wire.ChunkSnapshot{Chunk: chunk, Homes: []uint32{5, 0, 0, 1 << 20, 1 << 31}})
	if err != nil {
		t.Fatal(err)
	}
	batch := protowire.AppendTag(nil, batchSnapshots, protowire.BytesType)
	e.step(t, &Inbox{Replication: []PeerBytes{{Session: neighbour, Bytes: protowire.AppendBytes(batch, mark)}}})
	if ready := g.ready[chunk]; len(ready) != 1 || ready[0] != (covered{0, neighbour}) {
		t.Errorf("covered: %v", ready)
	}
}
