package handoff

import (
	"testing"

	"github.com/spatialcells/spatialcells/node/ecs"
)

func epoch(transfers uint32) ecs.Epoch { return ecs.Epoch{Transfers: transfers} }

const entity = ecs.EntityID(9)

func TestAnUnknownEntityIsTaken(t *testing.T) {
	var k Known
	if v := k.Judge(entity, "a#1", epoch(1), nil, false); v != Take {
		t.Errorf("judged %v", v)
	}
}

func TestARefusedEpochIsBurned(t *testing.T) {
	var k Known
	k.Burn(0, entity, epoch(4))
	if v := k.Judge(entity, "a#1", epoch(4), nil, false); v != Refuse {
		t.Errorf("the duplicate of a refused offer is judged %v", v)
	}
	if v := k.Judge(entity, "a#1", epoch(3), nil, false); v != Refuse {
		t.Errorf("an older one is judged %v", v)
	}
	if v := k.Judge(entity, "a#1", epoch(5), nil, false); v != Take {
		t.Errorf("the thawed entity's next offer is judged %v", v)
	}
	k.Burn(1, entity, epoch(2))
	if v := k.Judge(entity, "a#1", epoch(4), nil, false); v != Refuse {
		t.Error("a later refusal of an older epoch forgot the burned one")
	}
}

func TestALateOfferOfWhatWasHandedOnIsAcceptedNotTaken(t *testing.T) {
	var k Known
	k.Bury(0, entity, Tombstone{Epoch: epoch(5), Region: 2, To: "b#1"})
	if v := k.Judge(entity, "a#1", epoch(4), nil, false); v != AcceptAgain {
		t.Errorf("judged %v: the source would keep or double it", v)
	}
	if v := k.Judge(entity, "a#1", epoch(6), nil, false); v != Take {
		t.Errorf("it comes back and is judged %v", v)
	}
}

func TestWhatItsNewOwnerHasLostIsTakenBack(t *testing.T) {
	var k Known
	k.Bury(0, entity, Tombstone{Epoch: epoch(5), Region: 2, To: "b#1"})
	if v := k.Judge(entity, "b#1", epoch(5), nil, true); v != Take {
		t.Errorf("judged %v: nobody would have it", v)
	}
	if v := k.Judge(entity, "c#1", epoch(5), nil, true); v != AcceptAgain {
		t.Errorf("what somebody else has is judged %v", v)
	}
}

func TestADuplicateOfWhatIsHereIsAcceptedAgain(t *testing.T) {
	var k Known
	live := epoch(5)
	if v := k.Judge(entity, "a#1", epoch(5), &live, false); v != AcceptAgain {
		t.Errorf("judged %v", v)
	}
	if v := k.Judge(entity, "a#1", epoch(6), &live, false); v != Refuse {
		t.Errorf("an offer of what this node owns is judged %v: there would be two", v)
	}
}

func TestAnEpochThatCannotBeRememberedIsNotRefused(t *testing.T) {
	var k Known
	for id := range ecs.EntityID(MaxRemembered) {
		if !k.Burn(0, id+1, epoch(2)) {
			t.Fatalf("entity %d is not remembered", id)
		}
	}
	if k.Burn(1, MaxRemembered+1, epoch(2)) || k.Burn(1, 1, epoch(3)) {
		t.Error("a peer fills the memory with what it offers")
	}
	if !k.Burn(1, 1, epoch(1)) {
		t.Error("what is older than a burned epoch is burned")
	}
	k.Expire(BurnTicks)
	if !k.Burn(BurnTicks, 1, epoch(3)) {
		t.Error("there is room again")
	}
}

func TestWhatIsRememberedIsForgottenInTime(t *testing.T) {
	var k Known
	k.Burn(0, entity+2, epoch(1))
	k.Expire(BurnTicks)
	k.Bury(10, entity, Tombstone{Epoch: epoch(1)})
	k.Burn(10, entity+1, epoch(1))
	k.Bury(20, entity, Tombstone{Epoch: epoch(3), Chunk: 4})
	k.Expire(10 + TombstoneTicks)
	if _, ok := k.Tombstone(entity); !ok {
		t.Error("the newer tombstone went with the older one")
	}
	k.Expire(20 + TombstoneTicks)
	k.Expire(10 + BurnTicks)
	if k.Len() != 0 || len(k.left) != 0 || len(k.queue) != 0 {
		t.Errorf("%d are remembered for ever, and %d chunks that they left", k.Len(), len(k.left))
	}
}

func TestTombstonesAreListedByTheChunkTheyLeft(t *testing.T) {
	var k Known
	k.Bury(0, entity, Tombstone{Epoch: epoch(1), Chunk: 7})
	k.Bury(1, entity, Tombstone{Epoch: epoch(3), Chunk: 8})
	k.Bury(2, entity+1, Tombstone{Epoch: epoch(1), Chunk: 8})
	var got []ecs.EntityID
	k.InChunk(8, func(id ecs.EntityID, _ Tombstone) { got = append(got, id) })
	if len(got) != 2 || got[0] != entity || got[1] != entity+1 {
		t.Errorf("in chunk 8: %v", got)
	}
	k.InChunk(7, func(id ecs.EntityID, _ Tombstone) { t.Errorf("%v is listed where it was before", id) })
}

// neighbours are the sessions that an offer may go to: b is asked first, and the region is the holder's.
type neighbours struct {
	holder         string
	dead, unlinked map[string]bool
}

func (n *neighbours) Alive(session string) bool  { return !n.dead[session] }
func (n *neighbours) Linked(session string) bool { return !n.unlinked[session] }
func (n *neighbours) Holder(int) string          { return n.holder }

func TestAnOfferIsRepeatedToTheNextOwner(t *testing.T) {
	var b Book
	b.Begin(0, &Outgoing{Entity: entity, Region: 3, Target: "b#1"})
	var sent []string
	due := func(tick int64, n *neighbours) {
		b.Due(tick, n, func(o *Outgoing, _ string) { sent = append(sent, o.Target) })
	}
	bDead := map[string]bool{"b#1": true}
	due(1, &neighbours{holder: "b#1"})
	due(2, &neighbours{})
	due(3, &neighbours{holder: "c#1"}) // b lives: it may have it, and have handed it on
	if len(sent) != 0 {
		t.Fatalf("sent again to %v before it was due", sent)
	}
	due(3, &neighbours{holder: "c#1", dead: bDead})
	due(3+RepeatTicks, &neighbours{holder: "d#1"})
	if len(sent) != 2 || sent[0] != "c#1" || sent[1] != "c#1" {
		t.Errorf("sent to %v, want twice to the next owner", sent)
	}
	b.Get(entity).Released(50)
	due(50, &neighbours{holder: "d#1"})
	if len(sent) != 3 || sent[2] != "d#1" {
		t.Errorf("sent to %v, want the holder when who was asked has nothing to do with it", sent)
	}
	b.End(entity)
	if b.Get(entity) != nil || len(b.All()) != 0 {
		t.Error("an ended handoff is still kept")
	}
}

func TestAnOfferWaitsForTheLink(t *testing.T) {
	var b Book
	b.Begin(0, &Outgoing{Entity: entity, Target: "b#1"})
	sent := 0
	offer := func(*Outgoing, string) { sent++ }
	for tick := range int64(20 * RepeatTicks) {
		b.Due(tick, &neighbours{unlinked: map[string]bool{"b#1": true}}, offer)
	}
	if sent != 0 {
		t.Fatalf("%d offers wait for a link that is down", sent)
	}
	b.Due(20*RepeatTicks, &neighbours{}, offer)
	if sent != 1 {
		t.Errorf("sent %d times when the link was there again", sent)
	}
}

func TestRepeatsAreSpreadOverTicksAndAllGetTheirTurn(t *testing.T) {
	var b Book
	for id := range ecs.EntityID(3 * OffersPerTick) {
		b.Begin(0, &Outgoing{Entity: id + 1, Target: "b#1"})
	}
	asked := map[ecs.EntityID]int{}
	for tick := RepeatTicks; tick < RepeatTicks+3; tick++ {
		sent := 0
		b.Due(int64(tick), &neighbours{}, func(o *Outgoing, _ string) { sent++; asked[o.Entity]++ })
		if sent > OffersPerTick {
			t.Errorf("%d in one tick", sent)
		}
	}
	if len(asked) != 3*OffersPerTick {
		t.Errorf("%d of %d had their turn", len(asked), 3*OffersPerTick)
	}
}

// Who has accepted says Durable by itself; an heir has to be found quickly, because observers wait.
func TestWhoHasAcceptedIsAskedLessAndLessOften(t *testing.T) {
	repeats := func(o *Outgoing) (n int) {
		var b Book
		b.Begin(0, o)
		for tick := range int64(60 * 20) {
			b.Due(tick, &neighbours{}, func(*Outgoing, string) { n++ })
		}
		return n
	}
	for what, c := range map[string]struct {
		o        Outgoing
		low, top int
	}{
		"accepted":     {Outgoing{Accepted: true}, 6, 10},
		"not answered": {Outgoing{}, 28, 30},
		"an heir":      {Outgoing{Accepted: true, PassedOn: true}, 110, 120},
	} {
		c.o.Entity, c.o.Target = entity, "b#1"
		if n := repeats(&c.o); n < c.low || n > c.top {
			t.Errorf("%s: repeated %d times in a minute", what, n)
		}
	}
}
