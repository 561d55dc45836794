package conversion

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/states"
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
	adjustments, plain := Adjusted(d.Adjusted)
	return &setpointv1.RecommendResponse{
		Adjustments: adjustments, PlainDesiredReplicas: plain,

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
}

// Settlement converts the result of a report on a recommendation.
func Settlement(recommendation string, s *recommender.Settlement) *setpointv1.ReportScaleResponse {
	return &setpointv1.ReportScaleResponse{Status: Status(&s.Status), Events: Events(s.Events), Error: s.Error, Outcome: Outcome(s.Outcome), RecommendationId: recommendation}
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
func Target(name string, r *record.Record, withHistory bool) *setpointv1.Target {
	out := &setpointv1.Target{
		Name:           name,
		ScaleTargetRef: reference(&r.Target),
		Status:         Status(&r.Status),
		LastDecision:   LastDecision(r),
		UpdateTime:     timestamp(r.Updated),
	}
	if r.Interval > 0 {
		out.Interval = durationpb.New(time.Duration(r.Interval) * time.Millisecond)
	}
	if r.Last.At != 0 {
		out.NotAskedTime = timestamppb.New(time.UnixMilli(record.NotAskedAt(r.Last.At/int64(time.Millisecond), r.Interval)))
	}
	turns := r.TurnTimes()
	for _, at := range turns {
		out.TurnTimes = append(out.TurnTimes, timestamppb.New(time.UnixMilli(at)))
	}
	if until := record.FlappingUntil(turns); until != 0 {
		out.FlappingUntilTime = timestamppb.New(time.UnixMilli(until))
	}
	if withHistory {
		out.History = history(&r.History)
	}
	return out
}

// LastDecision converts the last recorded decision, with its outcome as far as it is
// known; nil if there is none.
func LastDecision(r *record.Record) *setpointv1.Decision {
	l := &r.Last
	if l.At == 0 {
		return nil
	}
	out := &setpointv1.Decision{
		RecommendationId: l.ID.String(), RequestId: r.LastRequest, Time: nanoseconds(l.At),
		CurrentReplicas: l.From, DesiredReplicas: l.To, Action: Action(l.From, l.To),
		Reason: l.Reason, Error: l.Error, Outcome: Outcome(l.Outcome), SpecHash: SpecHash(r.Spec.Hash),
	}
	return withStatus(out, r, l.At)
}

// withStatus adds to the decision of an instant what the record has of it.
func withStatus(out *setpointv1.Decision, r *record.Record, at int64) *setpointv1.Decision {
	status := Status(&r.Status)
	out.Conditions, out.CurrentMetrics = status.GetConditions(), status.GetCurrentMetrics()
	if at == r.Last.At {
		out.Adjustments, out.PlainDesiredReplicas = Logged(r.Adjusted)
	}
	if proposal, known := r.Proposal(at); known {
		out.Basis = &setpointv1.DecisionBasis{Proposal: &proposal}
	}
	out.States = states.OfDecision(out).Words()
	return out
}

// PendingDecision converts the decision whose change is pending, with its outcome; nil
// if none is pending.
func PendingDecision(r *record.Record, outcome recommender.Outcome) *setpointv1.Decision {
	p := r.Pending
	if p == nil {
		return nil
	}
	return withStatus(&setpointv1.Decision{
		RecommendationId: p.ID.String(), RequestId: r.PendingRequest, Time: nanoseconds(p.At),
		CurrentReplicas: p.From, DesiredReplicas: p.To, Action: Action(p.From, p.To),
		Reason: p.Reason, Error: p.Error, Outcome: Outcome(outcome), SpecHash: SpecHash(r.PendingSpec()),
	}, r, p.At)
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

// SpecHash is a hash in the form for callers; empty for 0.
func SpecHash(hash uint64) string {
	if hash == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", hash)
}
