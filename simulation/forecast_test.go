package simulation_test

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
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

// needs is a load, as ten times the replicas that it needs, of so many days, of which the last ones are measured. Pods take
// startup until they are ready.
type needs struct {
	need       func(time.Time) float64
	days, last int
	startup    time.Duration
}

// measured is what the last days were.
type measured struct {
	short, hours float64 // hours with too few replicas, replica-hours
}

func measure(t *testing.T, of *needs, f *stages.Forecast, engine simulation.Engine) (m measured) {
	t.Helper()
	begin, length := begins, time.Duration(of.days)*24*time.Hour
	var points []float64
	for s := 0.0; s < length.Seconds(); s += 300 {
		n := of.need(begin.Add(time.Duration(s) * time.Second))
		points = append(points, s, n, s+299, n)
	}
	scenario := &simulation.Scenario{Start: begin, Load: trace(t, points...), Duration: length, Workload: web(2), Loop: simulation.Loop{SyncPeriod: time.Minute}}
	scenario.Workload.Startup.From = of.startup
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
		if s.At >= length-time.Duration(of.last)*24*time.Hour {
			m.hours += float64(s.Decision.Current) / 60
			if float64(min(s.Ready, s.Decision.Current))*10 < s.Load {
				m.short += 1. / 60
			}
		}
		return nil
	})
	fatal.If(t, err)
	return m
}

// begins is a Monday.
var begins = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// fourWays measures no forecast, what was wanted at this time of yesterday, and forecasts by day and by week.
func fourWays(t *testing.T, of *needs) (none, one, daily, weekly measured) {
	t.Helper()
	by := func(season forecast.Season) *stages.Forecast {
		return &stages.Forecast{Settings: forecast.Settings{Season: season, Quantile: 90, Lead: 10 * time.Minute, Zone: time.UTC}, Floor: true}
	}
	none = measure(t, of, nil, nil)
	one = measure(t, of, nil, &yesterday{plan: stages.Plan{Metrics: []string{"External:load"}}, lead: 10 * time.Minute, wanted: map[int64]int32{}})
	return none, one, measure(t, of, by(forecast.Daily), nil), measure(t, of, by(forecast.Weekly), nil)
}

// recorded is a series of testdata/recorded, divided by a number, at the times of the day and the week that it was recorded at.
func recorded(t *testing.T, name string, by float64) func(time.Time) float64 {
	t.Helper()
	file, err := os.Open("testdata/recorded/" + name + ".csv.gz")
	fatal.If(t, err)
	defer func() { _ = file.Close() }()
	plain, err := gzip.NewReader(file)
	fatal.If(t, err)
	rows, err := csv.NewReader(plain).ReadAll()
	fatal.If(t, err)
	var at []time.Time
	var values []float64
	var move time.Duration
	for _, row := range rows[1:] {
		when, err := time.Parse(time.DateTime, row[0])
		value, bad := strconv.ParseFloat(row[1], 64)
		if err != nil || bad != nil {
			t.Fatal(row)
		}
		if len(at) == 0 {
			first := when.Truncate(24 * time.Hour)
			move = begins.Add(time.Duration(first.Weekday()-time.Monday) * 24 * time.Hour).Sub(first)
		}
		at, values = append(at, when.Add(move)), append(values, value/by)
	}
	begin := at[0].Truncate(24 * time.Hour).Sub(begins)
	return func(now time.Time) float64 {
		now = now.Add(begin)
		i, _ := slices.BinarySearchFunc(at, now, func(a, b time.Time) int { return cmp.Compare(a.Sub(b), 1) })
		return values[max(0, i-1)] // the newest at that instant
	}
}

// TestForecastsOfRecordedLoad compares the same on load that was recorded elsewhere, with pods that take five minutes. The
// figures are in docs/concepts/forecast.md.
func TestForecastsOfRecordedLoad(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    needs
		holds func(none, yesterday, daily, weekly measured) bool
	}{
		// Requests of a load balancer in five minutes, 20 a pod; the last six of 14 days.
		{"requests", needs{need: recorded(t, "requests", 2), days: 14, last: 6, startup: 5 * time.Minute}, func(none, yesterday, daily, weekly measured) bool {
			return daily == none && weekly == none && yesterday.short < none.short/2 && yesterday.hours > 1.5*none.hours
		}},
		// Passengers of taxis in half an hour, 1000 a pod; the last two of six weeks.
		{"taxi", needs{need: recorded(t, "taxi", 100), days: 42, last: 14, startup: 5 * time.Minute}, func(none, yesterday, daily, weekly measured) bool {
			return daily.short < none.short/20 && weekly.short < yesterday.short/5 && weekly.hours < 1.15*none.hours && daily.hours > 1.25*none.hours
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			none, one, daily, weekly := fourWays(t, &c.of)
			t.Logf("short h, replica-hours: none %.1f %.0f, yesterday %.1f %.0f, DAILY %.1f %.0f, WEEKLY %.1f %.0f",
				none.short, none.hours, one.short, one.hours, daily.short, daily.hours, weekly.short, weekly.hours)
			if !c.holds(none, one, daily, weekly) {
				t.Error("it is not as told")
			}
		})
	}
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
			none, one, daily, weekly := fourWays(t, &needs{need: c.need, days: 42, last: 14})
			t.Logf("short h, replica-hours: none %.1f %.0f, yesterday %.1f %.0f, DAILY %.1f %.0f, WEEKLY %.1f %.0f",
				none.short, none.hours, one.short, one.hours, daily.short, daily.hours, weekly.short, weekly.hours)
			if !c.better(none, one, daily, weekly) {
				t.Error("it is not as told")
			}
		})
	}
}
