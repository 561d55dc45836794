package crd_test

import (
	"encoding/json"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/conformance/crd"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Every status that the agent writes with the Go type is stored unchanged: even an empty
// one, whose metrics are null, a metric that could not be computed, which has no type, and
// a condition without a time.
func TestStatusIsStoredAsWritten(t *testing.T) {
	t.Parallel()
	d := definition(t)
	average, utilization, generation := resource.MustParse("1500m"), int32(75), int64(3)
	for name, status := range map[string]autoscalingv2.HorizontalPodAutoscalerStatus{
		"empty": {},
		"full": {
			ObservedGeneration: &generation,
			LastScaleTime:      &metav1.Time{Time: time.Unix(1_700_000_000, 0)},
			CurrentReplicas:    3, DesiredReplicas: 4,
			CurrentMetrics: []autoscalingv2.MetricStatus{
				{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{
					Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: &utilization, AverageValue: &average},
				}},
				{},
				{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricStatus{
					Metric:  autoscalingv2.MetricIdentifier{Name: "queue", Selector: &metav1.LabelSelector{}},
					Current: autoscalingv2.MetricValueStatus{Value: &resource.Quantity{}},
				}},
			},
			Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
				{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue, Reason: "ReadyForNewScale", Message: "…"},
				{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Unix(1_700_000_000, 0)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, posted := both(t, parse(t, "{"+ref+","+bounds+"}"))
			stored, violations, err := d.Create(posted)
			if err != nil || len(violations) > 0 {
				t.Fatal(err, violations)
			}
			stored.SetResourceVersion("1")
			var autoscaler autoscalingv1.Autoscaler
			fatal.If(t, crd.Into(stored, &autoscaler))
			autoscaler.SetHorizontalPodAutoscalerStatus(&status)
			autoscaler.Status.Explanation, autoscaler.Status.RecommendationID = "Because.", "r-1"
			data, err := json.Marshal(autoscaler)
			fatal.If(t, err)
			updated, violations, err := d.UpdateStatus(data, stored)
			if err != nil || len(violations) > 0 {
				t.Fatal(err, violations)
			}
			var got autoscalingv1.Autoscaler
			fatal.If(t, crd.Into(updated, &got))
			if !apiequality.Semantic.DeepEqual(got.Status, autoscaler.Status) {
				t.Errorf("stored\n%s\nwritten\n%s", text(got.Status), text(autoscaler.Status))
			}
		})
	}
}

func TestStatusHasNoNegativeReplicas(t *testing.T) {
	t.Parallel()
	d := definition(t)
	_, posted := both(t, parse(t, "{"+ref+","+bounds+"}"))
	stored, _, err := d.Create(posted)
	fatal.If(t, err)
	stored.SetResourceVersion("1")
	changed := stored.DeepCopy()
	changed.Object["status"] = object{"desiredReplicas": int64(-1), "currentReplicas": int64(-1)}
	data, err := changed.MarshalJSON()
	fatal.If(t, err)
	_, violations, err := d.UpdateStatus(data, stored)
	fatal.If(t, err)
	checkViolations(t, violations, []string{
		"status.currentReplicas: must be greater than or equal to 0", "status.desiredReplicas: must be greater than or equal to 0",
	})
}
