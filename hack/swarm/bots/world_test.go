package bots

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/gateway"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testWorld = "test"

var testKey = []byte("a development key of 32 bytes or more")

// testNode is an engine in real time behind a real gateway; links and store are this process's memory.
type testNode struct {
	world   *world
	session string
	engine  *zone.Engine
	server  *gateway.Server

	mu    sync.Mutex
	inbox zone.Inbox
	// tamper, if set, may change what the engine hands out: how faults get into a test.
	tamper func(out *zone.Outbox)
}

// world is a cluster of such nodes.
type world struct {
	grid  torus.Grid
	nodes []*testNode
	table *partition.Table
	store store.Memory
	start time.Time
	stop  chan struct{}
	steps sync.WaitGroup
}

// newWorld starts nodes that share a grid in four quarters, or in as many strips as there are nodes.
func newWorld(t *testing.T, columns, rows, nodes int) *world {
	t.Helper()
	g, err := torus.NewGrid(columns, rows, 15)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{grid: g, start: time.Now().Add(-time.Second), stop: make(chan struct{})}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dev.hs256"), testKey, 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := gateway.NewVerifier(gateway.VerifierConfig{World: testWorld, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	for i := range nodes {
		w.add(t, i, tokens)
	}
	w.deal(t)
	for _, n := range w.nodes {
		w.steps.Add(1)
		go n.run()
	}
	t.Cleanup(w.end)
	return w
}

func (w *world) add(t *testing.T, ordinal int, tokens gateway.TokenVerifier) {
	t.Helper()
	n := &testNode{world: w, session: fmt.Sprintf("%s-zone-%d#1", testWorld, ordinal)}
	var err error
	n.engine, err = zone.New(zone.Config{Grid: w.grid, Session: n.session, Node: fmt.Sprintf("%s-zone-%d", testWorld, ordinal), Ordinal: ordinal, Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	n.server, err = gateway.New(gateway.Config{
		ListenHost: "127.0.0.1", Handler: n, Tokens: tokens, World: testWorld, Grid: w.grid,
		Fence: func() time.Duration { return 24 * time.Hour }, Now: w.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range w.nodes {
		other.inbox.Peers = append(other.inbox.Peers, zone.PeerEvent{Session: n.session, Kind: zone.PeerUp})
		n.inbox.Peers = append(n.inbox.Peers, zone.PeerEvent{Session: other.session, Kind: zone.PeerUp})
	}
	w.nodes = append(w.nodes, n)
}

func (w *world) owner(region int) *testNode {
	r := w.grid.RegionAt(region)
	if len(w.nodes) != 4 {
		return w.nodes[region*len(w.nodes)/w.grid.Regions()]
	}
	return w.nodes[int(r.Column)*2/w.grid.Columns()+2*(int(r.Row)*2/w.grid.Rows())]
}

func (w *world) deal(t *testing.T) {
	t.Helper()
	rows := make([]partition.Row, w.grid.Regions())
	for i := range rows {
		rows[i].Owner = partition.Owner{Session: w.owner(i).session, Node: w.owner(i).session, Epoch: 1}
	}
	var err error
	if w.table, err = partition.NewTable(w.grid, rows); err != nil {
		t.Fatal(err)
	}
	for _, n := range w.nodes {
		n.inbox.Table = w.table
	}
}

func (w *world) now() time.Duration { return time.Since(w.start) }

func (w *world) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, n := range w.nodes {
		_ = n.server.Shutdown(ctx)
	}
	close(w.stop)
	w.steps.Wait()
}

func (w *world) gateways() (list []string) {
	for _, n := range w.nodes {
		list = append(list, n.server.Addr().String())
	}
	return list
}

func (w *world) stats(counter func(zone.Stats) uint64) (sum uint64) {
	for _, n := range w.nodes {
		n.mu.Lock()
		sum += counter(n.engine.Stats())
		n.mu.Unlock()
	}
	return sum
}

// Client implements gateway.Handler.
func (n *testNode) Client(ev zone.ClientEvent) {
	n.deliver(func(in *zone.Inbox) { in.Clients = append(in.Clients, ev) })
}

func (n *testNode) deliver(put func(in *zone.Inbox)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	put(&n.inbox)
}

func (n *testNode) run() {
	defer n.world.steps.Done()
	for {
		select {
		case <-n.world.stop:
			return
		case <-time.After(max(n.engine.Due()-n.world.now(), 0)):
			n.step()
		}
	}
}

func (n *testNode) step() {
	n.mu.Lock()
	in := n.inbox
	n.inbox = zone.Inbox{}
	in.Boot, in.Deadline, in.WallMillis = n.world.now(), n.world.now()+time.Hour, ecs.IDEpochMillis+time.Now().UnixMilli()%1_000_000_000
	out := n.engine.Step(&in)
	if n.tamper != nil {
		n.tamper(out)
	}
	n.mu.Unlock()
	n.carryOut(out)
}

func (n *testNode) carryOut(out *zone.Outbox) {
	w := n.world
	for _, to := range w.nodes {
		to.deliver(func(in *zone.Inbox) {
			for _, b := range out.Replication {
				if b.Session == to.session {
					in.Replication = append(in.Replication, zone.PeerBytes{Session: n.session, Bytes: b.Bytes, At: w.now()})
				}
			}
			for _, b := range out.Reliable {
				if b.Session == to.session {
					in.Reliable = append(in.Reliable, zone.PeerBytes{Session: n.session, Bytes: b.Bytes, At: w.now()})
				}
			}
		})
	}
	n.deliver(func(in *zone.Inbox) {
		for _, r := range out.Store {
			in.Store = append(in.Store, w.store.Do(r))
		}
		for _, r := range out.Chunks {
			in.Chunks = append(in.Chunks, zone.ChunkAnswer{Chunk: r.Chunk, Encoding: wire.ChunkData_ENCODING_RLE, Payload: []byte{1}})
		}
	})
	for _, b := range out.Clients {
		n.server.Send(b)
	}
	for _, c := range out.Close {
		n.server.CloseConn(c)
	}
}
