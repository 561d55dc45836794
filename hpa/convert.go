//go:build !js

package hpa

import (
	"errors"
	"math"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
)

// Input is the engine's input about the autoscaler and a cluster's objects, with the API's defaults, and
// its stages, nil: it has none. [stages.Kept] decides with both. snapshot.Autoscaler may be nil: it is the
// autoscaler's Object. options may be nil; they replace the file's. The caller sets the input's ID, and
// Explain if it wants the decision explained. The error lists all violations, a line each, or is one of
// [kubernetes.Snapshot.Request].
func (a *Autoscaler) Input(snapshot *kubernetes.Snapshot, options *setpointv1.RecommendOptions) (*recommender.Input, *stages.Plan, error) {
	stored, err := a.stored()
	if err != nil {
		return nil, nil, err
	}
	of := *snapshot
	if of.Autoscaler = a.Object; snapshot.Autoscaler != nil && snapshot.Autoscaler != a.Object {
		return nil, nil, errors.New("the snapshot is of another object than the autoscaler's")
	}
	req, err := of.Request("local")
	if err != nil {
		return nil, nil, err
	}
	if req.Options = options; options == nil {
		req.Options = stored.GetOptions()
	}
	req.Spec, req.Stages = message(&a.Object.Spec), stored.GetStages()
	req.Explain = true // for the input's notes
	in, violations := conversion.Input(req, recommender.DefaultOptions())
	in.Explain = false
	violations = append(violations, validation.Structure(req)...)
	violations = append(violations, validation.Spec(req.GetSpec(), validation.SpecOptions{ScaleToZero: in.Options.ScaleToZero})...)
	plan, wrong := conversion.Stages(stored.GetSpec(), stored.GetStages(), in)
	if err := a.errorOf(validation.Distinct(append(violations, wrong...))); err != nil {
		return nil, nil, err
	}
	return in, plan, nil
}

// Validate checks a spec that a program has filled in, by the rules of the API server. The engine
// decides without checking. The error lists all violations, a line each.
func Validate(a *simulation.Autoscaler) error {
	spec := Spec(&a.Spec)
	violations := validation.Spec(message(&spec), validation.SpecOptions{ScaleToZero: a.Options.ScaleToZero})
	if len(spec.Metrics) == 0 {
		violations = append(violations, Violation{Field: "spec.metrics", Description: "Required value: must have at least one metric"})
	}
	return errorOf("", validation.Distinct(violations))
}

// message is a spec as the contract has it. Only a manifest needs to name what it scales, and Read
// checks that.
func message(spec *autoscalingv2.HorizontalPodAutoscalerSpec) *setpointv1.HorizontalPodAutoscalerSpec {
	out := kubernetes.SpecToProto(spec)
	if spec.ScaleTargetRef == (autoscalingv2.CrossVersionObjectReference{}) {
		out.ScaleTargetRef = nil
	}
	return out
}

// Status is a decision's status as autoscaling/v2 has it, for writing to the cluster.
func Status(status *recommender.Status) (*autoscalingv2.HorizontalPodAutoscalerStatus, error) {
	return kubernetes.StatusFromProto(conversion.Status(status))
}

// Spec is a spec of the engine as autoscaling/v2 has it.
func Spec(spec *recommender.Spec) autoscalingv2.HorizontalPodAutoscalerSpec {
	least := spec.MinReplicas
	out := autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: reference(spec.ScaleTargetRef), MinReplicas: &least, MaxReplicas: spec.MaxReplicas,
	}
	for i := range spec.Metrics {
		out.Metrics = append(out.Metrics, metric(&spec.Metrics[i]))
	}
	if b := spec.Behavior; b != nil {
		out.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(&b.ScaleUp), ScaleDown: rules(&b.ScaleDown)}
	}
	return out
}

func reference(r recommender.ObjectReference) autoscalingv2.CrossVersionObjectReference {
	return autoscalingv2.CrossVersionObjectReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name}
}

func metric(m *recommender.MetricSpec) autoscalingv2.MetricSpec {
	out := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(m.Type)}
	target := autoscalingv2.MetricTarget{
		Type: autoscalingv2.MetricTargetType(m.Target.Type), Value: milli(m.Target.Value), AverageValue: milli(m.Target.AverageValue), AverageUtilization: m.Target.AverageUtilization,
	}
	identifier := autoscalingv2.MetricIdentifier{Name: m.Metric.Name, Selector: selector(m.Metric.Selector)}
	switch m.Type {
	case recommender.ResourceMetric:
		out.Resource = &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceName(m.Resource), Target: target}
	case recommender.ContainerResourceMetric:
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceName(m.Resource), Container: m.Container, Target: target}
	case recommender.PodsMetric:
		out.Pods = &autoscalingv2.PodsMetricSource{Metric: identifier, Target: target}
	case recommender.ObjectMetric:
		out.Object = &autoscalingv2.ObjectMetricSource{DescribedObject: reference(m.DescribedObject), Metric: identifier, Target: target}
	case recommender.ExternalMetric:
		out.External = &autoscalingv2.ExternalMetricSource{Metric: identifier, Target: target}
	}
	return out
}

func milli(v *int64) *resource.Quantity {
	if v == nil {
		return nil
	}
	return resource.NewMilliQuantity(*v, resource.DecimalSI)
}

func selector(s *recommender.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	out := &metav1.LabelSelector{}
	for _, label := range s.MatchLabels {
		metav1.AddLabelToSelector(out, label.Key, label.Value)
	}
	for _, e := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values})
	}
	return out
}

func rules(r *recommender.ScalingRules) *autoscalingv2.HPAScalingRules {
	selected := autoscalingv2.ScalingPolicySelect(r.SelectPolicy)
	out := &autoscalingv2.HPAScalingRules{SelectPolicy: &selected, StabilizationWindowSeconds: r.StabilizationWindowSeconds}
	if r.Tolerance != nil {
		out.Tolerance = resource.NewScaledQuantity(int64(math.Round(*r.Tolerance*1e9)), resource.Nano)
	}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.HPAScalingPolicyType(p.Type), Value: p.Value, PeriodSeconds: p.PeriodSeconds})
	}
	return out
}
