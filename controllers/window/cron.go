package window

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// fields are those of crontab(5): no seconds, no shorthands.
var fields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Of the fields of an expression, these decide about days.
const (
	dayOfMonth = 2
	dayOfWeek  = 4
)

// anyDay is the library's mark of a field of days that leaves the choice to the other one.
const anyDay = 1 << 63

// parseCron reads five fields as crontab(5) does. The library differs in two things: it takes no 7 for Sunday, and it lets
// either of two fields of days suffice where one of them is a star with a step.
func parseCron(text string) (cron.Schedule, error) {
	words := strings.Fields(text)
	if len(words) > dayOfWeek {
		words[dayOfWeek] = sundayFirst(words[dayOfWeek])
	}
	schedule, err := fields.Parse(strings.Join(words, " "))
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says of which window
	}
	spec, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("it is no list of times: %T", schedule)
	}
	if strings.HasPrefix(words[dayOfMonth], "*") {
		spec.Dom |= anyDay
	}
	if strings.HasPrefix(words[dayOfWeek], "*") {
		spec.Dow |= anyDay
	}
	return spec, nil
}

// throughSunday is a part of a field of weekdays that ends with a Sunday that is called 7.
var throughSunday = regexp.MustCompile(`^(?:([0-7])-)?7(?:/([1-9]))?$`)

// sundayFirst lists the days of each part that calls Sunday 7: the library calls it 0.
func sundayFirst(weekdays string) string {
	parts := strings.Split(weekdays, ",")
	for i, part := range parts {
		found := throughSunday.FindStringSubmatch(part)
		if found == nil {
			continue
		}
		first, step := 7, 1
		if found[1] != "" {
			first = int(found[1][0] - '0')
		}
		if found[2] != "" {
			step = int(found[2][0] - '0')
		}
		var days []string
		for day := first; day <= 7; day += step {
			days = append(days, strconv.Itoa(day%7))
		}
		parts[i] = strings.Join(days, ",")
	}
	return strings.Join(parts, ",")
}

// nextIn is the first time after another that a schedule names, zero if it never does. The library looks five years ahead,
// which is less than the twelve years to a February that begins on a certain day of the week, or the eight to some leap days.
func nextIn(schedule cron.Schedule, after time.Time) time.Time {
	const years, looks = 5, 3
	for range looks {
		if next := schedule.Next(after); !next.IsZero() {
			return next
		}
		after = after.AddDate(years, 0, 0)
	}
	return time.Time{}
}
