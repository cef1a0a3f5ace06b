package zone

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ghost"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

const player = uint64(7)

// doorway is an engine that owns nothing: its neighbour has the world. It is a gateway whose store and owner are the test.
type doorway struct {
	*Engine
	t    *testing.T
	conn ConnID
}

func newDoorway(t *testing.T) *doorway {
	t.Helper()
	g, err := torus.NewGrid(2, 2, 15)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Grid: g, Session: "w-zone-0#1", Node: "w-zone-0", Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]partition.Row, g.Regions())
	for i := range rows {
		rows[i] = partition.Row{Owner: partition.Owner{Session: neighbour, Node: "w-zone-1", Epoch: 1}}
	}
	table, err := partition.NewTable(g, rows)
	if err != nil {
		t.Fatal(err)
	}
	d := &doorway{Engine: e, t: t}
	d.step(t, &Inbox{Table: table, Peers: []PeerEvent{{neighbour, PeerUp}}})
	return d
}

// connect opens a socket of the player; the claim of its session is returned, unanswered.
func (d *doorway) connect() StoreRequest {
	d.t.Helper()
	d.conn++
	out := d.step(d.t, &Inbox{Clients: []ClientEvent{{Conn: d.conn, Connected: &ClientConnected{Account: player, Name: "player"}}}})
	for _, r := range out.Store {
		if r.Op == StoreClaimSession {
			return r
		}
	}
	d.t.Fatal("the directory was not asked")
	return StoreRequest{}
}

func (d *doorway) answer(claim StoreRequest, epoch uint64, previous string) []*wire.PeerMessage {
	d.t.Helper()
	return d.said(d.step(d.t, &Inbox{Store: []StoreAnswer{{
		ID: claim.ID, Op: claim.Op, Code: StoreOK, SessionEpoch: epoch, LoginEpoch: epoch, PreviousGateway: previous, Record: &Record{Entity: 9, Account: player},
	}}}))
}

func (d *doorway) said(out *Outbox) (list []*wire.PeerMessage) {
	d.t.Helper()
	for _, b := range out.Reliable {
		m := &wire.PeerMessage{}
		if err := proto.Unmarshal(b.Bytes, m); err != nil {
			d.t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// attach logs the player in, at an epoch.
func (d *doorway) attach(epoch uint64) {
	d.t.Helper()
	d.answer(d.connect(), epoch, "")
	d.hear(d.t, &wire.PeerMessage{Message: &wire.PeerMessage_AttachAnswer{AttachAnswer: &wire.AttachAnswer{
		Account: player, SessionEpoch: epoch, Code: wire.AttachAnswer_CODE_OK, Entity: 9,
	}}})
	if s, ok := d.Session(player); !ok || !s.Attached {
		d.t.Fatalf("not attached: %+v", s)
	}
}

func displace(epoch uint64) *wire.PeerMessage {
	return &wire.PeerMessage{Message: &wire.PeerMessage_Displace{Displace: &wire.Displace{Account: player, SessionEpoch: epoch}}}
}

func detached(said []*wire.PeerMessage) (epochs []uint64) {
	for _, m := range said {
		if d := m.GetDetach(); d != nil {
			epochs = append(epochs, d.SessionEpoch)
		}
	}
	return epochs
}

// Who displaced it may be given up before it attaches: then nobody else would say that the socket is lost.
func TestADisplacedSessionDetaches(t *testing.T) {
	t.Run("by another gateway", func(t *testing.T) {
		d := newDoorway(t)
		d.attach(1)
		if got := detached(d.hear(t, displace(2))); len(got) != 1 || got[0] != 1 {
			t.Errorf("detached %v, want its own epoch", got)
		}
	})
	t.Run("by a later socket here", func(t *testing.T) {
		d := newDoorway(t)
		d.attach(1)
		out := d.step(t, &Inbox{Clients: []ClientEvent{
			{Conn: 2, Connected: &ClientConnected{Account: player}}, {Conn: 2, Closed: true},
		}})
		if got := detached(d.said(out)); len(got) != 1 || got[0] != 1 {
			t.Errorf("detached %v, want its own epoch", got)
		}
	})
}

func TestASessionThatClaimsAgainDetachesWhenItsSocketIsLost(t *testing.T) {
	d := newDoorway(t)
	d.attach(1)
	d.step(t, &Inbox{Peers: []PeerEvent{{neighbour, PeerDown}, {neighbour, PeerUp}}}) // it attaches again
	d.hear(t, &wire.PeerMessage{Message: &wire.PeerMessage_AttachAnswer{AttachAnswer: &wire.AttachAnswer{
		Account: player, SessionEpoch: 1, Code: wire.AttachAnswer_CODE_STALE_SESSION, Entity: 9,
	}}})
	out := d.step(t, &Inbox{Clients: []ClientEvent{{Conn: d.conn, Closed: true}}})
	if got := detached(d.said(out)); len(got) != 1 || got[0] != 1 {
		t.Errorf("detached %v, want what the owner may have attached", got)
	}
}

// A Displace that comes late is of a session before, or of one after: only the directory's answer tells.
func TestASessionThatIsBeingClaimedOutlivesTheDisplaceOfAnOlderOne(t *testing.T) {
	for claimed, lives := range map[uint64]bool{4: false, 6: true} {
		d := newDoorway(t)
		claim := d.connect()
		d.hear(t, displace(5))
		if _, open := d.Session(player); !open {
			t.Fatal("displaced before its own epoch is known")
		}
		d.answer(claim, claimed, neighbour)
		if _, open := d.Session(player); open != lives {
			t.Errorf("claimed at epoch %d, displaced at 5: it lives: %v", claimed, open)
		}
	}
}

func calls(said []*wire.PeerMessage) (numbers []uint64) {
	for _, m := range said {
		if c := m.GetCall(); c != nil {
			numbers = append(numbers, c.Number)
		}
	}
	return numbers
}

// An answer was refused by a link that was full: without it, the client were closed at its 17th input.
func TestCallsWhoseFirstAnswerIsLostAreSentAgain(t *testing.T) {
	d := newDoorway(t)
	d.attach(1)
	d.gate.replicas.Apply(d.tick, neighbour, &ghost.Frame{Entity: 9, Kind: wire.EntityFrame_KIND_SNAPSHOT, Account: player})
	in := &Inbox{}
	for n := range uint64(3) {
		in.Clients = append(in.Clients, ClientEvent{Conn: d.conn, Message: &wire.ClientEnvelope{Message: &wire.ClientEnvelope_Input{Input: &wire.Input{
			Number: n + 1, Action: &wire.Input_Stop{Stop: &wire.Stop{}},
		}}}})
	}
	if got := calls(d.said(d.step(t, in))); len(got) != 3 {
		t.Fatalf("sent %v", got)
	}
	d.hear(t, &wire.PeerMessage{Message: &wire.PeerMessage_CallAnswer{CallAnswer: &wire.CallAnswer{
		Entity: 9, Account: player, LoginEpoch: 1, Number: 2, Code: wire.CallAnswer_CODE_DONE,
	}}})
	again := d.callsWithin(answerTicks + 2)
	if len(again) != 3 || again[0] != 1 {
		t.Errorf("sent again: %v, want all from the first", again)
	}
	d.step(t, &Inbox{Peers: []PeerEvent{{neighbour, PeerDown}}})
	if again := d.callsWithin(3 * answerTicks); len(again) > 0 {
		t.Errorf("sent %v while there is no link: what was sent before waits for it", again)
	}
}

func (d *doorway) callsWithin(ticks int64) (numbers []uint64) {
	d.t.Helper()
	for range ticks {
		numbers = append(numbers, calls(d.said(d.step(d.t, &Inbox{})))...)
	}
	return numbers
}
