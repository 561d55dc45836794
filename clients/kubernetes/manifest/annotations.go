package manifest

import (
	"fmt"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// The annotations in which autoscaling/v1 stores fields that it lacks.
const (
	metricsAnnotation        = "autoscaling.alpha.kubernetes.io/metrics"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
)

// The annotations in which Kubernetes v1.2 to v1.5 stored custom metrics, which were averages
// over pods.
const (
	customTargetsAnnotation  = "alpha/target.custom-metrics.podautoscaler.kubernetes.io"
	customStatusesAnnotation = "alpha/status.custom-metrics.podautoscaler.kubernetes.io"
)

// annotationReaders read the JSON of an annotation into the fields of autoscaling/v2.
var annotationReaders = map[string]func(*autoscalingv2.HorizontalPodAutoscaler, []byte) error{
	metricsAnnotation:        readMetricsAnnotation,
	behaviorAnnotation:       readBehaviorAnnotation,
	currentMetricsAnnotation: readCurrentMetricsAnnotation,
	conditionsAnnotation:     readConditionsAnnotation,
	customTargetsAnnotation:  readCustomTargetsAnnotation,
	customStatusesAnnotation: readCustomStatusesAnnotation,
}

// applyAnnotations moves the named annotations of out into its fields. The API server skips an
// unreadable annotation; here that is an error, because silently losing metrics helps nobody.
func applyAnnotations(out *autoscalingv2.HorizontalPodAutoscaler, names ...string) error {
	remaining := maps.Clone(out.Annotations)
	for _, name := range names {
		text, ok := remaining[name]
		if !ok {
			continue
		}
		if err := annotationReaders[name](out, []byte(text)); err != nil {
			return fmt.Errorf("metadata.annotations[%s]: %w", name, err)
		}
		delete(remaining, name)
	}
	out.Annotations = remaining
	return nil
}

func readMetricsAnnotation(out *autoscalingv2.HorizontalPodAutoscaler, data []byte) error {
	var metrics []autoscalingv1.MetricSpec
	if err := objectjson.UnmarshalStrict(data, &metrics); err != nil {
		return err
	}
	out.Spec.Metrics = metricSpecsFromV1(metrics)
	return nil
}

// The behavior annotation has the JSON of the API server's internal types, which define no
// names for JSON: it uses Go's field names.
type (
	annotatedBehavior struct {
		ScaleUp   *annotatedRules
		ScaleDown *annotatedRules
	}
	annotatedRules struct {
		StabilizationWindowSeconds *int32
		SelectPolicy               *autoscalingv2.ScalingPolicySelect
		Policies                   []annotatedPolicy
		Tolerance                  *resource.Quantity
	}
	annotatedPolicy struct {
		Type          autoscalingv2.HPAScalingPolicyType
		Value         int32
		PeriodSeconds int32
	}
)

func readBehaviorAnnotation(out *autoscalingv2.HorizontalPodAutoscaler, data []byte) error {
	var behavior annotatedBehavior
	if err := objectjson.UnmarshalStrict(data, &behavior); err != nil {
		return err
	}
	if behavior == (annotatedBehavior{}) {
		// The API server treats behavior without directions as no behavior.
		return nil
	}
	out.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: behavior.ScaleUp.toV2(), ScaleDown: behavior.ScaleDown.toV2(),
	}
	return nil
}

func (r *annotatedRules) toV2() *autoscalingv2.HPAScalingRules {
	if r == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: r.StabilizationWindowSeconds,
		SelectPolicy:               r.SelectPolicy,
		Tolerance:                  r.Tolerance,
	}
	if r.Policies != nil {
		out.Policies = []autoscalingv2.HPAScalingPolicy{}
	}
	for _, policy := range r.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(policy))
	}
	return out
}

func readCurrentMetricsAnnotation(out *autoscalingv2.HorizontalPodAutoscaler, data []byte) error {
	var statuses []autoscalingv1.MetricStatus
	if err := objectjson.Unmarshal(data, &statuses); err != nil {
		return err
	}
	out.Status.CurrentMetrics = metricStatusesFromV1(statuses)
	return nil
}

func readConditionsAnnotation(out *autoscalingv2.HorizontalPodAutoscaler, data []byte) error {
	var conditions []autoscalingv2.HorizontalPodAutoscalerCondition
	if err := objectjson.Unmarshal(data, &conditions); err != nil {
		return err
	}
	out.Status.Conditions = conditions
	return nil
}

// customMetrics is the content of the annotations of v1.2.
type customMetrics struct {
	Items []struct {
		Name  string            `json:"name"`
		Value resource.Quantity `json:"value"`
	} `json:"items"`
}

// readCustomTargetsAnnotation adds a Pods metric for each target of v1.2. The metrics
// annotation, which came later, takes precedence over these.
func readCustomTargetsAnnotation(out *autoscalingv2.HorizontalPodAutoscaler, data []byte) error {
	if len(out.Spec.Metrics) > 0 {
		return nil
	}
	var targets customMetrics
	if err := objectjson.UnmarshalStrict(data, &targets); err != nil {
		return err
	}
	for _, target := range targets.Items {
		value := target.Value
		out.Spec.Metrics = append(out.Spec.Metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.PodsMetricSourceType,
			Pods: &autoscalingv2.PodsMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: target.Name},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &value},
			},
		})
	}
	return nil
}

// readCustomStatusesAnnotation adds the readings of those metrics to the status.
func readCustomStatusesAnnotation(out *autoscalingv2.HorizontalPodAutoscaler, data []byte) error {
	var readings customMetrics
	if err := objectjson.Unmarshal(data, &readings); err != nil {
		return err
	}
	for _, reading := range readings.Items {
		value := reading.Value
		out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, autoscalingv2.MetricStatus{
			Type: autoscalingv2.PodsMetricSourceType,
			Pods: &autoscalingv2.PodsMetricStatus{
				Metric:  autoscalingv2.MetricIdentifier{Name: reading.Name},
				Current: autoscalingv2.MetricValueStatus{AverageValue: &value},
			},
		})
	}
	return nil
}
