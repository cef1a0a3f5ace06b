package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/hack/swarm/bots"
)

// longestGap is how long an entity may be simulated by nobody on its way, at the 99th percentile. Where faults are injected
// it is judged by what was before them: whoever is on its way to a node that is stopped waits for it.
const longestGap = 100 * time.Millisecond

// summary is what a run showed.
type summary struct {
	ReadySeconds float64            `json:"readySeconds"`
	Players      map[string]float64 `json:"mostPlayersByNode"`
	Handoffs     float64            `json:"handoffs"`
	Refused      float64            `json:"handoffsRefused"`
	SeamX        float64            `json:"crossingsSeamX"`
	SeamY        float64            `json:"crossingsSeamY"`
	Corner       float64            `json:"crossingsCorner"`
	GapP50       float64            `json:"gapP50Milliseconds"`
	GapP99       float64            `json:"gapP99Milliseconds"`
	GapBefore    *float64           `json:"gapP99BeforeFaultsMilliseconds,omitempty"`
	TickP99      float64            `json:"tickP99Milliseconds"`
	Faults       []string           `json:"faults,omitempty"`
	Swarm        bots.Report        `json:"swarm"`
	Failed       []string           `json:"failed"`

	// remedies say what to do about what failed, each once.
	remedies []string

	// In a world of one or two columns (rows) a crossing of the seam cannot be told from one of a border.
	noSeamX, noSeamY bool
}

// summarize puts together what the nodes and the bots say.
func summarize(w *watch, nodes []zoneNode, ready time.Duration, r bots.Report) summary {
	sum := w.sum()
	s := summary{
		ReadySeconds: ready.Seconds(), Players: map[string]float64{}, Handoffs: sum.counters[metricHandoffs], Refused: sum.counters[metricRefused],
		SeamX: crossings(&sum, "seam_x"), SeamY: crossings(&sum, "seam_y"), Corner: crossings(&sum, "corner"),
		GapP50: milliseconds(sum.quantile(metricGap, .5)), GapP99: milliseconds(sum.quantile(metricGap, .99)),
		TickP99: milliseconds(sum.quantile(metricTick, .99)), Swarm: r,
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range nodes {
		s.Players[n.name] = w.most[n.name]
	}
	return s
}

// milliseconds of a quantile; JSON has no infinity: beyond the last bucket is said as a day.
func milliseconds(seconds float64) float64 {
	switch {
	case math.IsNaN(seconds):
		return 0
	case math.IsInf(seconds, 1):
		return (24 * time.Hour).Seconds() * 1e3
	}
	return seconds * 1e3
}

// What to do about a failed run.
const (
	remedySeen  = "the violations above say who saw what, when and where; -json keeps all of them"
	remedyEnded = "why bots were turned away, ended or refused is in the logs of the nodes, below pods"
	remedyFault = "what was expected of the fault is said above, where it began; the logs of the nodes are below pods"
	remedyShown = "too little was shown: raise DURATION (-duration) or BOTS (-bots)"
	remedySlow  = "the machine may be busy: look with `uptime`, end what else runs, or lower BOTS (-bots)"
	remedyAway  = "bots that are not connected lost their node late or wait for it: raise DURATION (-duration); if it stays so, read the logs of the nodes below pods"
)

// advise adds a remedy.
func (s *summary) advise(remedy string) {
	if !slices.Contains(s.remedies, remedy) {
		s.remedies = append(s.remedies, remedy)
	}
}

// check says what a run of given length should have shown and did not. A run that Ctrl-C ends has no minimum.
func (s *summary) check(timed bool, handoffs int) {
	if len(s.Failed) > 0 {
		s.advise(remedyFault)
	}
	fail := func(bad bool, remedy, format string, args ...any) {
		if bad {
			s.advise(remedy)
			s.Failed = append(s.Failed, fmt.Sprintf(format, args...))
		}
	}
	s.Failed = append(s.Failed, s.Swarm.Failed()...)
	if s.Swarm.ViolationCount > 0 {
		s.advise(remedySeen)
	}
	if len(s.Swarm.LoginsFailed)+len(s.Swarm.Ended)+len(s.Swarm.Refused) > 0 {
		s.advise(remedyEnded)
	}
	gap := s.GapP99
	if s.GapBefore != nil {
		gap = *s.GapBefore
	}
	fail(s.Handoffs > 0 && gap > longestGap.Seconds()*1e3, remedySlow, "the authority gap is %s at the 99th percentile, more than %v", quick(gap/1e3), longestGap)
	if !timed {
		return
	}
	for node, n := range s.Players {
		fail(n == 0, remedyShown, "%s never simulated a player", node)
	}
	if len(s.Players) > 1 {
		fail(s.Handoffs < float64(handoffs), remedyShown, "%.0f handoffs, fewer than %d", s.Handoffs, handoffs)
		fail(s.SeamX == 0 && !s.noSeamX, remedyShown, "no crossing of the seam in x")
		fail(s.SeamY == 0 && !s.noSeamY, remedyShown, "no crossing of the seam in y")
	}
	if len(s.Players) >= 4 {
		fail(s.Corner == 0, remedyShown, "no crossing of a corner of four nodes")
	}
	fail(s.Swarm.Connected < s.Swarm.Bots, remedyAway, "only %d of %d players were connected at the end", s.Swarm.Connected, s.Swarm.Bots)
}

// String is for people.
func (s *summary) String() string {
	var b strings.Builder
	simulating := 0
	for _, n := range s.Players {
		if n > 0 {
			simulating++
		}
	}
	fmt.Fprintf(&b, "\nsummary\n")
	fmt.Fprintf(&b, "ready after %.1f s; %d of %d nodes simulated players\n", s.ReadySeconds, simulating, len(s.Players))
	fmt.Fprintf(&b, "handoffs    %.0f (%.0f refused): seam x %.0f, seam y %.0f, corner of four nodes %.0f\n", s.Handoffs, s.Refused, s.SeamX, s.SeamY, s.Corner)
	before := ""
	if s.GapBefore != nil {
		before = ", before the faults p99 " + quick(*s.GapBefore/1e3)
	}
	fmt.Fprintf(&b, "gap         p50 %s, p99 %s%s (at most %v); tick p99 %s\n", quick(s.GapP50/1e3), quick(s.GapP99/1e3), before, longestGap, quick(s.TickP99/1e3))
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "fault       %s\n", f)
	}
	b.WriteString(s.Swarm.Summary())
	if len(s.Failed) == 0 {
		b.WriteString("verdict     good\n")
	}
	for _, f := range s.Failed {
		fmt.Fprintf(&b, "FAILED      %s\n", f)
	}
	return b.String()
}

// writeJSON keeps a summary for machines; file "" keeps none.
func writeJSON(file string, v any) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}
