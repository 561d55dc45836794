package wire_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording/recordingtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// checkAnswer encodes a decision on both paths, in every message that it comes in. The
// bytes are the same. It reports whether the fast path did it.
func checkAnswer(t *testing.T, d *recommender.Decision, requestID string) bool {
	t.Helper()
	response := conversion.Response(d)
	if requestID != "" {
		response.RequestId = new(requestID)
	}
	results := &setpointv1.BatchRecommendResponse{Results: []*setpointv1.BatchRecommendResult{
		{Result: &setpointv1.BatchRecommendResult_Error{Error: &status.Status{Code: 3}}},
		{Result: &setpointv1.BatchRecommendResult_Response{Response: response}},
	}}
	answer := &setpointv1.StreamRecommendResponse{Id: "s-1", Result: &setpointv1.StreamRecommendResponse_Response{Response: response}}
	before := wire.AppendBatchError(nil, encode(t, &status.Status{Code: 3}))
	ok := true
	for _, tt := range []struct {
		want   proto.Message
		before []byte
		append func([]byte) ([]byte, bool)
	}{
		{response, nil, func(b []byte) ([]byte, bool) { return wire.AppendResponse(b, d, requestID) }},
		{results, before, func(b []byte) ([]byte, bool) { return wire.AppendBatchDecision(b, d, requestID) }},
		{answer, nil, func(b []byte) ([]byte, bool) { return wire.AppendStreamDecision(b, "s-1", d, requestID) }},
	} {
		got, taken := tt.append(bytes.Clone(tt.before))
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(tt.want)
		switch {
		case !taken:
			ok = false
			if !bytes.Equal(got, tt.before) {
				t.Fatalf("something was written although it was not taken: %q", got)
			}
		case err != nil:
			t.Fatalf("the fast path encodes it, the slow path does not: %v", err)
		case !bytes.Equal(got, want):
			other := tt.want.ProtoReflect().New().Interface()
			err := proto.Unmarshal(got, other)
			t.Fatalf("encoded as %s\n(%v)\nwant %s", prototext.Format(other), err, prototext.Format(tt.want))
		}
	}
	return ok
}

// What is decided on recorded and on made requests is encoded as the slow path does.
func TestAnswersAreThoseOfTheLongWay(t *testing.T) {
	t.Parallel()
	r := maker{newRandom(11)}
	var history *recommender.History
	for i := range 2000 {
		in, violations := conversion.Input(r.request(), defaults)
		if len(violations) > 0 {
			t.Fatal(violations)
		}
		in.ID = recommender.ID{byte(i), byte(i >> 8), 1}
		if i%7 == 0 {
			in.ID = recommender.ID{}
		}
		decision, next := recommender.Recommend(t0.Add(time.Duration(i)*time.Second), in, history)
		requestID := ""
		if i%3 == 0 {
			requestID = strings.Repeat("r", i%200)
		}
		if !checkAnswer(t, &decision, requestID) {
			t.Fatalf("not encoded: %+v", decision)
		}
		history = &next
		if i%10 == 0 {
			history = nil
		}
	}
}

func TestAnswersToRecordedRequests(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	answers := 0
	for scenario := range recordingtest.Scenarios(t, "../../clients/kubernetes/recording/testdata/curated.jsonl.gz") {
		player := recording.NewPlayer(scenario)
		var history *recommender.History
		for i := range scenario.Steps {
			req, err := player.Request(&scenario.Steps[i], "replay")
			fatal.If(t, err)
			in, violations := conversion.Input(req, defaults)
			if req == nil || len(violations) > 0 {
				continue
			}
			in.Explain = i%2 == 0
			decision, next := recommender.Recommend(scenario.Steps[i].Time, in, history)
			history = &next
			if !checkAnswer(t, &decision, "") {
				t.Fatalf("not encoded: %+v", decision)
			}
			answers++
		}
	}
	if answers < 1500 {
		t.Errorf("only %d answers", answers)
	}
}

// anyDecision is a decision such as no request leads to.
func anyDecision(r *rand.Rand, texts ...string) *recommender.Decision {
	text := func() string { return oneOf(r, texts...) }
	number := func() int64 { return oneOf(r, edges...) }
	instant := func() time.Time {
		return oneOf(r, time.Time{}, t0, time.Unix(0, 0), time.Unix(number()>>8, 7), time.Unix(-5, 999_999_999))
	}
	d := &recommender.Decision{
		At: instant(), Current: int32(number()), Desired: int32(number()), Reason: text(), Error: text(),
		Status: recommender.Status{LastScaleTime: instant(), CurrentReplicas: int32(number()), DesiredReplicas: int32(number())},
	}
	if chance(r, 80) {
		d.ID = recommender.ID{byte(r.IntN(256)), 15: byte(1 + r.IntN(255))}
	}
	if chance(r, 50) {
		d.Status.ObservedGeneration = new(number())
	}
	for range r.IntN(4) {
		d.Events = append(d.Events, recommender.Event{Type: text(), Reason: text(), Message: text()})
		d.Status.Conditions = append(d.Status.Conditions, recommender.Condition{Type: text(), Status: text(), Reason: text(), Message: text(), LastTransitionTime: instant()})
		m := recommender.MetricStatus{
			Type:     oneOf(r, "", recommender.ResourceMetric, recommender.ContainerResourceMetric, recommender.PodsMetric, recommender.ObjectMetric, recommender.ExternalMetric, "Other"),
			Resource: text(), Container: text(), Metric: recommender.MetricIdentifier{Name: text()},
			DescribedObject: recommender.ObjectReference{Kind: oneOf(r, text(), "Target", ""), Name: text(), APIVersion: oneOf(r, text(), "")},
			Current: recommender.MetricValue{
				Value: number(), AverageValue: number(), AverageUtilization: int32(number()), Binary: chance(r, 30),
				HasValue: chance(r, 50), HasAverageValue: chance(r, 50), HasAverageUtilization: chance(r, 50),
			},
		}
		if chance(r, 50) {
			m.Metric.Selector = &recommender.LabelSelector{}
			for range r.IntN(3) {
				m.Metric.Selector.MatchLabels = append(m.Metric.Selector.MatchLabels, recommender.Label{Key: text(), Value: text()})
				m.Metric.Selector.MatchExpressions = append(m.Metric.Selector.MatchExpressions,
					recommender.LabelRequirement{Key: text(), Operator: text(), Values: oneOf(r, nil, []string{}, []string{text(), text()})})
			}
		}
		d.Status.CurrentMetrics = append(d.Status.CurrentMetrics, m)
	}
	return d
}

func TestAnyDecisionIsEncodedAsTheLongWayDoes(t *testing.T) {
	t.Parallel()
	r := newRandom(12)
	encoded := 0
	texts := []string{"", "a", "b", "é", "a longer text, of more than a few words, so that the length of what it is in takes two bytes, as lengths from 128 on do"}
	for i := range 4000 {
		if i%50 == 0 {
			texts = append(texts[:5], strings.Repeat("x", 1+r.IntN(20000)))
		}
		words := texts[:5]
		if i%10 == 0 {
			words = texts
		}
		if checkAnswer(t, anyDecision(r, words...), "") {
			encoded++
		}
	}
	if encoded < 3500 {
		t.Errorf("only %d were encoded", encoded)
	}
}

// What is no text can't be sent; the slow path says so.
func TestInvalidTextsAreLeft(t *testing.T) {
	t.Parallel()
	r := newRandom(13)
	refused := 0
	for range 3000 {
		d := anyDecision(r, "", "a", "\xff")
		if _, err := proto.Marshal(conversion.Response(d)); err != nil {
			refused++
		}
		checkAnswer(t, d, "")
	}
	if refused < 1000 {
		t.Errorf("only %d were refused", refused)
	}
}
