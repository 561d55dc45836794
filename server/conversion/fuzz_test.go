package conversion_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/validation"
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
		fatal.If(f, err)
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

// FuzzStages reads any bytes as the stages and proposals of a request, decides within them, and again on what they
// keep. Whatever they are: no panic, not more violations than a list may have entries, each with the path of what is
// wrong, and time in proportion to the bytes.
func FuzzStages(f *testing.F) {
	for _, text := range []string{
		`{"stages": {"schedules": [{"name": "a", "timeZone": "Europe/Berlin", "cron": "0 8 * * 1-5", "duration": "43200s", "minReplicas": 4, "rampUp": "1800s", "rampDown": "600s"},
			{"name": "b", "timeZone": "Pacific/Apia", "cron": "* * 29 2 *", "endCron": "5 * * * *", "maxReplicas": 3, "maxPace": "AT_ONCE"},
			{"name": "c", "timeZone": "../UTC", "cron": "0 0 30 2 *", "duration": "60s"}, {"at": "2026-01-01T00:00:00Z", "timeZone": "UTC", "duration": "3600s", "minReplicas": 3}]}}`,
		`{"stages": {"fallbacks": [{"metric": "External:queue", "replicas": 9}, {"metric": "Resource:cpu", "lastGood": {"maxAge": "60s"}, "direction": "UP_ONLY"}],
			"zeroGuards": [{"metric": "External:queue", "dropPercent": 60, "confirm": "60s"}], "freshness": {"maxSampleAge": "60s"}, "windowThroughFailures": true,
			"forecast": {"timeZone": "Europe/Berlin", "mode": "FLOOR", "lead": "600s"}, "guards": {"ignoreSurge": true, "reversals": {"count": 3, "period": "3600s"}}}}`,
		`{"stages": {"combine": {"method": "WEIGHTED", "weights": {"External:queue": "NaN", "Resource:cpu": "9999999.999999999"}}, "idle": {"activation": {"External:queue": "1e99"}, "cooldown": "60s"}},
			"proposals": [{"name": "p", "replicas": 2147483647, "role": "VOTER", "expireTime": "2026-01-01T00:30:00Z"}, {"role": "CAP", "expireTime": "2026-01-01T00:11:00Z"}]}`,
		`{"stages": {"combine": {"method": "QUORUM", "quorum": 2}}}`, `{"stages": {"combine": {"method": "SUM"}}}`,
	} {
		raw, err := proto.Marshal(request(f, text))
		fatal.If(f, err)
		f.Add(raw, []byte{1, 2, 3}, int32(3), "55", int64(0))
	}
	start := time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, raw, kept []byte, replicas int32, value string, later int64) {
		staged := &setpointv1.RecommendRequest{}
		if proto.Unmarshal(raw, staged) != nil {
			return
		}
		req := request(t, `{"spec": {"minReplicas": 1, "maxReplicas": 20, "metrics": [
			{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
			{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}}}]},
			"externalMetrics": [{"metric": {"name": "queue"}}], "scale": {}}`)
		req.Stages, req.Proposals = staged.GetStages(), staged.GetProposals()
		req.Scale.SpecReplicas, req.ExternalMetrics[0].Value = replicas, value
		in, unreadable := conversion.Input(req, recommender.DefaultOptions())
		if len(unreadable) > 0 {
			return
		}
		began := time.Now()
		around, violations := conversion.Around(req, in, start)
		// Four lists of at most 64, and what is wrong with one of them has a few fields.
		if most := 8 * 4 * 64; len(violations) > most {
			t.Errorf("%d violations, want at most %d", len(violations), most)
		}
		for _, v := range violations {
			if !strings.HasPrefix(v.Field, "stages") && !strings.HasPrefix(v.Field, "proposals[") || v.Description == "" || len(v.String()) > 4096 {
				t.Errorf("a violation says too little, or too much: %+v", v)
			}
		}
		// As the service does, which decides only where all is well.
		if len(violations) == 0 && len(validation.Structure(&setpointv1.RecommendRequest{Target: "clusters/c/namespaces/n/targets/t", Stages: req.GetStages(), Proposals: req.GetProposals()})) == 0 {
			var history *recommender.History
			for i, at := range []time.Time{start, start.Add(15 * time.Second), start.Add(time.Duration(later))} {
				in.ID = recommender.ID{byte(i + 1)}
				decision, next, more := around.RecommendIn(nil, at, in, history, kept)
				checkAnswer(t, &decision, &next)
				if low, high := min(in.Scale.SpecReplicas, in.Spec.MinReplicas), max(in.Scale.SpecReplicas, in.Spec.MaxReplicas); decision.Desired < low || decision.Desired > high {
					t.Errorf("%d replicas are outside of %d to %d", decision.Desired, low, high)
				}
				history, kept = &next, more
			}
		}
		if took, most := time.Since(began), 5*time.Second+time.Duration(len(raw))*time.Millisecond; took > most {
			t.Errorf("%d bytes took %s, want at most %s", len(raw), took, most)
		}
	})
}
