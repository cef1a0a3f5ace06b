package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func results() []result {
	m := func(name string) mutant {
		return mutant{Name: name, Defect: "It is " + name + ".", By: []string{"invariant 1"}}
	}
	return []result{
		judged(m("first"), outcome{broke, "invariant 1", 3, "two act", 3}, 1500*time.Millisecond),
		judged(m("second"), outcome{broke, "invariant 1", 9, "two act", 9}, time.Second),
		judged(m("third"), outcome{broke, "invariant 1", 1, "two act", 1}, time.Second),
	}
}

func TestTheTableCountsWhatWasFound(t *testing.T) {
	var out strings.Builder
	if !table(&out, results(), 4*time.Second) {
		t.Error("all were found, and it says no")
	}
	for _, want := range []string{"It is first.   invariant 1  3      1.5\n", "3 of 3 mutants found; median 3 seeds; 4s\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestAMutantIsFoundOnlyByACheckThatItNames(t *testing.T) {
	for name, c := range map[string]struct {
		outcome outcome
		story   string
	}{
		"another check": {outcome{broke, "liveness", 3, "hangs", 3}, "NOT FOUND by invariant 1: seed 3 broke liveness: hangs"},
		"no check":      {outcome{Verdict: passed, Seeds: 200}, "SURVIVED 200 seeds"},
		"the clock":     {outcome{Verdict: late, Detail: "the time limit of 1m0s ended it"}, "NOT JUDGED: the time limit of 1m0s ended it"},
	} {
		t.Run(name, func(t *testing.T) {
			list := results()
			list[1] = judged(list[1].mutant, c.outcome, time.Second)
			if got := list[1].story(); got != c.story {
				t.Errorf("story is %q, want %q", got, c.story)
			}
			var out strings.Builder
			if table(&out, list, time.Second) || !strings.Contains(out.String(), "2 of 3 mutants found") {
				t.Errorf("it counts as found:\n%s", out.String())
			}
		})
	}
}

func TestTheReportHoldsWhatTheTableShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	if err := writeReport(path, seeds{5, 200}, results(), time.Minute); err != nil {
		t.Fatal(err)
	}
	var r report
	if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, &r) != nil {
		t.Fatalf("the report cannot be read: %v", err)
	}
	if r.FirstSeed != 5 || r.Seeds != 200 || r.Found != 3 || r.MedianSeeds != 3 || r.Seconds != 60 || len(r.Mutants) != 3 {
		t.Errorf("report is %+v", r)
	}
	if m := r.Mutants[0]; !m.Found || m.CaughtBy != "invariant 1" || m.Seed != 3 || m.Detail != "two act" {
		t.Errorf("first mutant is %+v", m)
	}
}

func TestSeedsAreDealtOutWithoutAGap(t *testing.T) {
	for _, c := range []struct {
		parts int
		want  []seeds
	}{
		{1, []seeds{{10, 5}}},
		{2, []seeds{{10, 2}, {12, 3}}},
		{7, []seeds{{10, 1}, {11, 1}, {12, 1}, {13, 1}, {14, 1}}},
	} {
		if got := (seeds{10, 5}).split(c.parts); !slices.Equal(got, c.want) {
			t.Errorf("in %d parts: %v, want %v", c.parts, got, c.want)
		}
	}
}
