package controllers

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

func TestATextIsCutBetweenRunes(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		longest int
		want    string
	}{
		"short":                {"für", 4, "für"},
		"at a rune":            {"für", 3, "fü"},
		"in a rune":            {"für", 2, "f"},
		"in the first":         {"世界", 2, ""},
		"in a long one":        {"a🌍", 4, "a"},
		"with what is no rune": {"a\xffb", 9, "a\uFFFDb"},
	} {
		if got := cut(tc.text, tc.longest); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestWhatTheAPIServerWouldGiveBackOtherwiseIsNotReported(t *testing.T) {
	for _, message := range []string{strings.Repeat("é", 1000), "x" + strings.Repeat("é", 1000), "torn \xc3"} {
		c := condition(v1alpha1.ConditionReady, verdict{message: message}, 1)
		if !utf8.ValidString(c.Message) || len(c.Message) > 1024 {
			t.Errorf("%d bytes, valid %t", len(c.Message), utf8.ValidString(c.Message))
		}
	}
	if words := calmWords(&blocked{message: strings.Repeat("ü", 201) + strings.Repeat("xü", 200)}); !utf8.ValidString(words) {
		t.Errorf("%q", words)
	}
}

// statusClient writes nothing but a status.
type statusClient struct {
	client.Client
	writes *statusWrites
}

func (c statusClient) Status() client.SubResourceWriter { return c.writes }

// statusWrites counts the writes of a status and keeps the last.
type statusWrites struct {
	client.SubResourceWriter
	n    int
	last v1alpha1.WorldStatus
}

func (w *statusWrites) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	w.n++
	w.last = *o.(*v1alpha1.World).Status.DeepCopy()
	return nil
}

// TestPlayersThatComeAndGoAreWrittenNowAndThen: each of 64 nodes reports another count each ten seconds.
func TestPlayersThatComeAndGoAreWrittenNowAndThen(t *testing.T) {
	kept, writes := &memory{}, &statusWrites{}
	r := &WorldReconciler{Recorder: &related{}}
	report := func(after time.Duration, players int32, reason string) *scene {
		s := row(1, "w-zone-0#1").session(0, 1, true).ordered(0).declared(0)
		s.zoneNodes[0] = &v1alpha1.ZoneNode{Status: v1alpha1.ZoneNodeStatus{Session: "w-zone-0#1", Players: players}}
		s.memory, s.now, s.reported = kept, now.Add(after), writes.last.DeepCopy()
		s.world.Status = *writes.last.DeepCopy()
		s.verdicts[v1alpha1.ConditionReady] = verdict{true, reason, ""}
		r.Client = statusClient{writes: writes}
		if err := r.writeStatus(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, step := range []struct {
		after   time.Duration
		players int32
		reason  string
		writes  int
		reports int32
	}{
		{0, 0, "a", 1, 0},
		{2 * time.Second, 5, "a", 2, 5}, // the first are seen at once
		{12 * time.Second, 6, "a", 2, 5},
		{22 * time.Second, 7, "a", 2, 5},
		{23 * time.Second, 7, "b", 3, 7}, // something else has changed
		{33 * time.Second, 8, "b", 3, 7},
		{53 * time.Second, 9, "b", 4, 9},
		{90 * time.Second, 9, "b", 4, 9},
		{0, 3, "b", 5, 3}, // the wall clock was put back
	} {
		s := report(step.after, step.players, step.reason)
		if writes.n != step.writes || writes.last.Players != step.reports || writes.last.ZoneNodes[0].Players != step.reports {
			t.Errorf("after %s: %d writes, the last of %d and %d players; want %d and %d",
				step.after, writes.n, writes.last.Players, writes.last.ZoneNodes[0].Players, step.writes, step.reports)
		}
		if step.players != step.reports && len(s.wakeUps) == 0 {
			t.Errorf("after %s: nobody wakes up to write %d players", step.after, step.players)
		}
	}
}

func TestAnotherWorldOfTheSameNameIsRememberedAnew(t *testing.T) {
	r := &WorldReconciler{}
	world := &v1alpha1.World{ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "first", Generation: 1}}
	m := r.remember(world)
	m.plan.generation, m.secrets["seed"] = 1, now
	if r.remember(world) != m {
		t.Fatal("nothing is remembered")
	}
	world.UID = "second"
	if again := r.remember(world); again.plan.generation != 0 || len(again.secrets) != 0 || r.remember(world) != again {
		t.Errorf("another World goes by the plan of generation %d and %d Secrets of the former one", again.plan.generation, len(again.secrets))
	}
}
