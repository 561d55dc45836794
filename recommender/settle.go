package recommender

import (
	"errors"
	"time"
)

// ErrUnknownRecommendation means that the history has no change of that ID, or no
// longer.
var ErrUnknownRecommendation = errors.New("unknown recommendation")

// Settlement is what Settle returns besides the history.
type Settlement struct {
	Status Status
	// Events has the event of the change; empty if it was already settled.
	Events []Event
	// Error is what upstream's reconcile would return; empty for none.
	Error string
	// Outcome is the outcome of the change as first reported.
	Outcome Outcome
	// Changed reports whether the history changed.
	Changed bool
}

// Settle records a report: the change of that ID was Applied, or else Failed with the
// message. An applied change becomes a scale event at the instant it was recommended. A
// change that was already settled stays as it was. The namespace is the target's, for
// texts. Settle does not change the given history.
func Settle(history History, namespace string, id ID, outcome Outcome, message string) (Settlement, History, error) {
	p := history.Pending
	if p == nil || p.ID != id {
		for i := range history.Settled {
			if history.Settled[i].ID == id {
				return Settlement{Status: history.Status, Outcome: history.Settled[i].Outcome}, history, nil
			}
		}
		// A decision without a change has nothing to settle.
		if id != (ID{}) && history.Last.ID == id && history.Last.Outcome == NotChanged {
			return Settlement{Status: history.Status, Outcome: NotChanged}, history, nil
		}
		return Settlement{}, history, ErrUnknownRecommendation
	}
	if outcome != Applied {
		outcome = Failed
	}
	next := history
	if conditions := history.Status.Conditions; conditions != nil {
		next.Status.Conditions = append(make([]Condition, 0, len(conditions)+1), conditions...)
	}
	s := Settlement{Outcome: outcome, Changed: true}
	if outcome == Applied {
		next.apply()
		s.Events = []Event{{EventNormal, SuccessfulRescale, p.sentence()}}
	} else {
		next.fail(message)
		s.Events = []Event{{EventWarning, FailedRescale, p.sentence() + "; error: " + message}}
		s.Error = "failed to rescale " + reference(&history.Target, namespace) + ": " + message
	}
	s.Status = next.Status
	return s, next, nil
}

// sentence is the event's message about the change.
func (p *Pending) sentence() string {
	if p.Bare {
		return "New size: " + formatReplicas(p.To)
	}
	return "New size: " + formatReplicas(p.To) + "; reason: " + p.Reason
}

// settleBySight settles a change that was not reported, by the replicas that are
// requested now. h is a copy whose conditions may be changed in place.
func (h *History) settleBySight(replicas int32) Settled {
	p := h.Pending
	if p == nil {
		return Settled{}
	}
	outcome := Dropped
	if p.To == replicas {
		outcome = Applied
	}
	h.settleAs(outcome)
	return Settled{p.ID, outcome}
}

// settleAs settles a pending change that was not reported. h is a copy whose conditions
// may be changed in place.
func (h *History) settleAs(outcome Outcome) {
	if outcome == Applied {
		h.apply()
		return
	}
	h.Status.DesiredReplicas = h.Pending.PreviousDesired
	h.settled(outcome)
}

// apply makes the pending change a scale event at its instant.
func (h *History) apply() {
	p := h.Pending
	at := h.settledAt()
	s := &h.Status
	if !p.Bare {
		s.Conditions = setCondition(s.Conditions, at, AbleToScale, ConditionTrue, SucceededRescale,
			"the HPA controller was able to update the target scale to "+formatReplicas(p.To))
	}
	if p.RecordsEvent {
		h.recordChange(p)
	}
	switch p.Zero {
	case ZeroTrue:
		s.Conditions = setCondition(s.Conditions, at, ScaledToZero, ConditionTrue, ScaledToZero, "the HPA controller scaled the workload to zero")
	case ZeroFalse:
		s.Conditions = setCondition(s.Conditions, at, ScaledToZero, ConditionFalse, NotScaledToZero, "the HPA controller did not scale the workload to zero")
	case ZeroRemoved:
		s.Conditions = removeCondition(s.Conditions, ScaledToZero)
	}
	if !p.Outside {
		s.LastScaleTime = time.Unix(0, p.At).UTC()
	}
	h.settled(Applied)
}

// settledAt is the instant for the conditions of the pending change: that of its
// recommendation, but not before later records.
func (h *History) settledAt() time.Time {
	at := time.Unix(0, h.Pending.At).UTC()
	if h.Updated.After(at) {
		return h.Updated
	}
	return at
}

func (h *History) recordChange(p *Pending) {
	if p.To > p.From {
		h.ScaleUps = recordScaleEvent(h.ScaleUps, ScaleEvent{Change: p.To - p.From, At: p.At}, p.LongestPeriod, h.EventsLimited)
	} else {
		h.ScaleDowns = recordScaleEvent(h.ScaleDowns, ScaleEvent{Change: p.From - p.To, At: p.At}, p.LongestPeriod, h.EventsLimited)
	}
}

// fail drops the pending change.
func (h *History) fail(message string) {
	p, s := h.Pending, &h.Status
	if !p.Bare {
		s.Conditions = setCondition(s.Conditions, h.settledAt(), AbleToScale, ConditionFalse, FailedUpdateScale,
			"the HPA controller was unable to update the target scale: "+message)
	}
	s.DesiredReplicas = p.PreviousDesired
	if p.KeepsMetrics {
		s.CurrentMetrics = p.PreviousMetrics
	}
	h.settled(Failed)
}

func (h *History) settled(outcome Outcome) {
	from := 0
	if len(h.Settled) >= MaxSettled {
		from = len(h.Settled) - MaxSettled + 1
	}
	next := make([]Settled, 0, len(h.Settled)-from+1)
	h.Settled = append(append(next, h.Settled[from:]...), Settled{h.Pending.ID, outcome})
	if h.Last.ID == h.Pending.ID {
		h.Last.Outcome = outcome
	}
	h.Pending = nil
}
