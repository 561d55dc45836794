package conversion

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// Status converts a status.
func Status(s *recommender.Status) *setpointv1.HorizontalPodAutoscalerStatus {
	out := &setpointv1.HorizontalPodAutoscalerStatus{
		ObservedGeneration: s.ObservedGeneration,
		LastScaleTime:      timestamp(s.LastScaleTime),
		CurrentReplicas:    s.CurrentReplicas,
		DesiredReplicas:    s.DesiredReplicas,
		CurrentMetrics:     make([]*setpointv1.MetricStatus, len(s.CurrentMetrics)),
		Conditions:         make([]*setpointv1.HorizontalPodAutoscalerCondition, len(s.Conditions)),
	}
	for i := range s.CurrentMetrics {
		out.CurrentMetrics[i] = metricStatus(&s.CurrentMetrics[i])
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		out.Conditions[i] = &setpointv1.HorizontalPodAutoscalerCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message,
			LastTransitionTime: timestamp(c.LastTransitionTime),
		}
	}
	return out
}

// timestamp converts an instant; nil for the zero time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// nanoseconds converts an instant in nanoseconds; nil for 0.
func nanoseconds(n int64) *timestamppb.Timestamp {
	if n == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, n))
}

// Milliseconds converts an instant in milliseconds since the Unix epoch; nil for 0.
func Milliseconds(n int64) *timestamppb.Timestamp {
	if n == 0 {
		return nil
	}
	return timestamppb.New(time.UnixMilli(n))
}

// metricStatus converts a reading to the source of its type.
func metricStatus(m *recommender.MetricStatus) *setpointv1.MetricStatus {
	out := &setpointv1.MetricStatus{Type: string(m.Type)}
	current := metricValue(&m.Current)
	switch m.Type {
	case recommender.ResourceMetric:
		out.Resource = &setpointv1.ResourceMetricStatus{Name: m.Resource, Current: current}
	case recommender.ContainerResourceMetric:
		out.ContainerResource = &setpointv1.ContainerResourceMetricStatus{Name: m.Resource, Container: m.Container, Current: current}
	case recommender.PodsMetric:
		out.Pods = &setpointv1.PodsMetricStatus{Metric: identifier(&m.Metric), Current: current}
	case recommender.ObjectMetric:
		out.Object = &setpointv1.ObjectMetricStatus{
			Metric: identifier(&m.Metric), Current: current, DescribedObject: reference(&m.DescribedObject),
		}
	case recommender.ExternalMetric:
		out.External = &setpointv1.ExternalMetricStatus{Metric: identifier(&m.Metric), Current: current}
	}
	return out
}

func metricValue(v *recommender.MetricValue) *setpointv1.MetricValueStatus {
	out := &setpointv1.MetricValueStatus{}
	if v.HasValue {
		s := formatMilli(v.Value, v.Binary)
		out.Value = &s
	}
	if v.HasAverageValue {
		s := formatMilli(v.AverageValue, v.Binary)
		out.AverageValue = &s
	}
	if v.HasAverageUtilization {
		utilization := v.AverageUtilization
		out.AverageUtilization = &utilization
	}
	return out
}

func formatMilli(milli int64, binary bool) string {
	if binary {
		return quantity.FormatBinary(milli)
	}
	return quantity.FormatDecimal(milli)
}

func identifier(m *recommender.MetricIdentifier) *setpointv1.MetricIdentifier {
	return &setpointv1.MetricIdentifier{Name: m.Name, Selector: selector(m.Selector)}
}

func selector(s *recommender.LabelSelector) *setpointv1.LabelSelector {
	if s == nil {
		return nil
	}
	out := &setpointv1.LabelSelector{}
	if len(s.MatchLabels) > 0 {
		out.MatchLabels = make(map[string]string, len(s.MatchLabels))
	}
	for _, l := range s.MatchLabels {
		out.MatchLabels[l.Key] = l.Value
	}
	for _, e := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, &setpointv1.LabelSelectorRequirement{
			Key: e.Key, Operator: e.Operator, Values: e.Values,
		})
	}
	return out
}

// reference converts an object's name; nil for an empty one.
func reference(o *recommender.ObjectReference) *setpointv1.CrossVersionObjectReference {
	if *o == (recommender.ObjectReference{}) || o.Kind == unnamedKind && o.APIVersion == "" {
		return nil
	}
	return &setpointv1.CrossVersionObjectReference{Kind: o.Kind, Name: o.Name, ApiVersion: o.APIVersion}
}
