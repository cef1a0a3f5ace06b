package bots

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
)

// Violation is one, with what is needed to look into it.
type Violation struct {
	Kind client.ViolationKind `json:"kind"`
	// After is the time since the swarm started.
	After Seconds `json:"after"`
	// Seer is the bot that saw it, Seen the bot that it is about, if it is one.
	Seer      string    `json:"seer"`
	Behaviour Behaviour `json:"behaviour"`
	Gateway   string    `json:"gateway"`
	At        string    `json:"at"`
	Seen      string    `json:"seen,omitempty"`
	Entity    uint64    `json:"entity,omitempty"`
	Detail    string    `json:"detail"`
}

// Seconds is a duration that JSON shows as a number of seconds.
type Seconds time.Duration

// MarshalJSON writes seconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", time.Duration(s).Seconds()), nil
}

// String is for people.
func (v Violation) String() string {
	seen := v.Seen
	if seen == "" && v.Entity != 0 {
		seen = fmt.Sprintf("entity %d", v.Entity)
	}
	if seen != "" {
		seen = " of " + seen
	}
	return fmt.Sprintf("%6.1f s  %s%s, seen by %s (%s) at %s through %s: %s",
		time.Duration(v.After).Seconds(), v.Kind, seen, v.Seer, v.Behaviour, v.At, v.Gateway, v.Detail)
}

// Report is what a swarm went through, so far or in all.
type Report struct {
	World   string  `json:"world"`
	Seconds float64 `json:"seconds"`
	Bots    int     `json:"bots"`
	// Connected now; Gateways counts them by pod.
	Connected int            `json:"connected"`
	Gateways  map[string]int `json:"gateways"`
	Logins    int            `json:"logins"`
	Resumes   int            `json:"resumes"`
	Losses    int            `json:"losses"`
	// LoginsFailed lists why bots never got in; Ended why some were ended.
	LoginsFailed map[string]int `json:"loginsFailed,omitempty"`
	Ended        map[string]int `json:"ended,omitempty"`

	Inputs  int `json:"inputs"`
	Results int `json:"results"`
	// Refused inputs by what was said about them.
	Refused map[string]int `json:"refused,omitempty"`
	// ExcusedRefusals are moves that were planned from a place which a crash undid.
	ExcusedRefusals int `json:"excusedRefusals"`
	// Unknown results were lost with a connection; Dropped inputs with a session.
	Unknown int `json:"unknown"`
	Dropped int `json:"dropped"`
	Said    int `json:"said"`
	Heard   int `json:"heard"`

	// Crossings of borders between regions, as the bots know; among them those of the seams.
	Crossings int `json:"crossings"`
	SeamX     int `json:"seamX"`
	SeamY     int `json:"seamY"`

	// Resyncs are the marked breaks; LateLegs are walks that took far too long; Starved is how often the swarm itself was
	// too late to judge.
	Resyncs  int `json:"resyncs"`
	LateLegs int `json:"lateLegs"`
	Starved  int `json:"starved"`

	// Items is what was done with items. Setback is the furthest, in metres, that a crash took a bot back, and Undone the longest
	// time of a walk that can be shown to have been undone.
	Items   ItemCounts `json:"items"`
	Setback int64      `json:"setbackMetres"`
	Undone  Seconds    `json:"undoneSeconds"`
	// Restless are the bots of which something was on its way still when the time to rest was over.
	Restless int `json:"restless"`

	ViolationCount int                          `json:"violationCount"`
	Kinds          map[client.ViolationKind]int `json:"kinds"`
	Violations     []Violation                  `json:"violations"`
}

// describe adds the context to a violation.
func (s *Swarm) describe(b, other *bot, kind client.ViolationKind, entity ecs.EntityID, detail string) Violation {
	v := Violation{
		Kind: kind, After: Seconds(time.Since(s.started)), Seer: b.name, Behaviour: b.spot.Behaviour, At: b.truth.at.String(),
		Gateway: b.node, Entity: uint64(entity), Detail: detail,
	}
	if other != nil {
		v.Seen = fmt.Sprintf("%s (%s, through %s)", other.name, other.spot.Behaviour, other.node)
	}
	return v
}

// Report says what happened so far.
func (s *Swarm) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.count
	r := Report{
		World: s.opts.World, Seconds: time.Since(s.started).Seconds(), Bots: len(s.bots), Gateways: map[string]int{},
		LoginsFailed: map[string]int{}, Ended: map[string]int{}, Inputs: c.inputs, Results: c.results, Refused: maps.Clone(s.refusals),
		Said: c.said, Heard: c.heard, Crossings: c.crossings, SeamX: c.seamX, SeamY: c.seamY, Resyncs: c.resyncs, ExcusedRefusals: c.excusedRefusals, LateLegs: c.lateLegs,
		Starved: c.starved, ViolationCount: c.violations, Kinds: maps.Clone(s.kinds), Violations: slices.Clone(s.kept),
	}
	r.Items, r.Setback, r.Undone, r.Restless = s.items.report(), c.setback, Seconds(max(c.undone, 0)), s.restless
	for _, b := range s.bots {
		r.add(b)
	}
	for _, err := range s.failures {
		r.LoginsFailed[firstLine(err)]++
	}
	return r
}

func (r *Report) add(b *bot) {
	if b.client == nil {
		return
	}
	st := b.client.Stats()
	r.Logins += st.Logins
	r.Resumes += st.Resumes
	r.Losses += st.Losses
	r.Unknown += st.Unknown
	r.Dropped += st.Dropped
	for _, open := range b.refusals { // no mark has excused them so far
		if r.Refused == nil {
			r.Refused = map[string]int{}
		}
		r.Refused[refusalKey(open.result)]++
	}
	if b.client.Connected() {
		r.Connected++
		r.Gateways[b.node]++
	}
	if err := b.client.Err(); err != nil {
		r.Ended[firstLine(err)]++
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Failed says why a run was not good, or nothing.
func (r *Report) Failed() []string {
	var why []string
	if r.ViolationCount > 0 {
		why = append(why, fmt.Sprintf("%d violations: %s", r.ViolationCount, joined(r.Kinds)))
	}
	if len(r.LoginsFailed) > 0 {
		why = append(why, "bots did not get in: "+joined(r.LoginsFailed))
	}
	if len(r.Ended) > 0 {
		why = append(why, "bots were ended: "+joined(r.Ended))
	}
	if len(r.Refused) > 0 {
		why = append(why, "inputs were refused: "+joined(r.Refused))
	}
	return why
}

func joined[K ~string](m map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d %s", m[k], k))
	}
	return strings.Join(parts, ", ")
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// Line is one line of progress.
func (r *Report) Line() string {
	line := fmt.Sprintf("%4.0f s  %d of %d players (%s)  crossings %d  inputs %d  heard %d  resyncs %d  violations %d",
		r.Seconds, r.Connected, r.Bots, joined(r.Gateways), r.Crossings, r.Inputs, r.Heard, r.Resyncs, r.ViolationCount)
	if r.Starved > 0 {
		line += fmt.Sprintf("  (too late to judge: %d times)", r.Starved)
	}
	return line
}

// Summary is for people: the counts, and the first violations with their context.
func (r *Report) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "players     %d of %d connected at the end, %d logins, %d resumes after %d lost connections\n", r.Connected, r.Bots, r.Logins, r.Resumes, r.Losses)
	fmt.Fprintf(&b, "inputs      %d sent, %d results, %d unknown after a resume, %d dropped with a session\n", r.Inputs, r.Results, r.Unknown, r.Dropped)
	fmt.Fprintf(&b, "chat        %d said, %d heard\n", r.Said, r.Heard)
	fmt.Fprintf(&b, "crossings   %d of region borders, %d of the x seam, %d of the y seam\n", r.Crossings, r.SeamX, r.SeamY)
	fmt.Fprintf(&b, "excused     %d marked resyncs, %d moves refused after one; %d walks were late\n", r.Resyncs, r.ExcusedRefusals, r.LateLegs)
	if r.Items.Known > 0 {
		fmt.Fprintf(&b, "items       %s; %d known, %d ended, %d refusals, %d unknown results\n", joined(r.Items.Done), r.Items.Known, r.Items.Ended, sum(r.Items.Refused), sum(r.Items.Unknown))
	}
	fmt.Fprintf(&b, "violations  %d %s\n", r.ViolationCount, joined(r.Kinds))
	for _, v := range r.Violations[:min(len(r.Violations), 10)] {
		fmt.Fprintf(&b, "  %s\n", v)
	}
	return b.String()
}
