package stages_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/stages"
)

// steps is how many random evaluations each oracle makes, and life how many of them one target lives.
const steps, life = 20_000, 40

// world makes random targets.
type world struct {
	*rand.Rand
	spec    recommender.Spec
	options recommender.Options
	names   []string
	now     time.Time
	count   int32
}

func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

func oneOf[T any](w *world, values ...T) T { return values[w.IntN(len(values))] }

// profiles are those of the controller.
var profiles = []string{"v1.15", "v1.19", "v1.28", "v1.36", "v1.37"}

func newWorld(seed uint64, behavior bool, profiles ...string) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 31)), options: recommender.DefaultOptions(), now: noon}
	w.options.Profile, _ = recommender.ProfileByName(oneOf(w, profiles...))
	w.options.DownscaleStabilization = time.Duration(w.IntN(300)) * time.Second
	w.spec = recommender.Spec{
		ScaleTargetRef: recommender.ObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"},
		MinReplicas:    int32(1 + w.IntN(4)),
	}
	w.spec.MaxReplicas = w.spec.MinReplicas + int32(w.IntN(30))
	if behavior || w.chance(60) {
		w.spec.Behavior = &recommender.Behavior{ScaleUp: w.rules(0, 0, 30, 60), ScaleDown: w.rules(0, 60, 300)}
	}
	w.count = w.spec.MinReplicas + int32(w.IntN(int(w.spec.MaxReplicas-w.spec.MinReplicas)+1))
	for i := range 1 + w.IntN(3) {
		w.spec.Metrics = append(w.spec.Metrics, w.metric(i))
		w.names = append(w.names, stages.MetricName(&w.spec.Metrics[i]))
	}
	return w
}

func (w *world) rules(windows ...int32) recommender.ScalingRules {
	window := oneOf(w, windows...)
	rules := recommender.ScalingRules{
		StabilizationWindowSeconds: &window,
		SelectPolicy:               oneOf(w, recommender.MaxChange, recommender.MaxChange, recommender.MinChange, recommender.NoSelection),
	}
	for range 1 + w.IntN(2) {
		rules.Policies = append(rules.Policies, recommender.ScalingPolicy{
			Type: oneOf(w, recommender.PodsPolicy, recommender.PercentPolicy), Value: int32(1 + w.IntN(100)), PeriodSeconds: int32(1 + w.IntN(90)),
		})
	}
	return rules
}

func (w *world) metric(i int) recommender.MetricSpec {
	target := int64(1000 * (1 + w.IntN(20)))
	percent := int32(1 + w.IntN(100))
	average := recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &target}
	value := recommender.MetricTarget{Type: recommender.ValueTarget, Value: &target}
	id := recommender.MetricIdentifier{Name: fmt.Sprintf("m%d", i)}
	service := recommender.ObjectReference{Kind: "Service", Name: "front", APIVersion: "v1"}
	return oneOf(w,
		recommender.MetricSpec{Type: recommender.ResourceMetric, Resource: oneOf(w, "cpu", "memory"), Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &percent}},
		recommender.MetricSpec{Type: recommender.PodsMetric, Metric: id, Target: average},
		recommender.MetricSpec{Type: recommender.ObjectMetric, Metric: id, DescribedObject: service, Target: oneOf(w, average, value)},
		recommender.MetricSpec{Type: recommender.ExternalMetric, Metric: id, Target: average},
		recommender.MetricSpec{Type: recommender.ExternalMetric, Metric: id, Target: value},
	)
}

// taken is an instant around the ages that count.
func (w *world) taken() time.Time {
	return w.now.Add(oneOf(w, 0, 5*time.Second, time.Minute, time.Minute, time.Minute+1, 2*time.Minute, -10*time.Second, -10*time.Second-1, -time.Minute))
}

// input is the next observation. stale is how often a sample is not fresh, in per cent.
func (w *world) input(stale int) *recommender.Input {
	in := &recommender.Input{Namespace: "shop", Spec: w.spec, Options: w.options, Explain: w.chance(20)}
	for i := range in.ID {
		in.ID[i] = byte(1 + w.IntN(255))
	}
	in.Scale = recommender.Scale{SpecReplicas: w.count, StatusReplicas: w.count}
	if w.chance(5) {
		in.ScaleError = &recommender.ScaleError{Message: "away"}
	}
	one, err := quantity.Parse("1")
	if err != nil {
		panic(err)
	}
	instant := func() time.Time {
		if w.chance(stale) {
			return w.taken()
		}
		return w.now.Add(-time.Second)
	}
	usage := int64(w.IntN(2000))
	for i := range w.count {
		pod := recommender.Pod{
			Name: fmt.Sprintf("web-%d", i), Phase: recommender.PhaseRunning, Ready: oneOf(w, recommender.ReadyTrue, recommender.ReadyTrue, recommender.ReadyTrue, recommender.ReadyFalse),
			StartTime: noon.Add(-time.Duration(w.IntN(3600)) * time.Second), ReadyTransition: noon.Add(-time.Hour),
			Containers: []recommender.Container{{Name: "app", Requests: []recommender.ResourceRequest{{Resource: "cpu", Quantity: one}, {Resource: "memory", Quantity: one}}}},
		}
		in.Pods = append(in.Pods, pod)
		if w.chance(90) {
			in.PodMetrics = append(in.PodMetrics, recommender.PodMetrics{
				Pod: pod.Name, Timestamp: instant(), Window: 30 * time.Second,
				Containers: []recommender.ContainerMetrics{{Name: "app", Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: usage}, {Resource: "memory", Milli: usage / 2}}}},
			})
		}
	}
	for i := range w.spec.Metrics {
		var r recommender.Readings
		add := func(v recommender.Value) {
			at := instant()
			r.Add(at, v)
			r.Taken = append(r.Taken, at)
		}
		switch w.spec.Metrics[i].Type {
		case recommender.PodsMetric:
			for _, p := range in.Pods {
				if w.chance(90) {
					add(recommender.Value{Pod: p.Name, Milli: int64(w.IntN(20_000))})
				}
			}
		case recommender.ObjectMetric:
			add(recommender.Value{Milli: w.value()})
		case recommender.ExternalMetric:
			for range w.IntN(3) {
				add(recommender.Value{Milli: w.value()})
			}
		}
		if w.chance(10) {
			r = recommender.Readings{Error: "away"}
		}
		in.Readings = append(in.Readings, r)
	}
	return in
}

func (w *world) value() int64 {
	return oneOf(w, 0, 0, int64(w.IntN(300))*1000, int64(w.IntN(30_000)), int64(w.IntN(100)), -1)
}

// pass lets time pass, and settles the pending change one way or another.
func (w *world) pass(d *recommender.Decision, histories ...*recommender.History) {
	outcome := oneOf(w, recommender.Applied, recommender.Applied, recommender.Applied, recommender.Failed)
	if d.Changes() && outcome == recommender.Applied {
		w.count = d.Desired
	}
	for _, h := range histories {
		if h.Pending == nil {
			continue
		}
		_, settled, err := recommender.Settle(*h, "shop", h.Pending.ID, outcome, "")
		if err != nil {
			panic(err)
		}
		*h = settled
	}
	if w.chance(5) { // somebody else's change
		w.count = int32(w.IntN(int(w.spec.MaxReplicas) + 2))
	}
	w.now = w.now.Add(time.Duration(1+w.IntN(40)) * time.Second)
}

// agree asks both engines, and compares decision and history in every field.
func agree(t *testing.T, w *world, around *stages.Around, edit func(*recommender.Input)) {
	t.Helper()
	var ours, theirs recommender.History
	var state []byte
	for range life {
		in := w.input(25)
		edited := *in
		edited.Readings, edited.PodMetrics = slices.Clone(in.Readings), slices.Clone(in.PodMetrics)
		before := *in
		before.Readings, before.PodMetrics = slices.Clone(in.Readings), slices.Clone(in.PodMetrics)
		edit(&edited)
		plain, _ := recommender.Recommend(w.now, in, &ours)
		got, next, kept := around.RecommendIn(nil, w.now, in, &ours, state)
		want, after := recommender.Recommend(w.now, &edited, &theirs)
		adjusted := got.Adjusted
		got.Adjusted = nil
		got.Status.Conditions = without(got.Status.Conditions)
		next.Status.Conditions = without(next.Status.Conditions)
		if !same(got, want) || !same(next, after) {
			t.Fatalf("%s: %s\n got %+v\nwant %+v\n got %+v\nwant %+v", w.options.Profile.Name(), w.now, got, want, next, after)
		}
		if adjusted.Plain != plain.Desired {
			t.Fatalf("%s: plain %d, want %d", w.now, adjusted.Plain, plain.Desired)
		}
		if !same(*in, before) {
			t.Fatal("the input was changed")
		}
		ours, theirs, state = next, after, kept
		w.pass(&got, &ours, &theirs)
	}
}

// without leaves out the stages' conditions.
func without(conditions []recommender.Condition) []recommender.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c recommender.Condition) bool { return c.Type == stages.MetricSuspect })
}

// same compares all that is printed of two values, NaN with itself.
func same(a, b any) bool {
	return reflect.DeepEqual(a, b) || fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b)
}

// A decision with freshness is that of a controller whose metrics APIs left out the samples, or failed.
func TestFreshnessIsAnEditOfTheInput(t *testing.T) {
	for seed := range uint64(steps / life) {
		w := newWorld(seed, false, profiles...)
		around := &stages.Around{Plan: &stages.Plan{
			Freshness: &stages.Freshness{MaxAge: time.Minute, FutureTolerance: 10 * time.Second}, Metrics: w.names,
		}}
		stale := func(at time.Time) bool {
			return at.Before(w.now.Add(-time.Minute)) || at.After(w.now.Add(10*time.Second))
		}
		agree(t, w, around, func(in *recommender.Input) {
			in.PodMetrics = slices.DeleteFunc(in.PodMetrics, func(m recommender.PodMetrics) bool { return stale(m.Timestamp) })
			for i := range in.Readings {
				r := &in.Readings[i]
				if r.Error != "" {
					continue
				}
				old := slices.DeleteFunc(slices.Clone(r.Taken), func(at time.Time) bool { return !stale(at) })
				switch {
				case len(old) == 0:
				case in.Spec.Metrics[i].Type == recommender.PodsMetric:
					var kept recommender.Readings
					for j, v := range r.Values {
						if !stale(r.Taken[j]) {
							kept.Values = append(kept.Values, v)
						}
					}
					*r = kept
				default:
					what, at := "the newest value", slices.MaxFunc(old, time.Time.Compare)
					if len(old) < len(r.Values) {
						what, at = "a value", slices.MinFunc(old, time.Time.Compare)
					}
					text := fmt.Sprintf("%s is %s old, more than 1m0s", what, w.now.Sub(at))
					if at.After(w.now) {
						text = fmt.Sprintf("%s is %s ahead of the clock, more than 10s", what, at.Sub(w.now))
					}
					*r = recommender.Readings{Error: text}
				}
			}
		})
	}
}

// A decision with a zero guard is that of a controller whose metric fails while a fall is not believed.
// The reference computes with fractions.
func TestZeroGuardIsAnEditOfTheInput(t *testing.T) {
	testlength.SkipUnderRace(t)
	suspicions := 0
	for seed := range uint64(steps / life) {
		w := newWorld(seed, false, profiles...)
		plan := &stages.Plan{Metrics: w.names}
		type guarded struct {
			believed *int64
			since    time.Time
		}
		known := make(map[int]*guarded)
		for i, m := range w.spec.Metrics {
			if m.Type == recommender.ObjectMetric || m.Type == recommender.ExternalMetric {
				plan.ZeroGuards = append(plan.ZeroGuards, stages.ZeroGuard{Metric: i, DropPercent: int32(50 + w.IntN(51)), Confirm: time.Duration(1+w.IntN(200)) * time.Second})
				known[i] = &guarded{}
			}
		}
		uncapped := slices.Contains([]string{"v1.15", "v1.19", "v1.28"}, w.options.Profile.Name())
		agree(t, w, &stages.Around{Plan: plan}, func(in *recommender.Input) {
			for _, g := range plan.ZeroGuards {
				k, r := known[g.Metric], &in.Readings[g.Metric]
				if r.Error != "" || len(r.Values) == 0 {
					k.since = time.Time{}
					continue
				}
				sum := int64(0)
				for _, v := range r.Values {
					sum += v.Milli
					m := in.Spec.Metrics[g.Metric]
					if m.Type == recommender.ExternalMetric && m.Target.AverageValue != nil && sum < 0 && !uncapped {
						sum = 1<<63 - 1 // the engine takes it for an overflow
						break
					}
				}
				suspect := false
				if k.believed != nil && *k.believed > 0 {
					line := new(big.Rat).Mul(new(big.Rat).SetInt64(*k.believed), big.NewRat(int64(100-g.DropPercent), 100))
					suspect = new(big.Rat).SetInt64(sum).Cmp(line) <= 0
				}
				if suspect && k.since.IsZero() {
					k.since = w.now
				}
				if !suspect || w.now.Sub(k.since) >= g.Confirm {
					k.believed, k.since = &sum, time.Time{}
					continue
				}
				suspicions++
				*r = recommender.Readings{Error: fmt.Sprintf("the value fell from %s to %s at %s; not believed until it has lasted %s (%s)",
					decimal(*k.believed), decimal(sum), k.since.Format("15:04:05Z"), g.Confirm, k.since.Add(g.Confirm).Format("15:04:05Z"))}
			}
		})
	}
	if suspicions < steps/20 {
		t.Errorf("%d suspicions in %d steps test little", suspicions, steps)
	}
}

func decimal(milli int64) string {
	return strings.TrimSuffix(strings.TrimRight(big.NewRat(milli, 1000).FloatString(3), "0"), ".")
}

// An evaluation that is held because metrics fail remembers the count as a controller does whose failed
// metrics are exactly at their targets. With behavior that controller's counts are ours, too.
func TestWindowThroughFailuresIsAMetricAtItsTarget(t *testing.T) {
	testlength.SkipUnderRace(t)
	held := 0
	for seed := range uint64(steps / life) {
		w := newWorld(seed, true, "v1.28", "v1.36", "v1.37")
		w.spec.Metrics, w.names = nil, nil
		for i := range 1 + w.IntN(3) {
			m := w.metric(i)
			for m.Type != recommender.ExternalMetric {
				m = w.metric(i)
			}
			w.spec.Metrics, w.names = append(w.spec.Metrics, m), append(w.names, stages.MetricName(&m))
		}
		around := &stages.Around{Plan: &stages.Plan{WindowThroughFailures: true, Metrics: w.names}}
		var ours, theirs, plain recommender.History
		outage := 0
		for range life {
			in := w.input(0)
			in.Explain = false
			if outage--; outage < 0 && w.chance(10) {
				outage = 1 + w.IntN(15)
			}
			atTarget := *in
			atTarget.Readings = slices.Clone(in.Readings)
			for i := range in.Readings {
				if outage > 0 {
					in.Readings[i] = recommender.Readings{Error: "away"}
				}
				if r := in.Readings[i]; r.Error == "" && len(r.Values) > 0 {
					continue
				}
				target := &w.spec.Metrics[i].Target
				var milli int64
				if target.Value != nil {
					milli = *target.Value
				} else {
					milli = *target.AverageValue * int64(w.count)
				}
				atTarget.Readings[i] = recommender.Readings{Values: []recommender.Value{{Milli: milli}}}
			}
			got, next, _ := around.RecommendIn(nil, w.now, in, &ours, nil)
			hpa, _ := recommender.Recommend(w.now, in, &ours)
			want, after := recommender.Recommend(w.now, &atTarget, &theirs)
			if got.Desired != want.Desired || got.Desired != hpa.Desired || got.Adjusted.Plain != hpa.Desired {
				t.Fatalf("seed %d %s %s: %d, plain %d; at its target %d, HPA's %d\n%+v\n%+v", seed, w.options.Profile.Name(), w.now, got.Desired, got.Adjusted.Plain, want.Desired, hpa.Desired, in, ours)
			}
			if !same(next.Recommendations, after.Recommendations) || !same(next.ScaleUps, after.ScaleUps) || !same(next.ScaleDowns, after.ScaleDowns) {
				t.Fatalf("seed %d %s: history\n got %+v\nwant %+v", seed, w.now, next, after)
			}
			if got.Path == recommender.PathMetricsFailed {
				held++
			}
			ours, theirs = next, after
			w.pass(&got, &ours, &theirs, &plain)
		}
	}
	if held < steps/20 {
		t.Errorf("%d held evaluations in %d steps test little", held, steps)
	}
}

// In every profile, with and without behavior, a held evaluation adds the recommendation that a
// controller whose failed metrics are at their targets adds, and holds the count as HPA does.
func TestWindowThroughFailuresInEveryProfile(t *testing.T) {
	testlength.SkipUnderRace(t)
	held := make(map[string]int)
	for seed := range uint64(steps / life) {
		w := newWorld(seed, false, profiles...)
		one := int64(1000)
		w.spec.Metrics = []recommender.MetricSpec{{
			Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "queue"},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &one},
		}}
		around := &stages.Around{Plan: &stages.Plan{WindowThroughFailures: true, Metrics: []string{"External:queue"}}}
		var history recommender.History
		for range life {
			in := w.input(0)
			in.Readings = []recommender.Readings{series(int64(w.IntN(30)))}
			atTarget := *in
			if w.chance(50) {
				in.Readings[0] = away
				atTarget.Readings = []recommender.Readings{series(int64(w.count))}
			}
			got, next, _ := around.RecommendIn(nil, w.now, in, &history, nil)
			hpa, left := recommender.Recommend(w.now, in, &history)
			_, after := recommender.Recommend(w.now, &atTarget, &history)
			got.Adjusted = nil
			if !same(got, hpa) || !same(next.Recommendations, after.Recommendations) {
				t.Fatalf("%s: %+v\nwant %+v\n%+v\nwant %+v", w.options.Profile.Name(), got, hpa, next.Recommendations, after.Recommendations)
			}
			next.Recommendations, left.Recommendations = nil, nil
			if !same(next, left) {
				t.Fatalf("%s: more than the recommendations changed: %+v\nwant %+v", w.options.Profile.Name(), next, left)
			}
			if next.Recommendations = after.Recommendations; got.Path == recommender.PathMetricsFailed {
				held[w.options.Profile.Name()]++
			}
			history = next
			w.pass(&got, &history)
		}
	}
	for _, name := range profiles {
		if held[name] < steps/50 {
			t.Errorf("%s: %d held evaluations test little", name, held[name])
		}
	}
}
