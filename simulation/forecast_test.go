package simulation_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// yesterday is an autoscaler whose minimum is what the metrics wanted at this time of yesterday, whatever that was.
type yesterday struct {
	plan    stages.Plan
	kept    stages.Kept
	history recommender.History
	lead    time.Duration
	wanted  map[int64]int32
}

func (y *yesterday) Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error) {
	around := stages.Around{Plan: &y.plan}
	least := int32(-1)
	for b := forecast.BucketOf(now); b <= forecast.BucketOf(now.Add(y.lead)); b++ {
		if n, ok := y.wanted[b-96]; ok {
			least = max(least, n)
		}
	}
	if least >= 0 {
		around.Proposals = []stages.Proposal{{Name: "yesterday", Role: stages.Voter, Replicas: least, Expires: now.Add(time.Minute)}}
	}
	asked := *in
	asked.Explain = true
	d, next := y.kept.Recommend(around, now, &asked, &y.history)
	y.history = next
	if e := d.Explanation; e != nil && len(e.Metrics) > 0 && e.Metrics[0].Failure == nil {
		b := forecast.BucketOf(now)
		y.wanted[b] = max(y.wanted[b], e.Metrics[0].Proposal)
	}
	return d, nil
}

func (y *yesterday) Settle(id recommender.ID, outcome recommender.Outcome, message string) error {
	_, next, err := y.kept.Settle(y.history, "", id, outcome, message)
	y.history = next
	return err
}

// measured is what the last two of six weeks were.
type measured struct {
	short, hours float64 // hours with too few replicas, replica-hours
}

func measure(t *testing.T, need func(time.Time) float64, f *stages.Forecast, engine simulation.Engine) (m measured) {
	t.Helper()
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	const days = 42
	var points []float64
	for s := 0.0; s < days*86400; s += 900 {
		n := need(begin.Add(time.Duration(s) * time.Second))
		points = append(points, s, n, s+899, n)
	}
	scenario := &simulation.Scenario{Start: begin, Load: trace(t, points...), Duration: days * 24 * time.Hour, Workload: web(2), Loop: simulation.Loop{SyncPeriod: time.Minute}}
	scenario.Workload.Usage = []simulation.Usage{offered(0)}
	a := onTotal(2, 60, 10)
	if f != nil {
		f.Basis = stages.BasisOf(&a.Spec, nil)
		a.Stages = &stages.Plan{Metrics: []string{"External:load"}, Forecast: f}
	}
	if engine == nil {
		engine = simulation.EngineOf(a)
	}
	_, err := simulation.RunWith(scenario, a, engine, func(s *simulation.Step) error {
		if s.At >= (days-14)*24*time.Hour {
			m.hours += float64(s.Decision.Current) / 60
			if float64(s.Decision.Current)*10 < s.Load {
				m.short += 1. / 60
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestForecastsAgainstYesterday compares, in the last two of six weeks, no forecast, what was wanted at this time of
// yesterday, and forecasts by day and by week. The figures are in docs/concepts/forecast.md.
func TestForecastsAgainstYesterday(t *testing.T) {
	square := func(at time.Time) float64 {
		if h := at.Hour(); h >= 8 && h < 20 {
			return 400
		}
		return 60
	}
	for _, c := range []struct {
		name   string
		need   func(time.Time) float64
		better func(none, yesterday, daily, weekly measured) bool
	}{
		{"each day the same", square, func(none, yesterday, daily, weekly measured) bool {
			return daily.short < none.short/2 && daily.hours < 1.1*none.hours
		}},
		{"quiet at weekends", func(at time.Time) float64 {
			if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
				return 60
			}
			return square(at)
		}, func(none, yesterday, daily, weekly measured) bool {
			return weekly.short < none.short/2 && weekly.hours < yesterday.hours && weekly.hours < daily.hours
		}},
		{"one day of three times as much", func(at time.Time) float64 {
			if at.YearDay() == 94 {
				return min(500, 3*square(at))
			}
			return square(at)
		}, func(none, yesterday, daily, weekly measured) bool { return daily.hours < yesterday.hours }},
		{"at other hours each day", func(at time.Time) float64 {
			return square(at.Add(time.Duration(at.YearDay()*7%24) * time.Hour))
		}, func(none, yesterday, daily, weekly measured) bool {
			return daily.hours == none.hours && yesterday.hours > 1.2*none.hours
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			by := func(season forecast.Season) *stages.Forecast {
				return &stages.Forecast{Settings: forecast.Settings{Season: season, Quantile: 90, Lead: 10 * time.Minute, Zone: time.UTC}, Floor: true}
			}
			none := measure(t, c.need, nil, nil)
			one := measure(t, c.need, nil, &yesterday{plan: stages.Plan{Metrics: []string{"External:load"}}, lead: 10 * time.Minute, wanted: map[int64]int32{}})
			daily, weekly := measure(t, c.need, by(forecast.Daily), nil), measure(t, c.need, by(forecast.Weekly), nil)
			t.Logf("short h, replica-hours: none %.1f %.0f, yesterday %.1f %.0f, DAILY %.1f %.0f, WEEKLY %.1f %.0f",
				none.short, none.hours, one.short, one.hours, daily.short, daily.hours, weekly.short, weekly.hours)
			if !c.better(none, one, daily, weekly) {
				t.Error("it is not as told")
			}
		})
	}
}
