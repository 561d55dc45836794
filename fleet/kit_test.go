package fleet

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// t0 is the instant that tests begin at.
var t0 = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const mebi = 1000 << 20 // 1Mi in milli-units

// random makes what properties are tested with; the same seed makes the same.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 0))} }

// between returns a number of [low, high].
func (r random) between(low, high int) int { return low + r.IntN(high-low+1) }

func (r random) chance(percent int) bool { return r.IntN(100) < percent }

func oneOf[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

func utilization(percent int32) recommender.MetricSpec {
	return recommender.MetricSpec{Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &percent}}
}

func containerUtilization(percent int32) recommender.MetricSpec {
	m := utilization(percent)
	m.Type, m.Container = recommender.ContainerResourceMetric, "app"
	return m
}

func resourceAverage(resource string, milli int64) recommender.MetricSpec {
	return recommender.MetricSpec{Type: recommender.ResourceMetric, Resource: resource, Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &milli}}
}

func podsAverage(milli int64) recommender.MetricSpec {
	return recommender.MetricSpec{Type: recommender.PodsMetric, Metric: recommender.MetricIdentifier{Name: "pps"}, Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &milli}}
}

func external(average bool, milli int64) recommender.MetricSpec {
	m := recommender.MetricSpec{Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "queue"}, Target: recommender.MetricTarget{Type: recommender.ValueTarget, Value: &milli}}
	if average {
		m.Target = recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &milli}
	}
	return m
}

func object(average bool, milli int64) recommender.MetricSpec {
	m := external(average, milli)
	m.Type, m.DescribedObject = recommender.ObjectMetric, recommender.ObjectReference{Kind: "Service", Name: "front", APIVersion: "v1"}
	return m
}

func (r random) metric() recommender.MetricSpec {
	average := int64(r.between(1, 500))
	return oneOf(r,
		utilization(int32(r.between(1, 200))), containerUtilization(int32(r.between(1, 200))),
		resourceAverage("cpu", average), resourceAverage("memory", average*mebi/500), podsAverage(average),
		object(false, 10*average), object(true, average), external(false, 10*average), external(true, average))
}

func (r random) rules(windows ...int32) recommender.ScalingRules {
	rules := recommender.ScalingRules{
		SelectPolicy:               oneOf(r, recommender.MaxChange, recommender.MaxChange, recommender.MinChange, recommender.NoSelection),
		StabilizationWindowSeconds: new(oneOf(r, windows...)),
	}
	for range r.between(1, 3) {
		p := recommender.ScalingPolicy{Type: recommender.PercentPolicy, Value: int32(r.between(1, 120)), PeriodSeconds: int32(r.between(1, 90))}
		if r.chance(50) {
			p.Type, p.Value = recommender.PodsPolicy, p.Value/20+1
		}
		rules.Policies = append(rules.Policies, p)
	}
	if r.chance(20) {
		rules.Tolerance = new(float64(r.IntN(30)) / 100)
	}
	return rules
}

// spec is any fleet's spec.
func (r random) spec(members int) *Spec {
	s := &Spec{
		Version: r.Uint64(), Namespace: "shop", Options: recommender.DefaultOptions(),
		Period: 15 * time.Second, StaleAfter: 45 * time.Second, LostAfter: 5 * time.Minute,
	}
	s.Options.ScaleToZero = r.chance(50)
	if r.chance(30) {
		s.Options.DownscaleStabilization = time.Duration(r.IntN(120)) * time.Second
	}
	if profile, ok := recommender.ProfileByName(oneOf(r, "v1.36", "v1.36", "v1.37", "v1.28")); ok {
		s.Options.Profile = profile
	}
	s.Engine = recommender.Spec{ScaleTargetRef: recommender.ObjectReference{Kind: "Fleet", Name: "web"}, MinReplicas: int32(r.between(1, 6))}
	if s.Options.ScaleToZero && r.chance(30) {
		s.Engine.MinReplicas = 0
	}
	s.Engine.MaxReplicas = max(1, s.Engine.MinReplicas) + int32(r.IntN(60))
	if r.chance(60) {
		s.Engine.Behavior = &recommender.Behavior{ScaleUp: r.rules(0, 30, 60), ScaleDown: r.rules(0, 60, 300)}
	}
	for range r.between(1, 4) {
		s.Engine.Metrics = append(s.Engine.Metrics, r.metric())
		s.Scopes = append(s.Scopes, oneOf(r, PerMember, PerMember, Global))
	}
	for i := range members {
		s.Members = append(s.Members, Member{Name: fmt.Sprintf("m%d", i), Weight: int32(r.between(1, MaxWeight)), Max: -1})
	}
	return s
}

// input is a member's, with replicas of its own; its metrics and options are the fleet's.
func (r random) input(s *Spec, now time.Time, replicas int32) *recommender.Input {
	in := &recommender.Input{
		Namespace: s.Namespace, Spec: s.Engine, Options: s.Options,
		Scale:    recommender.Scale{SpecReplicas: replicas, StatusReplicas: replicas},
		Readings: make([]recommender.Readings, len(s.Engine.Metrics)),
	}
	if r.chance(20) {
		in.Scale.StatusReplicas = int32(r.IntN(12))
	}
	for i := range r.IntN(9) {
		in.Pods = append(in.Pods, r.pod(fmt.Sprintf("web-%d", i), now))
		if r.chance(85) {
			in.PodMetrics = append(in.PodMetrics, r.podMetrics(in.Pods[i].Name, now))
		}
	}
	if r.chance(10) {
		in.PodMetrics = append(in.PodMetrics, r.podMetrics("ghost", now))
	}
	if r.chance(30) {
		r.Shuffle(len(in.PodMetrics), func(i, j int) { in.PodMetrics[i], in.PodMetrics[j] = in.PodMetrics[j], in.PodMetrics[i] })
	}
	away := ""
	if r.chance(15) {
		away = oneOf(r, "away", "timeout")
	}
	for i := range in.Readings {
		switch m := &s.Engine.Metrics[i]; m.Type {
		case recommender.ResourceMetric, recommender.ContainerResourceMetric:
			in.Readings[i].Error = away // of one API
		default:
			in.Readings[i] = r.readings(m, in.Pods)
		}
	}
	return in
}

func (r random) pod(name string, now time.Time) recommender.Pod {
	start := now.Add(-time.Duration(r.IntN(700)) * time.Second)
	request := func(resource string, milli int64) recommender.ResourceRequest {
		return recommender.ResourceRequest{Resource: resource, Quantity: quantity.FromMilli(milli)}
	}
	p := recommender.Pod{
		Name: name, Phase: recommender.PhaseRunning, Ready: recommender.ReadyTrue, StartTime: start,
		ReadyTransition: start.Add(time.Duration(r.IntN(60)) * time.Second),
		Containers: []recommender.Container{
			{Name: "app", Requests: []recommender.ResourceRequest{request("cpu", int64(r.between(1, 1000))), request("memory", mebi)}},
			{Name: "log", Requests: []recommender.ResourceRequest{request("cpu", 10), request("memory", mebi)}},
		},
	}
	switch r.IntN(60) {
	case 0, 1, 2, 3, 4:
		p.Phase = oneOf(r, recommender.PhasePending, recommender.PhaseFailed, recommender.PhaseOther)
	case 5, 6, 7, 8:
		p.Ready = oneOf(r, recommender.ReadyFalse, recommender.ReadyUnknown, recommender.NoCondition)
	case 9, 10, 11:
		p.Deleting = true
	case 12, 13:
		p.PodLevelRequests = []recommender.ResourceRequest{request("cpu", 500)}
	case 14:
		p.Containers[0].Requests = p.Containers[0].Requests[:1]
	case 15:
		p.Containers[0].Name = "other"
	}
	return p
}

func (r random) podMetrics(pod string, now time.Time) recommender.PodMetrics {
	usage := func(resource string, milli int64) recommender.ResourceUsage {
		return recommender.ResourceUsage{Resource: resource, Milli: milli}
	}
	m := recommender.PodMetrics{
		Pod: pod, Timestamp: now.Add(-time.Duration(r.IntN(40)) * time.Second), Window: 30 * time.Second,
		Containers: []recommender.ContainerMetrics{
			{Name: "app", Usage: []recommender.ResourceUsage{usage("cpu", int64(r.IntN(1500))), usage("memory", int64(r.IntN(2*mebi)))}},
			{Name: "log", Usage: []recommender.ResourceUsage{usage("cpu", int64(r.IntN(20))), usage("memory", int64(r.IntN(mebi)))}},
		},
	}
	if r.chance(1) {
		m.Containers[0].Name = "other"
	}
	return m
}

func (r random) readings(metric *recommender.MetricSpec, pods []recommender.Pod) recommender.Readings {
	switch {
	case r.chance(5):
		return recommender.Readings{Error: oneOf(r, "away", "timeout")}
	case r.chance(1):
		return recommender.Readings{SelectorError: "malformed"}
	}
	value := func() int64 {
		if r.chance(2) {
			return oneOf[int64](r, 0, -1, -40, math.MaxInt64, math.MaxInt32)
		}
		return int64(r.IntN(3000))
	}
	var readings recommender.Readings
	switch metric.Type {
	case recommender.PodsMetric:
		for i := range pods {
			if r.chance(90) {
				readings.Values = append(readings.Values, recommender.Value{Pod: pods[i].Name, Milli: value() / 5})
			}
		}
		if r.chance(5) {
			readings.Values = append(readings.Values, recommender.Value{Pod: "ghost", Milli: value() / 5})
		}
	case recommender.ObjectMetric:
		for range oneOf(r, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) {
			readings.Values = append(readings.Values, recommender.Value{Milli: value()})
		}
	default:
		for range oneOf(r, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3) {
			readings.Values = append(readings.Values, recommender.Value{Milli: value()})
		}
	}
	return readings
}

// difference returns where two values differ, empty for nowhere. NaN equals itself.
func difference(path string, a, b reflect.Value) string {
	switch a.Kind() {
	case reflect.Pointer:
		switch {
		case a.IsNil() != b.IsNil():
			return fmt.Sprintf("%s: %v, not %v", path, a, b)
		case !a.IsNil():
			return difference(path, a.Elem(), b.Elem())
		}
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[time.Time]() {
			if x, y := a.Interface().(time.Time), b.Interface().(time.Time); !x.Equal(y) {
				return fmt.Sprintf("%s: %v, not %v", path, x, y)
			}
			return ""
		}
		for i := range a.NumField() {
			if d := difference(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i)); d != "" {
				return d
			}
		}
	case reflect.Slice:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s: %v, not %v", path, a, b)
		}
		for i := range a.Len() {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i)); d != "" {
				return d
			}
		}
	case reflect.Float64:
		if x, y := a.Float(), b.Float(); x != y && (x == x || y == y) {
			return fmt.Sprintf("%s: %v, not %v", path, x, y)
		}
	default:
		if !a.Equal(b) {
			return fmt.Sprintf("%s: %v, not %v", path, a, b)
		}
	}
	return ""
}

// seal makes a record of a body: with the format before it and the checksum after it.
func seal(body []byte) []byte {
	b := append([]byte{recordFormat}, body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}
