package recommender

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// t0 is the instant that tests begin at.
var t0 = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const (
	unit = 1000           // 1 in milli-units
	mebi = unit * 1 << 20 // 1Mi in milli-units
)

// cpuUtilization and the functions after it make metrics; targets are percent or
// milli-units.
func cpuUtilization(percent int32) MetricSpec {
	return MetricSpec{Type: ResourceMetric, Resource: "cpu", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: &percent}}
}

func containerUtilization(container string, percent int32) MetricSpec {
	m := cpuUtilization(percent)
	m.Type, m.Container = ContainerResourceMetric, container
	return m
}

func resourceAverage(resource string, milli int64) MetricSpec {
	return MetricSpec{Type: ResourceMetric, Resource: resource, Target: MetricTarget{Type: AverageValueTarget, AverageValue: &milli}}
}

func podsAverage(milli int64) MetricSpec {
	return MetricSpec{Type: PodsMetric, Metric: MetricIdentifier{Name: "pps"}, Target: MetricTarget{Type: AverageValueTarget, AverageValue: &milli}}
}

func objectValue(milli int64) MetricSpec {
	return MetricSpec{
		Type: ObjectMetric, Metric: MetricIdentifier{Name: "rps"}, DescribedObject: ObjectReference{Kind: "Service", Name: "front", APIVersion: "v1"},
		Target: MetricTarget{Type: ValueTarget, Value: &milli},
	}
}

func objectAverage(milli int64) MetricSpec {
	m := objectValue(milli)
	m.Target = MetricTarget{Type: AverageValueTarget, AverageValue: &milli}
	return m
}

func externalValue(milli int64) MetricSpec {
	return MetricSpec{Type: ExternalMetric, Metric: MetricIdentifier{Name: "queue"}, Target: MetricTarget{Type: ValueTarget, Value: &milli}}
}

func externalAverage(milli int64) MetricSpec {
	m := externalValue(milli)
	m.Target = MetricTarget{Type: AverageValueTarget, AverageValue: &milli}
	return m
}

// testPod is a pod and its sample.
type testPod struct {
	Pod
	usage   int64
	sampled bool
}

// each returns n pods that are running and ready for an hour and use that much.
func each(n int, milli int64) []testPod {
	return usages(slices.Repeat([]int64{milli}, n)...)
}

// usages returns such pods, one for each usage.
func usages(milli ...int64) []testPod {
	pods := make([]testPod, len(milli))
	for i, v := range milli {
		pods[i] = testPod{usage: v, sampled: true, Pod: Pod{
			Phase: PhaseRunning, StartTime: t0.Add(-time.Hour),
			Ready: ReadyTrue, ReadyTransition: t0.Add(-time.Hour + 20*time.Second),
		}}
	}
	return pods
}

// missing returns pods without a sample.
func missing(n int) []testPod {
	pods := each(n, 0)
	for i := range pods {
		pods[i].sampled = false
	}
	return pods
}

func pending(n int) []testPod {
	return with(missing(n), func(p *Pod) { p.Phase, p.Ready, p.StartTime = PhasePending, NoCondition, time.Time{} })
}

func with(pods []testPod, change func(*Pod)) []testPod {
	for i := range pods {
		change(&pods[i].Pod)
	}
	return pods
}

// workload is an input with one metric; each pod requests that much of its resource.
func workload(metric MetricSpec, current int32, request int64, groups ...[]testPod) *Input {
	in := &Input{
		ID: ID{1}, Namespace: "ns", Options: DefaultOptions(),
		Spec: Spec{
			ScaleTargetRef: ObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"},
			MinReplicas:    1, MaxReplicas: 100, Metrics: []MetricSpec{metric},
		},
		Scale:    Scale{SpecReplicas: current, StatusReplicas: current},
		Readings: make([]Readings, 1),
	}
	for _, p := range slices.Concat(groups...) {
		if p.Name == "" {
			p.Name = fmt.Sprintf("web-%d", len(in.Pods))
		}
		if metric.Resource != "" {
			p.Containers = []Container{{Name: "app", Requests: []ResourceRequest{{metric.Resource, milliQuantity(request)}}}}
		}
		in.Pods = append(in.Pods, p.Pod)
		switch {
		case !p.sampled:
		case metric.Type == PodsMetric:
			in.Readings[0].Values = append(in.Readings[0].Values, Value{p.Name, p.usage})
		default:
			in.PodMetrics = append(in.PodMetrics, podMetrics(p.Name, metric.Resource, p.usage))
		}
	}
	return in
}

func podMetrics(pod, resource string, milli int64) PodMetrics {
	return PodMetrics{
		Pod: pod, Timestamp: t0.Add(-10 * time.Second), Window: 30 * time.Second,
		Containers: []ContainerMetrics{{Name: "app", Usage: []ResourceUsage{{resource, milli}}}},
	}
}

// total is an input with an Object or External metric that reads these series,
// and as many ready pods as replicas.
func total(metric MetricSpec, current int32, milli ...int64) *Input {
	in := workload(metric, current, 0, missing(int(current)))
	read(in, 0, milli...)
	return in
}

// read sets the series that a metric reads.
func read(in *Input, metric int, milli ...int64) {
	values := make([]Value, len(milli))
	for i, v := range milli {
		values[i].Milli = v
	}
	for len(in.Readings) <= metric {
		in.Readings = append(in.Readings, Readings{})
	}
	in.Readings[metric] = Readings{Values: values}
}

// wanting is an input whose metric asks for exactly as many replicas as it reads.
func wanting(current int32) *Input {
	in := total(externalAverage(unit), current, int64(current)*unit)
	in.Options.Tolerance = 0
	return in
}

// defaultBehavior is the API's default for `behavior: {}`.
func defaultBehavior() *Behavior {
	return &Behavior{ScaleUp: DefaultScaleUp(), ScaleDown: DefaultScaleDown()}
}

// behavior is the default one without downward window and with other policies.
func behavior(up, down []ScalingPolicy) *Behavior {
	b := defaultBehavior()
	b.ScaleDown.StabilizationWindowSeconds = new(int32(0))
	if up != nil {
		b.ScaleUp.Policies = up
	}
	if down != nil {
		b.ScaleDown.Policies = down
	}
	return b
}

func policies(p ...ScalingPolicy) []ScalingPolicy { return p }

// longKnown is the history of a target whose first sight has left every window.
func longKnown() *History { return &History{Initialized: true} }

// decide evaluates once and explains.
func decide(in *Input) Decision {
	in.Explain = true
	d, _ := Recommend(t0, in, longKnown())
	return d
}

// step is one evaluation of a trace.
type step struct {
	at time.Duration
	// wants is what the metric asks for; change may change anything else.
	wants  int32
	change func(*Input)
	// want are the replicas that must come out; the rest is checked unless empty.
	want          int32
	able, limited string
	reason        string
}

// target is one target over time.
type target struct {
	in      *Input
	history History
	ids     uint16
}

// recommend evaluates; the history goes through its encoding.
func (x *target) recommend(t *testing.T, at time.Duration) Decision {
	t.Helper()
	x.ids++
	x.in.ID = ID{14: byte(x.ids >> 8), 15: byte(x.ids)}
	d, next := Recommend(t0.Add(at), x.in, &x.history)
	x.keep(t, next)
	return d
}

func (x *target) keep(t *testing.T, next History) {
	t.Helper()
	decoded, err := Decode(Encode(&next))
	if err != nil || !reflect.DeepEqual(decoded, next) {
		t.Fatalf("the encoding loses something (%v):\n got %+v\nwant %+v", err, decoded, next)
	}
	x.history = decoded
}

// mustSettle is Settle of a change that is pending.
func mustSettle(t testing.TB, h History, namespace string, id ID, outcome Outcome, message string) (Settlement, History) {
	t.Helper()
	s, next, err := Settle(h, namespace, id, outcome, message)
	fatal.If(t, err)
	return s, next
}

// settle reports a decision's change as applied, which the scale then shows.
func (x *target) settle(t *testing.T, d Decision) Settlement {
	t.Helper()
	s, next := mustSettle(t, x.history, x.in.Namespace, d.ID, Applied, "")
	x.keep(t, next)
	x.in.Scale = Scale{SpecReplicas: d.Desired, StatusReplicas: d.Desired}
	return s
}

// follow runs a trace of a wanting input in which each change is applied.
func follow(t *testing.T, in *Input, steps []step) *target {
	t.Helper()
	x := &target{in: in}
	for i, s := range steps {
		if s.change != nil {
			s.change(in)
		}
		read(in, 0, int64(s.wants)*unit)
		before := in.Scale.SpecReplicas
		d := x.recommend(t, s.at)
		if d.Desired != s.want {
			t.Fatalf("step %d at %v: %d replicas want %d and get %d, want %d (%+v)", i, s.at, before, s.wants, d.Desired, s.want, d.Status.Conditions)
		}
		checkReason(t, i, d.Status.Conditions, AbleToScale, s.able)
		checkReason(t, i, d.Status.Conditions, ScalingLimited, s.limited)
		if s.reason != "" && d.Reason != s.reason {
			t.Errorf("step %d at %v: the reason is %q, want %q", i, s.at, d.Reason, s.reason)
		}
		if d.Changes() {
			x.settle(t, d)
		}
	}
	return x
}

// checkReason checks the reason of a condition, unless it is empty.
func checkReason(t *testing.T, step int, conditions []Condition, kind, reason string) {
	t.Helper()
	if reason == "" {
		return
	}
	if c := conditionByType(conditions, kind); c == nil || c.Reason != reason {
		t.Errorf("step %d: %s is %+v, want reason %s", step, kind, c, reason)
	}
}

// reasonOf returns the status and reason of a condition: "True ValidMetricFound".
func reasonOf(conditions []Condition, kind string) string {
	c := conditionByType(conditions, kind)
	if c == nil {
		return ""
	}
	return c.Status + " " + c.Reason
}

// equal reports a difference.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func milliQuantity(milli int64) quantity.Quantity { return quantity.FromMilli(milli) }
