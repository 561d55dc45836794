package stages

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/setpoint-dev/setpoint/stages/schedule"
)

// Schedule is bounds at certain times.
type Schedule struct {
	Name string
	// Times are when it is active.
	Times *schedule.Times
	// Min and Max are the bounds; below 0: none.
	Min, Max int32
	// RampUp is before the start, RampDown after the end.
	RampUp, RampDown time.Duration
	// MinPaced and MaxAtOnce are the paces that are not the usual ones.
	MinPaced, MaxAtOnce bool
	Suspended           bool
}

// minimum is what a schedule's minimum is at an instant.
type minimum struct {
	// replicas is below 0 where there is none.
	replicas int32
	// until is when it ends, or the next part of it begins.
	until time.Time
	// It is a part of a ramp between these, unless they are the zero time.
	rampFrom, rampTo time.Time
}

var noMinimum = minimum{replicas: -1}

// minimum returns the minimum in a period, at an instant of it; ramps begin and end at base.
func (s *Schedule) minimum(now time.Time, p *schedule.Period, base int32) minimum {
	switch {
	case s.Min < 0:
		return noMinimum
	case p.Active:
		return minimum{replicas: s.Min, until: p.Until}
	}
	m := noMinimum
	part := func(elapsed, ramp time.Duration, from, to time.Time) {
		if n := base + partOf(s.Min-base, elapsed, ramp); n > m.replicas {
			m = minimum{n, to, from, to}
		}
	}
	if s.Min <= base {
		return m
	}
	if up := p.Until.Add(-s.RampUp); !p.Until.IsZero() && now.After(up) {
		part(now.Sub(up), s.RampUp, up, p.Until)
	}
	if down := p.Ended.Add(s.RampDown); !p.Ended.IsZero() && now.Before(down) {
		part(down.Sub(now), s.RampDown, p.Ended, down)
	}
	return m
}

// partOf returns n × elapsed ÷ whole, rounded up; n is at least 0, and elapsed at most whole.
func partOf(n int32, elapsed, whole time.Duration) int32 {
	high, low := bits.Mul64(uint64(n), uint64(elapsed))
	quotient, remainder := bits.Div64(high, low, uint64(whole))
	if remainder > 0 {
		quotient++
	}
	return int32(quotient)
}

// ramp says in a sentence of which ramp a minimum is a part; empty: of none.
func (s *Schedule) ramp(m *minimum) string {
	if m.rampTo.IsZero() {
		return ""
	}
	zone := s.Times.Zone()
	return fmt.Sprintf(" (ramp %s–%s %s)", m.rampFrom.In(zone).Format("15:04"), m.rampTo.In(zone).Format("15:04"), zone)
}

// title is the schedule in a sentence.
func (s *Schedule) title() string { return fmt.Sprintf("schedule %q", s.Name) }

// rule is the schedule in an adjustment.
func (s *Schedule) rule() string { return ruleOf("schedule/", s.Name) }

// mostRule limits an adjustment's rule, bytes.
const mostRule = 64

func ruleOf(kind, name string) string {
	rule := kind + name
	return rule[:min(len(rule), mostRule)]
}
