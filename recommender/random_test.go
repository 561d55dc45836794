package recommender

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"time"
)

// random makes what properties are tested with; the same seed makes the same.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 0))} }

// between returns a number of [low, high].
func (r random) between(low, high int) int { return low + r.IntN(high-low+1) }

func (r random) chance(percent int) bool { return r.IntN(100) < percent }

func oneOf[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

// input is any workload that the API would accept, pods and readings in any state.
func (r random) input() *Input {
	in := &Input{Namespace: "ns", Options: DefaultOptions(), Explain: r.chance(50)}
	for i := range in.ID {
		in.ID[i] = byte(r.between(1, 255)) // all zeros name nothing
	}
	in.Options.ScaleToZero = r.chance(50)
	if r.chance(30) {
		in.Options.DownscaleStabilization = time.Duration(r.IntN(120)) * time.Second
	}
	in.Spec = Spec{ScaleTargetRef: ObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: int32(r.between(1, 6))}
	if in.Options.ScaleToZero && r.chance(30) {
		in.Spec.MinReplicas = 0
	}
	in.Spec.MaxReplicas = max(1, in.Spec.MinReplicas) + int32(r.IntN(30))
	if r.chance(60) {
		in.Spec.Behavior = r.behavior()
	}
	current := in.Spec.MinReplicas + int32(r.IntN(int(in.Spec.MaxReplicas-in.Spec.MinReplicas)+1))
	if r.chance(15) {
		current = int32(r.IntN(40))
	}
	in.Scale = Scale{SpecReplicas: current, StatusReplicas: current}
	if r.chance(20) {
		in.Scale.StatusReplicas = int32(r.IntN(40))
	}
	if r.chance(3) {
		in.ScaleError = &ScaleError{Message: "away"}
	}
	if r.chance(3) {
		in.SelectorProblem = &SelectorProblem{Reason: SelectorRequired}
	}
	for range r.IntN(12) {
		in.Pods = append(in.Pods, r.pod(fmt.Sprintf("web-%d", len(in.Pods))))
		if r.chance(85) {
			in.PodMetrics = append(in.PodMetrics, r.podMetrics(in.Pods[len(in.Pods)-1].Name))
		}
	}
	if r.chance(15) {
		in.PodMetrics = append(in.PodMetrics, r.podMetrics("ghost"))
	}
	r.Shuffle(len(in.PodMetrics)*r.IntN(2), func(i, j int) {
		in.PodMetrics[i], in.PodMetrics[j] = in.PodMetrics[j], in.PodMetrics[i]
	})
	for range r.between(1, 3) {
		metric := r.metric()
		in.Spec.Metrics = append(in.Spec.Metrics, metric)
		in.Readings = append(in.Readings, r.readings(&metric, in.Pods))
	}
	if r.chance(30) {
		in.PreviousStatus = &Status{
			DesiredReplicas: current,
			Conditions:      []Condition{{Type: ScaledToZero, Status: oneOf(r, ConditionTrue, ConditionFalse), LastTransitionTime: t0.Add(-time.Hour)}},
		}
	}
	return in
}

func (r random) pod(name string) Pod {
	start := t0.Add(-time.Duration(r.IntN(700)) * time.Second)
	p := Pod{
		Name: name, Phase: PhaseRunning, Ready: ReadyTrue, StartTime: start,
		ReadyTransition: start.Add(time.Duration(r.IntN(60)) * time.Second),
		Containers: []Container{
			{"app", []ResourceRequest{{"cpu", milliQuantity(int64(r.between(1, 1000)))}, {"memory", milliQuantity(mebi)}}},
			{"log", []ResourceRequest{{"cpu", milliQuantity(10)}, {"memory", milliQuantity(mebi)}}},
		},
	}
	switch r.IntN(12) {
	case 0:
		p.Phase = oneOf(r, PhasePending, PhaseFailed, PhaseOther)
	case 1:
		p.Ready = oneOf(r, ReadyFalse, ReadyUnknown, NoCondition)
	case 2:
		p.Deleting = true
	case 3:
		p.PodLevelRequests = []ResourceRequest{{"cpu", milliQuantity(500)}}
	case 4:
		p.Containers[0].Requests = p.Containers[0].Requests[:1+r.IntN(2)]
	}
	return p
}

func (r random) podMetrics(pod string) PodMetrics {
	return PodMetrics{
		Pod: pod, Timestamp: t0.Add(-time.Duration(r.IntN(40)) * time.Second), Window: 30 * time.Second,
		Containers: []ContainerMetrics{
			{"app", []ResourceUsage{{"cpu", int64(r.IntN(1500))}, {"memory", int64(r.IntN(2 * mebi))}}},
			{"log", []ResourceUsage{{"cpu", int64(r.IntN(20))}, {"memory", int64(r.IntN(mebi))}}},
		},
	}
}

func (r random) metric() MetricSpec {
	average := int64(r.between(1, 500))
	return oneOf(r,
		cpuUtilization(int32(r.between(1, 200))), containerUtilization("app", int32(r.between(1, 200))),
		resourceAverage("cpu", average), resourceAverage("memory", average*mebi/500), podsAverage(average),
		objectValue(average), objectAverage(average), externalValue(average), externalAverage(average))
}

// readings are what a metric reads: usually something of some replicas' worth.
func (r random) readings(metric *MetricSpec, pods []Pod) Readings {
	if r.chance(10) {
		return Readings{Error: "away"}
	}
	value := func() int64 {
		if r.chance(3) {
			return oneOf[int64](r, 0, -1, math.MaxInt64, math.MinInt64, math.MaxInt32)
		}
		return int64(r.IntN(5000))
	}
	var readings Readings
	switch metric.Type {
	case PodsMetric:
		for i := range pods {
			if r.chance(90) {
				readings.Values = append(readings.Values, Value{pods[i].Name, value() / 5})
			}
		}
	case ObjectMetric:
		readings.Values = []Value{{Milli: value()}}
	case ExternalMetric:
		for range r.IntN(3) {
			readings.Values = append(readings.Values, Value{Milli: value()})
		}
	}
	return readings
}

func (r random) behavior() *Behavior {
	return &Behavior{ScaleUp: r.rules(0, 30, 60), ScaleDown: r.rules(0, 60, 300)}
}

func (r random) rules(windows ...int32) ScalingRules {
	rules := ScalingRules{SelectPolicy: oneOf(r, MaxChange, MaxChange, MinChange, NoSelection)}
	window := oneOf(r, windows...)
	rules.StabilizationWindowSeconds = &window
	for range r.between(1, 3) {
		rules.Policies = append(rules.Policies, ScalingPolicy{
			Type: oneOf(r, PodsPolicy, PercentPolicy), Value: int32(r.between(1, 120)), PeriodSeconds: int32(r.between(1, 90)),
		})
		if p := &rules.Policies[len(rules.Policies)-1]; p.Type == PodsPolicy {
			p.Value = p.Value/20 + 1
		}
	}
	if r.chance(20) {
		rules.Tolerance = new(float64(r.IntN(30)) / 100)
	}
	return rules
}

func (r random) history() History { return RandomHistory(r.Rand) }

// clone copies all that a value points to. NaN, which equals nothing, becomes a
// number.
func clone[T any](v *T) *T {
	return deepCopy(reflect.ValueOf(v)).Interface().(*T)
}

func deepCopy(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(deepCopy(v.Elem()))
		return c
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			c.Index(i).Set(deepCopy(v.Index(i)))
		}
		return c
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
		return c
	case reflect.Float64:
		if math.IsNaN(v.Float()) {
			return reflect.ValueOf(-12345.0)
		}
		return v
	default:
		return v
	}
}
