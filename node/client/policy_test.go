package client

import (
	"errors"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
)

func TestEveryReasonHasAVerdict(t *testing.T) {
	final := map[wire.Disconnected_Reason]bool{
		wire.Disconnected_REASON_LOGGED_OUT: true, wire.Disconnected_REASON_DISPLACED: true, wire.Disconnected_REASON_KICKED: true,
		wire.Disconnected_REASON_PROTOCOL_MISMATCH: true, wire.Disconnected_REASON_MALFORMED: true, wire.Disconnected_REASON_TOO_LARGE: true,
	}
	for number := range wire.Disconnected_Reason_name {
		reason := wire.Disconnected_Reason(number)
		if got := judge(reason, 1); got.final != final[reason] {
			t.Errorf("%v: %+v", reason, got)
		}
	}
	if !judge(wire.Disconnected_REASON_AUTH_FAILED, 2).final {
		t.Error("a second refused token is not the last one")
	}
	if v := judgeError(errors.New("broken pipe"), 0); v.final || !v.elsewhere {
		t.Errorf("a broken socket: %+v", v)
	}
}

func TestPausesGrowAndEnd(t *testing.T) {
	for try := range 100 {
		p := backOff(try)
		if p < firstPause*3/4 || p > lastPause {
			t.Fatalf("try %d: %v", try, p)
		}
		if try > 15 && p < time.Second {
			t.Fatalf("try %d: only %v", try, p)
		}
	}
}

func TestAnsweredInputsAreForgotten(t *testing.T) {
	q := inputs{next: 5}
	for range 4 {
		q.add(nil)
	}
	if n := q.answered(4); n != 0 {
		t.Errorf("%d of the numbers before", n)
	}
	if n := q.answered(6); n != 2 || q.first() != 7 || q.next != 9 {
		t.Errorf("%d, first %d, next %d", n, q.first(), q.next)
	}
	if n := q.answered(100); n != 2 || len(q.open) != 0 {
		t.Errorf("%d", n)
	}
}
