package integration

import (
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/store"
)

func number(n *int32) any {
	if n == nil {
		return nil
	}
	return *n
}

// What each contract's callers send is read as what they mean.
func TestRead(t *testing.T) {
	key := store.Key{Cluster: "demo", Namespace: "shop", Target: "polled"}
	for _, tt := range []struct {
		name, contract, body string
		current, least, most any
	}{
		{"WPA's", "datadog", file(t, "datadog-wpa.json"), int32(2), int32(1), int32(100)},
		{"the cluster agent's, before it has scaled", "datadog", file(t, "datadog-dpa.json"), int32(2), int32(0), int32(100)},
		{"the desired replicas are our last answer, which may not have been let through", "datadog",
			`{"targetRef":{"namespace":"shop","name":"polled"},"state":{"desiredReplicas":4,"currentReplicas":3}}`, int32(3), int32(0), nil},
		{"none at all", "datadog", `{"targetRef":{"namespace":"shop","name":"polled"},"state":{"currentReplicas":0}}`, int32(0), int32(0), nil},
		{"no state", "datadog", `{"targetRef":{"namespace":"shop","name":"polled"}}`, nil, int32(0), nil},
		{"Agones'", "agones", file(t, "agones.json"), int32(2), nil, nil},
		{"Agones' without a size", "agones", `{"request":{"namespace":"shop","name":"polled","status":{}}}`, nil, nil, nil},
		{"GPA's", "gpa", file(t, "gpa.json"), int32(2), nil, nil},
		{"GPA's with a target", "gpa", `{"request":{"namespace":"shop","name":"web","parameters":{"target":"polled"},"currentReplicas":0}}`, int32(0), nil, nil},
	} {
		q, violations := Contracts[tt.contract].Read("demo", []byte(tt.body))
		if len(violations) > 0 || q.Key != key || number(q.Current) != tt.current || number(q.Min) != tt.least || number(q.Max) != tt.most {
			t.Errorf("%s: read %v, of %v, %v to %v, %v", tt.name, q.Key, number(q.Current), number(q.Min), number(q.Max), violations)
		}
	}
}

// All errors are reported, with the names that the caller uses.
func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct {
		contract, cluster, body string
		fields                  string
	}{
		{"datadog", "-", `{"targetRef":{"namespace":"..","name":""}}`, "cluster targetRef.namespace targetRef.name"},
		{"datadog", "demo", `{"targetRef":{"namespace":"shop","name":"web"},"settings":{"target":"a/b"}}`, "settings.target"},
		{"datadog", "demo", `{"targetRef":{"namespace":"shop","name":"web"},"state":{"currentReplicas":-1,"desiredReplicas":-1},"constraints":{"minReplicas":-1,"maxReplicas":-1}}`,
			"state.currentReplicas state.desiredReplicas constraints.minReplicas constraints.maxReplicas"},
		{"datadog", "demo", `{"targetRef":7}`, "targetRef"},
		{"datadog", "demo", `{"targetRef":{"name":"a","name":"b"}}`, ""},
		{"agones", "a b", `{}`, "cluster request.namespace"},
		{"agones", "demo", `{"request":{"namespace":"shop","name":"%","status":{"replicas":-1}}}`, "request.name request.status.replicas"},
		{"agones", "demo", `{"request":{"namespace":"shop","name":"web","status":{"replicas":"1"}}}`, "request.status.replicas"},
		{"gpa", "demo", `{"request":{"namespace":"shop","name":"%","currentReplicas":-1}}`, "request.name request.currentReplicas"},
		{"gpa", "demo", `{"request":{"namespace":"shop","name":"web","parameters":{"target":""}}}`, "request.parameters.target"},
	} {
		_, violations := Contracts[tt.contract].Read(tt.cluster, []byte(tt.body))
		var fields []string
		for _, v := range violations {
			fields = append(fields, v.Field)
		}
		if strings.Join(fields, " ") != tt.fields || len(violations) == 0 {
			t.Errorf("%s: violations %v, want those of %s", tt.body, violations, tt.fields)
		}
	}
}

// How readings and reasons are formatted.
func TestDatadogsAnswer(t *testing.T) {
	value := func(v *setpointv1.MetricValueStatus) *setpointv1.MetricValueStatus { return v }
	metric := &setpointv1.MetricIdentifier{Name: "m"}
	r := &setpointv1.Recommendation{DesiredReplicas: 3, EvaluationTime: timestamppb.New(time.Unix(1, 5)), Status: &setpointv1.HorizontalPodAutoscalerStatus{
		CurrentMetrics: []*setpointv1.MetricStatus{
			{}, // could not be read
			{Resource: &setpointv1.ResourceMetricStatus{Name: "cpu", Current: value(&setpointv1.MetricValueStatus{AverageUtilization: proto.Int32(90), AverageValue: proto.String("450m")})}},
			{ContainerResource: &setpointv1.ContainerResourceMetricStatus{Name: "memory", Current: value(&setpointv1.MetricValueStatus{AverageValue: proto.String("1Ki")})}},
			{Pods: &setpointv1.PodsMetricStatus{Metric: metric, Current: value(&setpointv1.MetricValueStatus{AverageValue: proto.String("1500m")})}},
			{Object: &setpointv1.ObjectMetricStatus{Metric: metric, Current: value(&setpointv1.MetricValueStatus{Value: proto.String("7")})}},
			{External: &setpointv1.ExternalMetricStatus{Metric: metric, Current: value(&setpointv1.MetricValueStatus{Value: proto.String("none")})}},
		},
		Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "AbleToScale", Status: "True", Message: "able"}, {Type: "ScalingLimited", Status: "False", Message: "the desired count is within the acceptable range"}},
	}}
	const want = `{"timestamp":"1970-01-01T00:00:01.000000005Z","targetReplicas":3,"lowerBoundReplicas":3,"upperBoundReplicas":3,` +
		`"observedTargets":[{"type":"cpu","targetValue":0.9},{"type":"memory","targetValue":1024},{"type":"m","targetValue":1.5},{"type":"m","targetValue":7}],` +
		`"reason":"the desired count is within the acceptable range"}`
	if got, err := json.Marshal(datadog{}.Answer(Question{}, r)); err != nil || string(got) != want {
		t.Errorf("answered %s, %v, want %s", got, err, want)
	}
	r.DesiredReplicas, r.Reason = 0, "more"
	answer := datadog{}.Answer(Question{}, r).(workloadReply)
	if answer.TargetReplicas == nil || *answer.TargetReplicas != 0 || answer.LowerBoundReplicas == nil || answer.UpperBoundReplicas == nil || answer.Reason != "more" {
		t.Errorf("to zero: %+v", answer)
	}
}

// Why a count stays is the first condition that explains it: those on limits may be of an earlier decision.
func TestDatadogsReasonWhyACountStays(t *testing.T) {
	type condition = setpointv1.HorizontalPodAutoscalerCondition
	limited := &condition{Type: "ScalingLimited", Status: "True", Message: "increasing faster than the maximum scale rate"}
	inRange := &condition{Type: "ScalingLimited", Status: "False", Message: "in range"}
	able := &condition{Type: "AbleToScale", Status: "True", Reason: "ReadyForNewScale", Message: "able"}
	active := &condition{Type: "ScalingActive", Status: "True", Message: "active"}
	for _, tt := range []struct {
		conditions []*condition
		want       string
	}{
		{[]*condition{able, active, limited}, limited.Message},
		{[]*condition{able, active, inRange}, "in range"},
		{[]*condition{able, {Type: "ScalingActive", Status: "False", Reason: "ScalingDisabled", Message: "disabled"}, limited}, "disabled"},
		{[]*condition{{Type: "AbleToScale", Status: "False", Message: "no scale"}, active, limited}, "no scale"},
		{[]*condition{{Type: "AbleToScale", Status: "True", Reason: "ScaleDownStabilized", Message: "recent ones were higher"}, active, inRange}, "recent ones were higher"},
		{[]*condition{able, active, limited, {Type: "Overridden", Status: "True", Message: "held by ann"}}, "held by ann"},
		{[]*condition{able, active, inRange, {Type: "Overridden", Status: "False", Message: "allowed"}}, "in range"},
		{nil, ""},
	} {
		if got := reason(&setpointv1.Recommendation{Status: &setpointv1.HorizontalPodAutoscalerStatus{Conditions: tt.conditions}}); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.conditions, got, tt.want)
		}
	}
}

// A webhook's response repeats the caller's id, and an error keeps the caller's count.
func TestReviews(t *testing.T) {
	n := int32(4)
	q := Question{uid: "u", Current: &n}
	for _, name := range []string{"agones", "gpa"} {
		c := Contracts[name]
		got, _ := json.Marshal(c.Answer(q, &setpointv1.Recommendation{DesiredReplicas: 7}))
		if string(got) != `{"response":{"uid":"u","scale":true,"replicas":7}}` {
			t.Errorf("answered %s", got)
		}
		for _, tt := range []struct {
			q    *Question
			want string
		}{
			{&q, `{"response":{"uid":"u","scale":false,"replicas":4},"error":"away"}`},
			{&Question{uid: "u"}, `{"response":{"uid":"u","scale":false,"replicas":0},"error":"away"}`},
			{nil, `{"response":{"uid":"","scale":false,"replicas":0},"error":"away"}`},
		} {
			code, body := c.Refuse(tt.q, Problem{Status: http.StatusServiceUnavailable, Message: "away"})
			if got, _ := json.Marshal(body); code != http.StatusServiceUnavailable || string(got) != tt.want {
				t.Errorf("refused with %d %s", code, got)
			}
		}
	}
}

// Of Datadog's errors those about the target come as replies, and others with their code.
func TestDatadogsErrors(t *testing.T) {
	for _, tt := range []struct {
		status int
		asked  bool
		want   int
	}{
		{http.StatusNotFound, true, http.StatusOK}, {http.StatusBadRequest, true, http.StatusOK},
		{http.StatusNotFound, false, http.StatusNotFound}, {http.StatusBadRequest, false, http.StatusBadRequest},
		{http.StatusForbidden, true, http.StatusForbidden}, {http.StatusServiceUnavailable, true, http.StatusServiceUnavailable},
		{http.StatusTooManyRequests, true, http.StatusTooManyRequests},
	} {
		var q *Question
		if tt.asked {
			q = &Question{}
		}
		code, body := datadog{}.Refuse(q, Problem{Status: tt.status, Code: 5, Message: "why"})
		if got, _ := json.Marshal(body); code != tt.want || string(got) != `{"error":{"code":5,"message":"why"}}` {
			t.Errorf("%+v: refused with %d %s", tt, code, got)
		}
	}
}

func file(t testing.TB, name string) string {
	t.Helper()
	return testpages.Read(t, filepath.Join("testdata", name))
}

// No body names a target that is none, and none has an error that is longer than it by much.
func FuzzRead(f *testing.F) {
	for i, name := range []string{"datadog-wpa.json", "agones.json", "gpa.json", "datadog-dpa.json"} {
		f.Add(uint8(i), []byte(file(f, name)))
	}
	f.Add(uint8(0), []byte(`{"targetRef":{"namespace":"shop","name":"polled"},"settings":{"target":"x"},"constraints":{"minReplicas":-1}}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		contract := Contracts[[]string{"datadog", "agones", "gpa"}[which%3]]
		q, violations := contract.Read("demo", body)
		if len(violations) == 0 {
			if q.Key.Cluster != "demo" || q.Key.Namespace == "" || q.Key.Target == "" || strings.ContainsAny(q.Key.Namespace+q.Key.Target, "/ %\\") {
				t.Errorf("read %+v", q)
			}
			for _, n := range []*int32{q.Current, q.Min, q.Max} {
				if n != nil && *n < 0 {
					t.Errorf("read %d replicas", *n)
				}
			}
		}
		code, answer := contract.Refuse(&q, Problem{Status: http.StatusServiceUnavailable, Code: 14, Message: "away"})
		text, err := json.Marshal(answer)
		if code != http.StatusServiceUnavailable || err != nil || len(text) > 6*len(body)+math.MaxInt8 {
			t.Errorf("refused with %d %v: %s", code, err, text)
		}
	})
}
