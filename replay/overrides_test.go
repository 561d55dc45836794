package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

const queueSpec = `{"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 20, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
	"metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]}`

// overriddenRun is a recording of a service whose target has stages and, one after the other, overrides: a hold, a
// pin, a ceiling below the recommendation, and one that changes nothing.
func overriddenRun(t *testing.T) *recording.Scenario {
	t.Helper()
	conn := servertest.Start(t, func(s *servertest.Setup) { s.Options.Clock = time.Now }).Conn
	recommendations, overrides := setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewOverrideServiceClient(conn)
	const name = "clusters/demo/namespaces/shop/targets/web"
	steps := []struct {
		queue    string
		override *setpointv1.Override
	}{
		{"60", nil}, {"120", &setpointv1.Override{Hold: true}}, {"160", &setpointv1.Override{Hold: true}}, {"160", nil},
		{"160", &setpointv1.Override{Pin: new(int32(5))}}, {"fails", &setpointv1.Override{Pin: new(int32(5))}}, {"fails", nil}, {"160", &setpointv1.Override{Ceiling: new(int32(9))}},
		{"90", &setpointv1.Override{Floor: new(int32(3))}}, {"90", nil}, {"40", &setpointv1.Override{NoScaleDown: true}}, {"40", nil}, {"40", nil},
	}
	start, replicas := time.Now().UTC().Truncate(time.Second), int32(6)
	out := recording.Scenario{Name: "overridden"}
	for i, s := range steps {
		created := ""
		if s.override != nil {
			s.override.Reason, s.override.ExpireTime = fmt.Sprintf("step %d", i), timestamppb.New(start.Add(time.Hour))
			o, err := overrides.CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: name, OverrideId: fmt.Sprintf("o%d", i), Override: s.override})
			fatal.If(t, err)
			created = o.GetOverride().GetName()
		}
		req := &setpointv1.RecommendRequest{Target: name, Scale: &setpointv1.Scale{SpecReplicas: replicas}, Stages: &setpointv1.Stages{
			WindowThroughFailures: true, Fallbacks: []*setpointv1.MetricFallback{{Metric: "External:queue", Replicas: new(int32(7)), FailureDuration: durationpb.New(0)}},
		}}
		req.Spec = &setpointv1.HorizontalPodAutoscalerSpec{}
		fatal.If(t, protojson.Unmarshal([]byte(queueSpec), req.Spec))
		if s.queue == "fails" {
			req.MetricErrors = []*setpointv1.MetricError{{Metric: "queue", Message: "away"}}
		} else {
			req.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: s.queue}}
		}
		call := recording.Call{Time: start.Add(time.Duration(i) * time.Minute), Request: message(t, req)}
		req.EvaluationTime = timestamppb.New(call.Time)
		answer, err := recommendations.Recommend(t.Context(), req)
		fatal.If(t, err)
		call.Answer = message(t, answer)
		if replicas != answer.GetDesiredReplicas() {
			report, err := recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: name, RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"})
			fatal.If(t, err)
			replicas, call.Report = answer.GetDesiredReplicas(), message(t, report)
		}
		out.Calls = append(out.Calls, call)
		if created != "" {
			if _, err := overrides.DeleteOverride(t.Context(), &setpointv1.DeleteOverrideRequest{Name: created}); err != nil {
				t.Fatal(err)
			}
		}
	}
	line, err := json.Marshal(&out)
	fatal.If(t, err)
	for scenario, err := range recording.NewReader("overridden", bytes.NewReader(append(line, '\n'))).All() {
		fatal.If(t, err)
		return scenario
	}
	return nil
}

// A recording replays with the overrides that were in force, as it tells of them, and they go when they went.
func TestARecordingReplaysWithItsOverrides(t *testing.T) {
	t.Parallel()
	scenario := overriddenRun(t)
	var counts []int32
	err := NewRunner(NewEngine(), Options{}).Run(t.Context(), scenario, func(s *Step) error {
		counts = append(counts, s.Response.GetDesiredReplicas())
		if !s.Compared || len(s.Differences) > 0 {
			t.Errorf("step %d: %v", s.Index+1, s.Differences)
		}
		return nil
	})
	fatal.If(t, err)
	if want := []int32{6, 6, 6, 12, 5, 5, 7, 9, 9, 9, 9, 4, 4}; fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("%d, want %d", counts, want)
	}
	if err := NewRunner(NewServer(servertest.Start(t, func(s *servertest.Setup) { s.Options.Clock = time.Now }).Conn), Options{}).Run(t.Context(), scenario, func(*Step) error { return nil }); !errors.Is(err, ErrOverridden) {
		t.Errorf("on a server: %v", err)
	}
}

// Another spec is back-tested with its own stages and with the overrides of the recording; without stages in
// place of the recording's it has none.
func TestABacktestHasStagesAndOverrides(t *testing.T) {
	t.Parallel()
	scenario := overriddenRun(t)
	spec := &autoscalingv2.HorizontalPodAutoscalerSpec{}
	fatal.If(t, json.Unmarshal([]byte(queueSpec), spec))
	stages := &setpointv1.Stages{Fallbacks: []*setpointv1.MetricFallback{{Metric: "External:queue", Replicas: new(int32(11)), FailureDuration: durationpb.New(0)}}}
	for _, tt := range []struct {
		name   string
		stages *setpointv1.Stages
		want   []int32 // of the steps from the pin to the ceiling
	}{
		{"other stages", stages, []int32{5, 5, 10, 9}},
		{"none", nil, []int32{5, 5, 5, 9}},
	} {
		got, err := RunBacktest(t.Context(), scenario, &Question{Spec: spec, Stages: tt.stages})
		if err != nil || got.Mismatched != 0 || got.Compared != len(scenario.Steps) {
			t.Fatalf("%s: %+v, %v", tt.name, got, err)
		}
		var counts []int32
		err = NewRunner(NewEngine(), Options{Spec: spec, Stages: tt.stages}).Run(t.Context(), scenario, func(s *Step) error {
			counts = append(counts, s.Response.GetDesiredReplicas())
			return nil
		})
		if err != nil || fmt.Sprint(counts[4:8]) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %d, want %d; %v", tt.name, counts[4:8], tt.want, err)
		}
		changed := false
		for _, c := range got.ClosedLoop.Changes {
			changed = changed || c.To == tt.want[2]
		}
		if !changed && tt.stages != nil {
			t.Errorf("%s: the closed loop never has %d: %+v", tt.name, tt.want[2], got.ClosedLoop.Changes)
		}
	}
}
