package explain

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// clock formats instants relative to the evaluation time.
type clock struct {
	now  time.Time
	zone *time.Location
}

// at is "09:05:00 (in 3m12s)".
func (c clock) at(t *timestamppb.Timestamp) string {
	return c.time(t.AsTime()) + " (" + c.relative(t.AsTime()) + ")"
}

// time is the time of day, with the date where that is another.
func (c clock) time(t time.Time) string {
	t, now := t.Round(time.Millisecond).In(c.zone), c.now.In(c.zone)
	layout := "15:04:05.999"
	if t.Year() != now.Year() || t.YearDay() != now.YearDay() {
		layout = "2006-01-02" + nbsp + layout
	}
	return t.Format(layout)
}

// date is the time of day with date and zone.
func (c clock) date(t time.Time) string {
	return t.Round(time.Millisecond).In(c.zone).Format("2006-01-02 15:04:05.999 MST")
}

// relative is "in 3m12s", "3m12s ago" or "now".
func (c clock) relative(t time.Time) string {
	d := t.Sub(c.now)
	switch {
	case d <= -time.Millisecond:
		return span(-d) + nbsp + "ago"
	case d >= time.Millisecond:
		return "in" + nbsp + span(d)
	case d > 0:
		return "in a moment"
	}
	return "now"
}

// span prints a duration in its two largest units: "3d4h", "2h5m", "3m12s",
// "45s", "1.5s".
func span(d time.Duration) string {
	if d < time.Minute {
		return trimZeros(strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', 3, 64)) + "s"
	}
	d = d.Round(time.Second)
	units := []struct {
		length time.Duration
		suffix string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	var b strings.Builder
	parts := 0
	for _, u := range units {
		n := d / u.length
		d -= n * u.length
		if n > 0 {
			b.WriteString(strconv.Itoa(int(n)) + u.suffix)
		}
		if n > 0 || parts > 0 {
			parts++
		}
		if parts == 2 {
			break
		}
	}
	return b.String()
}

// seconds is span for a number of seconds.
func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }

// trimZeros cuts the zeros at the end of a decimal fraction.
func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
