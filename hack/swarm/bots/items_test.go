package bots

import (
	"slices"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
)

// table is two bots without a world: a test says what their inventories show and what they are told.
type table struct {
	*testing.T
	swarm *Swarm
	a, b  *bot
	now   time.Time
	next  uint64
}

func newTable(t *testing.T) *table {
	s := &Swarm{kinds: map[client.ViolationKind]int{}, started: time.Unix(0, 0)}
	s.items = newLedger(func(b, other *bot, kind client.ViolationKind, detail string) { s.violate(b, other, kind, 0, detail) })
	x := &table{T: t, swarm: s, now: time.Unix(1000, 0)}
	seat := func(index int) *bot {
		b := &bot{swarm: s, index: index, hands: newHands(), complete: x.now, appeared: x.now}
		b.truth.ok = true
		return b
	}
	x.a, x.b = seat(0), seat(1)
	return x
}

// later lets time pass; the owners of both speak on.
func (x *table) later(d time.Duration) {
	x.now = x.now.Add(d)
	x.a.whereabouts.heard, x.b.whereabouts.heard = x.now, x.now
	x.judge()
}

func (x *table) judge() {
	x.swarm.items.judgeAll(x.now, false)
	for _, b := range []*bot{x.a, x.b} {
		x.swarm.items.judge(b, x.now, false)
	}
}

// shows tells an inventory: serials, one of each.
func (x *table) shows(b *bot, serials ...uint64) {
	var list []*wire.Item
	for _, s := range serials {
		list = append(list, &wire.Item{Serial: s, Kind: 1, Count: 1})
	}
	x.swarm.items.shows(b, list, x.now)
}

// does sends an input of a bot.
func (x *table) does(b *bot, d doing) uint64 {
	x.next++
	d.sent = x.now
	x.now = x.now.Add(100 * time.Millisecond)
	x.swarm.items.begun(b, x.next, d)
	return x.next
}

func (x *table) told(b *bot, n uint64, code wire.InputResult_Code, detail string) {
	x.Helper()
	if !x.swarm.items.answered(b, &wire.InputResult{Number: n, Code: code, Detail: detail}, x.now) {
		x.Fatalf("input %d is not known", n)
	}
}

func (x *table) ok(b *bot, n uint64) { x.Helper(); x.told(b, n, wire.InputResult_CODE_OK, "") }

// want expects violations so far, of one kind, or none.
func (x *table) want(kinds ...client.ViolationKind) {
	x.Helper()
	var got []client.ViolationKind
	for _, v := range x.swarm.kept {
		got = append(got, v.Kind)
	}
	if !slices.Equal(got, kinds) {
		x.Errorf("violations %v, want %v", x.swarm.kept, kinds)
	}
}

func (x *table) expects(exist, ended []uint64) {
	x.Helper()
	e := x.swarm.items.expectation()
	if !slices.Equal(e.Present, exist) || !slices.Equal(e.Absent, ended) {
		x.Errorf("must exist %v, must not %v; want %v and %v", e.Present, e.Absent, exist, ended)
	}
}

func TestAnItemThatIsPickedGivenAndEatenIsInOrder(t *testing.T) {
	x := newTable(t)
	n := x.does(x.a, doing{action: picks, serial: 7, count: 1})
	x.ok(x.a, n)
	x.shows(x.a, 7)
	x.later(time.Minute)
	n = x.does(x.a, doing{action: gives, serial: 7, count: 1, to: x.b})
	x.shows(x.a)
	x.shows(x.b, 7)
	x.ok(x.a, n)
	x.later(time.Minute)
	x.expects([]uint64{7}, nil)
	n = x.does(x.b, doing{action: uses, serial: 7, count: 1})
	x.ok(x.b, n)
	x.shows(x.b)
	x.later(time.Minute)
	x.want()
	x.expects(nil, []uint64{7})
}

func TestAnAcknowledgedPickThatIsNotShownIsUndone(t *testing.T) {
	x := newTable(t)
	x.ok(x.a, x.does(x.a, doing{action: picks, serial: 7, count: 1}))
	x.later(Grace)
	x.want()
	x.later(time.Second)
	x.want(ItemUndone)
}

func TestAnOwnerThatSaysNothingAccusesNobody(t *testing.T) {
	x := newTable(t)
	x.ok(x.a, x.does(x.a, doing{action: picks, serial: 7, count: 1}))
	x.shows(x.a)
	x.now = x.now.Add(time.Minute) // it is dead
	x.judge()
	x.want()
	x.a.marked = x.now // and recovered: what it shows first may be from before
	x.later(time.Second)
	x.want()
	x.later(time.Second)
	x.want(ItemUndone)
}

func TestAnItemThatLeavesByItselfIsGone(t *testing.T) {
	x := newTable(t)
	x.shows(x.a, 7, 8)
	x.does(x.a, doing{action: drops, serial: 8, count: 1})
	x.shows(x.a, 7)
	x.want()
	x.shows(x.a)
	x.want(ItemGone)
	x.expects([]uint64{7, 8}, nil)
}

func TestAnItemInTwoInventoriesIsReportedOnce(t *testing.T) {
	x := newTable(t)
	x.shows(x.a, 7)
	x.shows(x.b, 7)
	x.later(Grace)
	x.want()
	for range 3 {
		x.later(time.Second)
	}
	x.want(ItemTwice)
}

func TestWhatIsNotKnownMayGoEitherWay(t *testing.T) {
	x := newTable(t)
	x.shows(x.a, 7, 8, 9)
	x.told(x.a, x.does(x.a, doing{action: uses, serial: 7, count: 1}), wire.InputResult_CODE_UNAVAILABLE, "away")
	x.does(x.a, doing{action: drops, serial: 8, count: 1})
	x.swarm.items.unanswered(x.a, 0, x.now) // a fresh login
	x.shows(x.a, 9)
	if x.shows(x.a, 8, 9); len(x.a.hands.idle()) != 1 {
		t.Error("what is not decided is touched")
	}
	x.shows(x.a, 9)
	x.later(decided)
	x.want()
	x.expects([]uint64{8, 9}, nil)
	x.shows(x.a, 8, 9)
	x.later(decided)
	x.shows(x.a, 9)
	x.want(ItemGone)
}

func TestAnItemThatWasMergedAwayAndIsBackIsUndone(t *testing.T) {
	x := newTable(t)
	x.shows(x.a, 7, 8)
	n := x.does(x.a, doing{action: merges, serial: 7, count: 1, into: 8, onto: 1})
	x.swarm.items.shows(x.a, []*wire.Item{{Serial: 8, Kind: 1, Count: 2}}, x.now)
	x.ok(x.a, n)
	x.later(time.Minute)
	x.want()
	x.expects([]uint64{8}, []uint64{7})
	x.shows(x.b, 7)
	x.later(time.Minute)
	x.want(ItemUndone)
}

func TestCountsAreHeldToWhatWasAcknowledged(t *testing.T) {
	x := newTable(t)
	stack := func(n uint32) { x.swarm.items.shows(x.a, []*wire.Item{{Serial: 7, Kind: 2, Count: n}}, x.now) }
	stack(5)
	n := x.does(x.a, doing{action: splits, serial: 7, count: 5, off: 2})
	stack(3)
	x.ok(x.a, n)
	x.later(time.Minute)
	x.want()
	x.ok(x.a, x.does(x.a, doing{action: uses, serial: 7, count: 3}))
	x.later(time.Minute)
	x.want(ItemUndone)
}

func TestARefusalLeavesTheItemWhereItWas(t *testing.T) {
	x := newTable(t)
	x.shows(x.a, 7)
	n := x.does(x.a, doing{action: gives, serial: 7, count: 1, to: x.b})
	x.shows(x.a) // on its way
	x.told(x.a, n, wire.InputResult_CODE_INVALID, "it is 9 m away: go to within 8 m")
	x.shows(x.a, 7)
	x.later(time.Minute)
	x.want()
	x.told(x.a, x.does(x.a, doing{action: drops, serial: 7, count: 1}), wire.InputResult_CODE_INVALID, "item 7 is not carried")
	x.want(ItemDenied)
}

func TestAnItemThatIsGivenBackBeforeItsGiftIsAcknowledgedIsInOrder(t *testing.T) {
	x := newTable(t)
	x.shows(x.a, 7)
	there := x.does(x.a, doing{action: gives, serial: 7, count: 1, to: x.b})
	x.shows(x.a)
	x.shows(x.b, 7)
	back := x.does(x.b, doing{action: gives, serial: 7, count: 1, to: x.a})
	x.shows(x.b)
	x.shows(x.a, 7)
	x.ok(x.a, there)
	x.ok(x.b, back)
	x.later(time.Minute)
	x.want()
}

func TestAtTheEndEverythingIsAnswered(t *testing.T) {
	x := newTable(t)
	x.shows(x.a, 7)
	x.does(x.a, doing{action: drops, serial: 7, count: 1})
	x.a.client = &client.Client{}
	x.swarm.items.finish([]*bot{x.a, x.b}, x.now)
	x.want(ItemUnanswered)
}
