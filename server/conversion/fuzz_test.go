package conversion_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
)

// seeds are requests of every kind.
func seeds(tb testing.TB) []*setpointv1.RecommendRequest {
	tb.Helper()
	var all []*setpointv1.RecommendRequest
	for _, text := range []string{
		`{}`,
		`{"scale": {"specReplicas": 3}, "explain": true}`,
		`{"spec": {"maxReplicas": 10}, "scale": {"specReplicas": 3}, "explain": true,
			"pods": [{"name": "a", "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "ready": {"status": "True", "lastTransitionTime": "2026-01-01T00:00:20Z"},
				"containers": [{"name": "app", "requests": {"cpu": "500m"}}], "initContainers": [{"name": "p", "restartable": true, "requests": {"cpu": "1"}}], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "3"}}],
			"podMetrics": [{"pod": "a", "timestamp": "2026-01-01T00:10:00Z", "windowSeconds": 30, "containers": [{"name": "app", "usage": {"cpu": "123456789n"}}]}]}`,
		`{"spec": {"minReplicas": 0, "maxReplicas": 2147483647, "metrics": [
				{"type": "ContainerResource", "containerResource": {"name": "memory", "container": "app", "target": {"type": "AverageValue", "averageValue": "1E"}}},
				{"type": "Pods", "pods": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": "1n"}}},
				{"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Namespace", "name": "x"}, "target": {"type": "Value", "value": "-1"}}},
				{"type": "External", "external": {"metric": {"name": "q", "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}, "target": {"type": "AverageValue", "averageValue": "0"}}},
				{"type": "Other"}],
				"behavior": {"scaleUp": {"policies": [{"type": "Percent", "value": 2147483647, "periodSeconds": -1}], "tolerance": "-5"}, "scaleDown": {"selectPolicy": "Disabled", "stabilizationWindowSeconds": -1}}},
			"scale": {"specReplicas": 2147483647, "statusReplicas": -2147483648, "selector": "a in ("}, "explain": true,
			"customMetrics": [{"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}}, "describedObject": {"kind": "Pod", "name": "a"}, "value": "9223372036854775807"}],
			"externalMetrics": [{"metric": {"name": "q"}, "labels": {"a": "b"}, "value": "9223372036854775807m"}, {"metric": {"name": "q"}, "labels": {"a": "b"}, "value": "9223372036854775807m"}],
			"options": {"tolerance": "0", "downscaleStabilization": "1s", "scaleToZero": true}, "requestId": "r",
			"previousStatus": {"lastScaleTime": "0001-01-01T00:00:00Z", "currentReplicas": -1, "conditions": [{"type": "ScaledToZero", "status": "True"}, {"type": "ScaledToZero"}], "currentMetrics": [{"type": "Resource"}, {}]}}`,
		`{"spec": {"maxReplicas": 1}, "scaleError": {"message": "m"}, "selectorProblem": {"reason": "AmbiguousSelector", "autoscalers": ["a/b"]}, "metricErrors": [{"metric": "cpu", "message": "m"}]}`,
	} {
		all = append(all, request(tb, text))
	}
	return all
}

// FuzzInput converts and decides any bytes as a request. Every readable request must be
// decided without a panic, even one that the API would refuse, and the contract's
// messages and the store must be able to represent the result.
func FuzzInput(f *testing.F) {
	for _, req := range seeds(f) {
		raw, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	now := time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, raw []byte) {
		req := &setpointv1.RecommendRequest{}
		if proto.Unmarshal(raw, req) != nil {
			return
		}
		before := proto.Clone(req)
		in, violations := conversion.Input(req, recommender.DefaultOptions())
		// NaN is not equal to itself.
		if !proto.Equal(req, before) && !strings.Contains(req.String(), "nan") {
			t.Errorf("the request was changed from %v to %v", before, req)
		}
		if len(violations) > 0 {
			for _, v := range violations {
				if v.Field == "" || v.Description == "" {
					t.Errorf("a violation says too little: %+v", v)
				}
			}
			return
		}
		in.ID = recommender.ID{1}
		decision, next := recommender.Recommend(now, in, nil)
		checkAnswer(t, &decision, &next)
		// Once more on the result, with the change applied and not.
		in.ID = recommender.ID{2}
		for _, replicas := range []int32{in.Scale.SpecReplicas, decision.Desired} {
			again := *in
			again.Scale.SpecReplicas = replicas
			second, after := recommender.Recommend(now.Add(15*time.Second), &again, &next)
			checkAnswer(t, &second, &after)
		}
	})
}

// checkAnswer fails the test unless decision and history can be sent and stored.
func checkAnswer(t *testing.T, decision *recommender.Decision, next *recommender.History) {
	t.Helper()
	response := conversion.Response(decision)
	if _, err := proto.Marshal(response); err != nil {
		t.Errorf("the answer can't be sent: %v", err)
	}
	explanation, err := conversion.EncodeExplanation(decision, 1<<10)
	if err != nil {
		t.Errorf("the explanation can't be kept: %v", err)
	}
	before := record.Record{History: *next}
	kept := before.WithAnswer(record.NewAnswer("r", decision, explanation), record.Limits{Retention: time.Minute, Count: 1, Bytes: 1 << 20})
	decoded, err := record.Decode(record.Append(nil, &kept))
	if err != nil {
		t.Fatalf("the history can't be read again: %v", err)
	}
	answer, err := conversion.Answer(decoded.AnswerFor("r"))
	if err != nil {
		t.Fatalf("the answer can't be given again: %v", err)
	}
	if !answer.GetExplanation().GetTruncated() && !proto.Equal(answer.GetExplanation(), response.GetExplanation()) {
		t.Errorf("the explanation is given again as %v, was %v", answer.GetExplanation(), response.GetExplanation())
	}
	response.Explanation, answer.Explanation = nil, nil
	if !proto.Equal(answer, response) {
		t.Errorf("the answer is given again as %v, was %v", answer, response)
	}
	target := conversion.Target("clusters/c/namespaces/n/targets/t", &decoded, true)
	if _, err := proto.Marshal(target); err != nil {
		t.Errorf("the target can't be sent: %v", err)
	}
	if got := conversion.Target(target.GetName(), &kept, true); !reflect.DeepEqual(got.GetHistory().String(), target.GetHistory().String()) {
		t.Errorf("the history is shown as %v, was %v", target.GetHistory(), got.GetHistory())
	}
}
