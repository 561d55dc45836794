// Package answertest has invalid answers, for tests of callers, and what those ask and are refused with.
package answertest

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Change changes an answer in transit.
type Change = func(*setpointv1.RecommendResponse)

// A Tampering makes an answer invalid for its request.
type Tampering struct {
	Name string
	// Field is the path of the wrong field, as in an AnswerError.
	Field  string
	Change Change
}

// Newer adds to an answer what only a later minor version of the service may say: words and fields that no client knows yet.
func Newer(a *setpointv1.RecommendResponse) {
	a.Status.Conditions = append(a.Status.Conditions, &setpointv1.HorizontalPodAutoscalerCondition{
		Type: "FutureType", Status: "Unknown", Reason: "FutureReason", Message: "of a later version",
	})
	a.Status.Conditions[0].Reason = "FutureReason"
	a.Adjustments = append(a.Adjustments, &setpointv1.Adjustment{Stage: "FUTURE_STAGE", Rule: "future/rule", Message: "of a later version"})
	a.Events = append(a.Events, &setpointv1.Event{Type: "Normal", Reason: "FutureReason", Message: "of a later version"})
	for _, m := range []proto.Message{a, a.Status, a.Status.Conditions[0]} {
		m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
	}
}

// Tamperings change an answer that wants 5 replicas instead of 4, within 2 to 10, because of
// one metric of type Resource or External.
func Tamperings() []Tampering {
	desired := func(n int32, action string) Change {
		return func(a *setpointv1.RecommendResponse) {
			a.DesiredReplicas, a.Action = n, action
			a.Status.DesiredReplicas = n
		}
	}
	current := func(n int32) Change {
		return func(a *setpointv1.RecommendResponse) { a.CurrentReplicas, a.Status.CurrentReplicas = n, n }
	}
	action := func(s string) Change { return func(a *setpointv1.RecommendResponse) { a.Action = s } }
	at := func(d time.Duration) Change {
		return func(a *setpointv1.RecommendResponse) { a.EvaluationTime = timestamppb.New(time.Now().Add(d)) }
	}
	condition := func(change func(*setpointv1.HorizontalPodAutoscalerCondition)) Change {
		return func(a *setpointv1.RecommendResponse) { change(a.Status.Conditions[0]) }
	}
	adjustment := func(one *setpointv1.Adjustment) Change {
		return func(a *setpointv1.RecommendResponse) { a.Adjustments = []*setpointv1.Adjustment{proto.CloneOf(one)} }
	}
	return []Tampering{
		{"0 replicas", "desiredReplicas", desired(0, "SCALE_DOWN")},
		{"fewer than the minimum", "desiredReplicas", desired(1, "SCALE_DOWN")},
		{"more than the maximum", "desiredReplicas", desired(15, "SCALE_UP")},
		{"as many as there may be", "desiredReplicas", desired(math.MaxInt32, "SCALE_UP")},
		{"fewer than none", "desiredReplicas", desired(-5, "SCALE_DOWN")},
		{"a count that is lost", "desiredReplicas", func(a *setpointv1.RecommendResponse) { a.DesiredReplicas = 0 }},
		{"no action", "action", action("NONE")},
		{"the other action", "action", action("SCALE_DOWN")},
		{"an action that there is not", "action", action("EXPLODE")},
		{"an action that is lost", "action", action("")},
		{"another current count", "currentReplicas", current(3)},
		{"a current count that is lost", "currentReplicas", current(0)},
		{"another target's, with the same counts", "requestId", func(a *setpointv1.RecommendResponse) { a.RequestId = new("another's") }},
		{"a share of a fleet that was not asked", "fleet", func(a *setpointv1.RecommendResponse) { a.Fleet = &setpointv1.FleetShare{State: "FRESH"} }},
		{"no id", "recommendationId", func(a *setpointv1.RecommendResponse) { a.RecommendationId = "" }},
		{"a day old", "evaluationTime", at(-24 * time.Hour)},
		{"of tomorrow", "evaluationTime", at(24 * time.Hour)},
		{"no instant", "evaluationTime", func(a *setpointv1.RecommendResponse) { a.EvaluationTime = nil }},
		{"an instant that is none", "evaluationTime", func(a *setpointv1.RecommendResponse) { a.EvaluationTime.Nanos = -1 }},
		{"no status", "status", func(a *setpointv1.RecommendResponse) { a.Status = nil }},
		{"an empty status", "status.currentReplicas", func(a *setpointv1.RecommendResponse) {
			a.Status = &setpointv1.HorizontalPodAutoscalerStatus{}
		}},
		{"a status of another count", "status.desiredReplicas", func(a *setpointv1.RecommendResponse) { a.Status.DesiredReplicas = 9 }},
		{"a condition of no type", "status.conditions[0]", condition(func(c *setpointv1.HorizontalPodAutoscalerCondition) { c.Type = "" })},
		{"a condition that is neither", "status.conditions[0]", condition(func(c *setpointv1.HorizontalPodAutoscalerCondition) { c.Status = "Maybe" })},
		{"a reason of a megabyte", "status.conditions[0]", condition(func(c *setpointv1.HorizontalPodAutoscalerCondition) { c.Reason = strings.Repeat("x", 1<<20) })},
		{"a message of a megabyte", "status.conditions[0]", condition(func(c *setpointv1.HorizontalPodAutoscalerCondition) { c.Message = strings.Repeat("x", 1<<20) })},
		{"a condition twice", "status.conditions[1]", func(a *setpointv1.RecommendResponse) {
			a.Status.Conditions[1] = proto.CloneOf(a.Status.Conditions[0])
		}},
		{"a message with colors", "status.conditions[0]", condition(func(c *setpointv1.HorizontalPodAutoscalerCondition) { c.Message = "\x1b[31mall is lost" })},
		{"a transition to come", "status.conditions[0]", condition(func(c *setpointv1.HorizontalPodAutoscalerCondition) {
			c.LastTransitionTime = timestamppb.New(time.Now().Add(24 * time.Hour))
		})},
		{"a scale to come", "status.lastScaleTime", func(a *setpointv1.RecommendResponse) {
			a.Status.LastScaleTime = timestamppb.New(time.Now().Add(24 * time.Hour))
		}},
		{"a metric of no type that there is", "status.currentMetrics[0]", func(a *setpointv1.RecommendResponse) { a.Status.CurrentMetrics[0].Type = "Zonk" }},
		{"more readings than metrics", "status.currentMetrics", func(a *setpointv1.RecommendResponse) {
			for range 990 {
				a.Status.CurrentMetrics = append(a.Status.CurrentMetrics, proto.CloneOf(a.Status.CurrentMetrics[0]))
			}
		}},
		{"another target's metric", "status.currentMetrics[0]", func(a *setpointv1.RecommendResponse) {
			a.Status.CurrentMetrics[0] = &setpointv1.MetricStatus{Type: "External", External: &setpointv1.ExternalMetricStatus{
				Metric: &setpointv1.MetricIdentifier{Name: "another's"}, Current: &setpointv1.MetricValueStatus{Value: new("1")},
			}}
		}},
		{"a reading that is none", "status", func(a *setpointv1.RecommendResponse) {
			current := a.GetStatus().GetCurrentMetrics()[0].GetExternal().GetCurrent()
			if current == nil {
				current = a.GetStatus().GetCurrentMetrics()[0].GetResource().GetCurrent()
			}
			current.AverageValue = new("ten")
		}},
		{"a plain count out of bounds", "plainDesiredReplicas", func(a *setpointv1.RecommendResponse) { a.PlainDesiredReplicas = new(int32(11)) }},
		{"a negative plain count", "plainDesiredReplicas", func(a *setpointv1.RecommendResponse) { a.PlainDesiredReplicas = new(int32(-1)) }},
		{"a thousand adjustments", "adjustments", func(a *setpointv1.RecommendResponse) {
			for range 1000 {
				a.Adjustments = append(a.Adjustments, &setpointv1.Adjustment{Stage: "SCHEDULE"})
			}
		}},
		{"an adjustment of no stage", "adjustments[0]", adjustment(&setpointv1.Adjustment{Message: "who?"})},
		{"an adjustment to fewer than none", "adjustments[0]", adjustment(&setpointv1.Adjustment{Stage: "OVERRIDE", After: new(int32(-1))})},
		{"an adjustment of a megabyte", "adjustments[0]", adjustment(&setpointv1.Adjustment{Stage: "OVERRIDE", Message: strings.Repeat("x", 1<<20)})},
		{"a rule of a megabyte", "adjustments[0]", adjustment(&setpointv1.Adjustment{Stage: "OVERRIDE", Rule: strings.Repeat("x", 1<<20)})},
		{"an adjustment with colors", "adjustments[0].message", adjustment(&setpointv1.Adjustment{Stage: "OVERRIDE", Message: "\x1b[31mheld"})},
		{"an adjustment until no instant", "adjustments[0].untilTime", adjustment(&setpointv1.Adjustment{Stage: "OVERRIDE", UntilTime: &timestamppb.Timestamp{Nanos: -1}})},
		{"a thousand events", "events", func(a *setpointv1.RecommendResponse) {
			for range 1000 {
				a.Events = append(a.Events, &setpointv1.Event{Type: "Normal", Reason: "x"})
			}
		}},
		{"an event of no type", "events[0]", func(a *setpointv1.RecommendResponse) {
			a.Events = []*setpointv1.Event{{Reason: "x"}}
		}},
	}
}
