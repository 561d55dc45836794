package wire_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// maker makes requests of every usual kind, all of which the API takes.
type maker struct{ *rand.Rand }

func (r maker) chance(percent int) bool { return chance(r.Rand, percent) }

func (r maker) request() *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{
		Target: "clusters/" + oneOf(r.Rand, "c", "eu-1.example") + "/namespaces/" + oneOf(r.Rand, "shop", "n_1", "x") + "/targets/" + oneOf(r.Rand, "web", "a.b"),
		Spec:   r.spec(),
		Scale:  &setpointv1.Scale{SpecReplicas: int32(r.IntN(20)), Selector: oneOf(r.Rand, "", "app=web", "app=web,tier=front", "a.b/app=web", "app in (a,b)", "!x", "app in (", "a==b")},
	}
	if r.chance(30) {
		req.Scale.StatusReplicas = new(int32(r.IntN(20)))
	}
	for range r.IntN(8) {
		req.Pods = append(req.Pods, r.pod(len(req.Pods)))
	}
	if r.chance(30) {
		r.Shuffle(len(req.Pods), func(i, j int) { req.Pods[i], req.Pods[j] = req.Pods[j], req.Pods[i] })
	}
	for _, pod := range req.Pods {
		if r.chance(85) {
			req.PodMetrics = append(req.PodMetrics, r.podMetrics(pod.GetName()))
		}
	}
	if r.chance(20) {
		req.PodMetrics = append(req.PodMetrics, r.podMetrics(oneOf(r.Rand, "ghost", "")), r.podMetrics("web-00000"))
	}
	r.readings(req)
	if r.chance(20) {
		req.Options = r.options()
	}
	if r.chance(30) {
		req.EvaluationTime = r.instant()
	}
	if r.chance(50) {
		req.RequestId = oneOf(r.Rand, "1", "0b8f7c1e-41f5", "ä€😀")
	}
	if r.chance(3) {
		req.TargetUid = oneOf(r.Rand, "1", "6f3f7e0e-6f0f-4f0e-9d4e-2f1a0b9c8d7e", "ä€😀", strings.Repeat("u", 128))
	}
	if r.chance(20) {
		req.ClusterUid = oneOf(r.Rand, "1", "6f3f7e0e-6f0f-4f0e-9d4e-2f1a0b9c8d7e", strings.Repeat("u", 64))
	}
	if r.chance(20) {
		req.Generation = new(oneOf(r.Rand, 0, 1, 200, int64(math.MaxInt64)))
	}
	req.DryRun, req.Explain, req.RestartAfterPause = r.chance(10), r.chance(10), r.chance(10)
	if r.chance(15) {
		req.MetricErrors = append(req.MetricErrors, r.metricErrors(req.GetSpec())...)
	}
	switch r.IntN(20) {
	case 0:
		req.ScaleError = &setpointv1.ScaleError{Reason: oneOf(r.Rand, "", "UnknownKind"), Message: "away"}
	case 1:
		req.Scale, req.ScaleError = nil, &setpointv1.ScaleError{Message: "away"}
	case 2:
		req.SelectorProblem = &setpointv1.SelectorProblem{Reason: "AmbiguousSelector", Autoscalers: []string{"a/b", "c/d"}}
	}
	if r.chance(15) {
		req.PreviousStatus = r.status()
	}
	return req
}

func (r maker) instant() *timestamppb.Timestamp {
	t := timestamppb.New(t0.Add(-time.Duration(r.IntN(900)) * time.Second))
	switch r.IntN(12) {
	case 0:
		t.Nanos = int32(r.IntN(1e9))
	case 1:
		t = &timestamppb.Timestamp{}
	case 2:
		t = &timestamppb.Timestamp{Seconds: oneOf[int64](r.Rand, -62135596800, 253402300799, -1, 1<<35, 1<<28, 1<<28-1)}
	}
	return t
}

func (r maker) quantity() string {
	return oneOf(r.Rand, "0", "1", "500m", "250m", "1Gi", "123456789n", "2k", "0.5", "1.5Gi", "1e3", "-1", "64Mi", "9223372036854775", "100u", "12345678901234567890n", "1n", " 7 ")
}

func (r maker) quantities() map[string]string {
	out := map[string]string{}
	for range r.IntN(4) {
		out[oneOf(r.Rand, "cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "ephemeral-storage", "")] = r.quantity()
	}
	return out
}

func (r maker) pod(i int) *setpointv1.Pod {
	p := &setpointv1.Pod{
		Name: fmt.Sprintf("web-%05d", i), Phase: oneOf(r.Rand, "Running", "Running", "Running", "Pending", "Failed", "Succeeded", "Unknown", ""),
		Deleting: r.chance(5),
	}
	if r.chance(90) {
		p.StartTime = r.instant()
	}
	if r.chance(90) {
		p.Ready = &setpointv1.PodReadyCondition{Status: oneOf(r.Rand, "True", "True", "False", "Unknown")}
		if r.chance(90) {
			p.Ready.LastTransitionTime = r.instant()
		}
	}
	// Mostly all pods are alike.
	like := maker{newRandom(uint64(r.IntN(3)))}
	for range 1 + like.IntN(3) {
		p.Containers = append(p.Containers, &setpointv1.Container{Name: oneOf(like.Rand, "app", "proxy", "", "ünï"), Requests: like.quantities()})
	}
	if r.chance(30) {
		for range 1 + like.IntN(2) {
			p.InitContainers = append(p.InitContainers, &setpointv1.InitContainer{Name: oneOf(like.Rand, "init", "side"), Restartable: like.chance(50), Requests: like.quantities()})
		}
	}
	if r.chance(10) {
		p.Resources = &setpointv1.ResourceRequirements{Requests: like.quantities()}
		p.Overhead = r.quantities()
	}
	return p
}

func (r maker) podMetrics(pod string) *setpointv1.PodMetrics {
	m := &setpointv1.PodMetrics{Pod: pod, WindowSeconds: oneOf(r.Rand, 0, 15, 30.5, 1e-9, 315576000, 0.1234567891, -15, -0.1234567891, 1e10, -math.MaxFloat64)}
	if r.chance(90) {
		m.Timestamp = r.instant()
	}
	for range r.IntN(4) {
		m.Containers = append(m.Containers, &setpointv1.ContainerMetrics{Name: oneOf(r.Rand, "app", "proxy", ""), Usage: r.quantities()})
	}
	return m
}

func (r maker) spec() *setpointv1.HorizontalPodAutoscalerSpec {
	s := &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: int32(1 + r.IntN(30))}
	if r.chance(80) {
		s.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: oneOf(r.Rand, "web", "ä", "a b"), ApiVersion: "apps/v1"}
	}
	if r.chance(5) {
		s.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{Kind: "ReplicationController", Name: "web", ApiVersion: "v1"}
	}
	if r.chance(60) {
		s.MinReplicas = new(int32(1 + r.IntN(int(s.MaxReplicas))))
	}
	for range r.IntN(4) {
		s.Metrics = append(s.Metrics, r.metric())
	}
	if r.chance(50) {
		s.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{}
		if r.chance(70) {
			s.Behavior.ScaleUp = r.rules()
		}
		if r.chance(70) {
			s.Behavior.ScaleDown = r.rules()
		}
	}
	return s
}

func (r maker) rules() *setpointv1.HPAScalingRules {
	out := &setpointv1.HPAScalingRules{}
	if r.chance(50) {
		out.StabilizationWindowSeconds = new(int32(r.IntN(3601)))
	}
	if r.chance(50) {
		out.SelectPolicy = new(oneOf(r.Rand, "Max", "Min", "Disabled"))
	}
	for range r.IntN(3) {
		out.Policies = append(out.Policies, &setpointv1.HPAScalingPolicy{Type: oneOf(r.Rand, "Pods", "Percent"), Value: int32(1 + r.IntN(100)), PeriodSeconds: int32(1 + r.IntN(1800))})
	}
	if r.chance(20) {
		out.Tolerance = new(oneOf(r.Rand, "0", "0.05", "100m"))
	}
	return out
}

func (r maker) selector() *setpointv1.LabelSelector {
	switch r.IntN(4) {
	case 0:
		return &setpointv1.LabelSelector{MatchLabels: map[string]string{"queue": oneOf(r.Rand, "a", "b"), "env": "prod"}}
	case 1:
		return &setpointv1.LabelSelector{MatchExpressions: []*setpointv1.LabelSelectorRequirement{{Key: "queue", Operator: "In", Values: []string{"a", "b"}}}}
	case 2:
		return &setpointv1.LabelSelector{}
	}
	return nil
}

func (r maker) identifier() *setpointv1.MetricIdentifier {
	return &setpointv1.MetricIdentifier{Name: oneOf(r.Rand, "qps", "depth"), Selector: r.selector()}
}

func (r maker) object() *setpointv1.CrossVersionObjectReference {
	return oneOf(r.Rand,
		&setpointv1.CrossVersionObjectReference{Kind: "Service", Name: "web", ApiVersion: "v1"},
		&setpointv1.CrossVersionObjectReference{Kind: "Service", Name: "web"},
		&setpointv1.CrossVersionObjectReference{Kind: "Ingress", Name: "web", ApiVersion: "networking.k8s.io/v1"},
		&setpointv1.CrossVersionObjectReference{Kind: "Namespace", Name: "shop", ApiVersion: "v1"},
		&setpointv1.CrossVersionObjectReference{Kind: "Namespace", Name: "x"},
		&setpointv1.CrossVersionObjectReference{Kind: "Target", Name: "x"},
		&setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: fmt.Sprintf("web-%05d", r.IntN(4)), ApiVersion: "v1"})
}

func (r maker) metric() *setpointv1.MetricSpec {
	average := &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new(oneOf(r.Rand, "1", "500m", "1Gi", "100", "1.5", "20E"))}
	value := &setpointv1.MetricTarget{Type: "Value", Value: new(oneOf(r.Rand, "1", "30"))}
	utilization := &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(1 + r.IntN(200)))}
	switch r.IntN(5) {
	case 0:
		return &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: oneOf(r.Rand, "cpu", "memory"), Target: oneOf(r.Rand, average, utilization)}}
	case 1:
		return &setpointv1.MetricSpec{Type: "ContainerResource", ContainerResource: &setpointv1.ContainerResourceMetricSource{
			Name: oneOf(r.Rand, "cpu", "memory"), Container: "app", Target: oneOf(r.Rand, average, utilization),
		}}
	case 2:
		return &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: r.identifier(), Target: average}}
	case 3:
		return &setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{Metric: r.identifier(), DescribedObject: r.object(), Target: oneOf(r.Rand, average, value)}}
	}
	return &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: r.identifier(), Target: oneOf(r.Rand, average, value)}}
}

// readings adds values, of the spec's metrics mostly.
func (r maker) readings(req *setpointv1.RecommendRequest) {
	custom := func(metric *setpointv1.MetricIdentifier, object *setpointv1.CrossVersionObjectReference) {
		v := &setpointv1.CustomMetric{Metric: metric, DescribedObject: object, Value: r.quantity()}
		if r.chance(50) {
			v.Timestamp = r.instant()
		}
		if r.chance(20) {
			v.WindowSeconds = new(float64(r.IntN(100)))
		}
		req.CustomMetrics = append(req.CustomMetrics, v)
	}
	for _, m := range req.GetSpec().GetMetrics() {
		switch m.GetType() {
		case "Pods":
			for _, pod := range req.GetPods() {
				custom(m.GetPods().GetMetric(), &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: pod.GetName(), ApiVersion: oneOf(r.Rand, "v1", "v1", "v1", "")})
			}
		case "Object":
			object := m.GetObject().GetDescribedObject()
			if object.GetKind() == "Namespace" && r.chance(50) {
				object = &setpointv1.CrossVersionObjectReference{Kind: "Namespace", Name: oneOf(r.Rand, "shop", "x", "other")}
			}
			custom(m.GetObject().GetMetric(), object)
		case "External":
			for range r.IntN(3) {
				v := &setpointv1.ExternalMetric{Metric: m.GetExternal().GetMetric(), Value: r.quantity()}
				if r.chance(50) {
					v.Metric = &setpointv1.MetricIdentifier{Name: v.GetMetric().GetName()}
					v.Labels = map[string]string{"queue": oneOf(r.Rand, "a", "b", "c"), "env": oneOf(r.Rand, "prod", "test")}
				}
				if r.chance(50) {
					v.Timestamp = r.instant()
				}
				req.ExternalMetrics = append(req.ExternalMetrics, v)
			}
		}
	}
	if r.chance(20) {
		custom(r.identifier(), r.object())
		req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: r.identifier(), Value: r.quantity()})
	}
}

func (r maker) options() *setpointv1.RecommendOptions {
	o := &setpointv1.RecommendOptions{Profile: oneOf(r.Rand, "", "v1.36")}
	if r.chance(50) {
		o.Tolerance = new(oneOf(r.Rand, "0", "0.2", "100m"))
	}
	if r.chance(50) {
		o.DownscaleStabilization = durationpb.New(time.Duration(r.IntN(600)) * time.Second)
	}
	if r.chance(50) {
		o.CpuInitializationPeriod, o.InitialReadinessDelay = durationpb.New(time.Minute), durationpb.New(0)
	}
	if r.chance(20) {
		o.UpscaleDelay, o.DownscaleDelay = durationpb.New(time.Minute), durationpb.New(0)
	}
	if r.chance(50) {
		o.ScaleToZero = new(r.chance(50))
	}
	return o
}

func (r maker) metricErrors(spec *setpointv1.HorizontalPodAutoscalerSpec) (out []*setpointv1.MetricError) {
	for _, m := range spec.GetMetrics() {
		e := &setpointv1.MetricError{Message: oneOf(r.Rand, "away", "503")}
		switch m.GetType() {
		case "Resource", "ContainerResource":
			e.Metric = "metrics.k8s.io"
		case "External":
			e.Metric = m.GetExternal().GetMetric().GetName()
			e.Selector = m.GetExternal().GetMetric().GetSelector()
		case "Object":
			e.Metric, e.DescribedObject = "custom.metrics.k8s.io", m.GetObject().GetDescribedObject()
		default:
			e.Metric = "custom.metrics.k8s.io"
		}
		out = append(out, e)
	}
	return out
}

func (r maker) status() *setpointv1.HorizontalPodAutoscalerStatus {
	s := &setpointv1.HorizontalPodAutoscalerStatus{
		LastScaleTime: r.instant(), CurrentReplicas: int32(r.IntN(9)), DesiredReplicas: int32(r.IntN(9)),
		Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
			{Type: "AbleToScale", Status: "True", LastTransitionTime: r.instant(), Reason: "ReadyForNewScale", Message: "recommended size matches current size"},
			{Type: "ScalingActive", Status: oneOf(r.Rand, "True", "False"), Reason: "ValidMetricFound"},
		},
		CurrentMetrics: []*setpointv1.MetricStatus{
			{Type: "Resource", Resource: &setpointv1.ResourceMetricStatus{Name: oneOf(r.Rand, "cpu", "memory"), Current: &setpointv1.MetricValueStatus{AverageValue: new(r.quantity()), AverageUtilization: new(int32(60))}}},
			{Type: "External", External: &setpointv1.ExternalMetricStatus{Metric: r.identifier(), Current: &setpointv1.MetricValueStatus{Value: new("20E")}}},
			{},
		},
	}
	if r.chance(30) {
		s.ObservedGeneration = new(int64(r.IntN(3)))
	}
	return s
}
