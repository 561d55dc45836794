package stages_test

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// target is a target that is asked again and again: External:queue with an average of 10, 2 to 20
// replicas, behavior with a window of five minutes down.
type target struct {
	t       *testing.T
	in      recommender.Input
	history *recommender.History
	state   []byte
	around  stages.Around
}

func newTarget(t *testing.T) *target {
	ten, window := int64(10_000), int32(300)
	down := recommender.DefaultScaleDown()
	down.StabilizationWindowSeconds = &window
	in := recommender.Input{Options: recommender.DefaultOptions(), Namespace: "shop", Spec: recommender.Spec{
		ScaleTargetRef: recommender.ObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: 2, MaxReplicas: 20,
		Metrics: []recommender.MetricSpec{{
			Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "queue"},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &ten},
		}},
		Behavior: &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: down},
	}}
	return &target{t: t, in: in, around: stages.Around{Plan: &stages.Plan{Metrics: []string{"External:queue"}}}}
}

// ask asks at an instant with a count and a queue, -1 for one that can't be read, and applies the answer.
func (g *target) ask(at time.Time, current int32, queue int64) recommender.Decision {
	g.t.Helper()
	g.in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: queue * 1000}}}}
	if queue < 0 {
		g.in.Readings = []recommender.Readings{{Error: "away"}}
	}
	return g.decide(at, current)
}

// decide asks at an instant with a count and the input's readings, and applies the answer.
func (g *target) decide(at time.Time, current int32) recommender.Decision {
	g.t.Helper()
	in := g.in
	in.Scale = recommender.Scale{SpecReplicas: current, StatusReplicas: current}
	in.ID[0]++
	var history recommender.History
	if g.history != nil {
		history = *g.history
	}
	before := slices.Clone(g.in.Readings)
	d, next, state := g.around.RecommendIn(nil, at, &in, &history, g.state)
	if !reflect.DeepEqual(g.in.Readings, before) {
		g.t.Fatal("the caller's readings were changed")
	}
	isPlain(g.t, &d, at, &in, &history)
	if next.Pending != nil {
		_, settled, err := recommender.Settle(next, "shop", d.ID, recommender.Applied, "")
		fatal.If(g.t, err)
		next = settled
	}
	g.history, g.state = &next, state
	return d
}

// isPlain checks the plain count: it is the engine's, from the same history.
func isPlain(t *testing.T, d *recommender.Decision, at time.Time, in *recommender.Input, history *recommender.History) {
	t.Helper()
	plain, _ := recommender.Recommend(at, in, history)
	if d.Adjusted != nil && d.Adjusted.Plain != plain.Desired {
		t.Fatalf("at %s with %d replicas: plain %d, the engine alone decides %d", at, in.Scale.SpecReplicas, d.Adjusted.Plain, plain.Desired)
	}
}

func override(o stages.Override) stages.Override {
	if o.Pin == 0 {
		o.Pin = -1
	}
	if o.Floor == 0 {
		o.Floor = -1
	}
	if o.Ceiling == 0 {
		o.Ceiling = -1
	}
	if o.Expires.IsZero() {
		o.Expires = noon.Add(2 * time.Hour)
	}
	o.Start, o.Author, o.Reason = noon.Add(-time.Hour), cmp.Or(o.Author, "alice"), cmp.Or(o.Reason, "migration")
	if o.Level == 0 {
		o.Level = stages.OfTarget
	}
	if o.Name == "" {
		o.Name = "clusters/c/namespaces/n/targets/t/overrides/x"
	}
	return o
}

// The examples of overrides.
func TestOverrides(t *testing.T) {
	for name, c := range map[string]struct {
		overrides []stages.Override
		current   int32
		queue     int64
		want      int32
		message   string
	}{
		"O1 hold": {[]stages.Override{override(stages.Override{Hold: true})}, 10, 200, 10,
			`held at 10 by alice until 2026-11-23T14:00:00Z: "migration" (override x of the target); the recommendation would be 20`},
		"O2 pin": {[]stages.Override{override(stages.Override{Pin: 6})}, 10, 200, 6,
			`pinned to 6 by alice until 2026-11-23T14:00:00Z: "migration" (override x of the target); the recommendation would be 20`},
		"O3 no scale-down": {[]stages.Override{override(stages.Override{NoScaleDown: true})}, 10, 150, 15, ""},
		"O4 contradiction": {[]stages.Override{override(stages.Override{Name: "n", Floor: 8, Level: stages.OfNamespace}), override(stages.Override{Name: "c", Ceiling: 6, Level: stages.OfCluster})}, 10, 200, 10,
			`held at 10 (the floor of 8 contradicts the ceiling of 6, override c of the cluster) by alice until 2026-11-23T14:00:00Z: "migration" (override n of the namespace and the other); the recommendation would be 20`},
		"O4 contradiction of two people": {[]stages.Override{override(stages.Override{Name: "f10", Floor: 10}), override(stages.Override{Name: "c5", Ceiling: 5, Author: "bob", Reason: "incident", Expires: noon.Add(time.Hour)})}, 10, 200, 10,
			`held at 10 (the floor of 10 contradicts the ceiling of 5, override c5 of the target) by alice and bob until 2026-11-23T13:00:00Z (the end of the ceiling): "migration; incident" (override f10 of the target and the other); the recommendation would be 20`},
		"O4 contradiction that the floor ends": {[]stages.Override{override(stages.Override{Name: "f", Floor: 9, Reason: "sale", Expires: noon.Add(time.Hour)}), override(stages.Override{Name: "c", Ceiling: 5})}, 10, 200, 10,
			`held at 10 (the floor of 9 contradicts the ceiling of 5, override c of the target) by alice until 2026-11-23T13:00:00Z (the end of the floor): "sale; migration" (override f of the target and the other); the recommendation would be 20`},
		"O5 beyond the bounds": {[]stages.Override{override(stages.Override{Pin: 30})}, 10, 100, 20,
			`pinned to 30 (limited to maxReplicas 20) by alice until 2026-11-23T14:00:00Z: "migration" (override x of the target); the recommendation would be 10`},
		"one way only, of two": {[]stages.Override{override(stages.Override{Ceiling: 5}), override(stages.Override{Name: "d", NoScaleDown: true})}, 10, 200, 10,
			`held at 10 (no scale-down to the ceiling of 5, override x of the target) by alice until 2026-11-23T14:00:00Z: "migration" (override d of the target); the recommendation would be 20`},
		"no scale-down, with a floor beyond the bounds": {[]stages.Override{override(stages.Override{Floor: 26}), override(stages.Override{Name: "d", NoScaleDown: true})}, 24, 60, 24,
			`held at 24 (no scale-down to the floor of 26 (limited to maxReplicas 20), override x of the target) by alice until 2026-11-23T14:00:00Z: "migration" (override d of the target); the recommendation would be 20`},
		"no scale-down, with a pin beyond the bounds": {[]stages.Override{override(stages.Override{Pin: 26, NoScaleDown: true})}, 24, 60, 24,
			`held at 24 (no scale-down to the pin of 26 (limited to maxReplicas 20), override x of the target) by alice until 2026-11-23T14:00:00Z: "migration" (override x of the target); the recommendation would be 20`},
		"no scale-up, with a pin below the bounds": {[]stages.Override{override(stages.Override{Pin: 1, NoScaleUp: true, Level: stages.OfNamespace})}, 1, 60, 1,
			`pinned to 1 by alice until 2026-11-23T14:00:00Z: "migration" (override x of the namespace); the recommendation would be 2`},
		"no scale-up, with a ceiling below the bounds": {[]stages.Override{override(stages.Override{Ceiling: 4}), override(stages.Override{Name: "u", NoScaleUp: true})}, 5, 60, 5,
			`held at 5 (no scale-up to the ceiling of 4 (limited to minReplicas 6), override x of the target) by alice until 2026-11-23T14:00:00Z: "migration" (override u of the target); the recommendation would be 6`},
		"the most specific pin": {[]stages.Override{override(stages.Override{Pin: 4, Level: stages.OfCluster}), override(stages.Override{Pin: 7})}, 10, 100, 7,
			`pinned to 7 by alice until 2026-11-23T14:00:00Z: "migration" (override x of the target); the recommendation would be 10`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTarget(t)
			if strings.HasSuffix(name, "a ceiling below the bounds") {
				g.in.Spec.MinReplicas = 6
			}
			g.around.Overrides = c.overrides
			d := g.ask(noon, c.current, c.queue)
			if d.Desired != c.want {
				t.Errorf("desired %d, want %d", d.Desired, c.want)
			}
			if want := map[bool]string{true: recommender.ConditionTrue, false: recommender.ConditionFalse}[c.message != ""]; overriddenIs(&d.Status) != want {
				t.Errorf("Overridden is %q, want %q", overriddenIs(&d.Status), want)
			}
			message := ""
			if len(d.Adjusted.Adjustments) > 0 {
				message = d.Adjusted.Adjustments[0].Message
			}
			if message != c.message {
				t.Errorf("message %q,\nwant %q", message, c.message)
			}
		})
	}
}

// A workload that somebody switched off stays off.
func TestOverridesStartNothing(t *testing.T) {
	g := newTarget(t)
	g.around.Overrides = []stages.Override{override(stages.Override{Pin: 6}), override(stages.Override{Floor: 3, Level: stages.OfCluster})}
	if d := g.ask(noon, 0, 100); d.Desired != 0 || d.Path != recommender.PathScalingDisabled || len(d.Adjusted.Adjustments) != 0 || d.Adjusted.Plain != 0 || overriddenIs(&d.Status) != "" {
		t.Errorf("0 becomes %d: %+v", d.Desired, d.Adjusted)
	}
}

// What an override set to 0 is not switched off: it starts again when the override ends, also where a stage raised the minimum.
func TestAPinOfZeroEnds(t *testing.T) {
	for name, c := range map[string]struct {
		idle      bool
		schedules []stages.Schedule
		want      int32
	}{
		"alone":               {false, nil, 4},
		"of an active one":    {true, nil, 4},
		"below a schedule":    {false, []stages.Schedule{always(t, "day", 3, -1)}, 4},
		"below a larger one":  {false, []stages.Schedule{always(t, "day", 7, -1)}, 7},
		"below both of these": {true, []stages.Schedule{always(t, "day", 7, -1)}, 7},
	} {
		g := idleTarget(t, 5)
		if !c.idle {
			g.around.Plan.Idle = nil
		}
		g.around.Plan.Schedules = c.schedules
		pin := override(stages.Override{Hold: true, Expires: noon})
		pin.Hold, pin.Pin = false, 0
		g.around.Overrides = []stages.Override{pin}
		if d := g.ask(noon.Add(-30*time.Second), 8, 50); d.Desired != 0 {
			t.Errorf("%s: pinned to 0: %d", name, d.Desired)
		}
		if d := g.ask(noon.Add(-15*time.Second), 0, 50); d.Desired != 0 {
			t.Errorf("%s: still pinned to 0: %d", name, d.Desired)
		}
		if d := g.ask(noon, 0, 50); d.Desired != c.want {
			t.Errorf("%s: after the pin %d by %v, want %d", name, d.Desired, d.Path, c.want)
		}
	}
}

// Profiles that leave a workload at 0 alone, whoever scaled it there, would never start it again.
func TestAPinOfZeroIsLimitedWhereItWouldStay(t *testing.T) {
	for _, name := range recommender.ProfileNames() {
		g := idleTarget(t, 5)
		g.around.Plan = nil
		g.in.Options.Profile, _ = recommender.ProfileByName(name)
		pin := override(stages.Override{Hold: true, Expires: noon})
		pin.Hold, pin.Pin = false, 0
		g.around.Overrides = []stages.Override{pin}
		stays := name == "v1.15" || name == "cooldown"
		d := g.ask(noon.Add(-time.Minute), 8, 50)
		if (d.Desired == 1) != stays || (d.Desired == 0) == stays {
			t.Errorf("%s: pinned to 0: %d", name, d.Desired)
		}
		if said := messages(&d); stays && !strings.HasPrefix(said[0], "pinned to 0 (limited to 1, as profile "+name+" starts nothing that is at 0) by alice") {
			t.Errorf("%s: told %q", name, said)
		}
		if d = g.ask(noon, d.Desired, 50); d.Desired == 0 {
			t.Errorf("%s: after the pin 0 by %v", name, d.Path)
		}
	}
}

// overriddenIs is the status of the condition, empty: there is none.
func overriddenIs(s *recommender.Status) string {
	for _, c := range s.Conditions {
		if c.Type == stages.Overridden {
			return c.Status
		}
	}
	return ""
}

// An override that agrees with the recommendation changes nothing, and its end leaves no condition.
func TestAnOverrideThatAgrees(t *testing.T) {
	g := newTarget(t)
	g.around.Overrides = []stages.Override{override(stages.Override{Pin: 10})}
	if d := g.ask(noon, 10, 100); len(d.Adjusted.Adjustments) != 0 || overriddenIs(&d.Status) != recommender.ConditionTrue {
		t.Errorf("it made %v, Overridden is %q", d.Adjusted.Adjustments, overriddenIs(&d.Status))
	}
	g.around.Overrides = nil
	if d := g.ask(noon.Add(15*time.Second), 10, 100); overriddenIs(&d.Status) != "" {
		t.Errorf("after its end Overridden is %q", overriddenIs(&d.Status))
	}
}

// O6 and O7: below a pin the window stays warm, and the pin's own change is in no policy's period.
func TestAnOverrideEndsWarm(t *testing.T) {
	g := newTarget(t)
	pin := override(stages.Override{Pin: 6})
	pin.Expires = noon
	g.around.Overrides = []stages.Override{pin}
	current := int32(10)
	for at := noon.Add(-10 * time.Minute); at.Before(noon); at = at.Add(15 * time.Second) {
		queue := int64(200)
		if at.After(noon.Add(-2 * time.Minute)) {
			queue = 40
		}
		if current = g.ask(at, current, queue).Desired; current != 6 {
			t.Fatalf("%s: %d, want the pin's 6", at, current)
		}
	}
	for _, c := range []struct {
		after time.Duration
		want  int32
	}{{0, 6}, {2*time.Minute + 45*time.Second, 6}, {3 * time.Minute, 4}} {
		if d := g.ask(noon.Add(c.after), 6, 40); d.Desired != c.want {
			t.Errorf("%s after the pin: %d, want %d", c.after, d.Desired, c.want)
		}
	}
	g = newTarget(t)
	g.around.Overrides = []stages.Override{pin}
	g.ask(noon.Add(-15*time.Second), 10, 200)
	if d := g.ask(noon, 6, 200); d.Desired != 12 {
		t.Errorf("at the pin's end %d, want 12", d.Desired)
	}
	if d := g.ask(noon.Add(15*time.Second), 12, 200); d.Desired != 20 {
		t.Errorf("one period later %d, want 20", d.Desired)
	}
}

// Each of several overrides is told when it begins and when it ends, and what it does, also of those that were made at one
// instant.
func TestEachOverrideIsToldWhenItBeginsAndEnds(t *testing.T) {
	g := newTarget(t)
	all := []stages.Override{override(stages.Override{Name: "pinned", Pin: 9}), override(stages.Override{Name: "least", Floor: 7, NoScaleUp: true})}
	all[0].Created, all[1].Created = noon.Add(-time.Hour), noon.Add(-time.Hour)
	for i, step := range []struct {
		inForce []stages.Override
		told    []string
	}{
		{all[:1], []string{"override pinned of the target begins, .*: pin 9, by"}},
		{all, []string{"override least of the target begins, .*: floor 7, no-scale-up, by"}},
		{all, nil},
		{all[1:], []string{"override pinned of the target is gone .*: pin 9, by"}},
		{all[:1], []string{"override least of the target is gone .*: floor 7, no-scale-up, by", "override pinned of the target begins, .*: pin 9, by"}},
		{nil, []string{"override pinned of the target is gone .*: pin 9, by"}},
	} {
		g.around.Overrides = step.inForce
		d := g.ask(noon.Add(time.Duration(i)*time.Second), 5, 50)
		var got []string
		if d.Adjusted != nil {
			for _, a := range d.Adjusted.Overrides {
				got = append(got, a.Message)
			}
		}
		if !slices.EqualFunc(got, step.told, func(message, want string) bool { return regexp.MustCompile(want).MatchString(message) }) {
			t.Errorf("step %d: told %q, want %q", i, got, step.told)
		}
	}
}

// However much the stages before it tell, an override that decides the count is told, also where it begins.
func TestAnOverrideIsToldAfterManyOthers(t *testing.T) {
	for _, name := range []string{"q", strings.Repeat("q", 400)} {
		g := newTarget(t)
		metric := g.in.Spec.Metrics[0]
		g.in.Spec.Metrics, g.in.Readings, g.around.Plan = nil, nil, &stages.Plan{Freshness: &stages.Freshness{MaxAge: time.Minute}}
		for i := range 40 {
			metric.Metric.Name = name + string(rune('a'+i))
			g.in.Spec.Metrics = append(g.in.Spec.Metrics, metric)
			g.in.Readings = append(g.in.Readings, recommender.Readings{Values: make([]recommender.Value, 1), Taken: []time.Time{noon.Add(-time.Hour)}})
			g.around.Plan.Metrics = append(g.around.Plan.Metrics, stages.MetricName(&metric))
		}
		g.around.Overrides = []stages.Override{override(stages.Override{Name: "pinned", Pin: 9})}
		d := g.decide(noon, 5)
		last := d.Adjusted.Last()
		if d.Desired != 9 || last.Stage != recommender.StageOverride || last.After != 9 || len(d.Adjusted.Overrides) != 1 ||
			len(d.Adjusted.Adjustments)+len(d.Adjusted.Overrides) > recommender.MaxAdjustments {
			t.Errorf("%d adjustments, the last %+v, with %d", len(d.Adjusted.Adjustments), last, d.Desired)
		}
	}
}

// All texts of a decision's adjustments together are bounded, however long the names of metrics are.
func TestAdjustmentsAreBounded(t *testing.T) {
	g := newTarget(t)
	metric := g.in.Spec.Metrics[0]
	g.in.Spec.Metrics, g.around.Plan = nil, &stages.Plan{IgnoreSurge: true}
	for i := range 16 {
		metric.Metric.Name = strings.Repeat("q", 500) + string(rune('a'+i))
		g.in.Spec.Metrics = append(g.in.Spec.Metrics, metric)
		g.around.Plan.Metrics = append(g.around.Plan.Metrics, stages.MetricName(&metric))
		g.around.Plan.Fallbacks = append(g.around.Plan.Fallbacks, stages.Fallback{Metric: i, Replicas: 5})
	}
	d := g.ask(noon, 5, -1)
	total := 0
	for _, a := range d.Adjusted.Adjustments {
		total += len(a.Rule) + len(a.Metric) + len(a.Message)
	}
	if total == 0 || total > recommender.MostAdjustmentTexts {
		t.Errorf("%d adjustments have %d bytes of text", len(d.Adjusted.Adjustments), total)
	}
}
