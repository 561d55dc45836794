package stages_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/schedule"
)

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	fatal.If(t, err)
	return at.UTC()
}

func times(t testing.TB, zone, cron, end string, duration time.Duration) *schedule.Times {
	t.Helper()
	times, err := schedule.Compile(schedule.Text{Zone: zone, Cron: cron, EndCron: end, Duration: duration})
	fatal.If(t, err)
	return times
}

// office is 08:00 to 20:00 on weekdays in Berlin.
func office(t testing.TB) stages.Schedule {
	return stages.Schedule{Name: "office", Times: times(t, "Europe/Berlin", "0 8 * * 1-5", "", 12*time.Hour), Min: 20, Max: -1}
}

func messages(d *recommender.Decision) (out []string) {
	for _, a := range d.Adjusted.Adjustments {
		out = append(out, a.Message)
	}
	return out
}

// S1: the ramp before the start, and S2: the end. 23 November 2026 is a Monday, 07:00 in Berlin 06:00Z.
func TestScheduleOfADay(t *testing.T) {
	for name, c := range map[string]struct {
		rampUp, rampDown time.Duration
		at               string
		current          int32
		want             int32
		message, until   string
	}{
		"S1 before the ramp": {30 * time.Minute, 0, "2026-11-23T06:30:00Z", 2, 5, "", ""},
		"S1 07:40":           {30 * time.Minute, 0, "2026-11-23T06:40:00Z", 2, 8, `schedule "office" raises minReplicas from 2 to 8 (ramp 07:30–08:00 Europe/Berlin)`, "2026-11-23T07:00:00Z"},
		"S1 07:45":           {30 * time.Minute, 0, "2026-11-23T06:45:00Z", 8, 11, `schedule "office" raises minReplicas from 2 to 11 (ramp 07:30–08:00 Europe/Berlin)`, "2026-11-23T07:00:00Z"},
		"S1 07:59":           {30 * time.Minute, 0, "2026-11-23T06:59:00Z", 11, 20, `schedule "office" raises minReplicas from 2 to 20 (ramp 07:30–08:00 Europe/Berlin)`, "2026-11-23T07:00:00Z"},
		"S1 08:00":           {30 * time.Minute, 0, "2026-11-23T07:00:00Z", 2, 20, `schedule "office" raises minReplicas from 2 to 20`, "2026-11-23T19:00:00Z"},
		"S2 19:59:59":        {0, 0, "2026-11-23T18:59:59Z", 20, 20, `schedule "office" raises minReplicas from 2 to 20`, "2026-11-23T19:00:00Z"},
		"S2 20:00":           {0, 0, "2026-11-23T19:00:00Z", 20, 5, "", ""},
		"S2 ramp down":       {0, 30 * time.Minute, "2026-11-23T19:10:00Z", 20, 14, `schedule "office" raises minReplicas from 2 to 14 (ramp 20:00–20:30 Europe/Berlin)`, "2026-11-23T19:30:00Z"},
		"S2 ramp down ends":  {0, 30 * time.Minute, "2026-11-23T19:30:00Z", 20, 5, "", ""},
		"on Saturday":        {0, 0, "2026-11-28T10:00:00Z", 5, 5, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTarget(t)
			g.in.Spec.MaxReplicas = 50
			s := office(t)
			s.RampUp, s.RampDown = c.rampUp, c.rampDown
			g.around.Plan.Schedules = []stages.Schedule{s}
			at := instant(t, c.at)
			if c.current > 5 {
				// The window of the five minutes before has recommendations of 5.
				for back := 6 * time.Minute; back > 0; back -= 15 * time.Second {
					g.ask(at.Add(-back), c.current, 50)
				}
			}
			d := g.ask(at, c.current, 50)
			if d.Desired != c.want {
				t.Errorf("desired %d, want %d", d.Desired, c.want)
			}
			if c.message == "" {
				if len(d.Adjusted.Adjustments) > 0 {
					t.Errorf("told %q", messages(&d))
				}
				return
			}
			a := d.Adjusted.Adjustments[0]
			if a.Message != c.message || a.Rule != "schedule/office" || a.Stage != recommender.StageBounds || !a.Until.Equal(instant(t, c.until)) {
				t.Errorf("told %+v, want %s until %s", a, c.message, c.until)
			}
		})
	}
	g := newTarget(t)
	g.in.Spec.MaxReplicas = 50
	g.around.Plan.Schedules = []stages.Schedule{office(t)}
	if d := g.ask(instant(t, "2026-11-23T07:00:00Z"), 2, 50); d.Reason != recommender.BelowMinReplicas {
		t.Errorf("reason %q, want that of an edited minReplicas", d.Reason)
	}
}

func always(t testing.TB, name string, least, most int32) stages.Schedule {
	return stages.Schedule{Name: name, Times: times(t, "UTC", "0 0 * * *", "", 24*time.Hour), Min: least, Max: most}
}

func TestSchedules(t *testing.T) {
	at := noon.AddDate(0, 0, 1)
	idle := func(g *target) {
		g.in.Spec.MinReplicas, g.in.Options.ScaleToZero = 0, true
		schedules := g.around.Plan.Schedules
		g.around.Plan.Schedules = nil
		for back := 15; back > 0; back -= 5 {
			g.ask(at.Add(-time.Duration(back)*time.Minute), 1, 0)
		}
		g.around.Plan.Schedules = schedules
	}
	v128 := func(least int32) func(*target) { // what is at 0 is there by its minimum
		return func(g *target) {
			g.in.Spec.MinReplicas, g.in.Options.ScaleToZero = least, true
			g.in.Options.Profile, _ = recommender.ProfileByName("v1.28")
		}
	}
	maximum := func(name string, most int32) stages.Schedule {
		s := always(t, name, -1, most)
		s.MaxAtOnce = true
		return s
	}
	for name, c := range map[string]struct {
		schedules []stages.Schedule
		edit      func(g *target)
		current   int32
		queue     int64
		want      int32
		messages  string
	}{
		"S6 at once": {[]stages.Schedule{maximum("night", 10)}, nil, 20, 400, 10,
			`[schedule "night" lowers maxReplicas from 20 to 10]`},
		"S7 above the maximum": {[]stages.Schedule{always(t, "night", 60, -1)}, nil, 10, 100, 20,
			`[schedule "night" raises minReplicas from 2 to 20, limited to maxReplicas 20]`},
		"S9 metrics fail at the minimum": {[]stages.Schedule{always(t, "day", 12, -1)}, nil, 12, -1, 12, `[schedule "day" raises minReplicas from 2 to 12]`},
		"S9b metrics fail below it":      {[]stages.Schedule{always(t, "day", 12, -1)}, nil, 10, -1, 12, `[schedule "day" raises minReplicas from 2 to 12]`},
		"the smallest maximum": {[]stages.Schedule{maximum("a", 12), maximum("b", 7), maximum("c", 10)}, nil, 9, 200, 7,
			`[schedule "b" lowers maxReplicas from 20 to 7]`},
		"the largest minimum":                {[]stages.Schedule{always(t, "a", 6, -1), always(t, "b", 9, -1), always(t, "c", 7, -1)}, nil, 4, 10, 9, `[schedule "b" raises minReplicas from 2 to 9]`},
		"a minimum more than a maximum":      {[]stages.Schedule{always(t, "a", 9, -1), maximum("b", 5)}, nil, 4, 10, 9, `[schedule "a" raises minReplicas from 2 to 9; that counts more than the 5 of schedule "b" schedule "b" lowers maxReplicas from 20 to 9, limited to minReplicas 9]`},
		"a minimum below that of the spec":   {[]stages.Schedule{always(t, "a", 1, -1)}, nil, 2, 10, 2, "[]"},
		"suspended":                          {[]stages.Schedule{func() stages.Schedule { s := always(t, "a", 9, -1); s.Suspended = true; return s }()}, nil, 2, 10, 2, "[]"},
		"paced, as the policies allow":       {[]stages.Schedule{func() stages.Schedule { s := always(t, "a", 9, -1); s.MinPaced = true; return s }()}, nil, 4, 10, 8, `[schedule "a" of 9 is above the metrics' 1]`},
		"paced, and all metrics fail":        {[]stages.Schedule{func() stages.Schedule { s := always(t, "a", 9, -1); s.MinPaced = true; return s }()}, nil, 8, -1, 9, `[schedule "a" of 9 counts; no metric has a proposal]`},
		"paced, the metrics propose more":    {[]stages.Schedule{func() stages.Schedule { s := always(t, "a", 9, -1); s.MinPaced = true; return s }()}, nil, 10, 150, 15, "[]"},
		"from zero, where the autoscaler is": {[]stages.Schedule{always(t, "a", 3, -1)}, idle, 0, 0, 3, `[schedule "a" raises minReplicas from 0 to 3]`},
		"from zero, and metrics fail":        {[]stages.Schedule{always(t, "a", 3, -1)}, idle, 0, -1, 3, `[schedule "a" raises minReplicas from 0 to 3]`},
		"from zero, and pods are unknown": {[]stages.Schedule{always(t, "a", 3, -1)}, func(g *target) {
			idle(g)
			g.in.SelectorProblem = &recommender.SelectorProblem{Reason: recommender.InvalidSelector}
		}, 0, 0, 3, `[schedule "a" raises minReplicas from 0 to 3]`},
		"from zero by a floor, and metrics fail": {nil, func(g *target) {
			idle(g)
			g.around.Proposals = []stages.Proposal{{Name: "f", Replicas: 4, Role: stages.Floor, Expires: at.Add(time.Minute)}}
		}, 0, -1, 4, `[proposal "f" raises minReplicas from 0 to 4]`},
		"from zero, where minReplicas allows it":                   {[]stages.Schedule{always(t, "a", 3, -1)}, v128(0), 0, 0, 3, `[schedule "a" raises minReplicas from 0 to 3]`},
		"from zero, where minReplicas allows it, and load":         {[]stages.Schedule{always(t, "a", 3, -1)}, v128(0), 0, 40, 4, `[schedule "a" raises minReplicas from 0 to 3]`},
		"from zero, where minReplicas allows it, and metrics fail": {[]stages.Schedule{always(t, "a", 3, -1)}, v128(0), 0, -1, 3, `[schedule "a" raises minReplicas from 0 to 3]`},
		"from zero, where minReplicas does not allow it":           {[]stages.Schedule{always(t, "a", 3, -1)}, v128(1), 0, 40, 0, `[schedule "a" raises minReplicas from 1 to 3]`},
		"the first of equal minimums":                              {[]stages.Schedule{always(t, "a", 9, -1), always(t, "b", 9, -1)}, nil, 4, 10, 9, `[schedule "a" raises minReplicas from 2 to 9]`},
		"the first of equal maximums":                              {[]stages.Schedule{maximum("a", 7), maximum("b", 7)}, nil, 9, 200, 7, `[schedule "a" lowers maxReplicas from 20 to 7]`},
		"from zero by the spec's own minimum, and metrics fail, as HPA": {nil, func(g *target) {
			idle(g)
			g.in.Spec.MinReplicas = 3
		}, 0, -1, 0, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTarget(t)
			g.around.Plan.Schedules = c.schedules
			if c.edit != nil {
				c.edit(g)
			}
			d := g.ask(at, c.current, c.queue)
			if d.Desired != c.want {
				t.Errorf("desired %d, want %d", d.Desired, c.want)
			}
			if got := fmt.Sprint(messages(&d)); got != c.messages {
				t.Errorf("told %s,\nwant %s", got, c.messages)
			}
		})
	}
}

// S6: a maximum is a limit of the proposal, which the window and the policies follow.
func TestAPacedMaximumFollowsTheWindow(t *testing.T) {
	g := newTarget(t)
	g.in.Spec.MaxReplicas = 50
	g.around.Plan.Schedules = []stages.Schedule{{Name: "night", Times: times(t, "Europe/Berlin", "0 20 * * *", "", 10*time.Hour), Min: -1, Max: 10}}
	night := instant(t, "2026-11-23T19:00:00Z")
	for at := night.Add(-time.Minute); at.Before(night); at = at.Add(15 * time.Second) {
		if d := g.ask(at, 40, 400); d.Desired != 40 || len(d.Adjusted.Adjustments) > 0 {
			t.Fatalf("%s: %d, %q", at, d.Desired, messages(&d))
		}
	}
	for at := night; at.Before(night.Add(4*time.Minute + 45*time.Second)); at = at.Add(15 * time.Second) {
		d := g.ask(at, 40, 400)
		if d.Desired != 40 {
			t.Fatalf("%s: %d, want the window's 40", at, d.Desired)
		}
		a := d.Adjusted.Adjustments[0]
		if a.Message != `schedule "night" limits the proposal of 40 to 10` || a.Stage != recommender.StageSchedule || a.Rule != "schedule/night" || !a.Until.Equal(night.Add(10*time.Hour)) {
			t.Fatalf("told %+v", a)
		}
		if d.Adjusted.Plain != 40 {
			t.Fatalf("plain %d", d.Adjusted.Plain)
		}
	}
	// The last recommendation of 40 was 15 s before the night.
	if d := g.ask(night.Add(4*time.Minute+45*time.Second), 40, 400); d.Desired != 10 {
		t.Errorf("after the window: %d, want 10", d.Desired)
	}
	// A minimum counts more.
	g.around.Plan.Schedules = append(g.around.Plan.Schedules, always(t, "least", 12, -1))
	if d := g.ask(night.Add(5*time.Minute), 10, 400); d.Desired != 12 {
		t.Errorf("with a minimum of 12: %d of %q", d.Desired, messages(&d))
	}
}

// A ramp begins at the floor of the other schedules where that is larger; one that acts at once leaves out those that are
// paced, which are not reached.
func TestARampBeginsAtOtherSchedules(t *testing.T) {
	onePodAMinute := recommender.ScalingRules{SelectPolicy: recommender.MaxChange, Policies: []recommender.ScalingPolicy{{Type: recommender.PodsPolicy, Value: 1, PeriodSeconds: 60}}}
	for name, c := range map[string]struct {
		paced, otherPaced, suspended bool
		begin, half                  int32
	}{
		"of two at once":          {false, false, false, 10, 15},
		"over a paced":            {false, true, false, 5, 11},
		"paced, over one at once": {true, false, false, 10, 11},
		"over a suspended":        {false, false, true, 5, 11},
	} {
		g := newTarget(t)
		g.in.Spec.MaxReplicas = 50
		g.in.Spec.Behavior.ScaleUp = onePodAMinute
		ramp, other := office(t), always(t, "always", 10, -1)
		ramp.RampUp, ramp.MinPaced, other.MinPaced, other.Suspended = 30*time.Minute, c.paced, c.otherPaced, c.suspended
		g.around.Plan.Schedules = []stages.Schedule{ramp, other}
		if d := g.ask(instant(t, "2026-11-23T06:30:00Z"), 4, 50); d.Desired != c.begin {
			t.Errorf("%s, at its begin: %d, want %d", name, d.Desired, c.begin)
		}
		if d := g.ask(instant(t, "2026-11-23T06:45:00Z"), c.begin, 50); d.Desired != c.half {
			t.Errorf("%s, half way: %d, want %d of %q", name, d.Desired, c.half, messages(&d))
		}
	}
}
