package stages_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/schedule"
)

// shown is "07:00Z 2…50 EVENT" for what has an event.
func shown(all []stages.Bounds) string {
	var lines []string
	for _, b := range all {
		if b.Event != "" || len(lines) == 0 {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %d…%d %s", b.At.Format("02 15:04:05"), b.Min, b.Max, b.Event)))
		}
	}
	return strings.Join(lines, "; ")
}

func TestBoundsAhead(t *testing.T) {
	// 23 November 2026 is a Monday.
	day, night := office(t), stages.Schedule{Name: "night", Times: times(t, "Europe/Berlin", "0 22 * * *", "0 6 * * *", 0), Min: -1, Max: 10}
	ramped := day
	ramped.RampUp, ramped.RampDown = 30*time.Minute, 30*time.Minute
	high := day
	high.Min = 60
	late, err := schedule.Compile(schedule.Text{Zone: "UTC", At: instant(t, "2026-11-23T10:00:00Z"), Duration: time.Hour})
	fatal.If(t, err)
	once := stages.Schedule{Name: "once", Times: late, Min: 30, Max: -1}
	paced := stages.Schedule{Name: "paced", Times: times(t, "UTC", "0 0 * * 1", "", 24*time.Hour), Min: 10, Max: -1, MinPaced: true}
	off := day
	off.Suspended = true
	for name, c := range map[string]struct {
		at   string
		of   []stages.Schedule
		want string
	}{
		"none":               {"2026-11-23T06:00:00Z", nil, ""},
		"suspended":          {"2026-11-23T06:00:00Z", []stages.Schedule{off}, ""},
		"before it":          {"2026-11-23T06:00:00Z", []stages.Schedule{day}, `23 06:00:00 2…50; 23 07:00:00 20…50 schedule "office" starts; 23 19:00:00 2…50 schedule "office" ends`},
		"in it":              {"2026-11-23T07:00:00Z", []stages.Schedule{day}, `23 07:00:00 20…50; 23 19:00:00 2…50 schedule "office" ends; 24 07:00:00 20…50 schedule "office" starts`},
		"over a weekend":     {"2026-11-27T12:00:00Z", []stages.Schedule{day}, `27 12:00:00 20…50; 27 19:00:00 2…50 schedule "office" ends; 30 07:00:00 20…50 schedule "office" starts`},
		"with ramps":         {"2026-11-23T06:00:00Z", []stages.Schedule{ramped}, `23 06:00:00 2…50; 23 06:30:00 2…50 schedule "office" begins to rise; 23 07:00:00 20…50 schedule "office" starts; 23 19:00:00 20…50 schedule "office" ends; 23 19:30:00 2…50 schedule "office" has fallen`},
		"in a ramp":          {"2026-11-23T06:45:00Z", []stages.Schedule{ramped}, `23 06:45:00 11…50; 23 07:00:00 20…50 schedule "office" starts; 23 19:00:00 20…50 schedule "office" ends; 23 19:30:00 2…50 schedule "office" has fallen`},
		"over a paced one":   {"2026-11-23T06:45:00Z", []stages.Schedule{ramped, paced}, `23 06:45:00 11…50; 23 07:00:00 20…50 schedule "office" starts; 23 19:00:00 20…50 schedule "office" ends; 23 19:30:00 10…50 schedule "office" has fallen`},
		"two, the next two":  {"2026-11-23T06:00:00Z", []stages.Schedule{day, night}, `23 06:00:00 2…50; 23 07:00:00 20…50 schedule "office" starts; 23 19:00:00 2…50 schedule "office" ends`},
		"two at one instant": {"2026-11-23T06:00:00Z", []stages.Schedule{day, {Name: "too", Times: day.Times, Min: 9, Max: -1}}, `23 06:00:00 2…50; 23 07:00:00 20…50 schedule "too" starts; 23 07:00:00 20…50 schedule "office" starts; 23 19:00:00 2…50 schedule "too" ends; 23 19:00:00 2…50 schedule "office" ends`},
		"a maximum":          {"2026-11-23T20:00:00Z", []stages.Schedule{day, night}, `23 20:00:00 2…50; 23 21:00:00 2…10 schedule "night" starts; 24 05:00:00 2…50 schedule "night" ends`},
		"once":               {"2026-11-23T10:30:00Z", []stages.Schedule{once}, `23 10:30:00 30…50; 23 11:00:00 2…50 schedule "once" ends`},
		"never again":        {"2026-11-23T11:00:00Z", []stages.Schedule{once}, ""},
		"above the maximum":  {"2026-11-23T06:00:00Z", []stages.Schedule{high}, `23 06:00:00 2…50; 23 07:00:00 50…50 schedule "office" starts; 23 19:00:00 2…50 schedule "office" ends`},
	} {
		plan := &stages.Plan{Schedules: c.of}
		if got := shown(plan.Ahead(2, 50, instant(t, c.at))); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// randomSchedules returns schedules with ramps of few steps, all of which act at once.
func randomSchedules(t *testing.T, r *rand.Rand) (all []stages.Schedule) {
	for n := range 1 + r.IntN(4) {
		text := schedule.Text{Zone: []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe"}[r.IntN(3)], Cron: fmt.Sprintf("%d %d * * *", r.IntN(60), r.IntN(24))}
		if r.IntN(2) == 0 {
			text.Duration = time.Duration(1+r.IntN(600)) * time.Minute
		} else {
			text.EndCron = fmt.Sprintf("%d %d * * *", r.IntN(60), r.IntN(24))
		}
		times, err := schedule.Compile(text)
		if err != nil {
			continue // it ends at its starts
		}
		s := stages.Schedule{Name: fmt.Sprint("s", n), Times: times, Min: -1, Max: -1, MaxAtOnce: true, Suspended: r.IntN(8) == 0}
		if r.IntN(3) > 0 {
			s.Min = int32(r.IntN(20))
			if n == 0 { // ramps of several have other steps, as they begin at each other's minimum
				s.RampUp, s.RampDown = time.Duration(r.IntN(90))*time.Minute, time.Duration(r.IntN(90))*time.Minute
			}
		}
		if s.Min < 0 || r.IntN(3) == 0 {
			s.Max = max(s.Min, 0) + int32(r.IntN(20))
		}
		all = append(all, s)
	}
	return all
}

// What is told is what decisions have: at each instant that is told, and up to the next one.
func TestBoundsAheadAreThoseOfDecisions(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 2))
	const least, most = 2, 30
	told, ramps := 0, 0
	for range 400 {
		plan := &stages.Plan{Schedules: randomSchedules(t, r)}
		from := instant(t, "2026-10-20T00:00:00Z").Add(time.Duration(r.IntN(30*24*3600)) * time.Second)
		all := plan.Ahead(least, most, from)
		if len(all) > stages.MostBounds {
			t.Fatalf("%d bounds", len(all))
		}
		for i, b := range all {
			if i > 0 && b.At.Before(all[i-1].At) {
				t.Fatalf("%v after %v", b, all[i-1])
			}
			ats := []time.Time{b.At}
			if i+1 < len(all) && len(plan.Schedules) == 1 {
				if between := all[i+1].At.Sub(b.At) / time.Second; between > 1 {
					ats = append(ats, b.At.Add(time.Duration(1+r.Int64N(int64(between-1)))*time.Second))
				}
			}
			for _, at := range ats {
				low, high := boundsOf(t, plan, least, most, at)
				if low != b.Min || high != b.Max {
					t.Fatalf("at %s %d…%d, told for %s: %+v\nof %+v", at, low, high, b.At, b, plan.Schedules)
				}
				told++
			}
			if b.Event == "" {
				ramps++
			}
		}
	}
	if told < 2000 || ramps < 200 {
		t.Errorf("only %d instants compared, %d of them in ramps", told, ramps)
	}
}

// boundsOf returns the bounds with which a decision is made.
func boundsOf(t *testing.T, plan *stages.Plan, least, most int32, at time.Time) (low, high int32) {
	t.Helper()
	g := newTarget(t)
	g.in.Spec.MinReplicas, g.in.Spec.MaxReplicas = least, most
	g.around.Plan.Schedules = plan.Schedules
	d := g.ask(at, 10, 100)
	low, high = least, most
	for _, a := range d.Adjusted.Adjustments {
		if a.Stage != recommender.StageBounds {
			continue
		}
		if strings.Contains(a.Message, "raises minReplicas") {
			low = a.After
		} else {
			high = a.After
		}
	}
	return low, high
}

// The hours of 64 schedules with long ramps are within the limit, and soon told.
func TestBoundsAheadAreBounded(t *testing.T) {
	plan := &stages.Plan{}
	for n := range 64 {
		plan.Schedules = append(plan.Schedules, stages.Schedule{
			Name: fmt.Sprint("s", n), Times: times(t, "Europe/Berlin", "0 8 * * *", "", time.Hour), Min: 1_000_000, Max: -1,
			RampUp: 6*time.Hour - time.Duration(n)*time.Minute, RampDown: 6*time.Hour - time.Duration(n)*time.Minute,
		})
	}
	all := plan.Ahead(2, 2_000_000, instant(t, "2026-11-23T00:00:00Z"))
	if len(all) < 64*4 || len(all) >= stages.MostBounds {
		t.Errorf("%d bounds", len(all))
	}
	if last := all[len(all)-1]; last.Min != 2 {
		t.Errorf("the last is %+v", last)
	}
}
