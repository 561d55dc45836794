package servertest

import (
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Polled is the target of which a spec is stored.
const Polled = "clusters/demo/namespaces/shop/targets/polled"

// QueueSpec wants a count of one for each 10 of the queue.
func QueueSpec(least, most int32) *setpointv1.TargetSpec {
	return &setpointv1.TargetSpec{Spec: &setpointv1.HorizontalPodAutoscalerSpec{
		MinReplicas: &least, MaxReplicas: most,
		Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
			Metric: &setpointv1.MetricIdentifier{Name: "queue"},
			Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
		}}},
	}}
}

// SetSpec stores the spec of Polled.
func (s *Service) SetSpec(t *testing.T, spec *setpointv1.TargetSpec) *setpointv1.TargetSpec {
	t.Helper()
	set, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: Polled, TargetSpec: spec})
	fatal.If(t, err)
	return set.GetTargetSpec()
}

// Observe reports the count of Polled unless it is negative, and the length of its queue unless it is "".
func (s *Service) Observe(t *testing.T, replicas int32, queue string) {
	t.Helper()
	report := &setpointv1.ReportObservationRequest{Target: Polled}
	if replicas >= 0 {
		report.Scale = &setpointv1.Scale{SpecReplicas: replicas}
	}
	if queue != "" {
		report.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: queue}}
	}
	if _, err := s.Recommendations.ReportObservation(t.Context(), report); err != nil {
		t.Fatal(err)
	}
}
