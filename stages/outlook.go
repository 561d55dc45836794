package stages

import (
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Unforeseen returns a stage of which an outlook knows nothing, as it depends on readings, on what it remembers or on
// the caller; 0: there is none. last is the instant of the last decision.
func (a *Around) Unforeseen(last time.Time) recommender.Stage {
	if len(a.Proposals) > 0 {
		return recommender.StageProposal
	}
	p := a.Plan
	switch {
	case p == nil:
		return 0
	case p.Freshness != nil:
		return recommender.StageFreshness
	case len(p.ZeroGuards) > 0:
		return recommender.StageZeroGuard
	case p.Idle != nil:
		return recommender.StageIdle
	case len(p.Fallbacks) > 0:
		return recommender.StageFallback
	case p.Combine != nil && p.Combine.Method != Max:
		return recommender.StageCombine
	case p.Forecast != nil && p.Forecast.Floor:
		return recommender.StageForecast
	case p.Reversals != nil:
		return recommender.StageReversals
	}
	for i := range p.Schedules {
		// A paced bound is part of the metrics' proposal, of which the last one is known.
		if s := &p.Schedules[i]; !s.Suspended && (s.Min >= 0 && s.MinPaced || s.Max >= 0 && !s.MaxAtOnce) && !s.over(last) {
			return recommender.StageSchedule
		}
	}
	return 0
}

// over reports whether a schedule ended for good, and its ramp with it.
func (s *Schedule) over(now time.Time) bool {
	p := s.Times.At(now)
	return !p.Active && p.Changes().IsZero() && (p.Ended.IsZero() || !now.Before(p.Ended.Add(s.RampDown)))
}

// Outlook is History.Outlook of a target with these stages, none of which is unforeseen, and overrides, also those
// that begin later.
func (a *Around) Outlook(history *recommender.History, in *recommender.Input, basis *recommender.Basis, now time.Time, period time.Duration) (recommender.Outlook, bool) {
	return history.OutlookAround(func(at time.Time, in *recommender.Input, history *recommender.History) (recommender.Decision, recommender.History, time.Time) {
		d, next, _ := a.RecommendIn(nil, at, in, history, nil)
		return d, next, a.turn(at)
	}, in, basis, now, period)
}

// turn returns the first instant after now at which an override or a schedule begins, changes or ends; the zero time:
// there is none.
func (a *Around) turn(now time.Time) (first time.Time) {
	add := func(t time.Time) {
		if t.After(now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for i := range a.Overrides {
		add(a.Overrides[i].Start)
		add(a.Overrides[i].Expires)
	}
	if a.Plan == nil {
		return first
	}
	for i := range a.Plan.Schedules {
		s := &a.Plan.Schedules[i]
		if s.Suspended {
			continue
		}
		p := s.Times.At(now)
		add(p.Changes())
		if !p.Until.IsZero() && !p.Active && s.RampUp > 0 {
			if up := p.Until.Add(-s.RampUp); up.After(now) {
				add(up)
			} else {
				add(now.Add(1)) // each instant of a ramp may have another minimum
			}
		}
		if !p.Active && !p.Ended.IsZero() && now.Before(p.Ended.Add(s.RampDown)) {
			add(now.Add(1))
		}
	}
	return first
}
