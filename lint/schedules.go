package lint

import (
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/stages"
)

// Schedules are looked at for this long, and this many of their periods.
const (
	ahead       = 366 * 24 * time.Hour
	mostPeriods = 64
)

func (s *subject) eachSchedule(check func(at string, one *stages.Schedule)) {
	if s.Stages == nil {
		return
	}
	for i := range s.Stages.Schedules {
		if one := &s.Stages.Schedules[i]; !one.Suspended {
			check(fmt.Sprintf("spec.stages.schedules[%d]", i), one)
		}
	}
}

func scheduleOutOfBounds(s *subject) {
	least, most := s.spec.MinReplicas, s.spec.MaxReplicas
	s.eachSchedule(func(at string, one *stages.Schedule) {
		refused := func(format string, n int32) string { // in the service's words
			if s.Manifest {
				return ""
			}
			return fmt.Sprintf("; as a stored spec it is refused: "+format, n)
		}
		outside := func(field string, n int32) {
			switch {
			case n > most:
				s.report(at+"."+field, fmt.Sprintf("schedule %s: %d is above maxReplicas: it counts as %d", one.Name, n, most)+refused("must be at most the spec's maxReplicas, which is %d", most), fmt.Sprintf("%d > %d", n, most))
			case n >= 0 && n < least:
				s.report(at+"."+field, fmt.Sprintf("schedule %s: %d is below minReplicas: it counts as %d", one.Name, n, least)+refused("must be at least the spec's minReplicas, which is %d", least), fmt.Sprintf("%d < %d", n, least))
			}
		}
		outside("minReplicas", one.Min)
		outside("maxReplicas", one.Max)
	})
}

func scheduleNeverSoon(s *subject) {
	s.eachSchedule(func(at string, one *stages.Schedule) {
		p := one.Times.At(s.Now)
		switch {
		case p.Active:
		case p.Changes().IsZero():
			s.report(at, fmt.Sprintf("schedule %s is not active any more", one.Name), "no start after now")
		case p.Until.Sub(s.Now) > ahead:
			s.report(at, fmt.Sprintf("schedule %s is not active for more than a year", one.Name), "it starts on "+p.Until.In(one.Times.Zone()).Format(time.DateOnly))
		}
	})
}

// scheduleRampAsksNothing looks for ramps that gain a replica in each period, so that each decision finds the count below the
// minimum; shorter ones are over before load could come.
func scheduleRampAsksNothing(s *subject) {
	const short = 2 * time.Minute
	s.eachSchedule(func(at string, one *stages.Schedule) {
		gained := min(one.Min, s.spec.MaxReplicas) - s.spec.MinReplicas
		periods := (one.RampUp + usualPeriod - 1) / usualPeriod
		if one.MinPaced || one.RampUp < short || time.Duration(gained) < periods {
			return
		}
		s.report(at+".rampUp", fmt.Sprintf("schedule %s: a count at the minimum has no metric asked for %s before it starts", one.Name, one.RampUp), fmt.Sprintf("%d replicas in %s: one or more in each %s", gained, one.RampUp, usualPeriod))
	})
}

// scheduleOvershadowed looks for minimums that count in none of the next periods, because another schedule
// has as many throughout each.
func scheduleOvershadowed(s *subject) {
	s.eachSchedule(func(at string, one *stages.Schedule) {
		if one.Min < 0 || one.Max >= 0 {
			return
		}
		var by *stages.Schedule
		periods := 0
		now := s.Now
		for periods < mostPeriods {
			p := one.Times.At(now)
			if p.Until.IsZero() && (p.Active || !p.Changes().IsZero()) {
				return // when it ends, or is active next, is not known
			}
			if !p.Active {
				if p.Until.IsZero() || p.Until.Sub(s.Now) > ahead {
					break
				}
				now = p.Until
				continue
			}
			shadow := s.shadowOf(one, now, p.Until)
			if shadow == nil {
				return
			}
			by = shadow
			now = p.Until
			periods++
		}
		if by != nil {
			s.report(at+".minReplicas", fmt.Sprintf("schedule %s never counts: whenever it is active so is one with as many replicas, such as %s", one.Name, by.Name),
				fmt.Sprintf("%d ≤ %d in each of the next %d periods", one.Min, by.Min, periods))
		}
	})
}

// scheduleContradicted looks for maximums that another schedule's minimum is above within one of the next periods.
func scheduleContradicted(s *subject) {
	s.eachSchedule(func(at string, one *stages.Schedule) {
		now := s.Now
		for periods := 0; one.Max >= 0 && periods < mostPeriods; {
			p := one.Times.At(now)
			switch {
			case p.Active:
				if by, from := s.above(one.Max, now, p.Until); by != nil {
					s.report(at+".maxReplicas", fmt.Sprintf("schedule %s: its maximum does not count where schedule %s has its minimum", one.Name, by.Name),
						fmt.Sprintf("%d < %d, next on %s", one.Max, by.Min, from.In(by.Times.Zone()).Format("2006-01-02 15:04")))
					return
				}
				periods++
			case !p.Until.IsZero() && p.Until.Sub(s.Now) > ahead:
				return
			}
			if p.Until.IsZero() {
				return
			}
			now = p.Until
		}
	})
}

// above returns a schedule with a minimum above a count that is active between two instants, of which the second may
// be the zero time, and since when; nil: there is none.
func (s *subject) above(n int32, from, until time.Time) (by *stages.Schedule, since time.Time) {
	for i := range s.Stages.Schedules {
		other := &s.Stages.Schedules[i]
		if other.Suspended || other.Min <= n {
			continue
		}
		p := other.Times.At(from)
		if p.Active {
			return other, from
		}
		if !p.Until.IsZero() && (until.IsZero() || p.Until.Before(until)) {
			return other, p.Until
		}
	}
	return nil, time.Time{}
}

// shadowOf returns another schedule that is active from an instant until another one, ramps included, with a
// minimum as large at least; of equal ones the later has the shadow.
func (s *subject) shadowOf(one *stages.Schedule, from, until time.Time) *stages.Schedule {
	behind := false
	for i := range s.Stages.Schedules {
		other := &s.Stages.Schedules[i]
		if other == one {
			behind = true
			continue
		}
		if other.Suspended || other.MinPaced != one.MinPaced || other.Min < one.Min || other.Min == one.Min && behind {
			continue
		}
		p := other.Times.At(from.Add(-one.RampUp))
		if p.Active && !p.Until.IsZero() && !p.Until.Before(until.Add(one.RampDown)) {
			return other
		}
	}
	return nil
}
