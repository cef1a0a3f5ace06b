package route

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Window bounds the calls of one sender that may be unanswered, and so the results that a receiver must remember.
const Window = 16

// Verdict says what a receiver does with a call.
type Verdict uint8

const (
	// Execute: it is the next one.
	Execute Verdict = iota + 1
	// Repeat: it was executed; Log.Result has its result.
	Repeat
	// Gap: an earlier one is missing; Log.Want says which.
	Gap
	// Foreign: it belongs to an older login.
	Foreign
	// Pending: it was executed, and its result is not known yet.
	Pending
)

// Log remembers what an entity executed for the session of its account. The zero Log belongs to no login.
type Log struct {
	login   uint64
	last    uint64
	results [Window][]byte // of number n at n % Window
	waiting []Waiting      // by Call
}

// Waiting is a call that was executed and whose result is not known yet, and what will tell it: the answer to a command to
// Target, or a Movement.
type Waiting struct {
	Call     uint64
	Target   uint64
	Command  Number
	Movement uint64
}

// Login begins the numbering of a fresh login, or goes on with the current one. Numbers up to acked are taken as done:
// their results reached the client, they are not executed again even where a crash undid them. It returns the highest
// number that is done; false if the login is older than the one known.
func (l *Log) Login(epoch, acked uint64) (last uint64, ok bool) {
	if epoch < l.login {
		return l.last, false
	}
	if epoch > l.login {
		*l = Log{login: epoch}
	}
	l.last = max(l.last, acked)
	l.waiting = slices.DeleteFunc(l.waiting, func(w Waiting) bool { return w.Call <= acked })
	return l.last, true
}

// LogState is how far a log is: the login that it belongs to and the highest number that is done.
type LogState struct{ Login, Last uint64 }

// State tells how far the log is.
func (l *Log) State() LogState { return LogState{l.login, l.last} }

// Judge says what to do with a call.
func (l *Log) Judge(login, number uint64) Verdict {
	switch {
	case login != l.login || number == 0:
		return Foreign
	case number <= l.last && slices.ContainsFunc(l.waiting, func(w Waiting) bool { return w.Call == number }):
		return Pending
	case number <= l.last:
		return Repeat
	case number == l.last+1:
		return Execute
	default:
		return Gap
	}
}

// Want is the next number.
func (l *Log) Want() uint64 { return l.last + 1 }

// Done records the result of the next number.
func (l *Log) Done(number uint64, result []byte) {
	l.last = number
	l.results[number%Window] = result
}

// Wait records that the next call, w.Call, was executed and that its result will be told.
func (l *Log) Wait(w Waiting) {
	l.Done(w.Call, nil)
	l.waiting = append(l.waiting, w)
}

// Waiting are the calls whose results are not known yet, by number. The caller must not change them.
func (l *Log) Waiting() []Waiting { return l.waiting }

// Tell records the result of a call that was waiting; false: it is none.
func (l *Log) Tell(number uint64, result []byte) bool {
	i := slices.IndexFunc(l.waiting, func(w Waiting) bool { return w.Call == number })
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	if number+Window > l.last {
		l.results[number%Window] = result
	}
	return true
}

// Result is what the call of that number came to; nil if it is too old to be remembered, which no sender that keeps to
// the window can ask for.
func (l *Log) Result(number uint64) []byte {
	if number+Window <= l.last || number > l.last {
		return nil
	}
	return l.results[number%Window]
}

const (
	logLogin  = protowire.Number(1)
	logLast   = protowire.Number(2)
	logResult = protowire.Number(3)
	// logWaiting is packed: call, target, life and number of the command, movement.
	logWaiting = protowire.Number(4)
	// maxResult bounds one result when a log is read from outside.
	maxResult = 4 << 10
)

var errLog = errors.New("malformed call log")

// Append encodes the log after dst: login, last number, and the Window results ending with it, oldest first.
func (l *Log) Append(dst []byte) []byte {
	dst = protowire.AppendTag(dst, logLogin, protowire.VarintType)
	dst = protowire.AppendVarint(dst, l.login)
	dst = protowire.AppendTag(dst, logLast, protowire.VarintType)
	dst = protowire.AppendVarint(dst, l.last)
	for i := range uint64(Window) {
		dst = protowire.AppendTag(dst, logResult, protowire.BytesType)
		dst = protowire.AppendBytes(dst, l.results[(l.last+1+i)%Window])
	}
	for _, w := range l.waiting {
		dst = protowire.AppendTag(dst, logWaiting, protowire.BytesType)
		dst = protowire.AppendBytes(dst, w.append(nil))
	}
	return dst
}

func (w Waiting) append(dst []byte) []byte {
	for _, v := range [...]uint64{w.Call, w.Target, uint64(w.Command.Life), w.Command.N, w.Movement} {
		dst = protowire.AppendVarint(dst, v)
	}
	return dst
}

func decodeWaiting(b []byte) (Waiting, error) {
	var v [5]uint64
	for i := range v {
		x, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return Waiting{}, errLog
		}
		v[i], b = x, b[n:]
	}
	if len(b) > 0 || v[0] == 0 || v[2] > math.MaxUint32 {
		return Waiting{}, errLog
	}
	return Waiting{v[0], v[1], Number{uint32(v[2]), v[3]}, v[4]}, nil
}

// Decode replaces the log by an encoded one.
func (l *Log) Decode(b []byte) error {
	var out Log
	var results [][]byte
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errLog
		}
		b = b[n:]
		switch {
		case num == logLogin && typ == protowire.VarintType:
			out.login, n = protowire.ConsumeVarint(b)
		case num == logLast && typ == protowire.VarintType:
			out.last, n = protowire.ConsumeVarint(b)
		case num == logResult && typ == protowire.BytesType:
			var r []byte
			if r, n = protowire.ConsumeBytes(b); n >= 0 {
				results = append(results, append([]byte(nil), r...))
			}
		case num == logWaiting && typ == protowire.BytesType:
			var f []byte
			if f, n = protowire.ConsumeBytes(b); n >= 0 {
				w, err := decodeWaiting(f)
				if err != nil {
					return err
				}
				out.waiting = append(out.waiting, w)
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errLog
		}
		b = b[n:]
	}
	if len(out.waiting) > Window {
		return fmt.Errorf("%w: %d calls wait", errLog, len(out.waiting))
	}
	if len(results) != Window {
		return fmt.Errorf("%w: %d results, want %d", errLog, len(results), Window)
	}
	for i, r := range results {
		if len(r) > maxResult {
			return fmt.Errorf("%w: result of %d bytes", errLog, len(r))
		}
		out.results[(out.last+1+uint64(i))%Window] = r
	}
	*l = out
	return nil
}
