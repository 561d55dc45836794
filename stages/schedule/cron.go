package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	cron "github.com/netresearch/go-cron"
)

// yearsWithout is for how long the only cron that fires seldom does not: 29 February around a year such
// as 2100.
const yearsWithout = 9

// parser reads five fields, as sets of bits. A day must match the day of month or the day of week where both are limited.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)

// aLeapYear is where the search for a first match begins: 29 February is in its first two months.
var aLeapYear = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// crontab is a set of wall times, each a whole minute. Wall times are times in UTC that show the same
// date and clock.
type crontab struct{ spec *cron.SpecSchedule }

// parseCron reads a cron expression. One that never fires is an error.
func parseCron(text string) (crontab, error) {
	if n := len(strings.Fields(text)); n != len(fields) {
		return crontab{}, fmt.Errorf("it has %d fields, not the five of minute, hour, day of month, month and day of week", n)
	}
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', strings.ContainsRune("*,/- ", c):
		default:
			return crontab{}, fmt.Errorf("%q is no character of a cron expression", c)
		}
	}
	for field := range strings.FieldsSeq(text) {
		for part := range strings.SplitSeq(field, ",") {
			switch {
			case part == "":
				return crontab{}, fmt.Errorf("the list %q has an empty element", field)
			case strings.HasPrefix(part, "*-"): // which the library reads as *
				return crontab{}, fmt.Errorf("%q is no range: it needs a number on both sides", part)
			}
		}
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return crontab{}, wrongFields(text, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return crontab{}, fmt.Errorf("it is no list of five fields")
	}
	c := crontab{spec}
	spec.Dow = cron.NormalizeDOW(spec.Dow)
	// A field without values, such as the day of week "8-7", can't be; but nothing below would end.
	if spec.Minute&^anyDay == 0 || spec.Hour&^anyDay == 0 || c.after(aLeapYear).IsZero() {
		return crontab{}, fmt.Errorf("it never fires: no date matches")
	}
	return c, nil
}

// fields are the five of a cron expression.
var fields = []string{"minute", "hour", "day of month", "month", "day of week"}

// mostNamed is how long an expression may be whose error quotes a field, bytes: as long as the contract allows.
const mostNamed = 256

// wrongFields names the fields that the library refuses, in place of its error for the expression.
func wrongFields(text string, err error) error {
	if len(text) > mostNamed {
		return err
	}
	var wrong []string
	for i, field := range strings.Fields(text) {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = field
		if _, err := parser.Parse(strings.Join(alone, " ")); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s %q: %s", fields[i], field, saidOf(i, field, err)))
		}
	}
	if wrong == nil {
		return err
	}
	return errors.New(strings.Join(wrong, "; "))
}

// saidOf is the library's error for the ith field, without what it says of options that nobody has.
func saidOf(i int, field string, err error) string {
	var number *strconv.NumError
	switch said := err.Error(); {
	case errors.As(err, &number):
		said = fmt.Sprintf("%q is no number", number.Num)
		if i > 2 {
			said += " and no name such as " + []string{"JAN", "MON"}[i-3]
		}
		return said
	case strings.Contains(said, "requires "):
		return "L and W, for the last and the nearest day, are not known: list the days"
	default:
		return strings.TrimSuffix(said, fmt.Sprintf(": %q", field))
	}
}

// The library's own search goes through hours and minutes, which takes some 30 microseconds, and the
// search for a leap day 200. Here it goes through months with sets of days, in less than one.

// anyDay is the library's mark of a field that is "*".
const anyDay = 1 << 63

// days returns the set of days of a month that match, as bits from 1 on.
func (c crontab) days(year int, month time.Month) uint64 {
	if c.spec.Month&(1<<month) == 0 {
		return 0
	}
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	const weekly = 1<<1 | 1<<8 | 1<<15 | 1<<22 | 1<<29
	var byWeekday uint64
	for weekday := range 7 {
		if c.spec.Dow&(1<<weekday) != 0 {
			byWeekday |= weekly << ((weekday - int(first.Weekday()) + 7) % 7)
		}
	}
	length := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	month31 := uint64(1)<<(length+1) - 2
	if (c.spec.Dom|c.spec.Dow)&anyDay != 0 {
		return c.spec.Dom & byWeekday & month31
	}
	return (c.spec.Dom | byWeekday) & month31
}

// upTo returns the last wall time of the set that is not after another; the zero time: there is none.
func (c crontab) upTo(wall time.Time) time.Time {
	year, month, day := wall.Date()
	hour, minute := wall.Hour(), wall.Minute()
	if c.days(year, month)&(1<<day) != 0 {
		if h := lastBit(c.spec.Hour, hour); h == hour {
			if m := lastBit(c.spec.Minute, minute); m >= 0 {
				return time.Date(year, month, day, h, m, 0, 0, time.UTC)
			}
		}
		if h := lastBit(c.spec.Hour, hour-1); h >= 0 {
			return time.Date(year, month, day, h, lastBit(c.spec.Minute, 59), 0, 0, time.UTC)
		}
	}
	day--
	for range 12 * yearsWithout {
		if day = lastBit(c.days(year, month), day); day > 0 {
			return time.Date(year, month, day, lastBit(c.spec.Hour, 23), lastBit(c.spec.Minute, 59), 0, 0, time.UTC)
		}
		if month--; month == 0 {
			year, month = year-1, 12
		}
		day = 31
	}
	return time.Time{}
}

// after returns the first wall time of the set after another; the zero time: there is none.
func (c crontab) after(wall time.Time) time.Time {
	year, month, day := wall.Date()
	hour, minute := wall.Hour(), wall.Minute()
	if c.days(year, month)&(1<<day) != 0 {
		if h := firstBit(c.spec.Hour, hour); h == hour {
			if m := firstBit(c.spec.Minute, minute+1); m < 60 {
				return time.Date(year, month, day, h, m, 0, 0, time.UTC)
			}
		}
		if h := firstBit(c.spec.Hour, hour+1); h < 24 {
			return time.Date(year, month, day, h, firstBit(c.spec.Minute, 0), 0, 0, time.UTC)
		}
	}
	day++
	for range 12 * yearsWithout {
		if day = firstBit(c.days(year, month), day); day < 32 {
			return time.Date(year, month, day, firstBit(c.spec.Hour, 0), firstBit(c.spec.Minute, 0), 0, 0, time.UTC)
		}
		if month++; month == 13 {
			year, month = year+1, 1
		}
		day = 1
	}
	return time.Time{}
}

// within reports whether all wall times of the set are in another one. The days of the week are those of 28 years before, up to 2100.
func (c crontab) within(other crontab) bool {
	if (c.spec.Minute&^other.spec.Minute|c.spec.Hour&^other.spec.Hour)&^anyDay != 0 {
		return false
	}
	for i := range 28 * 12 {
		year, month := aLeapYear.Year()+i/12, time.Month(i%12+1)
		if c.days(year, month)&^other.days(year, month) != 0 {
			return false
		}
	}
	return true
}

// lastBit returns the highest of the bits 0 to n that is set; below 0: none is.
func lastBit(set uint64, n int) int { return bits.Len64(set&(1<<(n+1)-1)) - 1 }

// firstBit returns the lowest of the bits from n to 62 that is set; 64: none is.
func firstBit(set uint64, n int) int { return bits.TrailingZeros64(set &^ anyDay >> n << n) }

// inZone is a crontab in a time zone.
type inZone struct {
	crontab
	zone *time.Location
}

// lastUpTo returns when it fired last, at t inclusive; the zero time: it did not.
func (c inZone) lastUpTo(t time.Time) time.Time {
	wall := c.upTo(latestWall(c.zone, t))
	if wall.IsZero() {
		return wall
	}
	return firstInstant(c.zone, wall)
}

// firstAfter returns when it fires next after t; the zero time: it does not.
func (c inZone) firstAfter(t time.Time) time.Time {
	wall := c.after(latestWall(c.zone, t))
	if wall.IsZero() {
		return wall
	}
	return firstInstant(c.zone, wall)
}
