package bots

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
)

// The oracle of items. Each bot knows what its inventory shows and what has come of its inputs; the swarm puts that together.
//
// What is shown is judged by order, not by time alone: an inventory counts as wrong if the owner of the entity has said
// something of it more than Grace after it should have been right. So an owner that is dead or far behind accuses nobody.

// Kinds of violations about items.
const (
	// ItemGone: it left an inventory, and its bot has done nothing with it.
	ItemGone client.ViolationKind = "item-gone"
	// ItemTwice: it is in two inventories.
	ItemTwice client.ViolationKind = "item-twice"
	// ItemUndone: what was acknowledged is not so, or was so and is not any more.
	ItemUndone client.ViolationKind = "item-undone"
	// ItemDenied: an input is refused because the item is not carried, and the inventory shows it.
	ItemDenied client.ViolationKind = "item-denied"
	// ItemUnanswered: at the end an input about items has no result.
	ItemUnanswered client.ViolationKind = "item-unanswered"
)

// hands are what one bot carries and does.
type hands struct {
	carried map[uint64]*wire.Item
	doings  map[uint64]doing     // by input number
	doubts  map[uint64]time.Time // since when it is not known what came of an input about a serial
	due     []promise
	silent  bool     // nothing was told of the inventory since the entity appeared
	known   sighting // when the entity appeared, and how often its inventory was told since
}

func newHands() hands {
	return hands{carried: map[uint64]*wire.Item{}, doings: map[uint64]doing{}, doubts: map[uint64]time.Time{}}
}

// promise is what an inventory must show soon, because a result says so.
type promise struct {
	serial uint64
	count  uint32 // 0: must not be there
	since  time.Time
	sent   time.Time // of the input
	why    string
}

// decided is after how long an input whose result is not known has had its effect, or will have none: nodes and store are back.
const decided = time.Minute

// settleDoubts forgets what has been decided meanwhile.
func (h *hands) settleDoubts(now time.Time) {
	maps.DeleteFunc(h.doubts, func(_ uint64, since time.Time) bool { return now.Sub(since) > decided })
}

func (h *hands) doubtful(serial uint64) bool {
	_, is := h.doubts[serial]
	return is
}

// busy reports whether something is being done with an item, as far as is known.
func (h *hands) busy(serial uint64) bool {
	if h.doubtful(serial) {
		return true
	}
	for _, d := range h.doings {
		if serial != 0 && (d.serial == serial || d.into == serial) {
			return true
		}
	}
	return slices.ContainsFunc(h.due, func(p promise) bool { return p.serial == serial })
}

// idle lists the items with which nothing is being done, by serial.
func (h *hands) idle() []*wire.Item {
	var list []*wire.Item
	for serial, item := range h.carried {
		if !h.busy(serial) {
			list = append(list, item)
		}
	}
	slices.SortFunc(list, func(x, y *wire.Item) int { return cmp.Compare(x.Serial, y.Serial) })
	return list
}

// entry is what the swarm knows of one item.
type entry struct {
	holders []*bot             // whose inventory shows it
	shown   map[*bot]time.Time // when that last began, ended, or was told again
	towards map[*bot]time.Time // when somebody last set out to bring it to them
	ended   string             // what was acknowledged that ended it
	unsure  bool               // it may have ended
	wrong   time.Time          // since when it is in two inventories, or in one though it has ended
	told    bool
}

// ledger is what the swarm knows of all items.
type ledger struct {
	violate func(b, other *bot, kind client.ViolationKind, detail string)
	items   map[uint64]*entry
	wrong   map[uint64]*entry
	counts  ItemCounts
}

// ItemCounts say what was done with items.
type ItemCounts struct {
	// Done counts by action what was acknowledged; Refused by what was said about it; Unknown what may have happened.
	Done    map[string]int `json:"done"`
	Refused map[string]int `json:"refused,omitempty"`
	Unknown map[string]int `json:"unknown,omitempty"`
	// Known items were in an inventory at some time; Ended ones were used up or merged away.
	Known int `json:"known"`
	Ended int `json:"ended"`
}

func newLedger(violate func(b, other *bot, kind client.ViolationKind, detail string)) *ledger {
	return &ledger{
		violate: violate, items: map[uint64]*entry{}, wrong: map[uint64]*entry{},
		counts: ItemCounts{Done: map[string]int{}, Refused: map[string]int{}, Unknown: map[string]int{}},
	}
}

func (l *ledger) entry(serial uint64) *entry {
	e := l.items[serial]
	if e == nil {
		e = &entry{shown: map[*bot]time.Time{}, towards: map[*bot]time.Time{}}
		l.items[serial] = e
	}
	return e
}

// begun notes an input that is on its way.
func (l *ledger) begun(b *bot, number uint64, d doing) {
	b.hands.doings[number] = d
	switch d.action {
	case picks:
		l.entry(d.serial).towards[b] = d.sent
	case gives:
		l.entry(d.serial).towards[d.to] = d.sent
	}
}

// answered takes the result of an input about items; false: it was about something else.
func (l *ledger) answered(b *bot, r *wire.InputResult, now time.Time) bool {
	d, ok := b.hands.doings[r.Number]
	if !ok {
		return false
	}
	delete(b.hands.doings, r.Number)
	switch r.Code {
	case wire.InputResult_CODE_OK:
		l.counts.Done[string(d.action)]++
		l.done(b, d, now)
	case wire.InputResult_CODE_UNAVAILABLE:
		l.unknown(b, d, r.Detail, now)
	default:
		count(l.counts.Refused, fmt.Sprintf("%s: %v: %s", d.action, r.Code, withoutNumbers(r.Detail)))
		l.denied(b, d, r, now)
	}
	return true
}

// done: it is so in the store, and will be shown.
func (l *ledger) done(b *bot, d doing, now time.Time) {
	switch d.action {
	case picks:
		l.expect(b, d, now, d.serial, d.count)
	case drops:
		l.expect(b, d, now, d.serial, 0)
	case gives:
		l.expect(b, d, now, d.serial, 0)
		l.expect(d.to, d, now, d.serial, d.count)
	case uses:
		if d.count == 1 {
			l.end(b, d)
		}
		l.expect(b, d, now, d.serial, d.count-1)
	case splits:
		l.expect(b, d, now, d.serial, d.count-d.off)
	case merges:
		l.end(b, d)
		l.expect(b, d, now, d.serial, 0)
		l.expect(b, d, now, d.into, d.onto+d.count)
	}
}

func (l *ledger) end(b *bot, d doing) {
	l.entry(d.serial).ended = fmt.Sprintf("%s of %s was acknowledged", d.action, b.name)
}

// expect adds a promise, if nothing that happened meanwhile makes it void: what came into an inventory since the input was
// sent may have left it again, and what left it may have been brought back.
func (l *ledger) expect(b *bot, d doing, now time.Time, serial uint64, count uint32) {
	e := l.entry(serial)
	moved := d.action == picks || d.action == gives && b == d.to
	if moved && e.shown[b].After(d.sent) || count == 0 && e.towards[b].After(d.sent) {
		return
	}
	b.hands.due = append(b.hands.due, promise{serial, count, now, d.sent, fmt.Sprintf("%s of item %d was acknowledged", d.action, serial)})
}

// denied: it is not so. What was carried is still.
func (l *ledger) denied(b *bot, d doing, r *wire.InputResult, now time.Time) {
	if d.action == digs || d.action == picks || b.hands.doubtful(d.serial) || b.hands.doubtful(d.into) {
		return
	}
	if strings.Contains(r.Detail, "is not carried") {
		l.violate(b, nil, ItemDenied, fmt.Sprintf("%s of item %d, which the inventory showed: %s", d.action, d.serial, r.Detail))
		l.doubt(b, d, now) // told once
		return
	}
	b.hands.due = append(b.hands.due, promise{d.serial, d.count, now, d.sent, fmt.Sprintf("%s of item %d was refused", d.action, d.serial)})
}

// unknown: it may be so or not.
func (l *ledger) unknown(b *bot, d doing, why string, now time.Time) {
	count(l.counts.Unknown, fmt.Sprintf("%s: %s", d.action, withoutNumbers(why)))
	l.doubt(b, d, now)
}

// doubt: items that it was about are left alone, and may be gone.
func (l *ledger) doubt(b *bot, d doing, now time.Time) {
	for _, serial := range []uint64{d.serial, d.into} {
		if serial != 0 && d.action != picks {
			b.hands.doubts[serial] = now
		}
	}
	if d.action == uses || d.action == merges {
		l.entry(d.serial).unsure = true
	}
}

// unanswered: the results up to a number were lost with a connection; 0: all of them, with the session.
func (l *ledger) unanswered(b *bot, upTo uint64, now time.Time) {
	for number, d := range b.hands.doings {
		if upTo == 0 || number <= upTo {
			delete(b.hands.doings, number)
			l.unknown(b, d, "its result was lost with a connection", now)
		}
	}
}

// inventory takes what the bot's own entity is said to carry. One that appeared anew and is told nothing carries nothing.
func (b *bot) inventory(own *client.Seen, now time.Time) {
	told := sighting{own.Appeared, own.InventoryTold}
	if own.InventoryTold > 0 && told != b.hands.known {
		b.hands.known = told
		b.swarm.items.shows(b, own.Inventory, now)
	}
	b.hands.silent = own.InventoryTold == 0
	if b.hands.silent && len(b.hands.carried) > 0 && b.spokeAfter(b.appeared) {
		b.swarm.items.shows(b, nil, now)
	}
}

// shows takes what an inventory shows now.
func (l *ledger) shows(b *bot, list []*wire.Item, now time.Time) {
	was := b.hands.carried
	b.hands.carried = make(map[uint64]*wire.Item, len(list))
	for _, item := range list {
		b.hands.carried[item.Serial] = item
		e := l.entry(item.Serial)
		if e.shown[b] = now; was[item.Serial] == nil {
			e.holders = append(e.holders, b)
			l.consider(item.Serial, e, now)
		}
	}
	for serial := range was {
		if b.hands.carried[serial] != nil {
			continue
		}
		e := l.entry(serial)
		e.shown[b] = now
		e.holders = slices.DeleteFunc(e.holders, func(x *bot) bool { return x == b })
		l.consider(serial, e, now)
		if !b.hands.explains(serial) {
			l.violate(b, nil, ItemGone, fmt.Sprintf("item %d is not in the inventory any more, and nothing was done with it", serial))
		}
	}
}

// explains reports whether something that was done lets an item leave.
func (h *hands) explains(serial uint64) bool {
	for _, d := range h.doings {
		leaves := d.action == drops || d.action == gives || d.action == merges || d.action == uses && d.count == 1
		if d.serial == serial && leaves {
			return true
		}
	}
	return h.doubtful(serial) || slices.ContainsFunc(h.due, func(p promise) bool { return p.serial == serial && p.count == 0 })
}

// consider notes since when it is wrong how an item is shown.
func (l *ledger) consider(serial uint64, e *entry, now time.Time) {
	if len(e.holders) < 2 && (len(e.holders) == 0 || e.ended == "") {
		e.wrong, e.told = time.Time{}, false
		delete(l.wrong, serial)
		return
	}
	if e.wrong.IsZero() {
		e.wrong, l.wrong[serial] = now, e
	}
}

// judge reports what has been wrong for long enough. final: the world is at rest, so everything has been told.
func (l *ledger) judge(b *bot, now time.Time, final bool) {
	b.hands.settleDoubts(now)
	kept := b.hands.due[:0]
	for _, p := range b.hands.due {
		item, e := b.hands.carried[p.serial], l.entry(p.serial)
		switch {
		case p.count == 0 && item == nil || item != nil && item.Count == p.count:
		case p.count == 0 && e.towards[b].After(p.sent):
		case final || b.spokeAfter(p.since):
			l.violate(b, nil, ItemUndone, fmt.Sprintf("%s %v ago, and the inventory shows %v", p.why, now.Sub(p.since).Round(time.Millisecond), shown(item)))
		default:
			kept = append(kept, p)
		}
	}
	b.hands.due = kept
}

func shown(item *wire.Item) string {
	if item == nil {
		return "none"
	}
	return fmt.Sprintf("%d of it", item.Count)
}

// judgeAll reports items that are in two places, or that should not be.
func (l *ledger) judgeAll(now time.Time, final bool) {
	for _, serial := range slices.Sorted(maps.Keys(l.wrong)) {
		e := l.wrong[serial]
		if e.told || !final && slices.ContainsFunc(e.holders, func(b *bot) bool { return !b.spokeAfter(e.wrong) }) {
			continue
		}
		e.told = true
		lasts := now.Sub(e.wrong).Round(time.Millisecond)
		if len(e.holders) > 1 {
			l.violate(e.holders[0], e.holders[1], ItemTwice, fmt.Sprintf("item %d is in the inventory of both for %v", serial, lasts))
		} else {
			l.violate(e.holders[0], nil, ItemUndone, fmt.Sprintf("%s, and item %d is in the inventory for %v", e.ended, serial, lasts))
		}
	}
}

// finish judges when the world is at rest.
func (l *ledger) finish(all []*bot, now time.Time) {
	for _, b := range all {
		if b.client == nil {
			continue
		}
		if b.hands.silent && len(b.hands.carried) > 0 {
			l.shows(b, nil, now)
		}
		l.judge(b, now, true)
		for number, d := range b.hands.doings {
			l.violate(b, nil, ItemUnanswered, fmt.Sprintf("%s of item %d, input %d, was sent %v ago", d.action, d.serial, number, now.Sub(d.sent).Round(time.Second)))
		}
		l.unanswered(b, 0, now)
	}
	l.judgeAll(now, true)
}

// Expectation is what a store must and must not hold, by serial: the file that zone-node audit --expect reads.
type Expectation struct {
	// Present were in an inventory and have not ended: each is with one holder, which is an entity or the ground.
	Present []uint64 `json:"present"`
	// Absent were used up or merged away, and that was acknowledged: nobody has them.
	Absent []uint64 `json:"absent"`
}

// expectation lists what is known for sure.
func (l *ledger) expectation() Expectation {
	x := Expectation{Present: []uint64{}, Absent: []uint64{}}
	for _, serial := range slices.Sorted(maps.Keys(l.items)) {
		switch e := l.items[serial]; {
		case e.ended != "":
			x.Absent = append(x.Absent, serial)
		case len(e.shown) > 0 && !e.unsure:
			x.Present = append(x.Present, serial)
		}
	}
	return x
}

// report is what was done so far.
func (l *ledger) report() ItemCounts {
	c := l.counts
	c.Done, c.Refused, c.Unknown = maps.Clone(c.Done), maps.Clone(c.Refused), maps.Clone(c.Unknown)
	for _, e := range l.items {
		if len(e.shown) > 0 {
			c.Known++
		}
		if e.ended != "" {
			c.Ended++
		}
	}
	return c
}

// count counts by text, up to a bound of different ones.
func count(by map[string]int, text string) {
	if len(by) < maxKept || by[text] > 0 {
		by[text]++
	}
}

// withoutNumbers makes what is said of different items the same.
func withoutNumbers(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if strings.ContainsAny(w, "0123456789") {
			words[i] = "N"
		}
	}
	return strings.Join(words, " ")
}
