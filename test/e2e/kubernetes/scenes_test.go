//go:build linux

package kubernetes

import (
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

// scene is a workload with an autoscaler that is driven through a load.
type scene struct {
	name string
	// replicas at the start.
	replicas int32
	spec     func(name string) autoscalingv2.HorizontalPodAutoscalerSpec
	steps    []step
}

// step is one change of the load, and its expected result.
type step struct {
	do func(p *place, name string)
	// replicas after it.
	replicas int32
	// condition is a prefix of the expected condition. May be "".
	condition string
}

// cpu sets the CPU that the pods use together, thousandths.
func cpu(milli int64, replicas int32) step {
	return step{do: func(p *place, name string) { p.c.Metrics.SetCPU(p.namespace, name, milli) }, replicas: replicas}
}

func pods(milli int64, replicas int32) step {
	return step{do: func(p *place, name string) { p.c.Metrics.SetPods(p.namespace, name, "requests", milli) }, replicas: replicas}
}

func queue(value string, replicas int32) step {
	return step{do: func(p *place, name string) {
		p.c.Metrics.SetExternal(p.namespace, name, kubetest.Series{Labels: map[string]string{"q": "a"}, Value: resource.MustParse(value)},
			kubetest.Series{Labels: map[string]string{"q": "other"}, Value: resource.MustParse("1000")})
	}, replicas: replicas}
}

func front(value string, replicas int32) step {
	return step{do: func(p *place, name string) {
		p.c.Metrics.SetObject(p.namespace, "services", name, "requests", resource.MustParse(value))
	}, replicas: replicas}
}

// fails makes requests to an API about the namespace fail, or succeed again (code 0).
func fails(api string, code int, replicas int32, condition string) step {
	return step{do: func(p *place, _ string) { p.c.Metrics.Fail(api, p.namespace, code, "the adapter is tired") }, replicas: replicas, condition: condition}
}

func (s step) with(condition string) step {
	s.condition = condition
	return s
}

// onceCounted is a step that waits until the samples of all pods count. Before that, by
// upstream's rule, new pods are left out when the load falls: two of six that count, at a third
// of their target, make one. With either controller a scene then goes 6, 1, 2 if a reconcile
// happens at that moment.
func onceCounted(s step) step {
	do := s.do
	s.do = func(p *place, name string) {
		// A sample counts that begins after its pod was ready. Stamps are whole seconds, and
		// readings may be shared for one.
		const counts = kubetest.Window + time.Second + readingAge
		await(p.t, "samples of "+name+" that count", func() string {
			for _, pod := range p.c.Kubelet.Pods(p.namespace) {
				for _, condition := range pod.Status.Conditions {
					if since := time.Since(condition.LastTransitionTime.Time); pod.Labels[kubetest.AppLabel] == name && since <= counts {
						return fmt.Sprintf("%s has been ready for %s", pod.Name, since)
					}
				}
			}
			return ""
		})
		do(p, name)
	}
	return s
}

// metric replaces the metrics of CPU's spec.
func metric(of autoscalingv2.MetricSpec) func(string) autoscalingv2.HorizontalPodAutoscalerSpec {
	return func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := kubetest.CPU(name, 50, 1, 20)
		spec.Metrics = []autoscalingv2.MetricSpec{*of.DeepCopy()}
		switch one := &spec.Metrics[0]; {
		case one.Object != nil:
			one.Object.DescribedObject.Name = name
		case one.External != nil:
			one.External.Metric.Name = name
		}
		return spec
	}
}

func averageValue(quantity string) autoscalingv2.MetricTarget {
	value := resource.MustParse(quantity)
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &value}
}

func value(quantity string) autoscalingv2.MetricTarget {
	value := resource.MustParse(quantity)
	return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &value}
}

func utilization(percent int32) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}
}

func external(target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"q": "a"}}}, Target: target,
	}}
}

func object(target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service"},
		Metric:          autoscalingv2.MetricIdentifier{Name: "requests"}, Target: target,
	}}
}

// limited scales by at most so many pods at a time, in windows of so many seconds.
func limited(up, down, period int32) func(string) autoscalingv2.HorizontalPodAutoscalerSpec {
	return func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := kubetest.CPU(name, 50, 2, 20)
		rule := func(value int32) *autoscalingv2.HPAScalingRules {
			window := int32(0)
			return &autoscalingv2.HPAScalingRules{
				StabilizationWindowSeconds: &window,
				Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: value, PeriodSeconds: period}},
			}
		}
		spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rule(up), ScaleDown: rule(down)}
		return spec
	}
}

var podsMetric = autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
	Metric: autoscalingv2.MetricIdentifier{Name: "requests"}, Target: averageValue("10"),
}}

// bounded keeps what grows from one reconcile to the next within bounds.
func bounded(least, most int32, of func(string) autoscalingv2.HorizontalPodAutoscalerSpec) func(string) autoscalingv2.HorizontalPodAutoscalerSpec {
	return func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := of(name)
		spec.MinReplicas, spec.MaxReplicas = &least, most
		return spec
	}
}

// Apps with special pods: see fate.
const (
	starting = "starting"
	unready  = "unready"
)

// fate is that of the scenes' pods.
func fate(pod *corev1.Pod) kubetest.Fate {
	switch pod.Labels[kubetest.AppLabel] {
	case starting:
		return kubetest.Fate{Phase: corev1.PodRunning}
	case unready:
		return kubetest.Fate{Phase: corev1.PodRunning, NotReady: true, RunningFor: kubetest.RunningFor}
	}
	return kubetest.Running
}

func basic(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
	return kubetest.CPU(name, 50, 1, 20)
}

// scenes run concurrently. Failures of metrics affect a whole namespace, so scenes with
// failures are in failingScenes.
var scenes = []scene{
	{name: "cpu", replicas: 2, spec: basic, steps: []step{
		cpu(200, 4), cpu(500, 10), cpu(2000, 20).with("ScalingLimited=True/TooManyReplicas"), cpu(540, 11), cpu(520, 11), cpu(300, 6), cpu(0, 1), cpu(55, 1), cpu(100, 2),
	}},
	{name: "memory", replicas: 2, spec: metric(autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceMemory, Target: averageValue("32Mi")},
	}), steps: []step{
		{do: memory(128 << 20), replicas: 4}, {do: memory(300 << 20), replicas: 10}, {do: memory(70 << 20), replicas: 3},
	}},
	{name: "container", replicas: 2, spec: metric(autoscalingv2.MetricSpec{
		Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceCPU, Container: "main", Target: utilization(50)},
	}), steps: []step{cpu(300, 6), cpu(100, 2)}},
	{name: "no-such-container", replicas: 2, spec: metric(autoscalingv2.MetricSpec{
		Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceCPU, Container: "sidecar", Target: utilization(50)},
	}), steps: []step{cpu(300, 2).with("ScalingActive=False/FailedGetContainerResourceMetric")}},
	{name: "requests", replicas: 2, spec: metric(podsMetric), steps: []step{pods(70_000, 7), pods(15_000, 2), pods(400_000, 20)}},
	{name: "front-value", replicas: 3, spec: bounded(3, 6, metric(object(value("10")))), steps: []step{front("20", 6), front("5", 3)}},
	{name: "front-average", replicas: 2, spec: metric(object(averageValue("10"))), steps: []step{front("85", 9), front("12", 2)}},
	{name: "queue-value", replicas: 3, spec: bounded(3, 6, metric(external(value("10")))), steps: []step{queue("20", 6), queue("5", 3)}},
	{name: "queue-average", replicas: 2, spec: metric(external(averageValue("10"))), steps: []step{queue("85", 9), queue("12", 2), queue("0", 1)}},
	{name: "limited", replicas: 2, spec: limited(5, 5, 4), steps: []step{cpu(600, 12), cpu(100, 2), cpu(300, 6)}},
	{name: "between", replicas: 1, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec { return kubetest.CPU(name, 50, 3, 5) }, steps: []step{
		cpu(100, 3), cpu(1000, 5).with("ScalingLimited=True/TooManyReplicas"), cpu(1, 3).with("ScalingLimited=True/TooFewReplicas"),
	}},
	{name: "unmeasured", replicas: 2, spec: basic, steps: []step{
		{do: func(*place, string) {}, replicas: 2, condition: "ScalingActive=False/FailedGetResourceMetric"}, cpu(300, 6),
	}},
	{name: "disabled", replicas: 0, spec: basic, steps: []step{
		{do: func(*place, string) {}, condition: "ScalingActive=False/ScalingDisabled"},
		{do: func(p *place, name string) { // with samples by then, it would be chance who sees the pods without them
			p.c.Kubectl(p.t, "scale", "deployment", name, "--replicas=2", "-n", p.namespace)
		}, replicas: 2, condition: "ScalingActive=False/FailedGetResourceMetric"},
		cpu(300, 6),
	}},
	{name: "by-hand", replicas: 2, spec: basic, steps: []step{
		cpu(300, 6),
		{do: func(p *place, name string) {
			p.c.Kubectl(p.t, "scale", "deployment", name, "--replicas=12", "-n", p.namespace)
		}, replicas: 6},
		{do: func(p *place, name string) { p.patch(name, `{"spec":{"minReplicas":8}}`) }, replicas: 8},
		{do: func(p *place, name string) { p.patch(name, `{"spec":{"maxReplicas":4,"minReplicas":1}}`) }, replicas: 4},
	}},
	{name: "no-target", replicas: 2, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		return kubetest.CPU(name+"-is-not-there", 50, 1, 20)
	}, steps: []step{cpu(300, 2).with("AbleToScale=False/FailedGetScale")}},
	{name: "no-kind", replicas: 2, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := basic(name)
		spec.ScaleTargetRef.Kind = "Deploiment"
		return spec
	}, steps: []step{cpu(300, 2).with("AbleToScale=False/FailedGetScale")}},
	{name: "not-scalable", replicas: 2, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := basic(name)
		spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name}
		return spec
	}, steps: []step{cpu(300, 2).with("AbleToScale=False/FailedGetScale")}},
	{name: starting, replicas: 2, spec: basic, steps: []step{cpu(300, 6), onceCounted(cpu(100, 2))}},
	{name: unready, replicas: 2, spec: basic, steps: []step{cpu(300, 2).with("ScalingActive=False/FailedGetResourceMetric")}},
}

// failingScenes have namespaces of their own, each.
var failingScenes = []scene{
	{name: "resource-metrics-fail", replicas: 2, spec: basic, steps: []step{
		cpu(300, 6), fails(kubetest.ResourceMetrics, 500, 6, "ScalingActive=False/FailedGetResourceMetric"), cpu(500, 6),
		fails(kubetest.ResourceMetrics, 0, 10, "ScalingActive=True"),
	}},
	{name: "one-of-two-fails", replicas: 2, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := basic(name)
		spec.Metrics = append(spec.Metrics, metric(external(averageValue("10")))(name).Metrics...)
		return spec
	}, steps: []step{
		// The other metric is not there: that keeps it from scaling down, not up.
		cpu(300, 6).with("ScalingActive=True"), cpu(100, 6).with("ScalingActive=False/FailedGetExternalMetric"), queue("20", 2),
	}},
	{name: "custom-metrics-fail", replicas: 2, spec: bounded(3, 6, metric(object(value("10")))), steps: []step{
		front("20", 6), fails(kubetest.CustomMetrics, 503, 6, "ScalingActive=False/FailedGetObjectMetric"), front("5", 6), fails(kubetest.CustomMetrics, 0, 3, "ScalingActive=True"),
	}},
}

// hangingScenes have namespaces of their own, too.
var hangingScenes = []scene{
	{name: "resource-metrics-hang", replicas: 2, spec: basic, steps: []step{
		cpu(300, 6), hangs(kubetest.ResourceMetrics, true, 6, "ScalingActive=False/FailedGetResourceMetric"), cpu(500, 6),
		hangs(kubetest.ResourceMetrics, false, 10, "ScalingActive=True"),
	}},
	{name: "one-of-two-hangs", replicas: 2, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := basic(name)
		spec.Metrics = append(spec.Metrics, metric(external(averageValue("10")))(name).Metrics...)
		return spec
	}, steps: []step{
		{do: func(p *place, name string) {
			cpu(300, 0).do(p, name)
			queue("20", 0).do(p, name)
		}, replicas: 6},
		hangs(kubetest.ExternalMetrics, true, 6, "ScalingActive=True"), cpu(500, 10), cpu(100, 10).with("ScalingActive=False/FailedGetExternalMetric"),
		hangs(kubetest.ExternalMetrics, false, 2, "ScalingActive=True"),
	}},
	{name: "custom-metrics-hang", replicas: 2, spec: metric(object(averageValue("10"))), steps: []step{
		front("60", 6), hangs(kubetest.CustomMetrics, true, 6, "ScalingActive=False/FailedGetObjectMetric"), front("20", 6),
		hangs(kubetest.CustomMetrics, false, 2, "ScalingActive=True"),
	}},
}

// hangs leaves requests to an API about the namespace unanswered, or ends that.
func hangs(api string, hangs bool, replicas int32, condition string) step {
	return step{do: func(p *place, _ string) { p.c.Metrics.Hang(api, p.namespace, hangs) }, replicas: replicas, condition: condition}
}

func memory(bytes int64) func(p *place, name string) {
	return func(p *place, name string) { p.c.Metrics.SetMemory(p.namespace, name, bytes) }
}
