package generate

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startingStatus is a status that another controller wrote before the scenario begins:
// of this workload, or an odd one.
func (g *generator) startingStatus() autoscalingv2.HorizontalPodAutoscalerStatus {
	status := autoscalingv2.HorizontalPodAutoscalerStatus{
		CurrentReplicas: g.cluster.replicas,
		DesiredReplicas: g.cluster.replicas + int32(pick(g.random, []weighted[int]{{3, 0}, {1, g.between(0, 5)}})),
		CurrentMetrics:  g.startingMetrics(),
	}
	if g.chance(0.05) { // of another workload
		status.CurrentReplicas, status.DesiredReplicas = int32(g.IntN(1000)), int32(g.IntN(1<<31-1))
	}
	if g.chance(0.7) {
		status.LastScaleTime = &metav1.Time{Time: g.before()}
	}
	if g.chance(0.2) {
		generation := int64(g.between(1, 9))
		status.ObservedGeneration = &generation
	}
	zero := g.cluster.replicas == 0 && g.chance(0.8)
	for _, c := range startingConditions {
		if c.Type == autoscalingv2.ScaledToZero && zero {
			c.Status, c.Reason = corev1.ConditionTrue, "ScaledToZero"
		} else if !g.chance(0.6) {
			continue
		}
		if g.chance(0.3) {
			c.Status = oneOf(g.random, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)
		}
		c.LastTransitionTime = metav1.Time{Time: g.before()}
		status.Conditions = append(status.Conditions, c)
	}
	if n := len(status.Conditions); n > 0 && g.chance(0.05) { // one twice
		again := status.Conditions[g.IntN(n)]
		again.Status, again.LastTransitionTime.Time = corev1.ConditionUnknown, g.before()
		status.Conditions = append(status.Conditions, again)
	}
	g.Shuffle(len(status.Conditions)*g.IntN(2), func(i, j int) {
		status.Conditions[i], status.Conditions[j] = status.Conditions[j], status.Conditions[i]
	})
	return status
}

// before returns an instant before the scenario.
func (g *generator) before() time.Time {
	return g.clock.start.Add(-g.seconds(1, 4000)).Truncate(time.Second)
}

var startingConditions = []autoscalingv2.HorizontalPodAutoscalerCondition{
	{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue, Reason: "ReadyForNewScale", Message: "recommended size matches current size"},
	{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionTrue, Reason: "ValidMetricFound", Message: "of old"},
	{Type: autoscalingv2.ScalingLimited, Status: corev1.ConditionFalse, Reason: "DesiredWithinRange", Message: "the desired count is within the acceptable range"},
	{Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionFalse, Reason: "NotScaledToZero", Message: "of old"},
	{Type: "Other", Status: corev1.ConditionUnknown, Reason: "SomeoneElse"},
}

// startingMetrics are old readings, of metrics that need not be in the spec.
func (g *generator) startingMetrics() []autoscalingv2.MetricStatus {
	if g.chance(0.5) {
		return nil
	}
	percent := int32(g.between(0, 300))
	// The format of a controller; the other values are random.
	average, value := *resource.NewMilliQuantity(int64(g.IntN(1e6)), resource.DecimalSI), *resource.NewMilliQuantity(int64(g.IntN(1e6)), resource.DecimalSI)
	all := []autoscalingv2.MetricStatus{
		{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{
			Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: &percent, AverageValue: &average},
		}},
		{Type: ""},
		{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricStatus{
			Metric: autoscalingv2.MetricIdentifier{Name: "depth"}, Current: autoscalingv2.MetricValueStatus{Value: &value},
		}},
		{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricStatus{
			DescribedObject: describedObjects[0].value, Metric: g.identifier("hits"), Current: autoscalingv2.MetricValueStatus{Value: &value},
		}},
		{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricStatus{
			Metric: g.identifier("packets"), Current: autoscalingv2.MetricValueStatus{AverageValue: &average},
		}},
		{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{
			Name: corev1.ResourceMemory, Container: "app", Current: autoscalingv2.MetricValueStatus{AverageUtilization: &percent, AverageValue: &average},
		}},
	}
	if g.version.containerResource < 0.1 {
		all = all[:len(all)-1] // that API has no such status
	}
	return some(g.random, all)
}
