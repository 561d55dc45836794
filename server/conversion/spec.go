package conversion

import (
	"fmt"
	"slices"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// spec reads a spec and applies the API's defaults.
func (r *reader) spec(out *recommender.Spec, spec *setpointv1.HorizontalPodAutoscalerSpec) {
	out.ScaleTargetRef = objectReference(spec.GetScaleTargetRef())
	out.MinReplicas, out.MaxReplicas = validation.MinReplicas(spec), spec.GetMaxReplicas()
	if len(spec.GetMetrics()) == 0 {
		out.Metrics = recommender.DefaultMetrics()
	} else {
		out.Metrics = make([]recommender.MetricSpec, len(spec.GetMetrics()))
	}
	for i, m := range spec.GetMetrics() {
		r.metricSpec(&out.Metrics[i], m, i)
	}
	if b := spec.GetBehavior(); b != nil {
		out.Behavior = &recommender.Behavior{
			ScaleUp:   r.rules(b.GetScaleUp(), recommender.DefaultScaleUp(), "scaleUp"),
			ScaleDown: r.rules(b.GetScaleDown(), recommender.DefaultScaleDown(), "scaleDown"),
		}
	}
}

func objectReference(ref *setpointv1.CrossVersionObjectReference) recommender.ObjectReference {
	return recommender.ObjectReference{Kind: ref.GetKind(), Name: ref.GetName(), APIVersion: ref.GetApiVersion()}
}

// metricSpec reads the source that the type names.
func (r *reader) metricSpec(out *recommender.MetricSpec, m *setpointv1.MetricSpec, index int) {
	out.Type = recommender.MetricType(m.GetType())
	var target *setpointv1.MetricTarget
	var source string
	switch out.Type {
	case recommender.ResourceMetric:
		out.Resource = m.GetResource().GetName()
		target, source = m.GetResource().GetTarget(), "resource"
	case recommender.ContainerResourceMetric:
		out.Resource, out.Container = m.GetContainerResource().GetName(), m.GetContainerResource().GetContainer()
		target, source = m.GetContainerResource().GetTarget(), "containerResource"
	case recommender.PodsMetric:
		out.Metric = metricIdentifier(m.GetPods().GetMetric())
		target, source = m.GetPods().GetTarget(), "pods"
	case recommender.ObjectMetric:
		out.Metric = metricIdentifier(m.GetObject().GetMetric())
		out.DescribedObject = objectReference(m.GetObject().GetDescribedObject())
		target, source = m.GetObject().GetTarget(), "object"
	case recommender.ExternalMetric:
		out.Metric = metricIdentifier(m.GetExternal().GetMetric())
		target, source = m.GetExternal().GetTarget(), "external"
	}
	out.Target = r.metricTarget(target, index, source)
}

func (r *reader) metricTarget(t *setpointv1.MetricTarget, index int, source string) recommender.MetricTarget {
	out := recommender.MetricTarget{Type: t.GetType()}
	if t == nil {
		return out
	}
	out.AverageUtilization = t.AverageUtilization
	if t.Value != nil {
		v := r.milli(t.GetValue(), func() string { return fmt.Sprintf("spec.metrics[%d].%s.target.value", index, source) })
		out.Value = &v
	}
	if t.AverageValue != nil {
		v := r.milli(t.GetAverageValue(), func() string { return fmt.Sprintf("spec.metrics[%d].%s.target.averageValue", index, source) })
		out.AverageValue = &v
	}
	return out
}

func metricIdentifier(m *setpointv1.MetricIdentifier) recommender.MetricIdentifier {
	return recommender.MetricIdentifier{Name: m.GetName(), Selector: labelSelector(m.GetSelector())}
}

func labelSelector(s *setpointv1.LabelSelector) *recommender.LabelSelector {
	if s == nil {
		return nil
	}
	out := &recommender.LabelSelector{}
	for key, value := range s.GetMatchLabels() {
		out.MatchLabels = append(out.MatchLabels, recommender.Label{Key: key, Value: value})
	}
	slices.SortFunc(out.MatchLabels, func(a, b recommender.Label) int { return strings.Compare(a.Key, b.Key) })
	for _, e := range s.GetMatchExpressions() {
		out.MatchExpressions = append(out.MatchExpressions, recommender.LabelRequirement{
			Key: e.GetKey(), Operator: e.GetOperator(), Values: slices.Clone(e.GetValues()),
		})
	}
	return out
}

// rules reads the rules of one direction; fields that are not set keep their defaults.
func (r *reader) rules(rules *setpointv1.HPAScalingRules, out recommender.ScalingRules, direction string) recommender.ScalingRules {
	if rules == nil {
		return out
	}
	if rules.StabilizationWindowSeconds != nil {
		out.StabilizationWindowSeconds = rules.StabilizationWindowSeconds
	}
	if rules.SelectPolicy != nil {
		out.SelectPolicy = recommender.SelectPolicy(rules.GetSelectPolicy())
	}
	if len(rules.GetPolicies()) > 0 {
		out.Policies = make([]recommender.ScalingPolicy, len(rules.GetPolicies()))
	}
	for i, p := range rules.GetPolicies() {
		out.Policies[i] = recommender.ScalingPolicy{
			Type: recommender.PolicyType(p.GetType()), Value: p.GetValue(), PeriodSeconds: p.GetPeriodSeconds(),
		}
	}
	if rules.Tolerance != nil {
		tolerance, err := quantity.ApproximateFloat(rules.GetTolerance())
		if err != nil {
			r.refuseQuantity("spec.behavior."+direction+".tolerance", rules.GetTolerance(), err)
		}
		out.Tolerance = &tolerance
	}
	return out
}
