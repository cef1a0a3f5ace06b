package vault

import (
	"slices"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// trip is one round trip: a step of a task on its way to the server and back.
type trip struct {
	*task
	step     *step
	deadline time.Duration
	landed   time.Duration
	reply    reply
	// silent: no reply will come. over: the sender has heard, or waits no longer. undone: a failover took the change back.
	silent, over, undone bool
}

// slot is a part of the server that fails over on its own.
type slot struct {
	// tail are the writes that are not durable, in the order in which they were carried out.
	tail []*trip
	// durable is when the last of the tail will be: a log is copied in its order.
	durable time.Duration
}

// send starts a round trip.
func (t *task) send(s *step) {
	v := t.client.vault
	r := &trip{task: t, step: s, deadline: v.now() + Timeout}
	switch {
	case t.client.unreachable():
		v.counters.Unsent++
		r.silence()
	case v.chance(v.timeouts):
		v.counters.TimedOut++
		r.silence()
		if v.chance(0.5) {
			v.after(v.late(), r.land)
		}
	default:
		r.hop(v.delay(), r.arrive)
	}
}

// hop goes on after a while. The sender does not wait beyond its deadline, what was sent goes on without it.
func (t *trip) hop(d time.Duration, next func()) {
	v := t.client.vault
	if due := v.now() + d; due > t.deadline && !t.over && !t.silent {
		v.counters.Overdue++
		t.silence()
	}
	v.after(d, next)
}

// silence: the reply will not come, the sender waits in vain.
func (t *trip) silence() {
	if !t.silent && !t.over {
		t.silent = true
		t.client.vault.options.Timeline.At(t.deadline, t.giveUp)
	}
}

func (t *trip) giveUp() {
	t.over = true
	t.finish(answerTo(t.req, zone.StoreUnavailable))
}

// arrive is the moment at which a connection that broke, or a sender that died, may have cut the request off.
func (t *trip) arrive() {
	v := t.client.vault
	switch {
	case t.client.unreachable() && v.chance(0.5):
		t.unheard()
	case t.client.dead && v.chance(0.5):
		if v.chance(0.7) {
			v.after(v.late(), t.land)
		}
	default:
		t.land()
	}
}

// land carries out the step. A write is replied to when it is durable, whether it changed something or not: it may be
// the repeat of one that is not durable yet.
func (t *trip) land() {
	v := t.client.vault
	if t.step.writes && v.refuses() {
		t.reply = reply{answer: answerTo(t.req, zone.StoreUnavailable)}
		t.respond()
		return
	}
	t.reply = t.step.run()
	if !t.step.writes {
		t.respond()
		return
	}
	switch {
	case t.client.dead:
		v.counters.DeadLandings++
	case t.over:
		v.counters.LateLandings++
	}
	s := &v.slots[t.step.key.slot()]
	s.tail = append(s.tail, t)
	v.keep(t)
	s.durable = max(s.durable, v.now()+v.delay())
	t.hop(s.durable-v.now(), t.becomeDurable)
}

func (v *Vault) refuses() bool {
	switch {
	case v.readOnly:
		v.counters.ReadOnly++
	case v.full:
		v.counters.Full++
	default:
		return false
	}
	return true
}

// becomeDurable: the writes of a slot do so in their order, so this one is the first of the tail.
func (t *trip) becomeDurable() {
	if t.undone {
		return
	}
	s := &t.client.vault.slots[t.step.key.slot()]
	s.tail = slices.Delete(s.tail, 0, 1)
	t.respond()
}

// takeBack undoes what the step changed.
func (t *trip) takeBack() {
	t.undone = true
	if t.reply.undo != nil {
		t.client.vault.counters.Undone++
		t.reply.undo()
	}
	t.silence()
}

// respond sends the reply on its way, if somebody waits for it.
func (t *trip) respond() {
	switch {
	case t.silent || t.over || t.client.dead:
	case t.client.unreachable():
		t.unheard()
	default:
		t.hop(t.client.vault.delay(), t.hear)
	}
}

func (t *trip) unheard() {
	t.client.vault.counters.Unheard++
	t.silence()
}

func (t *trip) hear() {
	switch {
	case t.over || t.client.dead:
	case t.client.unreachable():
		t.unheard()
	default:
		t.over = true
		t.goOn()
	}
}

func (t *trip) goOn() {
	if t.reply.next != nil {
		t.send(t.reply.next)
		return
	}
	t.finish(t.reply.answer)
}
