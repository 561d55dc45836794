package restjson_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// request is a good body with the given number of pods. Quantities are written
// by cpu, a JSON string or number.
func request(pods int, cpu string) []byte {
	var states, metrics []string
	for i := range pods {
		states = append(states, fmt.Sprintf(`{"name": "web-%d", "phase": "Running", "startTime": "2026-01-01T00:00:00Z",
			"ready": {"status": "True", "lastTransitionTime": "2026-01-01T00:00:20Z"},
			"containers": [{"name": "app", "requests": {"cpu": %s, "memory": "256Mi"}}]}`, i, cpu))
		metrics = append(metrics, fmt.Sprintf(`{"pod": "web-%d", "timestamp": "2026-01-01T00:10:00Z", "windowSeconds": 30,
			"containers": [{"name": "app", "usage": {"cpu": %s, "memory": "210Mi"}}]}`, i, cpu))
	}
	return fmt.Appendf(nil, `{
		"spec": {
			"minReplicas": 2, "maxReplicas": 20,
			"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}],
			"behavior": {"scaleDown": {"stabilizationWindowSeconds": 120, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}
		},
		"scale": {"specReplicas": %d, "statusReplicas": %d},
		"pods": [%s],
		"podMetrics": [%s],
		"requestId": "2f1c", "explain": true
	}`, pods, pods, strings.Join(states, ","), strings.Join(metrics, ","))
}

// decoded is protojson's result for text.
func decoded(t *testing.T, text string, msg proto.Message) proto.Message {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), msg); err != nil {
		t.Fatalf("protojson refuses %s: %v", text, err)
	}
	return msg
}

// violations decodes text into msg and returns what the error lists, as
// "field: description".
func violations(t *testing.T, text string, msg proto.Message) []string {
	t.Helper()
	err := restjson.Unmarshal([]byte(text), msg)
	if err == nil {
		return nil
	}
	invalid, ok := err.(*restjson.Error)
	if !ok {
		t.Fatalf("error is a %T, want *restjson.Error", err)
	}
	if proto.Size(msg) != 0 {
		t.Errorf("message is not empty after an error: %v", msg)
	}
	var list []string
	for _, v := range invalid.Violations {
		list = append(list, v.String())
	}
	return list
}

func recommendRequest() proto.Message { return &setpointv1.RecommendRequest{} }
