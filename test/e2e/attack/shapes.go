//go:build linux

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// attacks are all of them.
func attacks() []*attack {
	return slices.Concat(shapeAttacks(), describedAttacks(), encodingAttacks(), jsonAttacks(), productAttacks(), leftAttacks(),
		openAttacks(), frameAttacks(), unknownAttacks(), unfinishedAttacks(), edgeAttacks(), recordAttacks(), adminAttacks(), contractAttacks(), routeAttacks(), waitAttacks(), tenantAttacks(), stageAttacks(), overrideAttacks(), fleetAttacks())
}

// everyWay sends a shape with each carrier. The named ones are also in the short form.
func everyWay(make func() body, short ...string) []step {
	shared := sync.OnceValue(make)
	var steps []step
	for _, c := range carriers() {
		steps = append(steps, step{name: c.name, short: slices.Contains(short, c.name), run: wave(c, shared), bounds: bounds{property: true}})
	}
	return steps
}

// mayAnswer has nothing but these codes answered.
func mayAnswer(steps []step, only ...codes.Code) []step {
	for i := range steps {
		steps[i].only = only
	}
	return steps
}

// shapeAttacks are requests with few bytes but large memory or work, beside those of server's
// TestCostOfAttacks.
func shapeAttacks() []*attack {
	return []*attack{
		{name: "explained", item: "1", about: "a valid request of 20,000 pods × 100 metrics, 163 kB, to be explained", steps: everyWay(func() body { return explained(20_000, 100) }, "grpc", "rest", "batch", "stream")},
		{name: "series", about: "100,000 series of 100 metrics; and of 1,000, more than are allowed", steps: slices.Concat(
			everyWay(func() body { return series(100, 100_000) }, "grpc"),
			[]step{{name: "too-many", short: true, bounds: bounds{property: true}, run: wave(carriers()[0], func() body { return series(1000, 100_000) })}})},
		{name: "selector-values", about: "a requirement of 500,000 values for each of 10,000 series", steps: everyWay(func() body { return manyValues(500_000, 10_000) })},
		{name: "error-selectors", about: "10,000 metricErrors with selectors × 100 metrics with other ones", steps: everyWay(func() body { return errorSelectors(100, 10_000) })},
		{name: "objects", about: "100 Object metrics × 20,000 values that describe other objects", steps: everyWay(func() body { return objects(100, 20_000) })},
		{name: "pod-values", about: "20,000 pods of one name, and 20,000 values of pods that are not", steps: everyWay(sameNames)},
		{name: "long-quantities", about: "quantities of a million digits, and with huge exponents", steps: everyWay(longQuantities, "grpc", "rest")},
		{name: "many-labels", about: "a series of 500,000 labels", steps: mayAnswer(everyWay(manyLabels, "grpc"), codes.InvalidArgument, codes.ResourceExhausted, codes.OK)},
		{name: "long-selectors", item: "5", about: "a selector of 1 MB of requirements, recorded with the metric", steps: everyWay(func() body { return selected(1, 70_000, 1) })},
		{name: "policies", about: "100,000 scaling policies", steps: everyWay(policies, "grpc")},
		{name: "previous-conditions", about: "a previous status of 64 conditions of 32 kB", steps: everyWay(conditions)},
	}
}

// base encodes a small request, to which the shapes add.
func base() body { return bodyOf(requestFor(hostileTarget)) }

// empties returns a request with so many empty entries of a field, which is named by its
// path.
func empties(n int, path ...string) body {
	i := slices.IndexFunc(methods(), func(m *method) bool { return m.full() == recommendMethod })
	m := methods()[i]
	descriptor := m.Input()
	var fields []protoreflect.FieldDescriptor
	for _, name := range path {
		f := descriptor.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			panic("no field " + strings.Join(path, ".")) // a mistake of ours
		}
		fields = append(fields, f)
		descriptor = f.Message()
	}
	return body{stuffed(m, fields, 2*n, false), stuffed(m, fields, 3*n, true)}
}

// joined puts the members of two objects into one.
func joined(a, b []byte) []byte {
	return append(append(bytes.TrimSuffix(bytes.TrimSpace(a), []byte("}")), ','), b[1:]...)
}

// short names: of two to four characters.
func shortName(i int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	var b []byte
	for i += len(digits); i > 0; i /= len(digits) {
		b = append(b, digits[i%len(digits)])
	}
	return string(b)
}

// explained is a valid request of so many pods and metrics, to be explained.
func explained(pods, metrics int) body {
	r := requestFor(hostileTarget)
	r.Explain = true
	r.ExternalMetrics, r.Spec.Metrics = nil, nil
	for range metrics {
		r.Spec.Metrics = append(r.Spec.Metrics, &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
			Name: "cpu", Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("1")},
		}})
	}
	for i := range pods {
		r.Pods = append(r.Pods, &setpointv1.Pod{Name: shortName(i)})
	}
	r.PodMetrics = []*setpointv1.PodMetrics{{Pod: shortName(0), Timestamp: timestamppb.Now(), Containers: []*setpointv1.ContainerMetrics{{Usage: map[string]string{"cpu": "1"}}}}}
	return bodyOf(r)
}

func external(name string, selector *setpointv1.LabelSelector) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: name, Selector: selector},
		Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
	}}
}

// labelled has series that differ in a label, of the first of so many metrics.
func labelled(metrics, series int) body {
	r := requestFor(hostileTarget)
	r.Spec.Metrics, r.ExternalMetrics = nil, nil
	for i := range metrics {
		r.Spec.Metrics = append(r.Spec.Metrics, external("m"+shortName(i), nil))
	}
	m := &setpointv1.MetricIdentifier{Name: "m" + shortName(0)}
	for i := range series {
		r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: m, Labels: map[string]string{"l": shortName(i)}, Value: "1"})
	}
	return bodyOf(r)
}

// series has as many series, of so many metrics in turn.
func series(metrics, n int) body {
	r := requestFor(hostileTarget)
	r.Spec.Metrics, r.ExternalMetrics = nil, nil
	for i := range metrics {
		r.Spec.Metrics = append(r.Spec.Metrics, external(fmt.Sprint("m", i), nil))
	}
	for i := range n {
		r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: fmt.Sprint("m", i%metrics)}, Value: "1"})
	}
	return bodyOf(r)
}

// selected has metrics with selectors of requirements that all series meet.
func selected(metrics, requirements, series int) body {
	r := requestFor(hostileTarget)
	r.Spec.Metrics, r.ExternalMetrics = nil, nil
	exists := &setpointv1.LabelSelectorRequirement{Key: "l", Operator: "Exists"}
	selector := &setpointv1.LabelSelector{MatchExpressions: slices.Repeat([]*setpointv1.LabelSelectorRequirement{exists}, requirements)}
	for range metrics {
		r.Spec.Metrics = append(r.Spec.Metrics, external("m", selector))
	}
	m := &setpointv1.MetricIdentifier{Name: "m"}
	for i := range series {
		r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: m, Labels: map[string]string{"l": shortName(i)}, Value: "1"})
	}
	return bodyOf(r)
}

// manyValues has a requirement of many values, which series meet by the last one.
func manyValues(values, series int) body {
	r := requestFor(hostileTarget)
	requirement := &setpointv1.LabelSelectorRequirement{Key: "l", Operator: "In"}
	for i := range values {
		requirement.Values = append(requirement.Values, shortName(i))
	}
	last := requirement.Values[values-1]
	r.Spec.Metrics = []*setpointv1.MetricSpec{external("m", &setpointv1.LabelSelector{MatchExpressions: []*setpointv1.LabelSelectorRequirement{requirement}})}
	r.ExternalMetrics = nil
	for range series {
		r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "m"}, Labels: map[string]string{"l": last}, Value: "1"})
	}
	return bodyOf(r)
}

// errorSelectors has errors that name no metric by their selectors, but by their names.
func errorSelectors(metrics, errors int) body {
	r := requestFor(hostileTarget)
	r.Spec.Metrics, r.ExternalMetrics = nil, nil
	for i := range metrics {
		r.Spec.Metrics = append(r.Spec.Metrics, external("m", &setpointv1.LabelSelector{MatchLabels: map[string]string{"l": shortName(i)}}))
	}
	for i := range errors {
		r.MetricErrors = append(r.MetricErrors, &setpointv1.MetricError{Metric: "m", Message: "x", Selector: &setpointv1.LabelSelector{MatchLabels: map[string]string{"l": shortName(metrics - 1 - i%metrics), "k": shortName(i)}}})
	}
	return bodyOf(r)
}

// objects has Object metrics, and values that describe other objects.
func objects(metrics, values int) body {
	r := requestFor(hostileTarget)
	r.Spec.Metrics, r.ExternalMetrics = nil, nil
	for i := range metrics {
		r.Spec.Metrics = append(r.Spec.Metrics, &setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{
			DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Service", Name: shortName(i), ApiVersion: "v1"},
			Metric:          &setpointv1.MetricIdentifier{Name: "m"}, Target: &setpointv1.MetricTarget{Type: "Value", Value: proto.String("1")},
		}})
	}
	for i := range values {
		r.CustomMetrics = append(r.CustomMetrics, &setpointv1.CustomMetric{
			Metric:          &setpointv1.MetricIdentifier{Name: "m"},
			DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Service", Name: shortName(i), ApiVersion: "v1"}, Value: "1",
		})
	}
	return bodyOf(r)
}

func sameNames() body {
	r := requestFor(hostileTarget)
	r.Spec.Metrics = append(r.Spec.Metrics, &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: "m"}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("1")},
	}})
	for i := range 20_000 {
		r.Pods = append(r.Pods, &setpointv1.Pod{Name: "pod"})
		r.CustomMetrics = append(r.CustomMetrics, &setpointv1.CustomMetric{
			Metric:          &setpointv1.MetricIdentifier{Name: "m"},
			DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: shortName(i), ApiVersion: "v1"}, Value: "1",
		})
	}
	return bodyOf(r)
}

func longQuantities() body {
	r := requestFor(hostileTarget)
	digits := strings.Repeat("9", 1_000_000)
	r.ExternalMetrics = nil
	for _, value := range []string{digits, "0." + digits, digits + "e" + digits, "1e999999999", "1E-999999999", "0x" + digits, "1e" + digits, "+" + digits + "Ki"} {
		r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: value})
	}
	r.Spec.Metrics[0].External.Target.AverageValue = proto.String(digits)
	return bodyOf(r)
}

func manyLabels() body {
	r := requestFor(hostileTarget)
	labels := make(map[string]string)
	for i := range 500_000 {
		labels[shortName(i)] = "v"
	}
	r.ExternalMetrics[0].Labels = labels
	return bodyOf(r)
}

func policies() body {
	r := requestFor(hostileTarget)
	var all []*setpointv1.HPAScalingPolicy
	for i := range 100_000 {
		all = append(all, &setpointv1.HPAScalingPolicy{Type: "Pods", Value: int32(i + 1), PeriodSeconds: int32(i%1800 + 1)})
	}
	rules := &setpointv1.HPAScalingRules{Policies: all}
	r.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: rules, ScaleDown: rules}
	return bodyOf(r)
}

func conditions() body {
	r := requestFor(hostileTarget)
	r.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{}
	for i := range 64 {
		r.PreviousStatus.Conditions = append(r.PreviousStatus.Conditions, &setpointv1.HorizontalPodAutoscalerCondition{
			Type: fmt.Sprint("Type", i), Status: "True", Reason: "Reason", Message: strings.Repeat("m", 32_000),
		})
	}
	return bodyOf(r)
}
