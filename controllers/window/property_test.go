package window_test

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/controllers/window"
)

// model decides by looking at every minute: slow, and hard to get wrong.
type model struct {
	spec   maintenance
	starts [][]time.Time // by window, all that may matter
}

func newModel(t *rapid.T, spec maintenance, from, to time.Time) *model {
	m := &model{spec: spec}
	for _, w := range spec.Windows {
		schedule, err := cron.ParseStandard(w.Cron)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocation(w.TimeZone)
		if err != nil {
			t.Fatal(err)
		}
		var starts []time.Time
		reached := wall(from, zone) // the latest time that the clock has shown
		for at := from.Add(time.Minute); at.Before(to); at = at.Add(time.Minute) {
			for now := wall(at, zone); reached.Before(now); { // each minute that it newly shows, or has skipped
				reached = reached.Add(time.Minute)
				if schedule.Next(reached.Add(-time.Second)).Equal(reached) {
					starts = append(starts, at)
				}
			}
		}
		m.starts = append(m.starts, starts)
	}
	return m
}

func wall(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
}

func (m *model) open(at time.Time) bool {
	for _, e := range m.spec.Exclusions {
		if !at.Before(e.StartTime.Time) && at.Before(e.EndTime.Time) {
			return false
		}
	}
	for i, w := range m.spec.Windows {
		for _, start := range m.starts[i] {
			if !at.Before(start) && at.Before(start.Add(time.Duration(w.DurationSeconds)*time.Second)) {
				return true
			}
		}
	}
	return len(m.spec.Windows) == 0
}

// fits tells whether all is open for so long.
func (m *model) fits(at time.Time, estimate time.Duration) bool {
	for end := at.Add(max(estimate, time.Minute)); at.Before(end); at = at.Add(time.Minute) {
		if !m.open(at) {
			return false
		}
	}
	return true
}

func TestAnswersAreThoseOfLookingAtEveryMinute(t *testing.T) {
	changes := []string{"2027-03-28T01:00:00Z", "2027-10-31T01:00:00Z", "2027-03-14T07:00:00Z", "2027-11-07T06:00:00Z", "2028-02-29T00:00:00Z", "2027-04-03T15:00:00Z", "2026-12-31T23:00:00Z"}
	minutes := func(t *rapid.T, most int, name string) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Minute
	}
	rapid.Check(t, func(t *rapid.T) {
		now := at(rapid.SampledFrom(changes).Draw(t, "near")).Add(minutes(t, 2*1440, "later") - 1440*time.Minute)
		var spec maintenance
		for range rapid.IntRange(0, 3).Draw(t, "windows") {
			spec = spec.window("w"+string(rune('a'+len(spec.Windows))),
				rapid.SampledFrom([]string{"30 2 * * *", "0 2 * * *", "30 1 * * *", "0 0 * * 0", "*/20 1-3 * * *", "0 */5 * * *", "59 23 * * *", "0 3 29 2 *", "15 2 1 * 0"}).Draw(t, "cron"),
				rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"}).Draw(t, "zone"),
				int32(60*rapid.IntRange(1, 600).Draw(t, "minutes")))
		}
		for range rapid.IntRange(0, 2).Draw(t, "exclusions") {
			start := now.Add(minutes(t, 2*1440, "exclusion") - 720*time.Minute)
			spec = spec.except("e"+string(rune('a'+len(spec.Exclusions))), start.Format(time.RFC3339), start.Add(time.Minute+minutes(t, 900, "long")).Format(time.RFC3339))
		}
		estimate := minutes(t, 240, "estimate")
		const ahead = 3 * 24 * time.Hour
		m := newModel(t, spec, now.Add(-24*time.Hour), now.Add(ahead+24*time.Hour))
		got := parse(t, spec).At(now, moves, estimate)
		if want := m.fits(now, estimate); got.Open != want {
			t.Fatalf("at %s for %s: %s, want open %t", now, estimate, got, want)
		}
		if got.Open != (got.Reason == window.InWindow || got.Reason == window.Unconfined) || got.Open && !got.From.Equal(now) {
			t.Fatalf("contradicts itself: %+v", got)
		}
		for at := now; at.Before(now.Add(ahead)) && (got.From.IsZero() || at.Before(got.From)); at = at.Add(time.Minute) {
			if m.fits(at, estimate) {
				t.Fatalf("at %s for %s: %s, but it fits at %s", now, estimate, got, at)
			}
		}
		if got.From.IsZero() || got.From.After(now.Add(ahead)) {
			return
		}
		if !m.fits(got.From, estimate) {
			t.Fatalf("at %s for %s: %s, but it does not fit then", now, estimate, got)
		}
		if again := parse(t, spec).At(got.From, moves, estimate); !again.Open || !again.Until.Equal(got.Until) {
			t.Fatalf("promised %s, and then: %s", got, again)
		}
		if !got.Until.IsZero() && got.Until.Before(now.Add(ahead)) && (m.open(got.Until) || !m.open(got.Until.Add(-time.Minute))) {
			t.Fatalf("at %s: %s, but that is not when it closes", now, got)
		}
	})
}

// mixed is a calendar of which one window opens all the time and the others hardly ever: each alone is fast to look at.
func mixed(t failer) *window.Calendar {
	spec := maintenance{}.window("often", "* * * * *", "", 60)
	for i := range 15 {
		spec = spec.window("rarely"+string(rune('a'+i)), "0 0 29 2 *", "", 604800)
	}
	return parse(t, spec)
}

// TestNoCalendarHoldsUpAReconcile: the operator asks several times in each, and sees no session meanwhile.
func TestNoCalendarHoldsUpAReconcile(t *testing.T) {
	sparse := maintenance{}.window("often", "*/2 * * * *", "", 60)
	for i := range 15 {
		sparse = sparse.window("rarely"+string(rune('a'+i)), "0 0 29 2 *", "Europe/Berlin", 604800)
	}
	for name, tc := range map[string]struct {
		calendar *window.Calendar
		estimate time.Duration
		reason   window.Reason
	}{
		"one window often, the others hardly ever": {mixed(t), time.Hour, window.InWindow},
		"and none is long enough":                  {parse(t, sparse), 2 * time.Minute, window.TooShort},
	} {
		began := time.Now()
		got := tc.calendar.At(at("2026-12-01T04:10:00Z"), moves, tc.estimate)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s: took %s", name, took)
		} else if got.Reason != tc.reason {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func BenchmarkOneWindowOftenAndTheOthersHardlyEver(b *testing.B) {
	c, now := mixed(b), at("2026-12-01T04:10:00Z")
	for b.Loop() {
		c.At(now, moves, time.Hour)
	}
}

func BenchmarkTheDensestCalendar(b *testing.B) {
	var spec maintenance
	for i := range 16 {
		spec = spec.window("w"+string(rune('a'+i)), "* * * * *", "Europe/Berlin", 900)
	}
	c, now := parse(b, spec), at("2026-12-01T04:10:00Z")
	for b.Loop() {
		c.At(now, moves, time.Hour)
	}
}
