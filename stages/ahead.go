package stages

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/stages/schedule"
)

// Bounds are what schedules make of a spec's bounds from an instant on.
type Bounds struct {
	At       time.Time
	Min, Max int32
	// Event says what happens then: `schedule "office" starts`. Empty: a step of a ramp.
	Event string
}

const (
	// transitionsAhead is how many instants at which schedules start or end Ahead looks ahead.
	transitionsAhead = 2
	// rampSteps limits the steps of all ramps together; each has one at least.
	rampSteps = 192
	// MostBounds limits Ahead.
	MostBounds = 512
)

// Ahead returns what the schedules make of a spec's bounds, of either pace: at an instant, and then each
// change up to the second instant at which schedules start or end, with the ramp after that. A ramp with
// many steps has some of them. It returns nil if no schedule starts or ends any more.
func (p *Plan) Ahead(least, most int32, from time.Time) []Bounds {
	var all []timed
	ramps := 0
	for i := range p.Schedules {
		s := &p.Schedules[i]
		if s.Suspended {
			continue
		}
		t := timed{Schedule: s, periods: []schedule.Period{s.Times.At(from)}}
		for range transitionsAhead {
			next, ok := s.Times.After(&t.periods[len(t.periods)-1])
			if !ok {
				break
			}
			t.periods = append(t.periods, next)
		}
		if s.RampUp > 0 || s.RampDown > 0 {
			ramps++
		}
		all = append(all, t)
	}
	var ends []time.Time
	for i := range all {
		for _, period := range all[i].periods {
			if !period.Until.IsZero() {
				ends = append(ends, period.Until)
			}
		}
	}
	if len(ends) == 0 {
		return nil
	}
	slices.SortFunc(ends, time.Time.Compare)
	ends = slices.CompactFunc(ends, time.Time.Equal)
	last := ends[min(transitionsAhead, len(ends))-1]
	events := []Bounds{{At: from}}
	for i := range all {
		events = all[i].events(events, from, last, max(1, rampSteps/max(1, 2*ramps)), least)
	}
	slices.SortStableFunc(events, func(a, b Bounds) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.Event, a.Event)) // an event before a step at its instant
	})
	out := events[:0]
	for _, e := range events {
		e.Min, e.Max = boundsAt(all, e.At, least, most)
		if n := len(out); n > 0 && e.Event == "" && (e.At.Equal(out[n-1].At) || e.Min == out[n-1].Min && e.Max == out[n-1].Max) {
			continue
		}
		out = append(out, e)
	}
	return out[:min(len(out), MostBounds)]
}

// timed is a schedule with its periods, one after the other.
type timed struct {
	*Schedule
	periods []schedule.Period
}

func (t *timed) at(now time.Time) *schedule.Period {
	for i := range t.periods {
		if until := t.periods[i].Until; until.IsZero() || now.Before(until) {
			return &t.periods[i]
		}
	}
	return &t.periods[len(t.periods)-1]
}

// events adds when the schedule starts and ends up to last, and the steps of its ramps.
func (t *timed) events(to []Bounds, from, last time.Time, steps int, least int32) []Bounds {
	add := func(at time.Time, what string) {
		if at.After(from) {
			to = append(to, Bounds{At: at, Event: what})
		}
	}
	span := t.Min - least
	ramp := func(begin time.Time, length time.Duration) {
		// The minimum is the next one after each k of all parts of it, told at the next whole second.
		parts := min(int64(steps), int64(span))
		for k := range parts {
			add(begin.Add(time.Duration(float64(length)/float64(parts)*float64(k))).Truncate(time.Second).Add(time.Second), "")
		}
	}
	for i := range t.periods {
		p := &t.periods[i]
		if up := p.Until.Add(-t.RampUp); !p.Active && !p.Until.IsZero() && t.RampUp > 0 && span > 0 && !p.Until.After(last) {
			add(up, t.title()+" begins to rise")
			ramp(up, t.RampUp)
		}
		if !p.Active && !p.Ended.IsZero() && t.RampDown > 0 && span > 0 && !p.Ended.After(last) {
			ramp(p.Ended, t.RampDown)
			add(p.Ended.Add(t.RampDown), t.title()+" has fallen")
		}
		if p.Until.IsZero() || p.Until.After(last) {
			continue
		}
		what := t.title() + " starts"
		if p.Active {
			what = t.title() + " ends"
		}
		add(p.Until, what)
	}
	return to
}

// boundsAt returns the bounds at an instant.
func boundsAt(all []timed, now time.Time, least, most int32) (low, high int32) {
	bases := rampBases{least, least}
	for i := range all {
		if t := &all[i]; t.at(now).Active {
			bases.add(t.Schedule)
		}
	}
	low, high = least, most
	for i := range all {
		t := &all[i]
		p := t.at(now)
		low = max(low, t.minimum(now, p, bases.of(t.Schedule, most)).replicas)
		if t.Max >= 0 && p.Active {
			high = min(high, t.Max)
		}
	}
	low = min(low, most)
	return low, max(low, high)
}
