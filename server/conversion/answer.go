package conversion

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Actions of an answer.
const (
	ScaleUp   = "SCALE_UP"
	ScaleDown = "SCALE_DOWN"
	NoAction  = "NONE"
)

// Action returns the direction in which a count changes.
func Action(from, to int32) string {
	switch {
	case to > from:
		return ScaleUp
	case to < from:
		return ScaleDown
	}
	return NoAction
}

// Response converts a decision. It shares no memory with it.
func Response(d *recommender.Decision) *setpointv1.RecommendResponse {
	response := &setpointv1.RecommendResponse{
		DesiredReplicas:  d.Desired,
		CurrentReplicas:  d.Current,
		Action:           Action(d.Current, d.Desired),
		RecommendationId: d.ID.String(),
		Reason:           d.Reason,
		Status:           Status(&d.Status),
		Explanation:      explanation(d),
		Events:           Events(d.Events),
		Error:            d.Error,
		EvaluationTime:   timestamppb.New(d.At),
	}
	if d.RequestID != "" {
		response.RequestId = new(d.RequestID)
	}
	return response
}

// Settlement converts the result of a report on a recommendation.
func Settlement(recommendation string, s *recommender.Settlement) *setpointv1.ReportScaleResponse {
	return &setpointv1.ReportScaleResponse{Status: Status(&s.Status), Events: Events(s.Events), Error: s.Error, RecommendationId: recommendation}
}

// Events converts events.
func Events(events []recommender.Event) []*setpointv1.Event {
	out := make([]*setpointv1.Event, len(events))
	for i, e := range events {
		out[i] = &setpointv1.Event{Type: e.Type, Reason: e.Reason, Message: e.Message}
	}
	return out
}

// Target converts the record of a target, with its history if wanted.
func Target(name string, h *recommender.History, withHistory bool) *setpointv1.Target {
	out := &setpointv1.Target{
		Name:           name,
		ScaleTargetRef: reference(&h.Target),
		Status:         Status(&h.Status),
		LastDecision:   LastDecision(h),
		UpdateTime:     timestamp(h.Updated),
	}
	if withHistory {
		out.History = history(h)
	}
	return out
}

// LastDecision converts the last recorded decision, with its outcome as far as it is
// known; nil if there is none.
func LastDecision(h *recommender.History) *setpointv1.Decision {
	l := &h.Last
	if l.At == 0 {
		return nil
	}
	out := &setpointv1.Decision{
		RecommendationId: l.ID.String(), RequestId: l.RequestID, Time: nanoseconds(l.At),
		CurrentReplicas: l.From, DesiredReplicas: l.To, Action: Action(l.From, l.To),
		Reason: l.Reason, Error: l.Error, Outcome: Outcome(l.Outcome),
	}
	status := Status(&h.Status)
	out.Conditions, out.CurrentMetrics = status.GetConditions(), status.GetCurrentMetrics()
	return out
}

// PendingDecision converts the decision whose change is pending, with its outcome; nil
// if none is pending.
func PendingDecision(h *recommender.History, outcome recommender.Outcome) *setpointv1.Decision {
	p := h.Pending
	if p == nil {
		return nil
	}
	status := Status(&h.Status)
	return &setpointv1.Decision{
		RecommendationId: p.ID.String(), RequestId: p.RequestID, Time: nanoseconds(p.At),
		CurrentReplicas: p.From, DesiredReplicas: p.To, Action: Action(p.From, p.To),
		Reason: p.Reason, Error: p.Error, Outcome: Outcome(outcome),
		Conditions: status.GetConditions(), CurrentMetrics: status.GetCurrentMetrics(),
	}
}

// Outcome converts the outcome of a change.
func Outcome(o recommender.Outcome) string {
	return [...]string{
		recommender.NotChanged: "NONE",
		recommender.Undecided:  "PENDING",
		recommender.Applied:    "APPLIED",
		recommender.Failed:     "FAILED",
		recommender.Dropped:    "DROPPED",
	}[o]
}

func history(h *recommender.History) *setpointv1.History {
	out := &setpointv1.History{
		ScaleUps:   scaleEvents(h.ScaleUps),
		ScaleDowns: scaleEvents(h.ScaleDowns),
	}
	for _, r := range h.Recommendations {
		out.Recommendations = append(out.Recommendations, &setpointv1.TimedRecommendation{Replicas: r.Replicas, Time: nanoseconds(r.At)})
	}
	if p := h.Pending; p != nil {
		out.Pending = &setpointv1.PendingRecommendation{
			RecommendationId: p.ID.String(), CurrentReplicas: p.From, DesiredReplicas: p.To, Time: nanoseconds(p.At),
		}
	}
	return out
}

func scaleEvents(events []recommender.ScaleEvent) []*setpointv1.ScaleEvent {
	out := make([]*setpointv1.ScaleEvent, len(events))
	for i, e := range events {
		out[i] = &setpointv1.ScaleEvent{ReplicaChange: e.Change, Time: nanoseconds(e.At), Outdated: e.Outdated}
	}
	return out
}
