package route

import (
	"cmp"
	"slices"
)

const (
	// MaxSenders bounds the senders that a receiver remembers.
	MaxSenders = 64
	// IdleTicks is after how long without a command a sender may be forgotten to make room for another: 2 minutes.
	IdleTicks = 2400
)

// Busy: as many senders are remembered as may be, none of them idle. Only CommandLog.Judge says so.
const Busy = Pending + 1

// CommandLog remembers the last number that an entity executed for each sender. The zero value is ready for use.
type CommandLog struct {
	senders []sender // by entity
}

type sender struct {
	entity uint64
	last   Number
	heard  int64 // tick
}

// Judge says what to do with a command: Execute, Repeat, Gap or Busy. last is the highest number executed for the sender.
func (l *CommandLog) Judge(tick int64, from uint64, number, after Number) (v Verdict, last Number) {
	i, known := l.find(from)
	if known {
		last = l.senders[i].last
	}
	switch {
	case !last.Less(number):
		return Repeat, last
	case last.Less(after):
		return Gap, last
	case !known && len(l.senders) >= MaxSenders && tick-l.senders[l.longestIdle()].heard < IdleTicks:
		return Busy, last
	}
	return Execute, last
}

// Done records that a command was executed, or heard of again.
func (l *CommandLog) Done(tick int64, from uint64, number Number) {
	i, known := l.find(from)
	if known {
		l.senders[i].heard = tick
		if l.senders[i].last.Less(number) {
			l.senders[i].last = number
		}
		return
	}
	if len(l.senders) >= MaxSenders {
		idle := l.longestIdle()
		l.senders = slices.Delete(l.senders, idle, idle+1)
		i, _ = l.find(from)
	}
	l.senders = slices.Insert(l.senders, i, sender{from, number, tick})
}

// Last is the highest number executed for a sender.
func (l *CommandLog) Last(from uint64) (last Number) {
	if i, known := l.find(from); known {
		last = l.senders[i].last
	}
	return last
}

func (l *CommandLog) find(entity uint64) (int, bool) {
	return slices.BinarySearchFunc(l.senders, entity, func(s sender, e uint64) int { return cmp.Compare(s.entity, e) })
}

// longestIdle is the sender that was heard of least recently, the first of several. There is at least one.
func (l *CommandLog) longestIdle() (found int) {
	for i := range l.senders {
		if l.senders[i].heard < l.senders[found].heard {
			found = i
		}
	}
	return found
}
