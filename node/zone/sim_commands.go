package zone

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/route"
)

// Commands: numbered orders from entity to entity, wherever the two live. Package route has the two bookkeepings; both are
// components, handed over and saved with their entities. A command to an entity of this node takes the same way, by the
// loopback.

const (
	// commandWaitTicks is after how long a command is sent again whose target is frozen, not ready or elsewhere.
	commandWaitTicks = 2
	// commandSearchTicks is after how long a target is looked for again that the store does not place elsewhere, or that
	// remembers too many senders: 1 s.
	commandSearchTicks = TicksPerSecond
	// commandSearches is how often the store may know nothing of a target before its commands are given up.
	commandSearches = 3
)

// commands are the stores of both halves, and the senders that have something open.
type commands struct {
	queues *ecs.Store[route.CommandQueue]
	logs   *ecs.Store[route.CommandLog]
	open   []ecs.EntityID // sorted; some may have left since
	come   []ecs.EntityID // with open commands, since the last were sent
}

func (s *sim) registerCommands() {
	c := &s.commands
	c.queues = ecs.Register[route.CommandQueue](s.world, ecs.Meta{Name: "commands", Durable: true})
	c.logs = ecs.Register[route.CommandLog](s.world, ecs.Meta{Name: "commanded", Durable: true})
	c.queues.HandOver(
		func(dst []byte, q *route.CommandQueue) []byte { return q.Append(dst) },
		func(b []byte, q *route.CommandQueue) error { return s.decodeQueue(b, q) })
	c.logs.HandOver(
		func(dst []byte, l *route.CommandLog) []byte { return l.Append(dst, s.tick) },
		func(b []byte, l *route.CommandLog) error { return l.Decode(b, s.tick) })
}

var errBeyond = errors.New("a command to a region beyond the grid")

func (s *sim) decodeQueue(b []byte, q *route.CommandQueue) error {
	if err := q.Decode(b); err != nil {
		return err
	}
	if slices.ContainsFunc(q.Targets(), func(t route.Target) bool { return t.Home >= len(s.regions) }) {
		return errBeyond
	}
	return nil
}

// Command makes a command; it goes out at the end of this tick.
func (s *sim) Command(from, to ecs.EntityID, home int, order *wire.Order) (route.Number, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(order)
	if err != nil {
		return route.Number{}, err
	}
	q := s.commands.queues.Get(from)
	if q == nil {
		q = s.commands.queues.Set(from, route.CommandQueue{})
	}
	epoch := s.authority.Get(from).epoch
	number, err := q.Add(uint64(to), home, epoch.Recoveries, s.commandFloor(from), b)
	if err != nil {
		s.stats.CommandsRefused++
		return number, err
	}
	s.stats.CommandsMade++
	s.dirty(from)
	s.expectAnswers(from)
	return number, nil
}

// commandFloor is below the numbers that this node gives to the commands of an entity, and above those that others gave who
// had it in the same life: one that took it over and died before that was durable has sent commands of which nothing is
// known, and its successor gets the entity at the same epoch, but its region at a higher one.
func (s *sim) commandFloor(id ecs.EntityID) uint64 {
	a := s.authority.Get(id)
	region := s.table.At(s.grid.RegionIndex(a.home)).Epoch
	return uint64(a.epoch.Transfers)<<40 | region&0xffff<<24
}

func (s *sim) dirty(id ecs.EntityID) {
	if sv := s.saving.Get(id); sv != nil {
		sv.dirty = true
	}
}

// expectAnswers puts an entity on the list of those with open commands, if it has any: they go out at once.
func (s *sim) expectAnswers(id ecs.EntityID) {
	if q := s.commands.queues.Get(id); q == nil || q.Open() == 0 {
		return
	}
	if i, found := slices.BinarySearch(s.commands.open, id); !found {
		s.commands.open = slices.Insert(s.commands.open, i, id)
	}
}

// withdraw forgets the commands of who came here that carry an item which is not out any more. The record of an entity whose owner
// died may be older than its items: a target that has forgotten the movement would take the item once more.
func (s *sim) withdraw(id ecs.EntityID) {
	q := s.commands.queues.Get(id)
	if q == nil {
		return
	}
	hd := s.contents.Get(id)
	n := q.Withdraw(func(b []byte) bool {
		order := &wire.Order{}
		if proto.Unmarshal(b, order) != nil || order.GetReceive() == nil {
			return false
		}
		return hd == nil || hd.out(order.GetReceive().Movement) == nil
	})
	if n > 0 {
		s.dirty(id)
	}
}

// sendCommands sends what is due of the entities that this node may act for.
func (s *sim) sendCommands() {
	for _, id := range s.commands.come {
		s.withdraw(id)
	}
	s.commands.come = s.commands.come[:0]
	if s.stopping {
		return
	}
	kept := s.commands.open[:0]
	for _, id := range s.commands.open {
		q := s.commands.queues.Get(id)
		if q == nil || q.Open() == 0 {
			continue
		}
		kept = append(kept, id)
		if s.world.Owned(id) {
			s.sendOpen(id, q)
		}
	}
	s.commands.open = kept
}

// openCommands is the number of unanswered commands of all entities that are here.
func (s *sim) openCommands() (n int) {
	for _, id := range s.commands.open {
		if q := s.commands.queues.Get(id); q != nil {
			n += q.Open()
		}
	}
	return n
}

// sendOpen sends the commands of one entity to the holders of their targets' home regions. While there is none, or no
// link to it, they stay.
func (s *sim) sendOpen(id ecs.EntityID, q *route.CommandQueue) {
	targets := q.Targets()
	for i := range targets {
		t := &targets[i]
		via := s.liveHolder(t.Home)
		if p := s.peers[via]; t.Open() == 0 || p == nil || !p.up {
			continue
		}
		t.Send(s.tick, via, func(c route.Command, after route.Number) {
			if c.Repeated {
				s.stats.CommandsResent++
				s.at(Happened{Point: CommandResent, Entity: ecs.EntityID(t.Entity), Sender: uint64(id), Number: reported(c.Number), Peer: via})
			}
			s.send(via, &wire.PeerMessage{Message: &wire.PeerMessage_Command{Command: &wire.Command{
				Sender: uint64(id), Target: t.Entity, Number: wireNumber(c.Number), After: wireNumber(after), Region: uint32(t.Home), Order: c.Order,
			}}})
		})
	}
}

// command executes a command, or says why not. Nothing is queued here.
func (s *sim) command(from string, m *wire.Command) {
	id, number := ecs.EntityID(m.Target), numberOf(m.Number)
	if m.Sender == 0 || id == 0 || number.N == 0 || int64(m.Region) >= int64(len(s.regions)) {
		s.stats.Malformed++
		return
	}
	order := &wire.Order{}
	if proto.Unmarshal(m.Order, order) != nil {
		order = nil
	}
	answer := &wire.CommandAnswer{Sender: m.Sender, Target: m.Target, Number: m.Number}
	where, region := s.locate(id, int(m.Region))
	answer.Region = uint32(region)
	ground, toGround := groundOf(m.Target)
	switch {
	case toGround && ground != int(m.Region):
		s.stats.Malformed++
		return
	case toGround && where == placeUnknown && !s.stopping:
		s.itemCommand(Holder{Region: s.grid.RegionAt(ground)}, from, m, order, answer)
	case where == placeHere && !s.stopping && isItemOrder(order):
		answer.Region = uint32(s.grid.RegionIndex(s.authority.Get(id).home))
		s.itemCommand(s.sourceOf(id), from, m, order, answer)
	case where == placeHere && !s.stopping:
		s.judgeCommand(id, m, order, answer)
	case where == placeUnknown && order.GetPick() != nil: // what lies never moves: it is no more
		answer.Code, answer.Result = wire.CommandAnswer_CODE_DONE, encodeOrderResult(refusal(errTaken))
	case where == placeMoved:
		answer.Code = wire.CommandAnswer_CODE_MOVED
	case where == placeUnknown:
		answer.Code = wire.CommandAnswer_CODE_NOT_HERE
		s.recall(id, region)
	default:
		answer.Code = wire.CommandAnswer_CODE_WAIT
	}
	if isItemOrder(order) && answer.Code == wire.CommandAnswer_CODE_DONE {
		s.stats.CommandsDone++
	} else {
		s.countCommand(answer, from)
	}
	s.send(from, &wire.PeerMessage{Message: &wire.PeerMessage_CommandAnswer{CommandAnswer: answer}})
}

func (s *sim) judgeCommand(id ecs.EntityID, m *wire.Command, order *wire.Order, answer *wire.CommandAnswer) {
	log := s.commands.logs.Get(id)
	if log == nil {
		log = s.commands.logs.Set(id, route.CommandLog{})
	}
	number := numberOf(m.Number)
	verdict, last := log.Judge(s.tick, m.Sender, number, numberOf(m.After))
	answer.Region = uint32(s.grid.RegionIndex(s.authority.Get(id).home))
	switch verdict {
	case route.Execute:
		answer.Code, last = wire.CommandAnswer_CODE_DONE, number
		log.Done(s.tick, m.Sender, number)
		answer.Result = s.obey(id, m, order)
		s.dirty(id)
	case route.Repeat:
		answer.Code = wire.CommandAnswer_CODE_DONE
		log.Done(s.tick, m.Sender, number)
	case route.Gap:
		answer.Code = wire.CommandAnswer_CODE_GAP
	default:
		answer.Code = wire.CommandAnswer_CODE_BUSY
	}
	answer.Last = wireNumber(last)
}

// obey carries an order out. One that fails counts as executed: it would fail again.
func (s *sim) obey(id ecs.EntityID, m *wire.Command, order *wire.Order) []byte {
	res := &wire.OrderResult{Code: wire.OrderResult_CODE_REFUSED, Detail: "the order is malformed"}
	if order != nil {
		res = s.game.Obey(id, ecs.EntityID(m.Sender), order)
	}
	return encodeOrderResult(res)
}

func encodeOrderResult(res *wire.OrderResult) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(res)
	if err != nil {
		panic("zone: encoding a result: " + err.Error())
	}
	return b
}

// countCommand counts an answer by its kind and reports it.
func (s *sim) countCommand(a *wire.CommandAnswer, from string) {
	point := CommandElsewhere
	switch {
	case a.Code == wire.CommandAnswer_CODE_DONE && a.Result != nil:
		s.stats.CommandsDone++
		point = CommandExecuted
	case a.Code == wire.CommandAnswer_CODE_DONE:
		s.stats.CommandsRepeated++
		point = CommandRepeated
	case a.Code == wire.CommandAnswer_CODE_GAP:
		s.stats.CommandsGap++
		point = CommandGap
	case a.Code == wire.CommandAnswer_CODE_BUSY:
		s.stats.CommandsBusy++
	default:
		s.stats.CommandsElsewhere++
	}
	h := Happened{Point: point, Entity: ecs.EntityID(a.Target), Sender: a.Sender, Number: reported(numberOf(a.Number)), Peer: from}
	if here := s.authority.Get(h.Entity); here != nil {
		h.Epoch = here.epoch
	}
	s.at(h)
}

// commandAnswered takes the answer to a command, as long as the sender is here and not frozen; else it is asked for again.
func (s *sim) commandAnswered(from string, m *wire.CommandAnswer) {
	id := ecs.EntityID(m.Sender)
	q := s.commands.queues.Get(id)
	if int64(m.Region) >= int64(len(s.regions)) {
		s.stats.Malformed++
		return
	}
	if q == nil || !s.world.Owned(id) {
		return
	}
	t := q.Target(m.Target)
	switch {
	case t == nil:
	case m.Code == wire.CommandAnswer_CODE_DONE:
		s.obeyed(from, id, q, t, m)
	case from == t.Via: // not of an owner before
		s.commandDelayed(id, t, m)
	}
}

func (s *sim) obeyed(from string, id ecs.EntityID, q *route.CommandQueue, t *route.Target, m *wire.CommandAnswer) {
	if !q.Answer(m.Target, numberOf(m.Number)) {
		return
	}
	s.stats.CommandsAnswered++
	s.at(Happened{Point: CommandAnswered, Entity: ecs.EntityID(m.Target), Sender: m.Sender, Number: reported(numberOf(m.Number)), Peer: from})
	t.Home = int(m.Region)
	s.dirty(id)
	var res *wire.OrderResult
	if m.Result != nil {
		res = &wire.OrderResult{}
		if err := proto.Unmarshal(m.Result, res); err != nil {
			s.stats.Malformed++
			res = nil
		}
	}
	if !s.itemObeyed(id, m.Target, numberOf(m.Number), res) {
		s.game.Obeyed(id, ecs.EntityID(m.Target), t.Home, res, t.Open() == 0)
	}
}

// commandDelayed: the target is elsewhere, or not ready.
func (s *sim) commandDelayed(id ecs.EntityID, t *route.Target, m *wire.CommandAnswer) {
	switch m.Code {
	case wire.CommandAnswer_CODE_GAP:
		t.Resend()
	case wire.CommandAnswer_CODE_WAIT:
		t.Wait(s.tick + commandWaitTicks)
	case wire.CommandAnswer_CODE_BUSY:
		t.Wait(s.tick + commandSearchTicks)
	case wire.CommandAnswer_CODE_MOVED:
		t.Home = int(m.Region)
		t.Wait(s.tick + commandWaitTicks)
	case wire.CommandAnswer_CODE_NOT_HERE:
		t.Wait(s.tick + commandSearchTicks)
		s.search(id, t)
	}
}

// search asks the store where a target is at home. What the store does not know, or has at rest, cannot be commanded.
func (s *sim) search(id ecs.EntityID, t *route.Target) {
	if t.Asked {
		return
	}
	t.Asked = true
	target := t.Entity
	s.store(StoreRequest{Op: StoreLoad, Entity: ecs.EntityID(target)}, func(a StoreAnswer) {
		q := s.commands.queues.Get(id)
		if q == nil || !s.world.Owned(id) || q.Target(target) == nil {
			return
		}
		t := q.Target(target)
		t.Asked = false
		if a.Record != nil && !a.Record.Resting {
			t.Home, t.Missed = s.grid.RegionIndex(a.Record.Home), 0
			return
		}
		if t.Missed++; t.Missed >= commandSearches {
			s.giveUp(id, q, ecs.EntityID(target))
		}
	})
}

func (s *sim) giveUp(id ecs.EntityID, q *route.CommandQueue, target ecs.EntityID) {
	n := q.Drop(uint64(target))
	s.stats.CommandsGivenUp += uint64(n)
	s.dirty(id)
	s.game.Unreachable(id, target)
	s.unreachable(id, target)
	s.note("entity %v gives up %d commands to %v, which is at rest or no more", id, n, target)
}

// reported is a number as transitions tell it: one that rises over the lives of a sender.
func reported(n route.Number) uint64 { return uint64(n.Life)<<56 | n.N&(1<<56-1) }

func wireNumber(n route.Number) *wire.CommandNumber {
	if n == (route.Number{}) {
		return nil
	}
	return &wire.CommandNumber{Life: n.Life, N: n.N}
}

func numberOf(m *wire.CommandNumber) route.Number {
	return route.Number{Life: m.GetLife(), N: m.GetN()}
}
