// Package schedule is times of the clock: periods that begin at wall times of a time zone, and end after
// a while or at wall times.
//
//	times, err := schedule.Compile(schedule.Text{Zone: "Europe/Berlin", Cron: "0 8 * * 1-5", Duration: 12 * time.Hour})
//	period := times.At(now) // active from 08:00 to 20:00
//
// A wall time that does not exist, because the clocks are set forward over it, means the first instant
// after the gap; of an end and a start there the later one on the clock counts. One that exists twice means the first of the two.
package schedule

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Text is what describes times. Exactly one of Cron and At is set, and exactly one of Duration and
// EndCron.
type Text struct {
	// Zone is a name of the IANA database. Cron and EndCron are five fields: minute, hour, day of month,
	// month, day of week.
	Zone, Cron, EndCron string
	// At is the only start; the zero time: none.
	At time.Time
	// Duration is elapsed time, at least a minute.
	Duration time.Duration
}

// Times is compiled. It is immutable but for the period that it was last asked for, and safe for
// concurrent use.
type Times struct {
	zone       *time.Location
	start, end inZone // end only without duration
	at         time.Time
	duration   time.Duration
	last       atomic.Pointer[Period]
}

// Period is a time in which a schedule stays active or inactive.
type Period struct {
	Active bool
	// Ended is when the active period before an inactive one ended; the zero time: there was none, or it is not near.
	Ended time.Time
	// Until is the first instant after the period; the zero time: there is none, or it is not near.
	Until time.Time

	// The same holds from since, and before changes; the zero time: for ever.
	since, changes time.Time
}

// has reports whether the period is that of the instant.
func (p *Period) has(t time.Time) bool {
	return !t.Before(p.since) && (p.changes.IsZero() || t.Before(p.changes))
}

// Changes is the first instant after the period at which something else may hold, so that it is to be asked for again: Until,
// or before it where that is not near. The zero time: there is none.
func (p *Period) Changes() time.Time { return p.changes }

// Zone returns the time zone.
func (t *Times) Zone() *time.Location { return t.zone }

// Field is which part of a text is wrong.
type Field uint8

// The fields of a text.
const (
	ZoneField Field = iota + 1
	CronField
	EndCronField
)

// Error is what is wrong with a text.
type Error struct {
	Field Field
	Err   error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong, without the field.
func (e *Error) Unwrap() error { return e.Err }

// Compile returns the times of a text, or the first of its errors, see Check.
func Compile(text Text) (*Times, error) {
	if t := kept.get(text); t != nil {
		return t, nil
	}
	t, problems := compile(text)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	switch {
	case (t.start.spec == nil) == t.at.IsZero():
		return nil, &Error{CronField, errors.New("exactly one of a cron expression and an instant is required")}
	case (t.end.spec == nil) == (t.duration <= 0):
		return nil, &Error{EndCronField, errors.New("exactly one of a duration and a cron expression is required")}
	}
	kept.put(text, t)
	return t, nil
}

// Check returns what is wrong with the zone and the cron expressions of a text. All errors are of type
// *Error.
func Check(text Text) []error {
	_, problems := compile(text)
	return problems
}

func compile(text Text) (t *Times, problems []error) {
	t = &Times{at: text.At, duration: text.Duration}
	problem := func(field Field, err error) {
		if err != nil {
			problems = append(problems, &Error{field, err})
		}
	}
	var err error
	t.zone, err = Zone(text.Zone)
	problem(ZoneField, err)
	if text.Cron != "" {
		t.start.zone = t.zone
		t.start.crontab, err = parseCron(text.Cron)
		problem(CronField, err)
	}
	if text.EndCron != "" {
		t.end.zone = t.zone
		t.end.crontab, err = parseCron(text.EndCron)
		problem(EndCronField, err)
	}
	if len(problems) == 0 && t.endsWithItsStarts() {
		problem(EndCronField, errors.New("it ends at the instants at which it starts: it is never active"))
	}
	return t, problems
}

// mostStarts is how many starts a search for the end of a period, or for the next one, looks at. It begins at the last start,
// and the next one: so what is found is the same for all instants up to that.
const mostStarts = 24

// At returns the period that has the instant.
func (t *Times) At(now time.Time) Period {
	if p := t.last.Load(); p != nil && p.has(now) {
		return *p
	}
	p := t.search(now)
	t.last.Store(&p)
	return p
}

// After returns the period after another; ok is false if it is not known.
func (t *Times) After(p *Period) (next Period, ok bool) {
	if p.Until.IsZero() {
		return Period{}, false
	}
	return t.search(p.Until), true
}

func (t *Times) lastStart(now time.Time) time.Time {
	switch {
	case t.start.spec != nil:
		return t.start.lastUpTo(now)
	case t.at.After(now):
		return time.Time{}
	}
	return t.at
}

func (t *Times) nextStart(now time.Time) time.Time {
	switch {
	case t.start.spec != nil:
		return t.start.firstAfter(now)
	case t.at.After(now):
		return t.at
	}
	return time.Time{}
}

// search computes the period that has the instant.
func (t *Times) search(now time.Time) Period {
	if t.duration > 0 {
		return t.searchByDuration(now)
	}
	return t.searchByEnd(now)
}

func (t *Times) searchByDuration(now time.Time) Period {
	start := t.lastStart(now)
	end := start.Add(t.duration)
	if start.IsZero() || !now.Before(end) {
		p := Period{Until: t.nextStart(now), since: now}
		if !start.IsZero() {
			p.Ended, p.since = end, end
		}
		p.changes = p.Until
		return p
	}
	p := Period{Active: true, since: start, changes: t.nextStart(now)}
	// A start before an end, or at it, prolongs the period.
	for range mostStarts {
		again := t.lastStart(end)
		if !again.After(start) {
			p.Until, p.changes = end, end
			return p
		}
		start, end = again, again.Add(t.duration)
	}
	return p
}

// isActive reports whether the last start is after the last end, on the clock: of the times that clocks are set forward
// over, which all mean one instant, one still comes after the other.
func (t *Times) isActive(now time.Time) bool {
	wall, start := latestWall(t.zone, now), time.Time{}
	switch {
	case t.start.spec != nil:
		start = t.start.upTo(wall)
	case !t.at.After(now):
		start = latestWall(t.zone, t.at)
	}
	return start.After(t.end.upTo(wall))
}

func (t *Times) searchByEnd(now time.Time) Period {
	start := t.lastStart(now)
	if t.isActive(now) {
		p := Period{Active: true, Until: t.end.firstAfter(now), since: start}
		if t.isActive(p.Until) { // clocks are set forward over the end and the next start
			p.Until = t.end.firstAfter(p.Until)
		}
		p.changes = p.Until
		return p
	}
	p := Period{since: now}
	if !start.IsZero() {
		p.since = start
	}
	for range mostStarts {
		if start.IsZero() {
			break
		}
		if t.isActive(start) {
			p.Ended = t.end.firstAfter(start)
			break
		}
		before := start.Add(-time.Nanosecond)
		if t.isActive(before) { // it ends at a start that ends at once
			p.Ended = start
			break
		}
		start = t.lastStart(before)
	}
	if p.Ended.After(p.since) {
		p.since = p.Ended
	}
	next := t.nextStart(now)
	p.changes = next
	for range mostStarts {
		if next.IsZero() || t.isActive(next) { // else it ends at once
			p.Until = next
			break
		}
		next = t.nextStart(next)
	}
	return p
}

// endsWithItsStarts reports whether the schedule ends whenever it starts.
func (t *Times) endsWithItsStarts() bool {
	switch {
	case t.end.spec == nil:
		return false
	case t.start.spec != nil:
		return t.start.within(t.end.crontab)
	}
	return !t.at.IsZero() && !t.isActive(t.at)
}

// kept are the compiled times that were used last.
var kept cache

// mostKept limits each of the cache's two generations.
const mostKept = 2048

// cache keeps what was used since the last but one time that it was full.
type cache struct {
	sync.Mutex
	young, old map[Text]*Times
}

func (c *cache) get(text Text) *Times {
	text.At = text.At.UTC()
	c.Lock()
	defer c.Unlock()
	if t := c.young[text]; t != nil {
		return t
	}
	t := c.old[text]
	if t != nil {
		c.add(text, t)
	}
	return t
}

func (c *cache) put(text Text, t *Times) {
	// The texts may be parts of requests.
	text.Zone, text.Cron, text.EndCron = strings.Clone(text.Zone), strings.Clone(text.Cron), strings.Clone(text.EndCron)
	text.At = text.At.UTC()
	c.Lock()
	defer c.Unlock()
	c.add(text, t)
}

func (c *cache) add(text Text, t *Times) {
	if c.young == nil || len(c.young) >= mostKept {
		c.young, c.old = map[Text]*Times{}, c.young
	}
	c.young[text] = t
}
