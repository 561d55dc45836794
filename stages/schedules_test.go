package stages_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
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
	for name, c := range map[string]struct {
		schedules []stages.Schedule
		edit      func(g *target)
		current   int32
		queue     int64
		want      int32
		messages  string
	}{
		"S6 at once": {[]stages.Schedule{func() stages.Schedule { s := always(t, "night", -1, 10); s.MaxAtOnce = true; return s }()}, nil, 20, 400, 10,
			`[schedule "night" lowers maxReplicas from 20 to 10]`},
		"S7 above the maximum": {[]stages.Schedule{always(t, "night", 60, -1)}, nil, 10, 100, 20,
			`[schedule "night" raises minReplicas from 2 to 20, limited to maxReplicas 20]`},
		"S9 metrics fail at the minimum":     {[]stages.Schedule{always(t, "day", 12, -1)}, nil, 12, -1, 12, `[schedule "day" raises minReplicas from 2 to 12]`},
		"S9b metrics fail below it":          {[]stages.Schedule{always(t, "day", 12, -1)}, nil, 10, -1, 12, `[schedule "day" raises minReplicas from 2 to 12]`},
		"the largest minimum":                {[]stages.Schedule{always(t, "a", 6, -1), always(t, "b", 9, -1), always(t, "c", 7, -1)}, nil, 4, 10, 9, `[schedule "b" raises minReplicas from 2 to 9]`},
		"a minimum more than a maximum":      {[]stages.Schedule{always(t, "a", 9, -1), func() stages.Schedule { s := always(t, "b", -1, 5); s.MaxAtOnce = true; return s }()}, nil, 4, 10, 9, `[schedule "a" raises minReplicas from 2 to 9; that counts more than the 5 of schedule "b" schedule "b" lowers maxReplicas from 20 to 9, limited to minReplicas 9]`},
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
		paced, otherPaced bool
		begin, half       int32
	}{
		"of two at once":          {false, false, 10, 15},
		"over a paced":            {false, true, 5, 11},
		"paced, over one at once": {true, false, 10, 11},
	} {
		g := newTarget(t)
		g.in.Spec.MaxReplicas = 50
		g.in.Spec.Behavior.ScaleUp = onePodAMinute
		ramp, other := office(t), always(t, "always", 10, -1)
		ramp.RampUp, ramp.MinPaced, other.MinPaced = 30*time.Minute, c.paced, c.otherPaced
		g.around.Plan.Schedules = []stages.Schedule{ramp, other}
		if d := g.ask(instant(t, "2026-11-23T06:30:00Z"), 4, 50); d.Desired != c.begin {
			t.Errorf("%s, at its begin: %d, want %d", name, d.Desired, c.begin)
		}
		if d := g.ask(instant(t, "2026-11-23T06:45:00Z"), c.begin, 50); d.Desired != c.half {
			t.Errorf("%s, half way: %d, want %d of %q", name, d.Desired, c.half, messages(&d))
		}
	}
}

// window is a schedule of random bounds between two hours of the day in UTC, so that a test knows without
// the clock of the product when it is active.
type window struct {
	from, to int
	schedule stages.Schedule
}

func (w *window) has(at time.Time) bool {
	hour := at.UTC().Hour()
	if w.from < w.to {
		return w.from <= hour && hour < w.to
	}
	return hour >= w.from || hour < w.to
}

func randomWindows(t testing.TB, r *rand.Rand) []window {
	out := make([]window, 1+r.IntN(4))
	for i := range out {
		w := &out[i]
		w.from, w.to = r.IntN(24), r.IntN(24)
		if w.from == w.to {
			w.to = (w.to + 1) % 24
		}
		w.schedule = stages.Schedule{Name: fmt.Sprint("w", i), Min: -1, Max: -1, MaxAtOnce: true}
		if r.IntN(2) == 0 {
			w.schedule.Times = times(t, "UTC", fmt.Sprintf("0 %d * * *", w.from), fmt.Sprintf("0 %d * * *", w.to), 0)
		} else {
			w.schedule.Times = times(t, "UTC", fmt.Sprintf("0 %d * * *", w.from), "", time.Duration((w.to-w.from+24)%24)*time.Hour)
		}
		if r.IntN(3) > 0 {
			w.schedule.Min = int32(r.IntN(30))
		}
		if w.schedule.Min < 0 || r.IntN(2) == 0 {
			w.schedule.Max = int32(1 + r.IntN(30))
		}
		w.schedule.Suspended = r.IntN(8) == 0
	}
	return out
}

// randomInput is a target with metrics that need no pods, some of which fail.
func randomInput(r *rand.Rand, current int32) recommender.Input {
	in := recommender.Input{Options: recommender.DefaultOptions(), Namespace: "shop", Spec: recommender.Spec{
		ScaleTargetRef: recommender.ObjectReference{Kind: "Deployment", Name: "web"},
		MinReplicas:    int32(r.IntN(4)), MaxReplicas: int32(4 + r.IntN(25)),
	}}
	in.Options.ScaleToZero = true
	if r.IntN(2) == 0 {
		in.Spec.Behavior = &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
	}
	in.Scale = recommender.Scale{SpecReplicas: current, StatusReplicas: current}
	if r.IntN(4) == 0 {
		in.Scale.StatusReplicas = int32(r.IntN(20))
	}
	for range 1 + r.IntN(3) {
		target := int64(1000 * (1 + r.IntN(20)))
		in.Spec.Metrics = append(in.Spec.Metrics, recommender.MetricSpec{
			Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: fmt.Sprint("queue", len(in.Spec.Metrics))},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &target},
		})
		reading := recommender.Readings{Values: []recommender.Value{{Milli: int64(r.IntN(3)) * int64(r.IntN(150_000))}}}
		if r.IntN(6) == 0 {
			reading = recommender.Readings{Error: "away"}
		}
		in.Readings = append(in.Readings, reading)
	}
	if r.IntN(50) == 0 {
		in.ScaleError = &recommender.ScaleError{Message: "away"}
	}
	return in
}

func randomID(r *rand.Rand) (id recommender.ID) {
	for i := range id {
		id[i] = byte(r.UintN(256))
	}
	return id
}

// pairs runs targets twice, with stages and with an input that is edited by other means, and compares
// every field but what is told.
func pairs(t *testing.T, steps int, r *rand.Rand, same func(d, edited *recommender.Decision), step func(in *recommender.Input, at time.Time, first bool) (around stages.Around, edited recommender.Input)) {
	t.Helper()
	const ofATarget = 40
	changes := 0
	for range steps / ofATarget {
		var a, b recommender.History
		var state []byte
		current := int32(r.IntN(12))
		at := noon.Add(time.Duration(r.IntN(86_400)) * time.Second)
		template := randomInput(r, current)
		for n := range ofATarget {
			in := randomInput(r, current)
			in.Spec, in.ID = template.Spec, randomID(r)
			for len(in.Readings) < len(in.Spec.Metrics) {
				in.Readings = append(in.Readings, in.Readings[0])
			}
			in.Readings = in.Readings[:len(in.Spec.Metrics)]
			around, edited := step(&in, at, n == 0)
			d, next, kept := around.RecommendIn(nil, at, &in, &a, state)
			want, wantNext := recommender.Recommend(at, &edited, &b)
			isPlain(t, &d, at, &in, &a)
			d.Adjusted = nil
			same(&d, &want)
			if p := wantNext.Pending; p != nil && p.ID == want.ID {
				p.Reason = want.Reason // in the same words
			}
			if !reflect.DeepEqual(d, want) {
				t.Fatalf("at %s, %+v:\n%+v, want\n%+v", at, around.Plan, d, want)
			}
			if !reflect.DeepEqual(next.Recommendations, wantNext.Recommendations) || !reflect.DeepEqual(next.Pending, wantNext.Pending) {
				t.Fatalf("at %s: the history is %+v, want %+v", at, next, wantNext)
			}
			a, b, state = next, wantNext, kept
			if d.Changes() {
				changes++
				if r.IntN(5) > 0 {
					current = d.Desired
				}
			}
			if r.IntN(30) == 0 {
				current = int32(r.IntN(25))
			}
			at = at.Add(time.Duration(1+r.IntN(400)) * time.Second)
			if r.IntN(10) == 0 {
				at = at.Add(time.Duration(r.IntN(10)) * time.Hour)
			}
		}
	}
	if changes < steps/20 {
		t.Errorf("only %d of %d steps changed a count", changes, steps)
	}
	t.Logf("%d steps, %d changes", steps, changes)
}

// A decision with schedules that act at once is the engine's on a spec whose bounds are edited at
// those instants.
func TestAtOnceIsAnEditedSpec(t *testing.T) {
	testlength.SkipUnderRace(t)
	r := rand.New(rand.NewPCG(31, 5))
	var windows []window
	var list []stages.Schedule
	pairs(t, 20_000, r, func(*recommender.Decision, *recommender.Decision) {}, func(in *recommender.Input, at time.Time, first bool) (stages.Around, recommender.Input) {
		if first {
			windows, list = randomWindows(t, r), nil
			for _, w := range windows {
				list = append(list, w.schedule)
			}
		}
		edited := *in
		spec := &edited.Spec
		least, most := spec.MinReplicas, spec.MaxReplicas
		for _, w := range windows {
			if s := w.schedule; !s.Suspended && w.has(at) {
				least = max(least, s.Min)
				if s.Max >= 0 {
					most = min(most, s.Max)
				}
			}
		}
		spec.MinReplicas = min(least, spec.MaxReplicas)
		spec.MaxReplicas = max(most, spec.MinReplicas)
		return stages.Around{Plan: &stages.Plan{Schedules: list}}, edited
	})
}
