package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// story says in one line what became of a mutant.
func (r *result) story() string {
	switch {
	case r.Found:
		return fmt.Sprintf("%s, seed %d%s: %s", r.What, r.Seed, aroundWhat(r.Worlds), clip(r.Detail))
	case r.Verdict == broke:
		return fmt.Sprintf("NOT FOUND by %s: seed %d%s broke %s: %s", strings.Join(r.By, ", "), r.Seed, aroundWhat(r.Worlds), r.What, clip(r.Detail))
	case r.Verdict == passed:
		return fmt.Sprintf("SURVIVED %d seeds%s", r.Seeds, aroundWhat(r.Worlds))
	}
	return "NOT JUDGED: " + r.Detail
}

// maxDetail keeps a line of progress readable, in bytes.
const maxDetail = 160

func clip(detail string) string {
	if len(detail) > maxDetail {
		return detail[:maxDetail] + "..."
	}
	return detail
}

// caughtBy is the table's word for it.
func (r *result) caughtBy() string {
	switch {
	case r.Found:
		return r.What
	case r.Verdict == broke:
		return "only " + r.What
	case r.Verdict == passed:
		return "nobody"
	}
	return "not judged"
}

func (r *result) seedsTaken() string {
	if r.Seeds == 0 {
		return "-"
	}
	return strconv.Itoa(r.Seeds)
}

// table writes a line per mutant and the sum, and reports whether all were found.
func table(w io.Writer, results []result, took time.Duration) bool {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "\ndefect\tcaught by\tseeds\tseconds")
	for i := range results {
		r := &results[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f\n", r.Defect, r.caughtBy(), r.seedsTaken(), r.Took.Seconds())
	}
	if err := t.Flush(); err != nil {
		return false
	}
	found, median := sum(results)
	fmt.Fprintf(w, "\n%d of %d mutants found; median %d seeds; %v\n", found, len(results), median, took.Round(time.Second))
	return found == len(results)
}

// sum counts the found mutants, and the median of the seeds that they took; 0 if that is known of none.
func sum(results []result) (found, median int) {
	var taken []int
	for i := range results {
		if r := &results[i]; r.Found {
			found++
			if r.Seeds > 0 {
				taken = append(taken, r.Seeds)
			}
		}
	}
	if len(taken) == 0 {
		return found, 0
	}
	slices.Sort(taken)
	return found, taken[len(taken)/2]
}

// report is the JSON form. Durations are in seconds.
type report struct {
	FirstSeed   int64          `json:"firstSeed"`
	Seeds       int            `json:"seeds"`
	Found       int            `json:"found"`
	MedianSeeds int            `json:"medianSeeds"`
	Seconds     float64        `json:"seconds"`
	Mutants     []reportMutant `json:"mutants"`
}

type reportMutant struct {
	Name     string   `json:"name"`
	Defect   string   `json:"defect"`
	Worlds   string   `json:"worlds,omitempty"`
	MayCatch []string `json:"mayCatch"`
	Found    bool     `json:"found"`
	Verdict  verdict  `json:"verdict"`
	CaughtBy string   `json:"caughtBy,omitempty"`
	Seed     int64    `json:"seed,omitempty"`
	Seeds    int      `json:"seeds"`
	Seconds  float64  `json:"seconds"`
	Detail   string   `json:"detail,omitempty"`
}

func writeReport(path string, s seeds, results []result, took time.Duration) error {
	r := report{FirstSeed: s.first, Seeds: s.count, Seconds: took.Seconds(), Mutants: []reportMutant{}}
	r.Found, r.MedianSeeds = sum(results)
	for i := range results {
		x := &results[i]
		m := reportMutant{
			Name: x.Name, Defect: x.Defect, Worlds: x.Worlds, MayCatch: x.By, Found: x.Found, Verdict: x.Verdict, CaughtBy: x.What, Seeds: x.Seeds,
			Seconds: x.Took.Seconds(), Detail: x.Detail,
		}
		if x.Verdict == broke {
			m.Seed = x.outcome.Seed
		}
		r.Mutants = append(r.Mutants, m)
	}
	b, err := json.MarshalIndent(&r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
