package conversion_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/stages"
)

func TestFailuresAreRead(t *testing.T) {
	plan, violations := stagesOf(t, `{
		"freshness": {"maxSampleAge": "60s"},
		"fallbacks": [
			{"metric": "External:queue", "replicas": 10},
			{"metric": "Resource:cpu", "failureDuration": "0s", "lastGood": {"maxAge": "600s"}, "direction": "UP_ONLY"},
			{"metric": "External:latency", "failureDuration": "60s", "ignore": true, "direction": "BOTH"}],
		"zeroGuards": [{"metric": "External:queue"}, {"metric": "External:latency", "dropPercent": 50, "confirm": "90s"}],
		"windowThroughFailures": true}`, threeMetrics())
	want := &stages.Plan{
		Freshness: &stages.Freshness{MaxAge: time.Minute, FutureTolerance: 10 * time.Second},
		Fallbacks: []stages.Fallback{
			{Metric: 0, After: 3 * time.Minute, Replicas: 10},
			{Metric: 1, LastGood: 10 * time.Minute, UpOnly: true},
			{Metric: 2, After: time.Minute},
		},
		ZeroGuards: []stages.ZeroGuard{
			{Metric: 0, DropPercent: 100, Confirm: 5 * time.Minute},
			{Metric: 2, DropPercent: 50, Confirm: 90 * time.Second},
		},
		WindowThroughFailures: true, Metrics: []string{"External:queue", "Resource:cpu", "External:latency"},
	}
	if len(violations) > 0 || !reflect.DeepEqual(plan, want) {
		t.Errorf("%+v, want %+v; %v", plan, want, violations)
	}
	if plan, _ := stagesOf(t, `{"freshness": {"maxSampleAge": "60s", "futureTolerance": "0s"}}`, threeMetrics()); plan.Freshness.FutureTolerance != 0 {
		t.Errorf("a tolerance of 0 counts as %s", plan.Freshness.FutureTolerance)
	}
}

func TestFailuresAreRefused(t *testing.T) {
	twice := threeMetrics()
	twice.Spec.Metrics[2] = twice.Spec.Metrics[0]
	for _, c := range []struct {
		name, text string
		in         *recommender.Input
		want       []string
	}{
		{"no such metric", `{"fallbacks": [{"metric": "queue", "replicas": 1}], "zeroGuards": [{"metric": "External:Queue"}]}`, nil, []string{
			`stages.fallbacks[0].metric: Invalid value: "queue": the spec has no such metric: it has External:queue, Resource:cpu, External:latency`,
			`stages.zeroGuards[0].metric: Invalid value: "External:Queue": the spec has no such metric: it has External:queue, Resource:cpu, External:latency`}},
		{"several of that name", `{"fallbacks": [{"metric": "External:queue", "replicas": 1}]}`, twice, []string{
			`stages.fallbacks[0].metric: Invalid value: "External:queue": the spec has several metrics of that name`}},
		{"twice", `{"fallbacks": [{"metric": "External:queue", "replicas": 1}, {"metric": "External:queue", "ignore": true}],
			"zeroGuards": [{"metric": "External:queue"}, {"metric": "External:queue"}]}`, nil, []string{
			`stages.fallbacks[1].metric: Duplicate value: "External:queue"`,
			`stages.zeroGuards[1].metric: Duplicate value: "External:queue"`}},
		{"none of three", `{"fallbacks": [{"metric": "External:queue"}]}`, nil, []string{
			`stages.fallbacks[0]: Required value: must set one of replicas, lastGood and ignore`}},
		{"several of three", `{"fallbacks": [{"metric": "External:queue", "replicas": 1, "lastGood": {"maxAge": "60s"}}, {"metric": "External:latency", "replicas": 0, "ignore": true}]}`, nil, []string{
			`stages.fallbacks[0]: Invalid value: must set only one of replicas, lastGood and ignore`,
			`stages.fallbacks[1]: Invalid value: must set only one of replicas, lastGood and ignore`}},
		{"a direction of nothing", `{"fallbacks": [{"metric": "External:queue", "ignore": true, "direction": "UP_ONLY"}]}`, nil, []string{
			`stages.fallbacks[0].direction: Forbidden: an ignored metric proposes nothing`}},
		{"a small drop", `{"zeroGuards": [{"metric": "External:queue", "dropPercent": 49}]}`, nil, []string{
			`stages.zeroGuards[0].dropPercent: Invalid value: 49: must be between 50 and 100, or 0 for 100`}},
		{"a guard of pods", `{"zeroGuards": [{"metric": "Resource:cpu"}]}`, nil, []string{
			`stages.zeroGuards[0].metric: Invalid value: "Resource:cpu": must be an Object or External metric`}},
		{"absurd", `{"freshness": {}, "fallbacks": [{}, {"metric": "External:queue", "replicas": -5, "failureDuration": "-315576000000s", "direction": "?"}, {"metric": "External:latency", "lastGood": {}}],
			"zeroGuards": [{"metric": "External:queue", "dropPercent": -2147483648, "confirm": "-1s"}]}`, nil, []string{
			`stages.fallbacks[0].metric: Invalid value: "": the spec has no such metric: it has External:queue, Resource:cpu, External:latency`,
			`stages.fallbacks[0]: Required value: must set one of replicas, lastGood and ignore`}},
	} {
		in := c.in
		if in == nil {
			in = threeMetrics()
		}
		if _, got := stagesOf(t, c.text, in); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
	// Nil elements, as a client of the Go API can send them.
	conversion.Around(&setpointv1.RecommendRequest{Stages: &setpointv1.Stages{
		Fallbacks: []*setpointv1.MetricFallback{nil}, ZeroGuards: []*setpointv1.ZeroGuard{nil},
	}}, threeMetrics(), time.Time{})
}

// Instants of values are read where a stage asks for them, beside their values.
func TestInstantsOfValues(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	req := &setpointv1.RecommendRequest{}
	fatal.If(t, protojson.Unmarshal([]byte(`{"target": "clusters/c/namespaces/n/targets/t", "scale": {},
		"spec": {"maxReplicas": 9, "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}}}]},
		"externalMetrics": [{"metric": {"name": "queue"}, "value": "3"}, {"metric": {"name": "queue"}, "value": "4"}]}`), req))
	req.ExternalMetrics[1].Timestamp = timestamppb.New(at)
	in, violations := conversion.Input(req, recommender.DefaultOptions())
	if len(violations) > 0 || in.Readings[0].Taken != nil {
		t.Errorf("nobody asks: %v, %v", in.Readings[0].Taken, violations)
	}
	req.Stages = &setpointv1.Stages{Freshness: &setpointv1.Freshness{MaxSampleAge: durationpb.New(time.Minute)}}
	in, _ = conversion.Input(req, recommender.DefaultOptions())
	if got := in.Readings[0].Taken; len(got) != 2 || !got[0].IsZero() || !got[1].Equal(at) {
		t.Errorf("instants %v", got)
	}
}
