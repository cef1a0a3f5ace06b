package route

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const (
	master = uint64(7)
	bestia = uint64(9)
)

// commanded is a command on its way; serial tells it from another of the same number.
type commanded struct {
	number, after Number
	serial        byte
}

// orders is a sender and a receiver with anything between them that loses, repeats and reorders. Both may move, and may be
// set back to what was saved last.
type orders struct {
	*rapid.T
	queue CommandQueue
	log   CommandLog
	life  uint32
	floor uint64
	tick  int64

	serial  byte
	under   []commanded
	answers []Number
	effects []commanded // what the receiver executed; it is set back with it
	made    []byte      // serials, by the sender since the last crash of either side

	savedQueue, movedQueue, savedLog []byte
	savedEffects                     []commanded
}

func (o *orders) add() {
	_, err := o.queue.Add(bestia, 3, o.life, o.floor, []byte{o.serial})
	switch {
	case errors.Is(err, ErrFull):
	case err != nil:
		o.Fatal(err)
	default:
		o.made = append(o.made, o.serial)
		o.serial++
	}
}

func (o *orders) send() {
	o.tick += rapid.Int64Range(0, 50).Draw(o.T, "ticks")
	if t := o.queue.Target(bestia); t != nil {
		t.Send(o.tick, "w-zone-1#1", func(c Command, after Number) { o.under = append(o.under, commanded{c.Number, after, c.Order[0]}) })
	}
}

func (o *orders) receive() {
	if len(o.under) == 0 {
		return
	}
	i := rapid.IntRange(0, len(o.under)-1).Draw(o.T, "which")
	c := o.under[i]
	if rapid.Bool().Draw(o.T, "keep") {
		o.under = slices.Delete(o.under, i, i+1)
	}
	o.take(c)
}

func (o *orders) take(c commanded) {
	switch v, last := o.log.Judge(o.tick, master, c.number, c.after); v {
	case Execute:
		o.effects = append(o.effects, c)
		o.log.Done(o.tick, master, c.number)
		o.answers = append(o.answers, c.number)
	case Repeat:
		o.log.Done(o.tick, master, c.number)
		o.answers = append(o.answers, c.number)
	case Gap:
		if !last.Less(c.after) {
			o.Fatalf("a gap before %v, but %v was executed", c.number, last)
		}
		if t := o.queue.Target(bestia); t != nil {
			t.Resend()
		}
	default:
		o.Fatalf("judged %v", v)
	}
}

func (o *orders) answered() {
	if len(o.answers) == 0 {
		return
	}
	i := rapid.IntRange(0, len(o.answers)-1).Draw(o.T, "answer")
	o.queue.Answer(bestia, o.answers[i])
	o.answers = slices.Delete(o.answers, i, i+1)
}

func (o *orders) decode(queue, log []byte) {
	if err := o.queue.Decode(queue); err != nil {
		o.Fatal(err)
	}
	if err := o.log.Decode(log, o.tick); err != nil {
		o.Fatal(err)
	}
}

func (o *orders) move() {
	o.movedQueue = o.queue.Append(nil)
	o.decode(o.movedQueue, o.log.Append(nil, o.tick))
}

func (o *orders) save() {
	o.savedQueue, o.savedLog, o.savedEffects = o.queue.Append(nil), o.log.Append(nil, o.tick), slices.Clone(o.effects)
}

// senderCrashes: the sender is recovered from its record.
func (o *orders) senderCrashes() {
	o.decode(o.savedQueue, o.log.Append(nil, o.tick))
	o.life++
	o.made = nil
}

// targetOfSenderCrashes: the sender was handed over, and what it was offered with is offered to another.
func (o *orders) targetOfSenderCrashes() {
	if o.movedQueue == nil || o.life > 0 {
		return
	}
	o.decode(o.movedQueue, o.log.Append(nil, o.tick))
	o.floor += 1 << 24
	o.made = nil
}

func (o *orders) receiverCrashes() {
	o.decode(o.queue.Append(nil), o.savedLog)
	o.effects = slices.Clone(o.savedEffects)
	o.made = nil
}

// settle lets all be sent and answered.
func (o *orders) settle() {
	for range 4 * Window {
		o.under, o.answers = nil, nil
		o.tick += repeatTicks
		if t := o.queue.Target(bestia); t != nil {
			t.Send(o.tick, "w-zone-2#1", func(c Command, after Number) { o.under = append(o.under, commanded{c.Number, after, c.Order[0]}) })
		}
		for _, c := range o.under {
			o.take(c)
		}
		for _, n := range o.answers {
			o.queue.Answer(bestia, n)
		}
	}
	if n := o.queue.Open(); n > 0 {
		o.Fatalf("%d commands are never answered", n)
	}
}

func (o *orders) check() {
	for i := 1; i < len(o.effects); i++ {
		if !o.effects[i-1].number.Less(o.effects[i].number) {
			o.Fatalf("executed %v", o.effects)
		}
	}
}

// TestEveryCommandIsExecutedOnceAndInOrder, and all that were made since the last crash are.
func TestEveryCommandIsExecutedOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &orders{T: t}
		o.save()
		steps := []func(){o.add, o.add, o.send, o.send, o.receive, o.receive, o.answered, o.answered, func() { o.under, o.answers = nil, nil }, o.move, o.save}
		crashes := []func(){func() {}}
		if rapid.Bool().Draw(t, "crashes") {
			crashes = []func(){o.senderCrashes, o.receiverCrashes, o.targetOfSenderCrashes}
		}
		for range rapid.IntRange(1, 8).Draw(t, "crashes") {
			for range rapid.IntRange(0, 60).Draw(t, "steps") {
				rapid.SampledFrom(steps).Draw(t, "step")()
				o.check()
			}
			rapid.SampledFrom(crashes).Draw(t, "crash")()
		}
		for range 10 {
			rapid.SampledFrom(steps).Draw(t, "step")()
		}
		o.settle()
		o.check()
		var got []byte
		for _, c := range o.effects[max(0, len(o.effects)-len(o.made)):] {
			got = append(got, c.serial)
		}
		if !slices.Equal(got, o.made) {
			t.Fatalf("made %v since the last crash, executed at last %v", o.made, got)
		}
	})
}

func TestTheCommandQueueRefusesWhatIsTooMuch(t *testing.T) {
	var q CommandQueue
	for range Window {
		if _, err := q.Add(bestia, 0, 0, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Add(bestia, 0, 0, 0, nil); !errors.Is(err, ErrFull) {
		t.Errorf("command %d to one target: %v", Window+1, err)
	}
	for i := range uint64(MaxTargets - 1) {
		if _, err := q.Add(100+i, 0, 0, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Add(99, 0, 0, 0, nil); !errors.Is(err, ErrTargets) {
		t.Errorf("target %d: %v", MaxTargets+1, err)
	}
	if n := q.Drop(100); n != 1 {
		t.Errorf("%d commands were given up, want 1", n)
	}
	if _, err := q.Add(99, 0, 0, 0, nil); err != nil {
		t.Errorf("there is room for a target: %v", err)
	}
	n, err := q.Add(99, 0, 0, 0, make([]byte, MaxOrder+1))
	if !errors.Is(err, ErrOrder) {
		t.Errorf("a long order: %v, %v", n, err)
	}
}

func TestATargetWithoutOpenCommandsMakesRoomForAnother(t *testing.T) {
	var q CommandQueue
	for i := range uint64(2 * MaxTargets) {
		n, err := q.Add(1+i, 0, 0, 0, nil)
		if err != nil || !q.Answer(1+i, n) {
			t.Fatalf("target %d: %v", i, err)
		}
	}
}

func TestCommandsAreSentAgainWhenTheyAreDue(t *testing.T) {
	var q CommandQueue
	first, _ := q.Add(bestia, 0, 0, 0, nil)
	second, _ := q.Add(bestia, 0, 0, 0, nil)
	target := q.Target(bestia)
	sent := func(tick int64, via string) (list []commanded) {
		target.Send(tick, via, func(c Command, after Number) { list = append(list, commanded{c.Number, after, 0}) })
		return list
	}
	both := []commanded{{first, Number{}, 0}, {second, first, 0}}
	for _, c := range []struct {
		name string
		do   func()
		tick int64
		via  string
		want []commanded
	}{
		{"at once", func() {}, 10, "a", both},
		{"not while they are under way", func() {}, 11, "a", nil},
		{"to another owner at once", func() {}, 12, "b", both},
		{"after 2 s", func() {}, 12 + repeatTicks, "b", both},
		{"not while they are to wait", func() { target.Wait(60) }, 59, "b", nil},
		{"then", func() {}, 60, "b", both},
		{"the rest, with nothing before it", func() { q.Answer(bestia, first); target.Resend() }, 61, "b", []commanded{{second, Number{}, 0}}},
	} {
		c.do()
		if got := sent(c.tick, c.via); !slices.Equal(got, c.want) {
			t.Errorf("%s: sent %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAFullLogForgetsOnlyIdleSenders(t *testing.T) {
	var l CommandLog
	one := Number{N: 1}
	for i := range int64(MaxSenders) {
		l.Done(i, uint64(100+i), one)
	}
	if v, _ := l.Judge(IdleTicks-1, 5, one, Number{}); v != Busy {
		t.Errorf("sender %d is judged %v while no other is idle", MaxSenders+1, v)
	}
	if v, last := l.Judge(IdleTicks-1, 101, one, Number{}); v != Repeat || last != one {
		t.Errorf("a known sender is judged %v", v)
	}
	if v, _ := l.Judge(IdleTicks, 5, one, Number{}); v != Execute {
		t.Errorf("it is judged %v when one is idle", v)
	}
	l.Done(IdleTicks, 5, one)
	if l.Last(100) != (Number{}) || l.Last(101) != one || l.Last(5) != one {
		t.Error("the wrong sender was forgotten")
	}
}

func FuzzCommandQueue(f *testing.F) {
	var q CommandQueue
	f.Add(q.Append(nil))
	for i := range uint64(3) {
		if _, err := q.Add(bestia+i/2, 2, uint32(i), 1<<40, []byte("order")); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(q.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q, again CommandQueue
		if q.Decode(b) != nil {
			return
		}
		if err := again.Decode(q.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(q.Append(nil), again.Append(nil)) {
			t.Fatal("a queue changes on its way")
		}
	})
}

func FuzzCommandLog(f *testing.F) {
	var l CommandLog
	f.Add(l.Append(nil, 0))
	l.Done(5, master, Number{1, 2})
	l.Done(9, bestia, Number{0, 1 << 40})
	f.Add(l.Append(nil, 12))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l, again CommandLog
		if l.Decode(b, 100) != nil {
			return
		}
		if err := again.Decode(l.Append(nil, 200), 300); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(l.Append(nil, 200), again.Append(nil, 300)) {
			t.Fatal("a log changes on its way")
		}
	})
}
