package lint

import (
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

func (s *subject) eachFallback(check func(at, metric string, one *stages.Fallback)) {
	if s.Stages == nil {
		return
	}
	for i := range s.Stages.Fallbacks {
		one := &s.Stages.Fallbacks[i]
		if one.OfSpec { // these follow those of the stages
			check(fmt.Sprintf("spec.metrics[%d].external.fallback", one.Metric), s.Stages.Metrics[one.Metric], one)
			continue
		}
		check(fmt.Sprintf("spec.stages.fallbacks[%d]", i), s.Stages.Metrics[one.Metric], one)
	}
}

func fallbackOutOfBounds(s *subject) {
	least, most := s.spec.MinReplicas, s.spec.MaxReplicas
	s.eachFallback(func(at, metric string, one *stages.Fallback) {
		switch n := one.Replicas; {
		case n > most:
			s.report(at+".replicas", fmt.Sprintf("%s: a fallback of %d replicas is above maxReplicas", metric, n), fmt.Sprintf("%d > %d", n, most))
		case n > 0 && n < least:
			s.report(at+".replicas", fmt.Sprintf("%s: a fallback of %d replicas is below minReplicas", metric, n), fmt.Sprintf("%d < %d", n, least))
		}
	})
}

// usualPeriod is the controller's time between two evaluations.
const usualPeriod = 15 * time.Second

func fallbackWithinPeriod(s *subject) {
	s.eachFallback(func(at, metric string, one *stages.Fallback) {
		if one.After < usualPeriod {
			starts := "first failed evaluation"
			if one.After > 0 { // it has failed for no time at its first one
				starts = "second failed evaluation in a row"
			}
			s.report(at+".failureDuration", fmt.Sprintf("%s: the fallback does not wait for one period", metric), fmt.Sprintf("%s < %s: the %s starts it", one.After, usualPeriod, starts))
		}
	})
}

func zeroGuardAboveWindow(s *subject) {
	if s.Stages == nil {
		return
	}
	window := s.options.DownscaleStabilization
	if b := s.spec.Behavior; b != nil && b.ScaleDown.StabilizationWindowSeconds != nil {
		window = time.Duration(*b.ScaleDown.StabilizationWindowSeconds) * time.Second
	}
	for i := range s.Stages.ZeroGuards {
		if g := &s.Stages.ZeroGuards[i]; g.Confirm > window {
			s.report(fmt.Sprintf("spec.stages.zeroGuards[%d].confirm", i), fmt.Sprintf("%s: a fall is believed later than the window would let it pass", s.Stages.Metrics[g.Metric]),
				fmt.Sprintf("%s > %s", g.Confirm, window))
		}
	}
}

// daysOfForecast is how many days a forecast by day has.
const daysOfForecast = 14

func forecastOfOneDay(s *subject) {
	if s.Stages == nil || s.Stages.Forecast == nil {
		return
	}
	f := s.Stages.Forecast
	if f.Season == forecast.Daily && (f.Quantile*daysOfForecast+99)/100 == daysOfForecast {
		s.report("spec.stages.forecast.quantilePercent", "the forecast is what the day with the most needed",
			fmt.Sprintf("%d %% of %d days is the %dth", f.Quantile, daysOfForecast, daysOfForecast))
	}
}

func forecastBelowMinimum(s *subject) {
	if s.Stages == nil || s.Stages.Forecast == nil || !s.Stages.Forecast.Floor {
		return
	}
	f := s.Stages.Forecast
	if most := f.Most(s.spec.MaxReplicas); most <= s.spec.MinReplicas {
		s.report("spec.stages.forecast.maxPercentOfMax", "the forecast is never above minReplicas, so it never acts",
			fmt.Sprintf("%d %% of %d is %d ≤ %d", f.MostPercent, s.spec.MaxReplicas, most, s.spec.MinReplicas))
	}
}
