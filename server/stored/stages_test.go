package stored_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// The stages of a stored spec take part in polls, and whoever asks within the period is told the same.
func TestPollsTellStages(t *testing.T) {
	s := servertest.Start(t)
	spec := servertest.QueueSpec(1, 100)
	mails := proto.CloneOf(spec.GetSpec().GetMetrics()[0])
	mails.External.Metric.Name = "mails"
	spec.Spec.Metrics = append(spec.Spec.Metrics, mails)
	spec.Stages = &setpointv1.Stages{Combine: &setpointv1.Combine{Method: "MIN"}}
	s.SetSpec(t, spec)
	report := func(replicas int32) {
		t.Helper()
		_, err := s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{
			Target: servertest.Polled, Scale: &setpointv1.Scale{SpecReplicas: replicas},
			ExternalMetrics: []*setpointv1.ExternalMetric{
				{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "35"}, {Metric: &setpointv1.MetricIdentifier{Name: "mails"}, Value: "29"},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	report(2)
	first := wantPoll(t, s, 3)
	if a := first.GetAdjustments(); len(a) != 1 || a[0].GetMessage() != "MIN of External:queue 4, External:mails 3: 3; MAX would be 4" || first.GetPlainDesiredReplicas() != 4 {
		t.Errorf("told %v", first)
	}
	s.Clock.Advance(14 * time.Second)
	again := wantPoll(t, s, 3)
	if len(again.GetAdjustments()) != 1 || !proto.Equal(again.GetAdjustments()[0], first.GetAdjustments()[0]) || again.GetPlainDesiredReplicas() != 4 {
		t.Errorf("told again %v", again)
	}
	spec.Stages = nil
	s.SetSpec(t, spec)
	report(3)
	s.Clock.Advance(time.Second)
	if plain := wantPoll(t, s, 4); len(plain.GetAdjustments()) > 0 || plain.PlainDesiredReplicas != nil {
		t.Errorf("without stages told %v", plain)
	}
}
