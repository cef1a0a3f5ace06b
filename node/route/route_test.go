package route

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// TestEveryCallTakesEffectOnceAndInOrder: a sender and a receiver with anything between them that loses, repeats and
// reorders; the receiver's log moves to another node now and then.
func TestEveryCallTakesEffectOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		var log Log
		if _, ok := log.Login(5, 0); !ok {
			t.Fatal("a first login is refused")
		}
		q.Start(0)
		var wire []uint64 // numbers under way
		var answers []uint64
		var done, answered []uint64
		sent := uint64(0)
		for range 400 {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				if err := q.Add(sent+1, []byte{byte(sent + 1)}); err == nil {
					sent++
				} else if !errors.Is(err, ErrFull) {
					t.Fatal(err)
				}
			case 1:
				for i := range q.Open() {
					if o := &q.Open()[i]; !o.Sent {
						o.Sent = true
						wire = append(wire, o.Number)
					}
				}
			case 2:
				if len(wire) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(wire)-1).Draw(t, "which")
				n := wire[i]
				if rapid.Bool().Draw(t, "keep") {
					wire = append(wire[:i:i], wire[i+1:]...)
				}
				switch log.Judge(5, n) {
				case Execute:
					done = append(done, n)
					log.Done(n, []byte{byte(n)})
					answers = append(answers, n)
				case Repeat:
					if r := log.Result(n); r != nil && r[0] != byte(n) {
						t.Fatalf("result of %d is that of %d", n, r[0])
					}
					answers = append(answers, n)
				case Gap:
					q.Resend(log.Want())
				default:
					t.Fatalf("call %d is foreign", n)
				}
			case 3:
				if len(answers) > 0 {
					i := rapid.IntRange(0, len(answers)-1).Draw(t, "answer")
					if q.Answer(answers[i]) {
						answered = append(answered, answers[i])
					}
					answers = append(answers[:i:i], answers[i+1:]...)
				}
			case 4:
				wire, answers = nil, nil
				q.Resend(0)
			case 5:
				var moved Log
				if err := moved.Decode(log.Append(nil)); err != nil {
					t.Fatal(err)
				}
				log = moved
			}
		}
		for i, n := range done {
			if n != uint64(i+1) {
				t.Fatalf("executed %v", done)
			}
		}
		for i, n := range answered {
			if n != uint64(i+1) {
				t.Fatalf("answered %v", answered)
			}
		}
	})
}

func TestAFreshLoginStartsAnewAndAnOldOneIsForeign(t *testing.T) {
	var l Log
	l.Login(1, 0)
	l.Done(1, []byte("x"))
	if last, ok := l.Login(1, 0); !ok || last != 1 {
		t.Errorf("the same login goes on at %d, %v", last, ok)
	}
	if last, ok := l.Login(2, 0); !ok || last != 0 || l.Judge(2, 1) != Execute {
		t.Error("a fresh login does not start at 1")
	}
	if _, ok := l.Login(1, 0); ok || l.Judge(1, 2) != Foreign {
		t.Error("an older login is taken")
	}
	if last, _ := l.Login(2, 7); last != 7 || l.Judge(2, 7) != Repeat || l.Judge(2, 8) != Execute {
		t.Error("what the client knows as done is executed again")
	}
}

func TestTheQueueRefusesGapsAndOverflow(t *testing.T) {
	var q Queue
	q.Start(3)
	if err := q.Add(5, nil); !errors.Is(err, ErrGap) {
		t.Errorf("a gap: %v", err)
	}
	if err := q.Add(3, nil); !errors.Is(err, ErrRepeat) {
		t.Errorf("a repeat: %v", err)
	}
	for n := uint64(4); n < 4+Window; n++ {
		if err := q.Add(n, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Add(4+Window, nil); !errors.Is(err, ErrFull) {
		t.Errorf("call %d of a window of %d: %v", Window+1, Window, err)
	}
}

func FuzzLog(f *testing.F) {
	var l Log
	l.Login(3, 0)
	l.Done(1, []byte("result"))
	f.Add(l.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Log
		if l.Decode(b) != nil {
			return
		}
		var again Log
		if err := again.Decode(l.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(l.Append(nil), again.Append(nil)) {
			t.Fatal("a log changes on its way")
		}
	})
}
