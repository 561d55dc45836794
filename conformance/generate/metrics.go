package generate

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// metric returns a metric of any type of the version.
func (g *generator) metric() autoscalingv2.MetricSpec {
	m := pick(g.random, []weighted[func() autoscalingv2.MetricSpec]{
		{1, g.resourceMetric},
		{g.version.containerResource, g.containerMetric},
		{0.6, g.podsMetric},
		{1, g.totalMetric},
	})()
	if g.chance(0.04) {
		addUnread(&m)
	}
	return m
}

// addUnread sets fields of the target that the API server accepts and that decide nothing.
func addUnread(m *autoscalingv2.MetricSpec) {
	percent, value := int32(70), parse("3")
	switch {
	case m.Resource != nil:
		m.Resource.Target.Value = &value
	case m.ContainerResource != nil:
		m.ContainerResource.Target.Value = &value
	case m.Pods != nil:
		m.Pods.Target.Value, m.Pods.Target.AverageUtilization = &value, &percent
	case m.Object != nil:
		m.Object.Target.AverageUtilization = &percent
	case m.External != nil:
		m.External.Target.AverageUtilization = &percent
	}
}

// totalMetric returns a metric that can be read without pods.
func (g *generator) totalMetric() autoscalingv2.MetricSpec {
	if g.chance(0.4) {
		return g.objectMetric()
	}
	return g.externalMetric()
}

func (g *generator) resourceMetric() autoscalingv2.MetricSpec {
	name := pick(g.random, []weighted[corev1.ResourceName]{
		{6, corev1.ResourceCPU}, {3, corev1.ResourceMemory}, {0.4, corev1.ResourceEphemeralStorage}, {0.4, "example.com/gpu"}, {0.4, hugepages}, {0.1, "storage"},
	})
	return autoscalingv2.MetricSpec{
		Type:     autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: g.resourceTarget(name)},
	}
}

func (g *generator) containerMetric() autoscalingv2.MetricSpec {
	name := pick(g.random, []weighted[corev1.ResourceName]{
		{6, corev1.ResourceCPU}, {3, corev1.ResourceMemory}, {0.3, "example.com/gpu"}, {0.3, hugepages},
	})
	container := pick(g.random, []weighted[string]{{10, "app"}, {2, "log"}, {1.5, "proxy"}, {0.3, "mesh"}, {0.3, "setup"}, {0.2, "injected"}, {0.2, "absent"}})
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ContainerResourceMetricSourceType,
		ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: name, Container: container, Target: g.resourceTarget(name),
		},
	}
}

// resourceTarget returns a target of a resource. The field that is set counts, not the
// type, which users get wrong.
func (g *generator) resourceTarget(name corev1.ResourceName) autoscalingv2.MetricTarget {
	if g.chance(0.6) {
		percent := oneOf(g.random, 50, 50, 80, 80, 60, 70, 100, 10, 90, 120, 150, 200, 3, 1, 33, 77, 1000, int32(g.between(1, 300)), 1<<31-1)
		return autoscalingv2.MetricTarget{Type: g.targetType(autoscalingv2.UtilizationMetricType), AverageUtilization: &percent}
	}
	average := g.targetQuantity(string(name), resourceUnits(name))
	return autoscalingv2.MetricTarget{Type: g.targetType(autoscalingv2.AverageValueMetricType), AverageValue: &average}
}

// resourceUnits are the sizes of a resource's targets, milli-units.
func resourceUnits(name corev1.ResourceName) []int64 {
	switch name {
	case corev1.ResourceCPU:
		return []int64{100, 50, 250, 500, 1000, 10}
	case corev1.ResourceMemory:
		return []int64{100 * milliPerMi, 512 * milliPerMi, milliPerGi, 100_000_000 * milliPerUnit, 1000_003 * milliPerUnit}
	case corev1.ResourceEphemeralStorage:
		return []int64{milliPerGi}
	}
	return []int64{1000}
}

// targetType returns right, rarely another type.
func (g *generator) targetType(right autoscalingv2.MetricTargetType) autoscalingv2.MetricTargetType {
	if g.chance(0.04) {
		return oneOf(g.random, autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType)
	}
	return right
}

// targetQuantity returns a target for the named metric or resource: a small multiple of
// the name's unit, or close to one.
func (g *generator) targetQuantity(name string, units []int64) resource.Quantity {
	unit, known := g.spec.units[name]
	if !known {
		unit = oneOf(g.random, units...)
		g.spec.units[name] = unit
	}
	if g.extreme && g.chance(0.3) {
		return parse(oneOf(g.random, "10P", "16Ei", "1n", "9223372036854775"))
	}
	if g.chance(0.02) {
		return parse(oneOf(g.random, "1n", "0.1m", "100u", "1e3", "9223372036854775", "9P", "1.5Ki", "1e-9", "333333333n"))
	}
	milli := unit * oneOf[int64](g.random, 1, 1, 1, 2, 3, 10)
	if g.chance(0.1) {
		milli++
	}
	return g.quantity(milli)
}

// valueUnits are the sizes of the targets of custom and external metrics.
var valueUnits = []int64{1000, 1000, 10_000, 10_000, 100_000, 100, 1, 1001, 30 * milliPerUnit, 1e6, 1e9, 20 * milliPerMi, 3, 7}

// identifier names a metric. There are few names, so that metrics share them.
func (g *generator) identifier(names ...string) autoscalingv2.MetricIdentifier {
	return autoscalingv2.MetricIdentifier{Name: oneOf(g.random, names...), Selector: g.metricSelector().spec()}
}

func (g *generator) podsMetric() autoscalingv2.MetricSpec {
	m := &autoscalingv2.PodsMetricSource{Metric: g.identifier("packets", "packets", "sessions", "job:requests:rate")}
	average := g.targetQuantity(m.Metric.Name, valueUnits)
	m.Target = autoscalingv2.MetricTarget{Type: g.targetType(autoscalingv2.AverageValueMetricType), AverageValue: &average}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: m}
}

// describedObjects are the objects of Object metrics. The name of a Namespace does not
// matter, its group and kind do.
var describedObjects = []weighted[autoscalingv2.CrossVersionObjectReference]{
	{4, autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "front"}},
	{3, autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "web"}},
	{1, autoscalingv2.CrossVersionObjectReference{Kind: "Service", Name: "web"}},
	{1, autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "shop"}},
	{1, autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "another"}},
	{0.5, autoscalingv2.CrossVersionObjectReference{Kind: "Namespace", Name: "shop"}},
	{0.5, autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web-0"}},
	{0.5, autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1alpha1", Kind: "Namespace", Name: "tenant"}},
	{0.5, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
}

func (g *generator) objectMetric() autoscalingv2.MetricSpec {
	m := &autoscalingv2.ObjectMetricSource{
		DescribedObject: pick(g.random, describedObjects),
		Metric:          g.identifier("requests", "requests", "hits", "sessions", "packets"),
	}
	m.Target = g.totalTarget(m.Metric.Name)
	if g.chance(0.1) {
		// Both fields may be set: then the type decides.
		value, average := g.targetQuantity(m.Metric.Name, valueUnits), g.targetQuantity(m.Metric.Name, valueUnits)
		m.Target.Value, m.Target.AverageValue = &value, &average
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: m}
}

func (g *generator) externalMetric() autoscalingv2.MetricSpec {
	m := &autoscalingv2.ExternalMetricSource{Metric: g.identifier("depth", "depth", "lag", "queue:age")}
	m.Target = g.totalTarget(m.Metric.Name)
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: m}
}

func (g *generator) totalTarget(name string) autoscalingv2.MetricTarget {
	amount := g.targetQuantity(name, valueUnits)
	if g.chance(0.5) {
		return autoscalingv2.MetricTarget{Type: g.targetType(autoscalingv2.ValueMetricType), Value: &amount}
	}
	return autoscalingv2.MetricTarget{Type: g.targetType(autoscalingv2.AverageValueMetricType), AverageValue: &amount}
}

// targetMilli returns the value that a target's readings are compared with, 0 for a
// percentage.
func targetMilli(t *autoscalingv2.MetricTarget) int64 {
	switch {
	case t.AverageValue != nil && t.Value != nil && t.Type == autoscalingv2.ValueMetricType:
		return t.Value.MilliValue()
	case t.AverageValue != nil:
		return t.AverageValue.MilliValue()
	case t.Value != nil:
		return t.Value.MilliValue()
	}
	return 0
}
