//go:build linux

package languages

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint/answertest"
)

// guarded are the fields that every library checks, because a count depends on them. Go's also
// checks what else a status may hold, for agents that store it.
var guarded = []string{
	"requestId", "fleet", "fleet.holds", "currentReplicas", "desiredReplicas", "plainDesiredReplicas", "adjustments", "adjustments[0]", "action", "recommendationId", "evaluationTime",
	"status", "status.currentReplicas", "status.desiredReplicas",
}

// question is one about 4 replicas of 2 to 10, and fitting the answer 5.
func question(now time.Time) (*setpointv1.RecommendRequest, *setpointv1.RecommendResponse) {
	request := queue("clusters/demo/namespaces/shop/targets/web", 4, 50)
	request.Spec.MinReplicas, request.Spec.MaxReplicas = new(int32(2)), 10
	request.RequestId, request.Generation = "asked", new(int64(7))
	return request, &setpointv1.RecommendResponse{
		CurrentReplicas: 4, DesiredReplicas: 5, Action: "SCALE_UP", RecommendationId: "1", RequestId: new("asked"),
		EvaluationTime: timestamppb.New(now), Reason: "external metric queue-depth(nil) above target",
		Status: &setpointv1.HorizontalPodAutoscalerStatus{
			CurrentReplicas: 4, DesiredReplicas: 5, ObservedGeneration: new(int64(7)),
			Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
				{Type: "AbleToScale", Status: "True", Reason: "SucceededRescale", Message: "scaled", LastTransitionTime: timestamppb.New(now)},
				{Type: "ScalingActive", Status: "True", Reason: "ValidMetricFound", Message: "found"},
			},
			CurrentMetrics: []*setpointv1.MetricStatus{{Type: "External", External: &setpointv1.ExternalMetricStatus{
				Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Current: &setpointv1.MetricValueStatus{AverageValue: new("12500m")},
			}}},
		},
		Events: []*setpointv1.Event{{Type: "Normal", Reason: "SuccessfulRescale", Message: "New size: 5"}},
	}
}

// verdict is the field that a client finds invalid; ok: none.
func verdict(t *testing.T, c client, now time.Time, q *setpointv1.RecommendRequest, a, previous *setpointv1.RecommendResponse, unrecorded bool) string {
	t.Helper()
	command := map[string]any{
		"op": "check", "request": object(t, q), "answer": object(t, a), "now": float64(now.UnixMilli()) / 1000, "unrecorded": unrecorded,
	}
	if previous != nil {
		command["previous"] = object(t, previous)
	}
	return wrongField(t, c.do(t, command))
}

func wrongField(t *testing.T, s said) string {
	t.Helper()
	if s.Error != nil {
		t.Fatal(s.Error)
	}
	if s.Field == nil {
		return "ok"
	}
	return *s.Field
}

// Answers that no honest service gives are refused, for the field that is wrong.
func TestTamperedAnswersAreRefused(t *testing.T) {
	each(t, func(t *testing.T, l language) {
		c := l.start(t)
		now := time.Now()
		q, fitting := question(now)
		if got := verdict(t, c, now, q, fitting, nil, false); got != "ok" {
			t.Errorf("the honest answer is refused for %s", got)
		}
		_, newer := question(now)
		answertest.Newer(newer)
		if got := verdict(t, c, now, q, newer, nil, false); got != "ok" {
			t.Errorf("the answer of a newer service is refused for %s", got)
		}
		for _, tampering := range answertest.Tamperings() {
			_, a := question(now)
			tampering.Change(a)
			if !valid(a) || !slices.Contains(guarded, tampering.Field) || tampering.Name == "a reading that is none" {
				continue // JSON, in which it is handed over, has no such time; readings are for who writes them
			}
			if got := verdict(t, c, now, q, a, nil, false); got != tampering.Field {
				t.Errorf("%s: %s, want %s", tampering.Name, got, tampering.Field)
			}
		}
	})
}

// An answer of before the last one is refused, unless it names the request: then the service's clock was set back.
func TestAnAnswerOfBeforeTheLast(t *testing.T) {
	each(t, func(t *testing.T, l language) {
		c := l.start(t)
		now := time.Now()
		q, named := question(now)
		_, last := question(now.Add(5 * time.Minute))
		last.RecommendationId = "0"
		unnamed := proto.CloneOf(named)
		unnamed.RequestId = nil
		for a, want := range map[*setpointv1.RecommendResponse]string{named: "ok", unnamed: "evaluationTime"} {
			if got := verdict(t, c, now, q, a, last, false); got != want {
				t.Errorf("of the request %q: %s, want %s", a.GetRequestId(), got, want)
			}
		}
	})
}

// valid reports whether an answer can be handed over as JSON.
func valid(a *setpointv1.RecommendResponse) bool {
	again := &setpointv1.RecommendResponse{}
	text, err := proto.Marshal(a)
	if err != nil || proto.Unmarshal(text, again) != nil {
		return false
	}
	for _, at := range []*timestamppb.Timestamp{a.GetEvaluationTime(), a.GetStatus().GetLastScaleTime()} {
		if at != nil && !at.IsValid() {
			return false
		}
	}
	for _, condition := range a.GetStatus().GetConditions() {
		if at := condition.GetLastTransitionTime(); at != nil && !at.IsValid() {
			return false
		}
	}
	return true
}

// Questions and answers that are changed at random get the verdict from each library that they
// get from Go's.
func TestVerdictsAreTheSame(t *testing.T) {
	each(t, func(t *testing.T, l language) {
		c, reference := l.start(t), goClient{}
		random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
		seen := map[string]int{}
		for i := range 800 {
			now := time.Now().Truncate(time.Millisecond)
			q, a := question(now)
			var previous *setpointv1.RecommendResponse
			if random.IntN(3) == 0 {
				_, previous = question(now.Add(-time.Duration(random.IntN(3000)) * time.Millisecond))
				previous.RecommendationId = fmt.Sprint(random.IntN(3))
			}
			for range 1 + random.IntN(3) {
				disturb(random, now, q, a)
			}
			unrecorded := random.IntN(5) == 0
			got, want := verdict(t, c, now, q, a, previous, unrecorded), verdict(t, reference, now, q, a, previous, unrecorded)
			if !slices.Contains(guarded, want) {
				want = "ok"
			}
			seen[want]++
			if got != want {
				t.Fatalf("%d: %s, want %s, of\n%v\n%v\nafter\n%v", i, got, want, q, a, previous)
			}
		}
		if len(seen) < len(guarded)+1 || seen["ok"] == 0 {
			t.Errorf("the verdicts were %v", seen)
		}
		t.Logf("verdicts: %v", seen)
	})
}

// disturb changes one thing.
func disturb(random *rand.Rand, now time.Time, q *setpointv1.RecommendRequest, a *setpointv1.RecommendResponse) {
	count := func() int32 {
		return []int32{-5, -1, 0, 1, 2, 3, 4, 5, 6, 10, 11, 15, math.MaxInt32}[random.IntN(13)]
	}
	word := func() string {
		return []string{"", "Good", "not a word", "a:b,c_", "_", "a-", "Ünicode", "x\n", strings.Repeat("w", 1025), "NONE", "SCALE_DOWN", "SCALE_UP", "True"}[random.IntN(13)]
	}
	text := func() string {
		return []string{"", "text", strings.Repeat("t", 32<<10), strings.Repeat("t", 32<<10+1), strings.Repeat("ü", 17<<10), "😀" + strings.Repeat("e", 32<<10-2)}[random.IntN(6)]
	}
	at := func() *timestamppb.Timestamp {
		return []*timestamppb.Timestamp{nil, timestamppb.New(now), timestamppb.New(now.Add(9 * time.Minute)), timestamppb.New(now.Add(11 * time.Minute)),
			timestamppb.New(now.Add(-11 * time.Minute)), timestamppb.New(now.Add(-1500 * time.Millisecond)), {Seconds: -62135596800}, {Seconds: 253402300799}}[random.IntN(8)]
	}
	changes := []func(){
		func() { a.CurrentReplicas = count() },
		func() { a.DesiredReplicas = count() },
		func() { a.CurrentReplicas, a.Status = 4, nil },
		func() {
			n := count()
			a.DesiredReplicas = n
			if a.Status != nil {
				a.Status.DesiredReplicas = n
			}
			a.Action = map[bool]string{true: "SCALE_UP", false: "SCALE_DOWN"}[n > a.CurrentReplicas]
			if n == a.CurrentReplicas {
				a.Action = "NONE"
			}
		},
		func() { a.Action = word() },
		func() { a.PlainDesiredReplicas = new(count()) },
		func() {
			for range []int{1, 32, 33}[random.IntN(3)] {
				a.Adjustments = append(a.Adjustments, &setpointv1.Adjustment{Stage: "SCHEDULE", Rule: "schedule/office"})
			}
		},
		func() {
			a.Adjustments = []*setpointv1.Adjustment{{
				Stage: []string{"", "OVERRIDE"}[random.IntN(2)], Rule: strings.Repeat("ü", 511+random.IntN(3)), Before: []*int32{nil, new(count())}[random.IntN(2)],
				Message: strings.Repeat("ü", 127+random.IntN(3)), UntilTime: at(),
			}}
		},
		func() { a.RecommendationId = strings.TrimRight(word(), "w") },
		func() { a.RequestId = new(word()) },
		func() { a.RequestId = nil },
		func() { q.RequestId = word() },
		func() { a.EvaluationTime = at() },
		func() { q.EvaluationTime = at() },
		func() { a.Reason = text() },
		func() { a.Error = text() },
		func() {
			a.Events = append(a.Events, &setpointv1.Event{Type: "Warning", Reason: word(), Message: text()})
		},
		func() { a.Events[0].Type = word() },
		func() {
			for range random.IntN(12) {
				a.Events = append(a.Events, &setpointv1.Event{Type: "Normal", Reason: "R", Message: "m"})
			}
		},
		func() { q.Scale, q.ScaleError = nil, &setpointv1.ScaleError{Message: "gone"} },
		func() { q.Scale = &setpointv1.Scale{SpecReplicas: count()} },
		func() { q.Scale = &setpointv1.Scale{SpecReplicas: 4, StatusReplicas: new(count())} },
		func() {
			q.Options = &setpointv1.RecommendOptions{Profile: []string{"", "cooldown", "design-2015", "v1.19"}[random.IntN(4)]}
		},
		func() { q.DryRun = !q.DryRun },
		func() {
			a.Fleet = &setpointv1.FleetShare{State: "FRESH", Drained: random.IntN(2) == 0, Holds: random.IntN(2) == 0}
			if random.IntN(4) > 0 {
				q.Fleet = "clusters/f/namespaces/n/targets/t"
			}
		},
		func() { q.Fleet = "clusters/f/namespaces/n/targets/t" },
		func() { q.Generation = []*int64{nil, new(int64(8)), new(int64(7))}[random.IntN(3)] },
		func() { q.Spec.MinReplicas = []*int32{nil, new(int32(0)), new(int32(5))}[random.IntN(3)] },
		func() {
			q.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{DesiredReplicas: count(), Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
				{Type: []string{"ScalingActive", "AbleToScale"}[random.IntN(2)], Status: "True"},
			}}
		},
	}
	if s := a.Status; s != nil {
		changes = append(changes,
			func() { s.CurrentReplicas = count() },
			func() { s.DesiredReplicas = count() },
			func() { s.ObservedGeneration = []*int64{nil, new(int64(-1)), new(int64(8))}[random.IntN(3)] },
			func() { s.LastScaleTime = at() },
			func() { s.Conditions = nil },
			func() {
				s.Conditions = append(s.Conditions, &setpointv1.HorizontalPodAutoscalerCondition{
					Type:   []string{"ScalingLimited", "ScaledToZero", "AbleToScale", "Other"}[random.IntN(4)],
					Status: []string{"True", "False", "Unknown", "Maybe"}[random.IntN(4)], Reason: word(), Message: text(), LastTransitionTime: at(),
				})
			},
			func() {
				for range []int{99, 101, 1001}[random.IntN(3)] {
					s.CurrentMetrics = append(s.CurrentMetrics, &setpointv1.MetricStatus{Type: "External"})
				}
			},
			func() {
				s.CurrentMetrics = append(s.CurrentMetrics, &setpointv1.MetricStatus{Type: strings.Repeat("x", random.IntN(20<<10))})
			},
		)
	}
	changes[random.IntN(len(changes))]()
}
