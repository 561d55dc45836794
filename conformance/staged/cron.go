package staged

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for machines without

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// crontab is five fields, each a set of numbers, or all of them.
type crontab struct {
	sets [5]map[int]bool
	all  [5]bool
}

var fieldRanges = [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}

// parseCron reads the expressions that are drawn.
func parseCron(text string) (*crontab, error) {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return nil, fmt.Errorf("cron %q has %d fields", text, len(fields))
	}
	c := &crontab{}
	for i, field := range fields {
		c.all[i] = field == "*"
		c.sets[i] = map[int]bool{}
		for part := range strings.SplitSeq(field, ",") {
			which, every, hasStep := strings.Cut(part, "/")
			step := 1
			if hasStep {
				n, err := strconv.Atoi(every)
				if err != nil {
					return nil, err
				}
				step = n
			}
			low, high := fieldRanges[i][0], fieldRanges[i][1]
			if which != "*" {
				from, to, isRange := strings.Cut(which, "-")
				n, err := strconv.Atoi(from)
				if err != nil {
					return nil, err
				}
				low, high = n, n
				if isRange {
					if high, err = strconv.Atoi(to); err != nil {
						return nil, err
					}
				}
			}
			for n := low; n <= high; n += step {
				c.sets[i][n] = true
			}
		}
	}
	return c, nil
}

// matches reports whether a wall time is one of the expression.
func (c *crontab) matches(wall time.Time) bool {
	day, weekday := c.sets[2][wall.Day()], c.sets[4][int(wall.Weekday())]
	date := day && weekday
	if !c.all[2] && !c.all[4] {
		date = day || weekday
	}
	return date && c.sets[0][wall.Minute()] && c.sets[1][wall.Hour()] && c.sets[3][int(wall.Month())]
}

// walk is a walk through the minutes of a zone, one after the other, that notes when an expression
// matches. A wall time that clocks skip counts when they do; one that they show twice counts once.
type walk struct {
	*crontab
	zone  *time.Location
	next  time.Time // the next minute
	found []time.Time
}

func (w *walk) to(end time.Time) {
	offset := func(at time.Time) time.Duration {
		_, seconds := at.In(w.zone).Zone()
		return time.Duration(seconds) * time.Second
	}
	for ; !w.next.After(end); w.next = w.next.Add(time.Minute) {
		now, before := offset(w.next), offset(w.next.Add(-time.Minute))
		wall := w.next.UTC().Add(now)
		hits := w.matches(wall)
		for skipped := wall.Add(before - now); !hits && now > before && skipped.Before(wall); skipped = skipped.Add(time.Minute) {
			hits = w.matches(skipped)
		}
		// Clocks are set back by a few hours at most: then they have shown this already.
		if earlier := offset(w.next.Add(-4 * time.Hour)); hits && earlier > now {
			first := w.next.Add(now - earlier)
			hits = offset(first) != earlier
		}
		if hits {
			w.found = append(w.found, w.next)
		}
	}
}

// lookBack is for how long before a scenario a schedule is walked: longer than one lasts, and than a week.
const lookBack = 8 * 24 * time.Hour

// calendar is when a schedule is active.
type calendar struct {
	*setpointv1.Schedule
	starts, ends *walk
}

func newCalendar(s *setpointv1.Schedule, begin time.Time) (*calendar, error) {
	zone, err := time.LoadLocation(s.GetTimeZone())
	if err != nil {
		return nil, err
	}
	walkOf := func(text string) (*walk, error) {
		c, err := parseCron(text)
		if err != nil {
			return nil, err
		}
		return &walk{crontab: c, zone: zone, next: begin.Add(-lookBack).Truncate(time.Minute)}, nil
	}
	c := &calendar{Schedule: s}
	if s.GetCron() != "" {
		if c.starts, err = walkOf(s.GetCron()); err != nil {
			return nil, err
		}
	}
	if s.GetEndCron() != "" {
		c.ends, err = walkOf(s.GetEndCron())
	}
	return c, err
}

// farthest is how far ahead a start or an end is looked for.
const farthest = 8 * 24 * time.Hour

// startsTo returns the starts up to an instant.
func (c *calendar) startsTo(end time.Time) []time.Time {
	if c.starts == nil {
		if at := c.GetAt().AsTime(); !at.After(end) {
			return []time.Time{at}
		}
		return nil
	}
	c.starts.to(end)
	n := len(c.starts.found)
	for n > 0 && c.starts.found[n-1].After(end) {
		n--
	}
	return c.starts.found[:n]
}

// endOf returns when the period of a start ends.
func (c *calendar) endOf(start time.Time) time.Time {
	if c.ends == nil {
		return start.Add(c.GetDuration().AsDuration())
	}
	for far := start.Add(time.Hour); far.Sub(start) <= farthest; far = far.Add(24 * time.Hour) {
		c.ends.to(far)
		for _, end := range c.ends.found {
			if !end.Before(start) {
				return end
			}
		}
	}
	return start.Add(farthest)
}

// at returns whether the schedule is active, and otherwise when it ended, if it did, and when it starts
// next within the time of a ramp, if it does.
func (c *calendar) at(now time.Time) (active bool, ended, next time.Time) {
	all := c.startsTo(now)
	if len(all) > 0 {
		if now.Before(c.endOf(all[len(all)-1])) {
			return true, time.Time{}, time.Time{}
		}
	}
	for _, start := range slices.Backward(all) {
		if end := c.endOf(start); end.After(start) { // it did not end at once
			ended = end
			break
		}
	}
	for _, start := range c.startsTo(now.Add(c.GetRampUp().AsDuration() + time.Minute))[len(all):] {
		if c.endOf(start).After(start) {
			return false, ended, start
		}
	}
	return false, ended, next
}
