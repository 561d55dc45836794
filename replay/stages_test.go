package replay_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/replay"
)

// The engine decides with the stages of a request, and keeps what they remember.
func TestTheEngineKnowsStages(t *testing.T) {
	engine := replay.NewEngine()
	ask := func(after time.Duration, replicas int32, queue, stages string) (*setpointv1.RecommendResponse, error) {
		req := &setpointv1.RecommendRequest{}
		text := `{"target": "clusters/c/namespaces/n/targets/t", "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 20,
			"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
			"metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]},
			"externalMetrics": [{"metric": {"name": "queue"}, "value": "` + queue + `"}], "stages": ` + stages + `}`
		fatal.If(t, protojson.Unmarshal([]byte(text), req))
		req.Scale = &setpointv1.Scale{SpecReplicas: replicas}
		req.EvaluationTime = timestamppb.New(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).Add(after))
		return engine.Recommend(t.Context(), req)
	}
	const budget = `{"guards": {"reversals": {"count": 1, "period": "3600s"}}}`
	count := int32(10)
	for i, want := range []int32{14, 10, 14, 14} {
		queue := []string{"140", "100"}[i%2]
		resp, err := ask(time.Duration(i)*time.Minute, count, queue, budget)
		fatal.If(t, err)
		if count = resp.GetDesiredReplicas(); count != want || resp.PlainDesiredReplicas == nil {
			t.Fatalf("step %d: %v, want %d", i, resp, want)
		}
	}
	if _, err := ask(time.Hour, 14, "140", `{"guards": {"reversals": {"count": 99, "period": "3600s"}}}`); err == nil || !strings.Contains(err.Error(), "stages.guards.reversals.count") {
		t.Errorf("a budget of 99: %v", err)
	}
}
