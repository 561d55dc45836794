package conversion

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Basis reads what Outlook and Explanation need of a basis.
func Basis(m *setpointv1.DecisionBasis) (b recommender.Basis) {
	if m == nil || m.Proposal == nil {
		return b
	}
	b.Proposal, b.Decided = m.GetProposal(), true
	b.ProposalsLen = copy(b.Proposals[:], m.GetMetricProposals())
	return b
}

// Outlook returns what comes next for a target, the first call of which comes at start; nil if nothing
// is known. in has the spec in use.
func Outlook(h *recommender.History, in *recommender.Input, basis *recommender.Basis, start time.Time, interval time.Duration) *setpointv1.Outlook {
	o, known := h.Outlook(in, basis, start, interval)
	if !known {
		return nil
	}
	return outlookOf(&o, h, &in.Spec, start, interval)
}

// outlookOf converts an outlook. Without a spec it is not told where bounds hold.
func outlookOf(o *recommender.Outlook, h *recommender.History, spec *recommender.Spec, start time.Time, interval time.Duration) *setpointv1.Outlook {
	out := &setpointv1.Outlook{StartTime: timestamppb.New(start), Interval: durationpb.New(interval)}
	if len(o.Changes) == 0 {
		if out.Problem = problem(o, &h.Status); out.GetProblem() != "" {
			return out
		}
	}
	out.Replicas, out.LowestReplicas, out.HighestReplicas = o.Replicas, o.Lowest, o.Highest
	if o.Proposal >= 0 {
		out.Proposal = &o.Proposal
	}
	out.Hold = outlookHold(&o.Hold, spec)
	for i := range o.Changes {
		c := &o.Changes[i]
		out.Changes = append(out.Changes, &setpointv1.OutlookChange{
			Time: timestamppb.New(c.At), Replicas: c.Replicas, Hold: outlookHold(&c.Hold, spec), Doubtful: c.Doubtful,
		})
	}
	if !o.Until.IsZero() {
		out.UntilTime, out.UntilReason = timestamp(o.Until), untilReasons[o.End]
	}
	return out
}

// untilReasons say why an outlook says nothing more.
var untilReasons = [...]string{
	recommender.EndOfLimit:  "it looks no further ahead",
	recommender.EndUnread:   "it depends on metrics that the last decision did not read",
	recommender.EndMultiple: "a metric with a target of type Value asks for a multiple of the count, which is another one then",
}

// problem is the reason of the condition because of which nothing can change; empty: something can.
func problem(o *recommender.Outlook, s *recommender.Status) string {
	switch o.Path {
	case recommender.PathScaleUnavailable:
		return recommender.FailedGetScale
	case recommender.PathScalingDisabled:
		return recommender.ScalingDisabled
	case recommender.PathSelectorFailed, recommender.PathMetricsFailed:
		if o.Lowest != o.Highest || o.Highest != o.Replicas {
			return "" // the other metrics may still raise it
		}
		for i := range s.Conditions {
			if c := &s.Conditions[i]; c.Type == recommender.ScalingActive && c.Status == recommender.ConditionFalse {
				return c.Reason
			}
		}
		return recommender.FailedGetMetrics
	}
	return ""
}

// outlookHold converts a hold; nil: nothing holds.
func outlookHold(h *recommender.Hold, spec *recommender.Spec) *setpointv1.OutlookHold {
	if *h == (recommender.Hold{}) {
		return nil
	}
	out := &setpointv1.OutlookHold{Reason: h.Reason, UntilTime: nanoseconds(h.Until)}
	if h.Window != nil {
		seconds := int32(h.Window.Length / time.Second)
		out.WindowSeconds = &seconds
	}
	switch {
	case h.Rate != nil && h.Rate.HasLimit:
		out.LimitReplicas = &h.Rate.Limit
	case spec == nil:
	case h.Reason == string(recommender.TooManyReplicas):
		out.LimitReplicas = &spec.MaxReplicas
	case h.Reason == string(recommender.TooFewReplicas):
		least := spec.MinReplicas
		out.LimitReplicas = &least
	}
	return out
}

// LastExplanation explains the last decision as far as the history tells it; nil if it does not. in has
// the spec that decided.
func LastExplanation(h *recommender.History, in *recommender.Input, basis *recommender.Basis) *setpointv1.Explanation {
	d, known := h.Retrace(in, basis)
	if !known {
		return nil
	}
	return explanation(&d)
}
