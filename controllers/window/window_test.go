package window_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/window"
)

const moves = v1alpha1.DisruptionBoundaryMoves

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// maintenance builds a spec: one fluent line per test.
type maintenance v1alpha1.MaintenanceSpec

func (m maintenance) window(name, cron, zone string, seconds int32) maintenance {
	m.Windows = append(m.Windows, v1alpha1.MaintenanceWindow{Name: name, Cron: cron, TimeZone: zone, DurationSeconds: seconds})
	return m
}

func (m maintenance) except(name, start, end string) maintenance {
	m.Exclusions = append(m.Exclusions, v1alpha1.MaintenanceExclusion{Name: name, StartTime: metav1.NewTime(at(start)), EndTime: metav1.NewTime(at(end))})
	return m
}

func (m maintenance) confining(kinds ...v1alpha1.DisruptionKind) maintenance {
	m.Confine = kinds
	return m
}

func (m maintenance) override(when v1alpha1.ExecutionTime, end string) maintenance {
	m.Override = &v1alpha1.MaintenanceOverride{ExecutionTime: when, EndTime: metav1.NewTime(at(end)), Reason: "hotfix"}
	return m
}

// failer is a test, or one of rapid's.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func parse(t failer, m maintenance) *window.Calendar {
	t.Helper()
	c, err := window.Parse((*v1alpha1.MaintenanceSpec)(&m))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answer is what is expected at one instant. Times are RFC 3339, "" for none.
type answer struct {
	now         string
	estimate    time.Duration
	reason      window.Reason
	window      string
	from, until string // from only when closed: it is now when open
}

func check(t *testing.T, c *window.Calendar, a answer) {
	t.Helper()
	got := c.At(at(a.now), moves, a.estimate)
	open := a.reason == window.Unconfined || a.reason == window.InWindow || a.reason == window.Overridden
	from := a.from
	if open {
		from = a.now
	}
	if got.Open != open || got.Reason != a.reason || got.Window != a.window || !same(got.From, from) || !same(got.Until, a.until) {
		t.Errorf("at %s, for %s: got open %t, %s in %q, from %s until %s (%s);\nwant %s in %q, from %s until %s",
			a.now, a.estimate, got.Open, got.Reason, got.Window, got.From, got.Until, got, a.reason, a.window, from, a.until)
	}
}

func same(got time.Time, want string) bool {
	if want == "" {
		return got.IsZero()
	}
	return got.Equal(at(want))
}

func TestWithoutWindowsEverythingMayStart(t *testing.T) {
	none, err := window.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*window.Calendar{none, parse(t, maintenance{}), parse(t, maintenance{}.confining(moves))} {
		check(t, c, answer{now: "2026-12-01T12:00:00Z", estimate: 1000 * time.Hour, reason: window.Unconfined})
		if o := c.Window(at("2026-12-01T12:00:00Z")); o.Reason != window.Unconfined {
			t.Errorf("a World without windows shows one: %s", o)
		}
	}
}

func TestOnlyWhatIsConfinedWaits(t *testing.T) {
	nightly := maintenance{}.window("nightly", "30 4 * * *", "", 5400)
	noon := at("2026-12-01T12:00:00Z")
	for name, tc := range map[string]struct {
		spec maintenance
		open map[v1alpha1.DisruptionKind]bool
	}{
		"no confine means everything": {nightly, nil},
		"rollouts only": {nightly.confining(v1alpha1.DisruptionRollouts), map[v1alpha1.DisruptionKind]bool{
			moves: true, v1alpha1.DisruptionRebalances: true,
		}},
	} {
		for _, kind := range []v1alpha1.DisruptionKind{moves, v1alpha1.DisruptionRollouts, v1alpha1.DisruptionRebalances} {
			if got := parse(t, tc.spec).At(noon, kind, 0); got.Open != tc.open[kind] {
				t.Errorf("%s: %s open %t (%s)", name, kind, got.Open, got)
			}
		}
	}
	if o := parse(t, nightly.confining(v1alpha1.DisruptionRollouts)).Window(noon); o.Window != "nightly" {
		t.Errorf("the window of what is confined is not shown: %s", o)
	}
}

func TestAWindowIsOpenFromItsStartToJustBeforeItsEnd(t *testing.T) {
	c := parse(t, maintenance{}.window("nightly", "30 4 * * *", "", 5400))
	check(t, c, answer{now: "2026-12-01T04:29:59Z", reason: window.BetweenWindows, window: "nightly", from: "2026-12-01T04:30:00Z", until: "2026-12-01T06:00:00Z"})
	check(t, c, answer{now: "2026-12-01T04:30:00Z", reason: window.InWindow, window: "nightly", until: "2026-12-01T06:00:00Z"})
	check(t, c, answer{now: "2026-12-01T05:59:59Z", reason: window.InWindow, window: "nightly", until: "2026-12-01T06:00:00Z"})
	check(t, c, answer{now: "2026-12-01T06:00:00Z", reason: window.BetweenWindows, window: "nightly", from: "2026-12-02T04:30:00Z", until: "2026-12-02T06:00:00Z"})
}

func TestAThingStartsOnlyIfItFits(t *testing.T) {
	c := parse(t, maintenance{}.window("nightly", "30 4 * * *", "", 5400).window("sunday", "0 2 * * 0", "", 4*3600))
	check(t, c, answer{now: "2026-12-01T04:30:00Z", estimate: 90 * time.Minute, reason: window.InWindow, window: "nightly", until: "2026-12-01T06:00:00Z"})
	check(t, c, answer{now: "2026-12-01T04:30:01Z", estimate: 90 * time.Minute, reason: window.TooShort, window: "nightly", from: "2026-12-02T04:30:00Z", until: "2026-12-02T06:00:00Z"})
	check(t, c, answer{now: "2026-12-01T04:30:00Z", estimate: 2 * time.Hour, reason: window.TooShort, window: "sunday", from: "2026-12-06T02:00:00Z", until: "2026-12-06T06:00:00Z"})
	check(t, c, answer{now: "2026-12-01T04:30:00Z", estimate: 5 * time.Hour, reason: window.TooShort})
	if words := c.At(at("2026-12-01T12:00:00Z"), moves, 5*time.Hour).String(); !strings.Contains(words, "no window to come is long enough") {
		t.Errorf("%q does not say that it never will", words)
	}
}

func TestWindowsAcrossMidnight(t *testing.T) {
	c := parse(t, maintenance{}.window("late", "0 23 * * 5", "America/New_York", 4*3600)) // Friday night
	check(t, c, answer{now: "2026-12-05T05:30:00Z", reason: window.InWindow, window: "late", until: "2026-12-05T08:00:00Z"})
	check(t, c, answer{now: "2026-12-05T08:00:00Z", reason: window.BetweenWindows, window: "late", from: "2026-12-12T04:00:00Z", until: "2026-12-12T08:00:00Z"})
	year := parse(t, maintenance{}.window("eve", "30 23 31 12 *", "", 3600))
	check(t, year, answer{now: "2027-01-01T00:15:00Z", reason: window.InWindow, window: "eve", until: "2027-01-01T00:30:00Z"})
}

func TestWindowsThatOverlapOrTouchAreOne(t *testing.T) {
	c := parse(t, maintenance{}.window("a", "0 4 * * *", "", 3600).window("b", "30 4 * * *", "", 5400).window("c", "0 6 * * *", "", 3600))
	check(t, c, answer{now: "2026-12-01T04:10:00Z", estimate: 2 * time.Hour, reason: window.InWindow, window: "a", until: "2026-12-01T07:00:00Z"})
	check(t, c, answer{now: "2026-12-01T05:30:00Z", reason: window.InWindow, window: "b", until: "2026-12-01T07:00:00Z"})
	check(t, c, answer{now: "2026-12-01T12:00:00Z", reason: window.BetweenWindows, window: "a", from: "2026-12-02T04:00:00Z", until: "2026-12-02T07:00:00Z"})
	within := parse(t, maintenance{}.window("long", "0 1 * * *", "", 6*3600).window("short", "0 2 * * *", "", 600))
	check(t, within, answer{now: "2026-12-01T02:05:00Z", reason: window.InWindow, window: "long", until: "2026-12-01T07:00:00Z"})
}

func TestWindowsThatFollowOneAnotherForEverHaveNoEnd(t *testing.T) {
	for _, cron := range []string{"* * * * *", "0 * * * *", "*/15 * * * *"} {
		c := parse(t, maintenance{}.window("always", cron, "Europe/Berlin", 3600))
		check(t, c, answer{now: "2026-12-01T04:10:00Z", estimate: 1000 * time.Hour, reason: window.InWindow, window: "always"})
	}
}

// Berlin goes from +1 to +2 at 01:00 UTC on 2027-03-28, and back at 01:00 UTC on 2027-10-31. New York goes from -5 to -4 at
// 07:00 UTC on 2027-03-14, and back at 06:00 UTC on 2027-11-07.
func TestATimeThatTheClocksSkipOpensTheWindowAfterTheGap(t *testing.T) {
	berlin := parse(t, maintenance{}.window("nightly", "30 2 * * *", "Europe/Berlin", 3600))
	check(t, berlin, answer{now: "2027-03-27T12:00:00Z", reason: window.BetweenWindows, window: "nightly", from: "2027-03-28T01:00:00Z", until: "2027-03-28T02:00:00Z"})
	check(t, berlin, answer{now: "2027-03-28T01:00:00Z", reason: window.InWindow, window: "nightly", until: "2027-03-28T02:00:00Z"})
	check(t, berlin, answer{now: "2027-03-28T02:00:00Z", reason: window.BetweenWindows, window: "nightly", from: "2027-03-29T00:30:00Z", until: "2027-03-29T01:30:00Z"})
	york := parse(t, maintenance{}.window("nightly", "0 2 * * *", "America/New_York", 3600))
	check(t, york, answer{now: "2027-03-14T06:59:59Z", reason: window.BetweenWindows, window: "nightly", from: "2027-03-14T07:00:00Z", until: "2027-03-14T08:00:00Z"})
	early := parse(t, maintenance{}.window("early", "30 1 * * *", "Europe/Berlin", 7200)) // open over the gap: two hours that pass
	check(t, early, answer{now: "2027-03-28T01:30:00Z", reason: window.InWindow, window: "early", until: "2027-03-28T02:30:00Z"})
}

func TestATimeThatComesTwiceOpensTheWindowTheFirstTimeOnly(t *testing.T) {
	berlin := parse(t, maintenance{}.window("nightly", "30 2 * * *", "Europe/Berlin", 900))
	check(t, berlin, answer{now: "2027-10-31T00:29:59Z", reason: window.BetweenWindows, window: "nightly", from: "2027-10-31T00:30:00Z", until: "2027-10-31T00:45:00Z"})
	check(t, berlin, answer{now: "2027-10-31T01:30:00Z", reason: window.BetweenWindows, window: "nightly", from: "2027-11-01T01:30:00Z", until: "2027-11-01T01:45:00Z"})
	york := parse(t, maintenance{}.window("nightly", "30 1 * * *", "America/New_York", 5400))
	check(t, york, answer{now: "2027-11-07T05:30:00Z", reason: window.InWindow, window: "nightly", until: "2027-11-07T07:00:00Z"})
	check(t, york, answer{now: "2027-11-07T07:00:00Z", reason: window.BetweenWindows, window: "nightly", from: "2027-11-08T06:30:00Z", until: "2027-11-08T08:00:00Z"})
}

func TestALeapDayIsWaitedForForYears(t *testing.T) {
	c := parse(t, maintenance{}.window("leap", "0 3 29 2 *", "", 3600))
	check(t, c, answer{now: "2026-12-01T00:00:00Z", reason: window.BetweenWindows, window: "leap", from: "2028-02-29T03:00:00Z", until: "2028-02-29T04:00:00Z"})
	check(t, c, answer{now: "2028-02-29T03:59:00Z", reason: window.InWindow, window: "leap", until: "2028-02-29T04:00:00Z"})
	check(t, c, answer{now: "2028-03-01T00:00:00Z", reason: window.BetweenWindows, window: "leap", from: "2032-02-29T03:00:00Z", until: "2032-02-29T04:00:00Z"})
}

func TestExclusionsWinOverWindows(t *testing.T) {
	c := parse(t, maintenance{}.window("nightly", "0 4 * * *", "", 7200).
		except("half", "2026-12-01T05:00:00Z", "2026-12-01T05:30:00Z").
		except("more", "2026-12-02T00:00:00Z", "2026-12-03T04:30:00Z").
		except("launch", "2026-12-01T20:00:00Z", "2026-12-02T10:00:00Z"))
	check(t, c, answer{now: "2026-12-01T04:10:00Z", reason: window.InWindow, window: "nightly", until: "2026-12-01T05:00:00Z"})
	check(t, c, answer{now: "2026-12-01T05:10:00Z", reason: window.Excluded, window: "nightly", from: "2026-12-01T05:30:00Z", until: "2026-12-01T06:00:00Z"})
	check(t, c, answer{now: "2026-12-01T04:50:00Z", estimate: 20 * time.Minute, reason: window.TooShort, window: "nightly", from: "2026-12-01T05:30:00Z", until: "2026-12-01T06:00:00Z"})
	check(t, c, answer{now: "2026-12-01T21:00:00Z", reason: window.Excluded, window: "nightly", from: "2026-12-03T04:30:00Z", until: "2026-12-03T06:00:00Z"})
	check(t, c, answer{now: "2026-12-01T12:00:00Z", reason: window.BetweenWindows, window: "nightly", from: "2026-12-03T04:30:00Z", until: "2026-12-03T06:00:00Z"})
	if words := c.At(at("2026-12-01T21:00:00Z"), moves, 0).String(); !strings.Contains(words, "exclusion launch is on; it may start at 2026-12-03T04:30:00Z in window nightly") {
		t.Errorf("got %q", words)
	}
}

func TestExclusionsAloneCloseAWorldWithoutWindows(t *testing.T) {
	c := parse(t, maintenance{}.except("launch", "2026-12-18T00:00:00Z", "2026-12-28T00:00:00Z"))
	check(t, c, answer{now: "2026-12-01T00:00:00Z", reason: window.InWindow, until: "2026-12-18T00:00:00Z"})
	check(t, c, answer{now: "2026-12-20T00:00:00Z", reason: window.Excluded, from: "2026-12-28T00:00:00Z"})
	check(t, c, answer{now: "2026-12-28T00:00:00Z", reason: window.InWindow})
}

func TestAnOverrideLiftsEverythingUntilItEnds(t *testing.T) {
	spec := maintenance{}.window("nightly", "30 4 * * *", "", 5400).except("launch", "2026-12-01T00:00:00Z", "2026-12-28T00:00:00Z")
	c := parse(t, spec.override(v1alpha1.ExecutionImmediate, "2026-12-02T00:00:00Z"))
	check(t, c, answer{now: "2026-12-01T23:59:59Z", estimate: time.Hour, reason: window.Overridden, until: "2026-12-02T00:00:00Z"})
	check(t, c, answer{now: "2026-12-02T00:00:00Z", reason: window.Excluded, window: "nightly", from: "2026-12-28T04:30:00Z", until: "2026-12-28T06:00:00Z"})
	check(t, parse(t, maintenance{}.override(v1alpha1.ExecutionImmediate, "2026-12-02T00:00:00Z")), answer{now: "2026-12-01T12:00:00Z", reason: window.Unconfined})
	if words := c.At(at("2026-12-02T00:00:00Z"), moves, 0).String(); !strings.Contains(words, `; the override "hotfix" lifts nothing any more: its endTime was 2026-12-02T00:00:00Z`) {
		t.Errorf("%q does not say that the override is over", words)
	}
	patient := parse(t, spec.override(v1alpha1.ExecutionNextWindow, "2026-12-02T00:00:00Z"))
	if words := patient.At(at("2026-12-01T12:00:00Z"), moves, 0).String(); !strings.Contains(words, `the override "hotfix" lifts nothing: its executionTime is NextWindow`) {
		t.Errorf("%q does not say why the override does not help", words)
	}
	check(t, patient, answer{now: "2026-12-01T12:00:00Z", reason: window.Excluded, window: "nightly", from: "2026-12-28T04:30:00Z", until: "2026-12-28T06:00:00Z"})
}

func TestWhatCannotBeReadIsRefusedInWords(t *testing.T) {
	for name, tc := range map[string]struct {
		cron, zone string
		says       string
	}{
		"an hour that is none":       {"0 25 * * *", "", `window w: cron "0 25 * * *" cannot be read`},
		"too few fields":             {"30 4 * *", "", "write minute, hour, day of the month"},
		"seconds":                    {"0 30 4 * * *", "", "cannot be read"},
		"words":                      {"at night, please", "", "cannot be read"},
		"a shorthand":                {"@daily", "", "cannot be read"},
		"an interval":                {"@every 1h", "", "cannot be read"},
		"a day that never comes":     {"0 0 30 2 *", "", "names a day that never comes"},
		"a zone that is none":        {"30 4 * * *", "Europe/Bonn", `timeZone "Europe/Bonn" is unknown`},
		"the operator's own zone":    {"30 4 * * *", "Local", "is unknown"},
		"a zone that is an attack":   {"30 4 * * *", "../../etc/passwd", "is unknown"},
		"a zone that is an offset":   {"30 4 * * *", "+01:00", "is unknown"},
		"a zone within the schedule": {"TZ=Mars 30 4 * * *", "", "cannot be read"},
	} {
		spec := v1alpha1.MaintenanceSpec(maintenance{}.window("good", "30 4 * * *", "", 900).window("w", tc.cron, tc.zone, 900))
		if c, err := window.Parse(&spec); err == nil || c.At(at("2026-12-01T04:31:00Z"), moves, 0).Open || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v, want a refusal with %q", name, err, tc.says)
		}
	}
}

func TestAnOverrideLiftsWindowsThatCannotBeReadToo(t *testing.T) {
	spec := maintenance{}.window("w", "0 25 * * *", "", 900)
	unread := func(m maintenance) *window.Calendar {
		s := v1alpha1.MaintenanceSpec(m)
		c, err := window.Parse(&s)
		if err == nil {
			t.Fatal("it was read")
		}
		return c
	}
	noon := "2026-12-01T12:00:00Z"
	check(t, unread(spec), answer{now: noon, reason: window.Unreadable})
	check(t, unread(spec.override(v1alpha1.ExecutionImmediate, "2026-12-02T00:00:00Z")), answer{now: noon, reason: window.Overridden, until: "2026-12-02T00:00:00Z"})
	check(t, unread(spec.override(v1alpha1.ExecutionImmediate, noon)), answer{now: noon, reason: window.Unreadable})
	check(t, unread(spec.override(v1alpha1.ExecutionNextWindow, "2026-12-02T00:00:00Z")), answer{now: noon, reason: window.Unreadable})
	check(t, unread(spec.confining(v1alpha1.DisruptionRollouts)), answer{now: noon, reason: window.Unconfined})
}

func TestAStarWithAStepLeavesTheChoiceOfDaysToTheOtherField(t *testing.T) {
	// December 2026 begins on a Tuesday.
	odd := "2026-12-01T12:00:00Z"
	for cron, from := range map[string]string{
		"0 4 */2 * 0":    "2026-12-13T04:00:00Z", // the first Sunday with an odd date
		"0 4 8 * */3":    "2027-05-08T04:00:00Z", // the first eighth that is a Sunday, a Wednesday or a Saturday
		"0 4 1-31/2 * 0": "2026-12-03T04:00:00Z", // either suffices
		"0 4 8 * 0":      "2026-12-06T04:00:00Z",
		"0 4 * * 0":      "2026-12-06T04:00:00Z",
		"0 4 */7 * *":    "2026-12-08T04:00:00Z",
	} {
		until := at(from).Add(time.Hour).Format(time.RFC3339)
		check(t, parse(t, maintenance{}.window(cron, cron, "", 3600)), answer{now: odd, reason: window.BetweenWindows, window: cron, from: from, until: until})
	}
}

func TestSundayIsSevenToo(t *testing.T) {
	for seven, zero := range map[string]string{
		"7": "0", "5-7": "5,6,0", "1,7": "1,0", "0-7": "*", "1-7/3": "1,4,0", "7-7": "0", "sun": "0", "3-7/2,1": "3,5,0,1",
	} {
		a, b := parse(t, maintenance{}.window("w", "0 4 * * "+seven, "", 3600)), parse(t, maintenance{}.window("w", "0 4 * * "+zero, "", 3600))
		for day := range 8 {
			now := at("2026-12-01T04:30:00Z").AddDate(0, 0, day)
			if got, want := a.At(now, moves, 0), b.At(now, moves, 0); got != want {
				t.Errorf("%s on %s: %s, want %s", seven, now.Weekday(), got, want)
			}
		}
	}
	for _, wrong := range []string{"8", "7-8", "6-5", "7-1", "1-7/0", "5-7/", "70"} {
		spec := v1alpha1.MaintenanceSpec(maintenance{}.window("w", "0 4 * * "+wrong, "", 3600))
		if _, err := window.Parse(&spec); err == nil {
			t.Errorf("weekday %s is read", wrong)
		}
	}
}

func TestTheRarestDaysAreFound(t *testing.T) {
	c := parse(t, maintenance{}.window("leap", "0 3 29 2 *", "", 3600))
	check(t, c, answer{now: "2096-03-01T00:00:00Z", reason: window.BetweenWindows, window: "leap", from: "2104-02-29T03:00:00Z", until: "2104-02-29T04:00:00Z"})
	c = parse(t, maintenance{}.window("first", "0 3 */31 2 1", "", 3600)) // a February that begins on a Monday
	check(t, c, answer{now: "2027-03-01T00:00:00Z", reason: window.BetweenWindows, window: "first", from: "2038-02-01T03:00:00Z", until: "2038-02-01T04:00:00Z"})
}

func TestAWindowGoesOnAfterAnExclusionThatItOutlasts(t *testing.T) {
	c := parse(t, maintenance{}.window("week", "0 0 * * 2", "", 604800).window("daily", "0 6 * * *", "", 60).except("hour", "2026-12-01T05:00:00Z", "2026-12-01T06:00:00Z"))
	check(t, c, answer{now: "2026-12-01T04:00:00Z", reason: window.InWindow, window: "week", until: "2026-12-01T05:00:00Z"})
	check(t, c, answer{now: "2026-12-01T04:00:00Z", estimate: 2 * time.Hour, reason: window.TooShort, window: "week", from: "2026-12-01T06:00:00Z"})
}
