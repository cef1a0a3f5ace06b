package route

import (
	"errors"
	"slices"
)

// Commands go from entity to entity. As with calls, both bookkeepings are components of their entities and travel with
// them; in contrast to a client's input, a command's sender and its receiver may each be set back by the crash of its
// owner to what was saved last:
//
//   - CommandQueue is the sender's half: it numbers commands, keeps them until they are answered, and sends them again.
//   - CommandLog is the receiver's half: the highest number that it has executed, per sender.
//
// A number is executed if it is higher than the last one of its sender, and if the command before it, as long as that is
// unanswered, was executed. So numbers may leave others out, and a receiver that was set back goes on with what the sender
// still has; a sender that was set back numbers in a new life, above all that it may have sent before. A crash of either
// side costs at most what its last save did not have, and nothing is executed twice.

const (
	// MaxTargets bounds the targets of one sender that have open commands or are remembered.
	MaxTargets = 64
	// MaxOrder bounds one order, in bytes.
	MaxOrder = 1 << 10
	// repeatTicks is after how long an unanswered command is sent again: 2 s.
	repeatTicks = 40
)

// ErrTargets: commands to MaxTargets others are unanswered.
var ErrTargets = errors.New("too many targets with unanswered commands")

// ErrOrder: the order is longer than MaxOrder.
var ErrOrder = errors.New("order is too long")

// Number orders the commands of one sender, Life first. The zero Number is that of no command.
type Number struct {
	// Life is how often the sender was recovered when the command was made.
	Life uint32
	N    uint64
}

// Less orders numbers.
func (n Number) Less(o Number) bool {
	if n.Life != o.Life {
		return n.Life < o.Life
	}
	return n.N < o.N
}

// Command is one that is not answered yet.
type Command struct {
	Number Number
	// Order is what is commanded; the queue does not look into it.
	Order []byte
	// Repeated: this node sent it before.
	Repeated bool
	sent     bool
}

// Target is whom commands of one sender go to. All but the commands and Home belongs to the node that has the sender now.
type Target struct {
	Entity uint64
	// Home is the index of the target's home region, as far as the sender knows.
	Home int
	// Via is the session that the commands were sent to last.
	Via string
	// Asked: the store is asked for the target's home. Missed counts the times that it did not know the target.
	Asked  bool
	Missed int

	open        []Command
	hold, again int64 // ticks: nothing is sent before, all is sent again at
}

// CommandQueue keeps the commands of one entity until they are answered. The zero value is ready for use.
type CommandQueue struct {
	last    Number
	targets []Target
}

// Add makes the next command to a target. life is how often the sender was recovered, home the index of the target's home
// region if the queue knows nothing better. Numbers are above floor: it sets this owner of the sender apart from others of
// the same life, whose numbers may be in use although nothing of them was handed over. The error is ErrFull, ErrTargets or
// ErrOrder; the command then is not made.
func (q *CommandQueue) Add(target uint64, home int, life uint32, floor uint64, order []byte) (Number, error) {
	if len(order) > MaxOrder {
		return Number{}, ErrOrder
	}
	t := q.Target(target)
	switch {
	case t == nil && len(q.targets) >= MaxTargets && !q.forgetIdle():
		return Number{}, ErrTargets
	case t == nil:
		q.targets = append(q.targets, Target{Entity: target, Home: home})
		t = &q.targets[len(q.targets)-1]
	case len(t.open) >= Window:
		return Number{}, ErrFull
	}
	if q.last.Life < life {
		q.last = Number{Life: life}
	}
	q.last.N = max(q.last.N, floor) + 1
	t.open = append(t.open, Command{Number: q.last, Order: order})
	return q.last, nil
}

// forgetIdle makes room by forgetting a target that nothing is open to.
func (q *CommandQueue) forgetIdle() bool {
	i := slices.IndexFunc(q.targets, func(t Target) bool { return len(t.open) == 0 })
	if i >= 0 {
		q.targets = slices.Delete(q.targets, i, i+1)
	}
	return i >= 0
}

// Target is the entry of a target, nil if nothing is known of it. The pointer is good until the next Add.
func (q *CommandQueue) Target(entity uint64) *Target {
	for i := range q.targets {
		if q.targets[i].Entity == entity {
			return &q.targets[i]
		}
	}
	return nil
}

// Targets are the entries of all targets. The caller may change them in place until the next Add.
func (q *CommandQueue) Targets() []Target { return q.targets }

// Open is the number of unanswered commands.
func (q *CommandQueue) Open() (n int) {
	for i := range q.targets {
		n += len(q.targets[i].open)
	}
	return n
}

// Answer takes the answer to a command; false: it was answered before.
func (q *CommandQueue) Answer(target uint64, number Number) bool {
	t := q.Target(target)
	if t == nil {
		return false
	}
	i := slices.IndexFunc(t.open, func(c Command) bool { return c.Number == number })
	if i < 0 {
		return false
	}
	t.open = slices.Delete(t.open, i, i+1)
	t.Missed = 0
	return true
}

// Has reports whether a command is unanswered.
func (q *CommandQueue) Has(target uint64, number Number) bool {
	t := q.Target(target)
	return t != nil && slices.ContainsFunc(t.open, func(c Command) bool { return c.Number == number })
}

// Withdraw forgets the open commands whose order is over.
func (q *CommandQueue) Withdraw(over func(order []byte) bool) (withdrawn int) {
	for i := range q.targets {
		t := &q.targets[i]
		before := len(t.open)
		t.open = slices.DeleteFunc(t.open, func(c Command) bool { return over(c.Order) })
		withdrawn += before - len(t.open)
	}
	return withdrawn
}

// Drop gives up all that is open to a target and returns how many commands that were.
func (q *CommandQueue) Drop(target uint64) (dropped int) {
	q.targets = slices.DeleteFunc(q.targets, func(t Target) bool {
		if t.Entity != target {
			return false
		}
		dropped = len(t.open)
		return true
	})
	return dropped
}

// Open is the number of unanswered commands to this target.
func (t *Target) Open() int { return len(t.open) }

// Wait sends everything again, but not before a tick.
func (t *Target) Wait(until int64) {
	t.hold = until
	t.Resend()
}

// Resend marks all commands as not sent.
func (t *Target) Resend() {
	for i := range t.open {
		t.open[i].sent = false
	}
}

// Send calls send for each command that is to go out in this tick, oldest first, with the number of the one before it that
// is unanswered too. via is the session of the target's owner: a new one gets all at once, whatever the old one said.
func (t *Target) Send(tick int64, via string, send func(c Command, after Number)) {
	switch {
	case via != t.Via:
		t.Via = via
		t.Resend()
	case tick < t.hold:
		return
	case tick >= t.again:
		t.Resend()
	}
	var after Number
	for i := range t.open {
		c := &t.open[i]
		if !c.sent {
			c.sent, t.again = true, tick+repeatTicks
			send(*c, after)
			c.Repeated = true
		}
		after = c.Number
	}
}
