package stored_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
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
		fatal.If(t, err)
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
	if bounded := wantPoll(t, s, 2, func(r *setpointv1.GetRecommendationRequest) { r.MaxReplicas = proto.Int32(2) }); bounded.GetPlainDesiredReplicas() != 2 {
		t.Errorf("within a poller's bounds told %v", bounded)
	}
	spec.Stages = nil
	s.SetSpec(t, spec)
	report(3)
	s.Clock.Advance(time.Second)
	if plain := wantPoll(t, s, 4); len(plain.GetAdjustments()) > 0 || plain.PlainDesiredReplicas != nil {
		t.Errorf("without stages told %v", plain)
	}
}

// An override that holds the count answers polls while no metric can be read, as one that moves it does; without
// it, and with one that does nothing, there is no count.
func TestAHoldAnswersPollsWithoutMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		override func(*setpointv1.Override)
		want     int32 // 0: none
	}{
		"no override":    {nil, 0},
		"a hold":         {func(o *setpointv1.Override) { o.Hold = true }, 4},
		"a pin there":    {func(o *setpointv1.Override) { o.Pin = proto.Int32(4) }, 4},
		"a pin":          {func(o *setpointv1.Override) { o.Pin = proto.Int32(6) }, 6},
		"no scale-down":  {func(o *setpointv1.Override) { o.NoScaleDown = true }, 0},
		"a floor below":  {func(o *setpointv1.Override) { o.Floor = proto.Int32(2) }, 0},
		"contradictions": {func(o *setpointv1.Override) { o.Floor, o.Ceiling = proto.Int32(6), proto.Int32(5) }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := servertest.Start(t)
			s.SetSpec(t, servertest.QueueSpec(1, 100))
			s.Observe(t, 4, "")
			parent, id := servertest.Polled, "freeze"
			if name == "contradictions" {
				one := &setpointv1.Override{Floor: proto.Int32(6), Reason: "test", ExpireTime: timestamppb.New(servertest.T0.Add(time.Hour))}
				if _, err := setpointv1.NewOverrideServiceClient(s.Conn).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: parent, OverrideId: "floor", Override: one}); err != nil {
					t.Fatal(err)
				}
				c.override = func(o *setpointv1.Override) { o.Ceiling = proto.Int32(5) }
			}
			if c.override != nil {
				o := &setpointv1.Override{Reason: "test", ExpireTime: timestamppb.New(servertest.T0.Add(time.Hour))}
				c.override(o)
				if _, err := setpointv1.NewOverrideServiceClient(s.Conn).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: parent, OverrideId: id, Override: o}); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // decided, and told again
				if c.want > 0 {
					wantPoll(t, s, c.want)
					bounded := c.want // an override keeps it, whatever a poller's bounds
					if bounded > 4 {
						bounded = 3
					}
					wantPoll(t, s, bounded, func(r *setpointv1.GetRecommendationRequest) { r.MaxReplicas = proto.Int32(3) })
				} else if got, err := poll(t, s); err == nil {
					t.Errorf("recommended %v", got)
				}
			}
		})
	}
}
