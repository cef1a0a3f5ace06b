package zone

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/route"
)

// Items: this node's half of what items.go says of the store. The contents of each holder here are in memory as the store
// has them, and change when a write of them is answered, never before: nobody sees what is not committed. A holder has one
// write under way at a time; what comes meanwhile waits, and goes out together where it does not depend on each other.
//
// Each step of a movement is a function of what the store has, so that whoever recovers a holder goes on from there: an out
// entry is carried (Receive to the target, again until answered), then cleared or taken back. An entity with something on
// its way, or being written, is not handed over.

const (
	// maxWrites bounds the writes of an entity that wait; the ground of a region may have maxGroundWrites.
	maxWrites       = 16
	maxGroundWrites = 1024
	// itemSweepTicks is how often movements that could not be carried are tried again: 1 s.
	itemSweepTicks = TicksPerSecond
	// awayTicks is after how long without an answer the store counts as away: 1 s.
	awayTicks = TicksPerSecond
)

// holding is the contents of a holder of this node, and what is being done to them.
type holding struct {
	Contents
	seen   []seen // by movement, one for each in entry
	routes []course
	queue  []itemWrite
	flight []itemWrite // under way, together

	writing uint64 // the id of that write
	reading bool   // the store is being asked what there is: nothing is written meanwhile
	reread  bool   // it is to be asked when the write under way is answered
	late    map[lateKey]string
	picks   []pick // of this entity, that are on their way to it
	told    []told // of digs: the last ones
	next    int    // the element that is replaced next
}

// toldResults is how many results a ground remembers, for those who ask again.
const toldResults = 256

// told is the result of a command that would come out otherwise if it were carried out again.
type told struct {
	key    lateKey
	result *wire.OrderResult
}

// course is how far an out entry has got.
type course struct {
	movement uint64
	home     int
	sender   ecs.EntityID // of the Receive that is under way
	command  route.Number // its number; zero: none
	ending   bool         // it is being cleared or taken back, or its target is being looked up
}

// itemWrite is a change that waits for its turn, or is under way. done is told whether it was carried out.
type itemWrite struct {
	change Change
	done   func(ok bool)
}

// lateKey names a command whose answer waits for the store. The session that sent it last gets the answer.
type lateKey struct {
	sender uint64
	number route.Number
}

// groundBit marks the id of a ground, as commands and messages name it; the rest is the index of the region.
const groundBit = game.GroundBit

func groundID(region int) ecs.EntityID { return ecs.EntityID(groundBit | uint64(region)) }

func groundOf(id uint64) (region int, ok bool) { return int(id &^ groundBit), id&groundBit != 0 }

// holderID is a holder as messages name it.
func (s *sim) holderID(h Holder) uint64 {
	if h.OnGround() {
		return uint64(groundID(s.grid.RegionIndex(h.Region)))
	}
	return uint64(h.Entity)
}

// holderOf reads one; false if there is no such region.
func (s *sim) holderOf(id uint64) (Holder, bool) {
	if region, ground := groundOf(id); ground {
		if region >= len(s.regions) {
			return Holder{}, false
		}
		return Holder{Region: s.grid.RegionAt(region)}, true
	}
	return Holder{Entity: ecs.EntityID(id)}, id != 0
}

func (s *sim) registerItems() {
	s.contents = ecs.Register[holding](s.world, ecs.Meta{Name: "contents"})
	s.contents.HandOver(
		func(dst []byte, hd *holding) []byte { return s.appendContents(dst, &hd.Contents) },
		func(b []byte, hd *holding) error { return s.decodeContents(b, hd) })
	s.carrying = ecs.NewQuery(s.world).With(s.contents)
}

func (s *sim) appendContents(dst []byte, c *Contents) []byte {
	m := &wire.ContentsState{Moves: c.Moves, Made: c.Made, Ended: c.Ended}
	for _, h := range c.Items {
		m.Items = append(m.Items, game.WireItem(h.Item))
	}
	for _, in := range c.In {
		m.In = append(m.In, &wire.InEntryState{Movement: in.Movement, From: s.holderID(in.From), Void: in.Void})
	}
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		panic("zone: encoding contents: " + err.Error())
	}
	return b
}

var errContents = errors.New("contents beyond their limits")

func (s *sim) decodeContents(b []byte, hd *holding) error {
	m := &wire.ContentsState{}
	if err := proto.Unmarshal(b, m); err != nil {
		return err
	}
	if len(m.Items) > MaxHeld || len(m.In) > MaxRemembered {
		return errContents
	}
	var ch Change
	for _, x := range m.Items {
		item, ok := game.ReadItem(x)
		if !ok {
			return errContents
		}
		ch.AddItems = append(ch.AddItems, Held{Item: item})
	}
	for _, x := range m.In {
		from, ok := s.holderOf(x.From)
		if !ok {
			return errContents
		}
		ch.AddIn = append(ch.AddIn, InEntry{Movement: x.Movement, From: from, Void: x.Void})
	}
	hd.Contents = Contents{}
	if err := hd.Apply(&ch); err != nil {
		return err
	}
	hd.Moves, hd.Made, hd.Ended = m.Moves, m.Made, m.Ended
	hd.recollect(s.tick)
	return nil
}

// holdingOf is the contents of a holder of which this node may write: an owned entity whose record is claimed, or the ground
// of a region that is recovered.
func (s *sim) holdingOf(h Holder) *holding {
	if h.OnGround() {
		if r := s.regions[s.grid.RegionIndex(h.Region)]; r != nil && r.active {
			return &r.ground
		}
		return nil
	}
	sv := s.saving.Get(h.Entity)
	if sv == nil || !sv.claimed || sv.settling != 0 || !s.world.Owned(h.Entity) {
		return nil
	}
	hd := s.contents.Get(h.Entity)
	if hd == nil {
		hd = s.contents.Set(h.Entity, holding{})
	}
	return hd
}

// kept is the contents of a holder that is here, also where they may not be written now; nil: it is not.
func (s *sim) kept(h Holder) *holding {
	if !h.OnGround() {
		return s.contents.Get(h.Entity)
	}
	if r := s.regions[s.grid.RegionIndex(h.Region)]; r != nil {
		return &r.ground
	}
	return nil
}

// unsettled reports whether something of an entity's contents is under way: until it is known, the entity stays.
func (s *sim) unsettled(id ecs.EntityID) bool {
	hd := s.contents.Get(id)
	return hd != nil && (len(hd.queue) > 0 || len(hd.flight) > 0 || len(hd.Out) > 0)
}

// change writes to the contents of a holder. done is called once: when the store has it, or when it is known that it will not;
// not at all if this node loses the holder meanwhile.
func (s *sim) change(h Holder, ch Change, done func(ok bool)) {
	hd := s.holdingOf(h)
	if hd == nil {
		return
	}
	hd.queue = append(hd.queue, itemWrite{ch, done})
	s.pump(h)
}

// pump sends what waits, as much as goes together.
func (s *sim) pump(h Holder) {
	hd := s.holdingOf(h)
	if hd == nil || hd.reading || hd.reread || len(hd.flight) > 0 || len(hd.queue) == 0 {
		return
	}
	write, err := s.ids.Next(s.wall)
	if err != nil {
		s.note("no id for a write of %v: %v", h, err)
		return
	}
	n, merged := merge(hd.queue)
	hd.flight, hd.writing = append(hd.flight[:0:0], hd.queue[:n]...), uint64(write)
	hd.queue = slices.Delete(hd.queue, 0, n)
	req := StoreRequest{Op: StoreWrite, Holder: h, Moves: hd.Moves, Change: &merged, Write: uint64(write)}
	var r *region
	if h.OnGround() {
		r = s.regions[s.grid.RegionIndex(h.Region)]
		req.RegionEpoch = r.epoch
	} else {
		req.Expect = s.authority.Get(h.Entity).epoch
	}
	s.stats.ItemWrites++
	s.store(req, func(a StoreAnswer) {
		hd := &holding{}
		if r != nil && s.regions[r.index] == r {
			hd = &r.ground
		} else if now := s.authority.Get(h.Entity); r == nil && now != nil && now.epoch == req.Expect {
			hd = s.contents.Get(h.Entity)
		}
		if len(hd.flight) > 0 && hd.writing == req.Write { // else it is another's affair now
			s.written(h, hd, &merged, a)
		}
	})
}

// maxMerged bounds the changes that go out together.
const maxMerged = 64

// merge puts changes of a queue together, up to the first that touches what one before it touches.
func merge(queue []itemWrite) (n int, merged Change) {
	touched := map[uint64]bool{}
	for ; n < len(queue) && n < maxMerged; n++ {
		c := &queue[n].change
		keys := touches(c)
		if slices.ContainsFunc(keys, func(k uint64) bool { return touched[k] }) {
			break
		}
		for _, k := range keys {
			touched[k] = true
		}
		merged.AddItems = append(merged.AddItems, c.AddItems...)
		merged.RemoveItems = append(merged.RemoveItems, c.RemoveItems...)
		merged.AddOut = append(merged.AddOut, c.AddOut...)
		merged.RemoveOut = append(merged.RemoveOut, c.RemoveOut...)
		merged.AddIn = append(merged.AddIn, c.AddIn...)
		merged.RemoveIn = append(merged.RemoveIn, c.RemoveIn...)
		merged.Edits = append(merged.Edits, c.Edits...)
		merged.Made += c.Made
		merged.Ended += c.Ended
	}
	return n, merged
}

// touches lists the serials and movements of a change, and its columns as one number each.
func touches(c *Change) []uint64 {
	keys := slices.Concat(c.RemoveItems, c.RemoveOut, c.RemoveIn)
	for i := range c.AddItems {
		keys = append(keys, c.AddItems[i].Serial)
	}
	for i := range c.AddOut {
		keys = append(keys, c.AddOut[i].Movement, c.AddOut[i].Item.Serial)
	}
	for i := range c.AddIn {
		keys = append(keys, c.AddIn[i].Movement)
	}
	for _, e := range c.Edits {
		keys = append(keys, uint64(e.X)<<32|uint64(e.Y))
	}
	return keys
}

// written takes the answer to a write.
func (s *sim) written(h Holder, hd *holding, ch *Change, a StoreAnswer) {
	flight := hd.flight
	hd.flight = nil
	if hd.reread {
		defer s.readGround(s.regions[s.grid.RegionIndex(h.Region)])
	}
	if a.Code == StoreOK {
		s.applied(h, hd, ch)
		for _, w := range flight {
			if w.done != nil {
				w.done(true)
			}
		}
		s.pump(h)
		return
	}
	s.stats.ItemConflicts++
	flight = append(flight, hd.queue...)
	hd.queue = nil
	s.refused(h, a)
	for _, w := range flight {
		if w.done != nil {
			w.done(false)
		}
	}
}

// applied makes memory what the store is.
func (s *sim) applied(h Holder, hd *holding, ch *Change) {
	before := hd.Out
	if err := hd.Apply(ch); err != nil {
		panic(fmt.Sprintf("zone: the store took a change of %v that memory does not: %v", h, err))
	}
	s.reportChange(h, ch)
	for _, e := range ch.AddOut {
		hd.routes = append(hd.routes, course{movement: e.Movement})
	}
	for _, movement := range ch.RemoveOut {
		hd.routes = slices.DeleteFunc(hd.routes, func(c course) bool { return c.movement == movement })
	}
	if len(ch.AddIn)+len(ch.RemoveIn) > 0 {
		hd.recollect(s.tick)
	}
	if !h.OnGround() {
		s.show(h.Entity, hd)
		return
	}
	s.cleared(before, ch)
	for i := range ch.AddItems {
		s.lay(h.Region, &ch.AddItems[i])
	}
}

// reportChange tells the probe what has become of items.
func (s *sim) reportChange(h Holder, ch *Change) {
	report := func(point Point, movement uint64) {
		s.at(Happened{Point: point, Entity: ecs.EntityID(s.holderID(h)), Number: movement})
	}
	for _, e := range ch.AddOut {
		report(ItemTaken, e.Movement)
	}
	for _, e := range ch.AddIn {
		if e.Void {
			report(ItemVoid, e.Movement)
		} else {
			report(ItemPut, e.Movement)
		}
	}
	for _, movement := range ch.RemoveIn {
		report(ItemForgotten, movement)
	}
}
