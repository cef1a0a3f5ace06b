package bots

import (
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
)

// TestARefusalIsExcusedByAMarkNearItOnly: a crash undoes the place a move was planned from; nothing else excuses one.
func TestARefusalIsExcusedByAMarkNearItOnly(t *testing.T) {
	start := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		marked  time.Duration // after the refusal; 0: never
		excused int
	}{
		"no mark":          {0, 0},
		"just before":      {-time.Second, 1},
		"just after":       {2 * time.Second, 1},
		"long before":      {-time.Minute, 0},
		"long after it":    {time.Minute, 0},
		"right on its way": {time.Millisecond, 1},
	} {
		s := &Swarm{refusals: map[string]int{}}
		b := &bot{swarm: s, refusals: []refusal{{start, &wire.InputResult{Code: wire.InputResult_CODE_INVALID, Detail: "too far"}}}}
		for at := time.Duration(0); at < 2*time.Minute; at += time.Second {
			if c.marked != 0 && at >= c.marked {
				b.marked = start.Add(c.marked)
			}
			b.judgeRefusals(start.Add(at))
		}
		if s.count.excusedRefusals != c.excused || s.count.refused != 1-c.excused || len(b.refusals) != 0 {
			t.Errorf("%s: %d excused, %d refused, %d open", name, s.count.excusedRefusals, s.count.refused, len(b.refusals))
		}
	}
}
